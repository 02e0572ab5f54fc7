//! The reflector's connections.

use super::reflector::{
    PATIENCE, Random, Reflector, connect, frame, has_ipv6, round_trip, skip, stamps_of, utc_ns,
};
use fathom_wire::{Key, OneWay};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const KEY: Key = Key { session: 77, connection: 5 };

/// Writes in random pieces while reading what comes back, then ends the sending side and reads to the end.
fn echo_of(stream: TcpStream, bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut reader = stream.try_clone().expect("cloned");
    let reading = std::thread::spawn(move || {
        let mut echo = Vec::new();
        reader.read_to_end(&mut echo).map(|_| echo)
    });
    let mut rest = bytes;
    let mut writer = stream;
    while !rest.is_empty() {
        // Mostly small pieces, now and then one larger than the reflector reads at once.
        let limit = if random.next().is_multiple_of(8) { 200_000 } else { 3_000 };
        let (piece, after) = rest.split_at((1 + random.next() as usize % limit).min(rest.len()));
        writer.write_all(piece).expect("sent");
        rest = after;
    }
    writer.shutdown(Shutdown::Write).expect("ended");
    reading.join().expect("no panic").expect("echoed to the end")
}

#[test]
fn foreign_bytes_come_back_exactly_in_any_chunking() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        if listen.starts_with('[') && !has_ipv6() {
            skip("needs IPv6 on loopback");
            continue;
        }
        let reflector = Reflector::start(listen, &[]);
        let mut random = Random(20_260_101);
        let mut total = 0;
        while total < 1 << 20 {
            let len = 1 + random.next() as usize % 150_000;
            let bytes = random.bytes(len);
            assert!(echo_of(reflector.connect(), &bytes, &mut random) == bytes, "{len} bytes on {listen}");
            total += len;
        }
        let (counts, _) = reflector.stop();
        assert_eq!(counts["bytes"], total);
        assert_eq!(counts["messages_stamped"], 0);
        assert_eq!(counts["connections_failed"], 0);
    }
}

#[test]
fn frames_carry_stamps_of_this_moment() {
    let reflector = Reflector::start("0", &[]);
    let mut stream = reflector.connect();
    for (sequence, size) in [64, 65, 1_000, 64, 100_000].into_iter().enumerate() {
        let before = utc_ns();
        let echo = round_trip(&mut stream, &frame(KEY, sequence as u64, size));
        let after = utc_ns();
        let stamps = stamps_of(KEY, sequence as u64, &echo);
        // The reflector maps its monotonic clock to UTC by an anchor of up to a minute ago: allow what the two
        // clocks may drift apart meanwhile, 10 ms, and no more.
        let drift = 10_000_000;
        assert!(before - drift <= stamps.received_ns, "{before} {stamps:?}");
        assert!(stamps.received_ns <= stamps.sent_ns, "{stamps:?}");
        assert!(stamps.sent_ns <= after + drift, "{stamps:?} {after}");
        assert_eq!(stamps.frames as usize, sequence);
    }
    let (counts, _) = reflector.stop();
    assert_eq!(counts["messages_stamped"], 5);
}

#[test]
fn many_frames_in_random_pieces_are_all_stamped() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let mut random = Random(3);
    let sizes: Vec<u32> = (0..3_000).map(|_| 64 + (random.next() % 600) as u32).collect();
    let stream: Vec<u8> =
        sizes.iter().enumerate().flat_map(|(n, &size)| frame(KEY, n as u64, size)).collect();
    let echo = echo_of(reflector.connect(), &stream, &mut random);
    let mut rest = &echo[..];
    for (sequence, &size) in sizes.iter().enumerate() {
        let (one, after) = rest.split_at(size as usize);
        let stamps = stamps_of(KEY, sequence as u64, one);
        assert!(stamps.sent_ns >= stamps.received_ns);
        rest = after;
    }
    assert!(rest.is_empty());
    assert_eq!(reflector.stop().0["messages_stamped"], 3_000);
}

