use super::*;
use crate::clock::Anchor;
use fathom_wire::{ConnectionView, Stamper};
use proptest::prelude::*;

const KEY: Key = Key { session: 9, connection: 1 };
const MS: u64 = 1_000_000;

fn clock() -> ClockMap {
    ClockMap::new(Anchor { mono_ns: 0, utc_ns: 1_000_000_000 })
}

fn stream(size: u32) -> Stream {
    Stream::new(KEY, size, 5_000 * MS)
}

fn echo(seq: u64, size: u32) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    KEY.fill(seq, size, 0, &mut bytes);
    bytes
}

fn receive(stream: &mut Stream, mono_ns: u64, bytes: &[u8]) -> Vec<Sample> {
    let clock = clock();
    let mut out = Vec::new();
    let receipt = Receipt { mono_ns, clock: &clock, kernel: None, local_pause: None, stamps: None };
    stream.receive(&receipt, bytes, |arrival| match arrival {
        Arrival::Resolved(sample) => out.push(sample),
        other => panic!("{other:?}"),
    });
    out
}

#[test]
fn late_echoes_keep_their_true_rtt() {
    let mut stream = stream(64);
    for i in 0..20 {
        stream.sent(i * 1_000 * MS, i * 1_000 * MS + 7, Flags::default());
    }
    assert_eq!(stream.overdue(19_500 * MS), 15);
    // TCP delivers all of it at once, 20 s after the first was sent.
    let all: Vec<u8> = (0..20).flat_map(|i| echo(i, 64)).collect();
    let samples = receive(&mut stream, 20_000 * MS + 7, &all);
    for (i, sample) in samples.iter().enumerate() {
        assert_eq!(sample.seq, i as u64);
        assert_eq!(sample.rtt_ns, Some(((20 - i as u64) * 1_000 * MS) as i64));
        assert_eq!(sample.lateness_ns, 7);
        assert_eq!(sample.latency_ns(), Some(sample.rtt_ns.unwrap() + 7));
        assert_eq!(sample.flags.contains(Flags::ANSWERED_LATE), i < 15);
        assert_eq!(sample.flags.contains(Flags::FIRST_ON_CONNECTION), i == 0);
    }
    assert!(stream.is_idle());
}

#[test]
fn short_greeting_is_recognised_as_non_echo() {
    let mut stream = stream(64);
    stream.sent(0, 0, Flags::default());
    assert!(receive(&mut stream, MS, &echo(0, 64)[..24]).is_empty());
    assert!(!stream.begins_otherwise(), "the beginning of an echo");
    let mut greeted = Stream::new(KEY, 64, 5_000 * MS);
    greeted.sent(0, 0, Flags::default());
    assert!(receive(&mut greeted, MS, b"220 mail.example ESMTP\r\n").is_empty());
    assert!(greeted.begins_otherwise());
}

#[test]
fn owes_just_knows_remaining_echo_bytes() {
    let mut stream = stream(64);
    assert!(!stream.owes_just(0) && !stream.owes_just(64), "nothing is owed");
    stream.sent(0, 0, Flags::default());
    assert!(stream.owes_just(64) && !stream.owes_just(63) && !stream.owes_just(65));
    assert!(receive(&mut stream, MS, &echo(0, 64)[..24]).is_empty());
    assert!(stream.owes_just(40) && !stream.owes_just(64));
    stream.sent(MS, MS, Flags::default());
    assert!(!stream.owes_just(40), "another is owed besides");
    assert_eq!(receive(&mut stream, 2 * MS, &echo(0, 64)[24..]).len(), 1);
    assert!(stream.owes_just(64));
}

#[test]
fn corrupted_echo_is_not_timed() {
    let mut stream = stream(100);
    stream.sent(0, 0, Flags::default());
    stream.sent(1, 1, Flags::default());
    let mut bytes = [echo(0, 100), echo(1, 100)].concat();
    bytes[80] ^= 1;
    let samples = receive(&mut stream, 50, &bytes);
    assert_eq!(samples[0].rtt_ns, None);
    assert!(samples[0].flags.contains(Flags::CORRUPTED | Flags::UNANSWERED));
    assert_eq!(samples[1].rtt_ns, Some(49));
}

#[test]
fn unrequested_bytes_are_foreign() {
    let mut stream = stream(4);
    let clock = clock();
    let mut foreign = 0;
    let receipt = Receipt { mono_ns: 1, clock: &clock, kernel: None, local_pause: None, stamps: None };
    stream.receive(&receipt, b"220 mail.example ESMTP", |arrival| {
        if let Arrival::Foreign(bytes) = arrival {
            foreign += bytes.len();
        }
    });
    assert_eq!(foreign, 22);
}

#[test]
fn stamps_become_columns() {
    let mut stream = stream(64);
    stream.sent(0, 100, Flags::default());
    let mut bytes = echo(0, 64);
    let view =
        ConnectionView { received_ns: 1_000_000_400, sent_ns: 1_000_000_450, ..ConnectionView::default() };
    Stamper::default().pass(view, &mut bytes);
    let samples = receive(&mut stream, 1_100, &bytes);
    assert_eq!(samples[0].rtt_ns, Some(1_000));
    assert_eq!(samples[0].reflector_ns, Some(50));
    assert_eq!(samples[0].forward_ns, Some(300));
    assert_eq!(samples[0].backward_ns, Some(650));
}

/// A reflector that writes what it likes made times at the reflector that are negative, which `fathom recording verify`
/// rejects, by differences of more than 64 bits.
#[test]
fn impossible_stamps_are_a_corrupted_echo() {
    let ends = [i64::MIN, -7, 0, 1_000_000_400, 1 << 62, i64::MAX];
    for (received_ns, sent_ns) in ends.iter().flat_map(|&r| ends.map(|s| (r, s))) {
        let stamps = ReflectorStamps { received_ns, sent_ns, ..ReflectorStamps::default() };
        let mut stream = stream(64);
        stream.sent(0, 100, Flags::default());
        let mut bytes = echo(0, 64);
        bytes[32..].copy_from_slice(&stamps.encode());
        let [sample] = receive(&mut stream, 1_100, &bytes)[..] else { panic!("one sample") };
        let stay = sent_ns.checked_sub(received_ns).filter(|&ns| ns >= 0);
        assert_eq!(sample.reflector_ns, stay, "{stamps:?}");
        assert_eq!(sample.flags.contains(Flags::CORRUPTED), stay.is_none(), "{stamps:?}");
        assert_eq!(sample.rtt_ns, stay.map(|_| 1_000), "the round trip is this host's own");
        let way = stay.and_then(|_| received_ns.checked_sub(sample.sent_ns));
        assert_eq!(sample.forward_ns, way, "{stamps:?}");
    }
}

#[test]
fn retransmits_are_counted_since_the_previous_sample() {
    let mut stream = stream(64);
    let clock = clock();
    let mut seen = Vec::new();
    for (i, total_retrans) in [2, 2, 5].into_iter().enumerate() {
        stream.sent(0, 0, Flags::default());
        let receipt = Receipt {
            mono_ns: 1,
            clock: &clock,
            kernel: Some(KernelView { srtt_us: Some(70), total_retrans }),
            local_pause: None,
            stamps: None,
        };
        stream.receive(&receipt, &echo(i as u64, 64), |arrival| {
            if let Arrival::Resolved(sample) = arrival {
                seen.push((sample.srtt_us, sample.retransmits));
            }
        });
    }
    assert_eq!(seen, [(Some(70), Some(2)), (Some(70), Some(0)), (Some(70), Some(3))]);
}