#[test]
fn half_close_returns_all_sent_bytes() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    for len in [0, 1, 64, 70_000] {
        let bytes = Random(len as u64).bytes(len);
        let mut stream = reflector.connect();
        stream.write_all(&bytes).expect("sent");
        stream.shutdown(Shutdown::Write).expect("ended");
        let mut echo = Vec::new();
        stream.read_to_end(&mut echo).expect("echoed, then closed");
        assert!(echo == bytes, "{len} bytes");
    }
    assert_eq!(reflector.stop().0["connections_open"], 0);
}

#[test]
fn urgent_data_is_data() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let mut stream = reflector.connect();
    stream.write_all(b"before").expect("sent");
    assert_eq!(socket2::SockRef::from(&stream).send_out_of_band(b"!").expect("sent"), 1);
    stream.write_all(b"after").expect("sent");
    let mut echo = [0; 12];
    stream.read_exact(&mut echo).expect("echoed");
    assert_eq!(&echo, b"before!after");
}

#[test]
fn non_reading_peer_uses_bounded_memory() {
    const TOTAL: usize = 50_000_000;
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let mut stream = reflector.connect();
    round_trip(&mut stream, b"x");
    let before_kib = reflector.resident_kib();
    let bytes = Random(50).bytes(TOTAL);
    // No progress for so long means that every buffer on the way is full.
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("set");
    let mut sent = 0;
    while sent < TOTAL {
        match stream.write(&bytes[sent..]) {
            Ok(n) => sent += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            // A call with a time limit is not restarted after its process was stopped for a while (signal(7)).
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => panic!("{e}"),
        }
    }
    assert!(sent < TOTAL, "back-pressure never reached the sender");
    let grown_kib = reflector.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 2_048, "the reflector grew by {grown_kib} KiB");
    // Others are served meanwhile.
    assert_eq!(round_trip(&mut reflector.connect(), b"hello"), b"hello");

    let mut reader = stream.try_clone().expect("cloned");
    let reading = std::thread::spawn(move || {
        let mut echo = Vec::with_capacity(TOTAL);
        reader.read_to_end(&mut echo).map(|_| echo)
    });
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(&bytes[sent..]).expect("the rest goes once somebody reads");
    stream.shutdown(Shutdown::Write).expect("ended");
    let echo = reading.join().expect("no panic").expect("echoed to the end");
    assert!(echo == bytes, "all of it, in order");
    let grown_kib = reflector.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 2_048, "the reflector grew by {grown_kib} KiB");
}

#[test]
fn two_thousand_connections_at_once() {
    let reflector = Reflector::start("127.0.0.1:0", &["--tcp-only"]);
    let mut streams: Vec<_> = (0..2_000).map(|_| reflector.connect()).collect();
    for sequence in 0..2 {
        for (connection, stream) in streams.iter_mut().enumerate() {
            let key = Key { session: 1, connection: connection as u32 };
            stream.write_all(&frame(key, sequence, 64)).expect("sent");
        }
        for (connection, stream) in streams.iter_mut().enumerate() {
            let key = Key { session: 1, connection: connection as u32 };
            let mut echo = [0; 64];
            stream.read_exact(&mut echo).expect("echoed");
            assert_eq!(u64::from(stamps_of(key, sequence, &echo).frames), sequence);
        }
    }
    let (counts, _) = reflector.stop();
    assert_eq!(counts["connections"], 2_000);
    assert_eq!(counts["connections_open"], 2_000);
    assert_eq!(counts["messages_stamped"], 4_000);
}

/// What the end of a connection that was closed at once looks like: it depends on what was under way.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(n) => n == 0,
        Err(e) => e.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn excess_connections_are_closed_and_slots_reused() {
    let reflector = Reflector::start("127.0.0.1:0", &["--max-connections", "2"]);
    let (mut a, mut b) = (reflector.connect(), reflector.connect());
    for stream in [&mut a, &mut b] {
        assert_eq!(round_trip(stream, b"in"), b"in");
    }
    assert!(is_closed(&mut reflector.connect()));
    a.shutdown(Shutdown::Write).expect("ended");
    assert!(is_closed(&mut a));
    assert_eq!(round_trip(&mut reflector.connect(), b"in"), b"in");
    let (counts, said) = reflector.stop();
    assert_eq!(counts["refused"]["too_many"], 1);
    assert_eq!(counts["connections"], 3);
    assert!(said.contains("refused 1 (1 too many)"), "{said}");
}

#[test]
fn an_idle_connection_is_closed_after_its_timeout() {
    let reflector = Reflector::start("127.0.0.1:0", &["--idle-timeout", "200ms"]);
    let mut stream = reflector.connect();
    let begun = std::time::Instant::now();
    assert_eq!(round_trip(&mut stream, b"in"), b"in");
    assert!(is_closed(&mut stream));
    assert!(begun.elapsed() >= Duration::from_millis(200), "it was closed before its time");
    assert_eq!(reflector.stop().0["connections_idle_closed"], 1);
}

#[test]
fn only_allowed_networks_are_served() {
    let reflector = Reflector::start("127.0.0.1:0", &["--allow", "10.0.0.0/8", "--allow", "fd00::/8"]);
    assert!(is_closed(&mut reflector.connect()));
    assert_eq!(reflector.stop().0["refused"]["not_allowed"], 1);
}

#[test]
fn dual_stack_ipv4_peer_matches_ipv4_networks() {
    if !has_ipv6() {
        return skip("needs IPv6 on loopback");
    }
    let reflector = Reflector::start("[::]:0", &["--allow", "127.0.0.0/8"]);
    let port = reflector.tcp.expect("it serves TCP").port();
    assert_eq!(round_trip(&mut connect(([127, 0, 0, 1], port).into()), b"in"), b"in");
    assert!(is_closed(&mut reflector.connect()), "::1 is not in 127.0.0.0/8");
}

#[test]
fn a_reset_ends_one_connection_only() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let mut other = reflector.connect();
    let mut stream = reflector.connect();
    assert_eq!(round_trip(&mut stream, b"in"), b"in");
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("set");
    drop(stream);
    assert_eq!(round_trip(&mut other, b"in"), b"in");
    let (counts, _) = reflector.stop();
    assert_eq!((&counts["connections_failed"], &counts["connections_open"]), (&1.into(), &1.into()));
}

/// What takes a connection out of the event loop and back into it: see `echo/alone.rs`.
#[test]
fn ping_pong_connection_preserves_echoes_and_counts() {
    const QUICK: u64 = 2_000;
    let reflector = Reflector::start("0", &["--idle-timeout", "1h"]);
    let (mut first, mut second) = (reflector.connect(), reflector.connect());
    let other = Key { session: 78, connection: 6 };
    let mut sequence = 0;
    for round in 0..3 {
        for _ in 0..QUICK {
            let echo = round_trip(&mut first, &frame(KEY, sequence, 64));
            stamps_of(KEY, sequence, &echo);
            sequence += 1;
        }
        // While the first is silent, and in between.
        for i in 0..50 {
            let number = round * 50 + i;
            stamps_of(other, number, &round_trip(&mut second, &frame(other, number, 64)));
        }
        // More than the peer reads: it waits in the reflector until it is taken.
        let large = frame(KEY, sequence, 4 << 20);
        assert_eq!(round_trip(&mut first, &large).len(), large.len());
        sequence += 1;
    }
    first.shutdown(Shutdown::Write).expect("ended");
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).expect("its end comes back");
    assert!(rest.is_empty());
    let (counts, _) = reflector.stop();
    assert_eq!(counts["messages_stamped"], sequence + 150);
    assert_eq!(counts["bytes"], 3 * (QUICK * 64 + (4 << 20)) + 150 * 64);
    assert_eq!(counts["connections"], 2);
    assert_eq!(counts["connections_open"], 1);
    assert_eq!(counts["connections_failed"], 0);
}