#[test]
fn local_and_remote_pauses_flag_samples() {
    let mut stream = stream(64);
    let clock = clock();
    let mut flags = Vec::new();
    // (sent, received, local pause, the reflector's counter in µs)
    for (i, (sent, received, local_pause, pause_us)) in [
        (0, 10, None, 500),
        (20, 30 * MS, Some((5, 29 * MS)), 500),
        (40 * MS, 41 * MS, Some((5, 29 * MS)), 500),
        (50 * MS, 2_050 * MS, None, 1_990_500),
        (2_060 * MS, 2_061 * MS, None, 2_500_500),
        (2_070 * MS, 2_071 * MS, None, 7),
    ]
    .into_iter()
    .enumerate()
    {
        stream.sent(sent, sent, Flags::default());
        let mut bytes = echo(i as u64, 64);
        Stamper::default().pass(ConnectionView { pause_us, ..ConnectionView::default() }, &mut bytes);
        let receipt = Receipt { mono_ns: received, clock: &clock, kernel: None, local_pause, stamps: None };
        stream.receive(&receipt, &bytes, |arrival| {
            if let Arrival::Resolved(sample) = arrival {
                let has = |flag| sample.flags.contains(flag);
                flags.push((has(Flags::OVERLAPS_LOCAL_PAUSE), has(Flags::OVERLAPS_REMOTE_PAUSE)));
            }
        });
    }
    let neither = (false, false);
    assert_eq!(flags, [neither, (true, false), neither, (false, true), neither, neither]);
    // 1.99 s and 0.51 s; the counter that went back is another reflector's.
    assert_eq!(stream.take_remote_pause(), Some((2_500 * MS, 7)));
    assert_eq!(stream.take_remote_pause(), Some((0, 7)));
}

#[test]
fn remote_pause_flags_every_waiting_sample() {
    const MS: u64 = 1_000_000;
    let mut stream = stream(64);
    let clock = clock();
    // Paused from 105 ms to 2,100 ms; 1 to 4 wait for that, 5 is sent after.
    let sent = [0, 100, 200, 1_000, 2_090, 2_102];
    let received = [1, 2_101, 2_101, 2_101, 2_101, 2_103];
    let mut flagged = Vec::new();
    let mut next = 0;
    for (seq, at) in received.into_iter().enumerate() {
        while next < sent.len() && sent[next] < at {
            stream.sent(sent[next] * MS, sent[next] * MS, Flags::default());
            next += 1;
        }
        let mut bytes = echo(seq as u64, 64);
        let pause_us = if seq == 0 { 0 } else { 1_995_000 };
        Stamper::default().pass(ConnectionView { pause_us, ..ConnectionView::default() }, &mut bytes);
        let receipt =
            Receipt { mono_ns: at * MS, clock: &clock, kernel: None, local_pause: None, stamps: None };
        stream.receive(&receipt, &bytes, |arrival| {
            if let Arrival::Resolved(sample) = arrival {
                flagged.push(sample.flags.contains(Flags::OVERLAPS_REMOTE_PAUSE));
            }
        });
    }
    assert_eq!(flagged, [false, true, true, true, true, false]);
}

#[test]
fn a_datagram_lost_alone_is_no_silence() {
    let (mut stream, clock) = (stream(64), clock());
    for seq in 0..4 {
        stream.sent(seq * MS, seq * MS, Flags::default());
    }
    assert_eq!(stream.oldest_of_silence(), Some((0, 0)));
    let receipt =
        Receipt { mono_ns: 2 * MS + 5, clock: &clock, kernel: None, local_pause: None, stamps: None };
    stream.receive_datagram(&receipt, &echo(1, 64), |_| {});
    assert_eq!((stream.oldest(), stream.oldest_of_silence()), (Some((0, 0)), Some((3, 3 * MS))));
}

#[test]
fn a_pause_that_delayed_the_sending_counts_too() {
    let (mut stream, clock) = (stream(64), clock());
    let mut flagged = Vec::new();
    // Due in the pause, due after it; both sent and answered after it.
    for (seq, due) in [(0, 15 * MS), (1, 31 * MS)] {
        let sent = 32 * MS + seq * MS;
        stream.sent(due, sent, Flags::default());
        let local_pause = Some((10 * MS, 30 * MS));
        let receipt = Receipt { mono_ns: sent + 1, clock: &clock, kernel: None, local_pause, stamps: None };
        stream.receive(&receipt, &echo(seq, 64), |arrival| {
            if let Arrival::Resolved(sample) = arrival {
                flagged.push(sample.flags.contains(Flags::OVERLAPS_LOCAL_PAUSE));
            }
        });
    }
    assert_eq!(flagged, [true, false]);
}

#[test]
fn mixed_sizes_are_separated_on_tcp() {
    let sizes = [64, 100_000, 1, 64, 7, 1_400];
    let mut tcp = stream(64);
    for (seq, &size) in sizes.iter().enumerate() {
        tcp.set_size(size);
        tcp.sent(seq as u64, seq as u64, Flags::default());
    }
    let all: Vec<u8> = sizes.iter().enumerate().flat_map(|(seq, &size)| echo(seq as u64, size)).collect();
    // However the bytes are cut, each sample gets its own.
    let samples: Vec<Sample> = all.chunks(977).flat_map(|piece| receive(&mut tcp, MS, piece)).collect();
    assert_eq!(samples.iter().map(|s| s.size).collect::<Vec<_>>(), sizes);
    assert!(samples.iter().all(|s| s.rtt_ns.is_some()) && tcp.is_idle());

    // The kernel counts bytes; the last of the second message is where the third begins.
    let mut stamped = stream(64);
    stamped.sent(0, 0, Flags::default());
    stamped.set_size(36);
    stamped.sent(1, 1, Flags::default());
    stamped.transmitted(63, Counted::Bytes, 5);
    assert!(!stamped.awaits_stamp());
    receive(&mut stamped, MS, &echo(0, 64));
    assert!(stamped.awaits_stamp());
    stamped.transmitted(71, Counted::Bytes, 5);
    assert!(stamped.awaits_stamp(), "twice 36 is nobody's last byte");
    stamped.transmitted(99, Counted::Bytes, 5);
    assert!(!stamped.awaits_stamp());
}

#[test]
fn mixed_size_datagrams_match_in_any_order() {
    let sizes = [64, 3, 1_400, 3, 16];
    let clock = clock();
    let receipt = Receipt { mono_ns: MS, clock: &clock, kernel: None, local_pause: None, stamps: None };
    let mut stream = stream(64);
    for (seq, &size) in sizes.iter().enumerate() {
        stream.set_size(size);
        stream.sent(seq as u64, seq as u64, Flags::default());
    }
    let mut seen = Vec::new();
    // Last, an echo of a sample that has another size, and one of a size that was never sent.
    let mut bytes: Vec<Vec<u8>> = [4, 3, 2, 1, 0].map(|seq| echo(seq, sizes[seq as usize])).into();
    bytes.extend([echo(1, 3), echo(2, 5)]);
    for datagram in &bytes {
        stream.receive_datagram(&receipt, datagram, |arrival| match arrival {
            Arrival::Resolved(sample) => seen.push((sample.seq, sample.size, sample.rtt_ns.is_some())),
            Arrival::Duplicate(seq) => seen.push((seq, 0, false)),
            Arrival::Foreign(_) => seen.push((99, 0, false)),
        });
    }
    let right = [(4, 16, true), (3, 3, true), (2, 1_400, true), (1, 3, true), (0, 64, true)];
    assert_eq!(seen[..5], right);
    assert_eq!(seen[5..], [(1, 0, false), (99, 0, false)]);
}

#[test]
fn the_split_adds_up_or_is_absent() {
    let clock = clock();
    let split = |transmitted: Option<i64>, arrived: i64, stay: i64| {
        let mut stream = stream(64);
        stream.sent(0, 1_000, Flags::default());
        stream.sent_at_utc(5_000);
        if let Some(utc_ns) = transmitted {
            stream.transmitted(62, Counted::Bytes, 1);
            assert!(stream.awaits_stamp());
            stream.transmitted(63, Counted::Bytes, utc_ns);
            // Sent again, which is the network's time and not this stack's.
            stream.transmitted(63, Counted::Bytes, utc_ns + 400);
            assert!(!stream.awaits_stamp());
        }
        let mut bytes = echo(0, 64);
        Stamper::default().pass(ConnectionView { sent_ns: stay, ..ConnectionView::default() }, &mut bytes);
        let stamps = Some((arrived, 5_900));
        let receipt = Receipt { mono_ns: 1_900, clock: &clock, kernel: None, local_pause: None, stamps };
        let mut found = None;
        stream.receive(&receipt, &bytes, |arrival| {
            if let Arrival::Resolved(sample) = arrival {
                found = sample.send_stack_ns.zip(sample.recv_stack_ns);
            }
        });
        found
    };
    // 900 ns: 100 to the driver, 200 from it, 300 in the reflector, 300 on the way.
    assert_eq!(split(Some(5_100), 5_700, 300), Some((100, 200)));
    assert_eq!(split(Some(5_100), 5_700, 601), None, "more than the round trip");
    assert_eq!(split(Some(4_999), 5_700, 300), None, "sent before it was sent: the clock was set");
    assert_eq!(split(Some(5_100), 5_901, 300), None, "read before it arrived");
    assert_eq!(split(None, 5_700, 300), None, "no stamp");
}