/// A request for no echo gets none, and no more segments than it asks for; what comes next ends them; and fewer bytes go out
/// than came in.
#[test]
fn one_way_traffic_is_never_amplified() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let ask = |segments, every_ms| OneWay { session: 77, connection: 5, segments, every_ms }.encode(None);
    let mut stream = reflector.connect();
    // The echo of what follows is the next thing that comes.
    stream.write_all(&[ask(0, 0), ask(0, 0), frame(KEY, 0, 64)].concat()).expect("sent");
    let mut echo = [0; 64];
    stream.read_exact(&mut echo).expect("an echo");
    assert_eq!(echo[..32], frame(KEY, 0, 64)[..32]);
    // Three segments, of which each is a byte of 0, and no fourth: the next thing is an echo.
    stream.write_all(&ask(3, 100)).expect("sent");
    let mut segments = [9; 3];
    stream.read_exact(&mut segments).expect("segments");
    assert_eq!(segments, [0; 3]);
    stream.write_all(&frame(KEY, 1, 64)).expect("sent");
    stream.read_exact(&mut echo).expect("an echo");
    assert_eq!(echo[..32], frame(KEY, 1, 64)[..32]);
    // Those that are still to come end with what comes in between.
    stream.write_all(&ask(128, 60_000)).expect("sent");
    stream.write_all(&frame(KEY, 2, 64)).expect("sent");
    stream.read_exact(&mut echo).expect("an echo");
    stream.write_all(&[ask(2, 100), ask(0, 0)].concat()).expect("sent");
    stream.write_all(&frame(KEY, 3, 64)).expect("sent");
    stream.shutdown(Shutdown::Write).expect("ended");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("to the end");
    assert_eq!(rest.len(), 64);
    let (counts, _) = reflector.stop();
    assert_eq!(counts["bytes"], 4 * 64 + 3);
    assert_eq!(counts["messages_stamped"], 4);
}

/// An ask that is due sooner does not wait for the one before it, on its own connection or on the one that lived in its slot before;
/// and nothing is sent for a frame that has not come as a whole.
#[test]
fn latest_one_way_request_decides_segment_timing() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let ask = |segments, every_ms| OneWay { session: 77, connection: 5, segments, every_ms }.encode(None);
    let hour_ms = 3_600_000;
    let (mut segment, mut echo) = ([9], [0; 64]);
    for _ in 0..3 {
        let mut stream = reflector.connect();
        stream.write_all(&ask(128, hour_ms)).expect("sent");
        stream.write_all(&ask(1, 100)).expect("sent");
        stream.read_exact(&mut segment).expect("a segment");
        assert_eq!(segment, [0]);
        stream.write_all(&ask(128, hour_ms)).expect("sent");
        stream.shutdown(Shutdown::Write).expect("ended");
        assert!(is_closed(&mut stream), "its slot is free");
    }
    let (mut whole, mut torn) = (reflector.connect(), reflector.connect());
    let bytes = ask(1, 100);
    torn.write_all(&bytes[..127]).expect("sent");
    whole.write_all(&bytes).expect("sent");
    whole.read_exact(&mut segment).expect("a segment");
    // The other's time begins with its last byte: the next thing there is the echo of what follows.
    torn.write_all(&[&bytes[127..], &frame(KEY, 0, 64)].concat()).expect("sent");
    torn.read_exact(&mut echo).expect("an echo");
    assert_eq!(echo[..32], frame(KEY, 0, 64)[..32]);
    let (counts, _) = reflector.stop();
    assert_eq!(counts["bytes"], 4 + 64);
}