#[test]
fn current_and_longest_quiet_are_known() {
    let mut stream = stream(64);
    stream.sent(0, 0, Flags::default());
    receive(&mut stream, 5, &echo(0, 64));
    stream.sent(0, 105, Flags::default());
    receive(&mut stream, 110, &echo(1, 64));
    stream.sent(0, 9_110, Flags::default());
    assert_eq!((stream.oldest_quiet_ns(), stream.idle_survived_ns()), (Some(9_000), 100));
}

#[test]
fn datagrams_are_known_by_content_in_any_order() {
    for size in [1, 3, 16, 64, 200] {
        let mut stream = stream(size);
        let clock = clock();
        for i in 0..4 {
            stream.sent(i, i, Flags::default());
        }
        let mut seen = Vec::new();
        // 2 before 0, 0 twice, 3; 1 is lost; then one that is nobody's.
        for (at, seq) in [(10, 2), (11, 0), (12, 0), (13, 3)] {
            let receipt =
                Receipt { mono_ns: at, clock: &clock, kernel: None, local_pause: None, stamps: None };
            stream.receive_datagram(&receipt, &echo(seq, size), |arrival| match arrival {
                Arrival::Resolved(sample) => seen.push((sample.seq, sample.rtt_ns)),
                Arrival::Duplicate(seq) => seen.push((seq, None)),
                Arrival::Foreign(_) => panic!("foreign at {at}, size {size}"),
            });
        }
        assert_eq!(seen, [(2, Some(8)), (0, Some(11)), (0, None), (3, Some(10))], "size {size}");
        assert_eq!(stream.outstanding(), 1);
        let mut lost = Vec::new();
        stream.expire(DATAGRAM_LOST_NS + 2, &clock, |sample| {
            lost.push((sample.seq, sample.flags.contains(Flags::UNANSWERED)));
        });
        assert_eq!(lost, [(1, true)]);
        assert!(stream.is_idle());
    }
}

#[test]
fn what_is_out_at_the_end_is_unanswered() {
    let mut stream = stream(64);
    stream.sent(0, 0, Flags::WARM_UP);
    let mut out = Vec::new();
    stream.close(&clock(), |sample| out.push(sample));
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].rtt_ns, None);
    assert!(out[0].flags.contains(Flags::UNANSWERED | Flags::WARM_UP | Flags::FIRST_ON_CONNECTION));
}

proptest! {
    #[test]
    fn each_sample_is_resolved_exactly_once(
        size in 1u32..150,
        steps in prop::collection::vec((any::<bool>(), 1usize..200), 1..60),
    ) {
        let mut stream = stream(size);
        let (mut sent, mut pending, mut resolved) = (0u64, Vec::new(), Vec::new());
        for (now, (send, amount)) in steps.into_iter().enumerate() {
            if send {
                stream.sent(now as u64, now as u64, Flags::default());
                pending.extend(echo(sent, size));
                sent += 1;
            } else {
                let n = amount.min(pending.len());
                let bytes: Vec<u8> = pending.drain(..n).collect();
                resolved.extend(receive(&mut stream, now as u64, &bytes).into_iter().map(|s| s.seq));
            }
        }
        stream.close(&clock(), |sample| resolved.push(sample.seq));
        prop_assert_eq!(resolved, (0..sent).collect::<Vec<_>>());
    }

    #[test]
    fn any_datagrams_are_survived(size in 1u32..100, sent in 0u64..300, bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let mut stream = stream(size);
        for i in 0..sent { stream.sent(i, i, Flags::default()); }
        let clock = clock();
        let receipt = Receipt { mono_ns: sent, clock: &clock, kernel: None, local_pause: None, stamps: None };
        let mut resolved = 0;
        stream.receive_datagram(&receipt, &bytes, |arrival| if let Arrival::Resolved(_) = arrival { resolved += 1 });
        prop_assert!(resolved <= 1);
        prop_assert_eq!(stream.outstanding() as u64 + resolved, sent);
    }
}
