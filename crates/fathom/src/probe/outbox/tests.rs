use super::*;
use fathom_core::statistics::Statistics;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// The wall clock of these tests: what was sent at 0 was in flight when a queue began.
const NOW_NS: i64 = 1_000;

fn sample(connection: u32, seq: u64, sent_ns: i64) -> Sample {
    Sample { connection, seq, sent_ns, ..Sample::default() }
}

fn note(text: String) -> Message {
    let kind = EventKind::Note { text };
    Message::Event(None, Box::new(Event { at: Timestamp::UNIX_EPOCH, mono_ns: 0, connection: None, kind }))
}

fn taken(ring: &mut Inbox) -> Vec<Message> {
    std::iter::from_fn(|| ring.pop().ok()).collect()
}

/// Everything that comes out of the ring until the outbox has passed on all it has.
fn drained(outbox: &mut Outbox, ring: &mut Inbox) -> Vec<Message> {
    let mut all = taken(ring);
    while !outbox.deliver_waiting() {
        all.extend(taken(ring));
    }
    all.extend(taken(ring));
    all
}

/// A silence of 100 s at 1,000/s ended in one burst that no ring held: 613 of 2,600 samples of a shorter one had no row.
#[test]
fn burst_after_stall_keeps_every_row_in_order() {
    let (mut outbox, mut ring) = channel_of(512, 10, usize::MAX, || NOW_NS);
    for seq in 0..100_000 {
        outbox.sample(3, sample(1, seq, 0));
        if seq % 1_000 == 0 {
            outbox.other(note(seq.to_string()));
        }
    }
    outbox.other(Message::Ended);
    let all = drained(&mut outbox, &mut ring);
    let mut next = 0;
    let mut notes = 0;
    for message in &all[..all.len() - 1] {
        match message {
            Message::Sample(3, sample) => {
                assert_eq!(sample.seq, next);
                next += 1;
            }
            Message::Event(None, event) => {
                // It follows the sample that it came after.
                assert_eq!(event.kind, EventKind::Note { text: (next - 1).to_string() });
                notes += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((next, notes), (100_000, 100));
    assert!(matches!(all.last(), Some(Message::Ended)));
    assert!(outbox.waiting.is_empty(), "the queue keeps no memory");
}

#[test]
fn full_queue_counts_losses_per_connection() {
    let (mut outbox, mut ring) = channel_of(4, 100, usize::MAX, || NOW_NS);
    for seq in 0..4 + 100 + 30 {
        outbox.sample(0, sample(7, seq, NOW_NS + 1));
        outbox.sample(1, sample(8, seq, NOW_NS + 1));
    }
    // In flight when the queue began, and answered only now: it is not lost.
    outbox.sample(1, sample(9, 0, NOW_NS - 1));
    outbox.other(note("kept".to_owned()));
    outbox.other(Message::Ended);
    let all = drained(&mut outbox, &mut ring);
    let rows = |path: u32, connection: u32| {
        let of =
            |m: &&Message| matches!(m, Message::Sample(p, s) if (*p, s.connection) == (path, connection));
        all.iter().filter(of).count() as u64
    };
    let lost: Vec<(u32, Option<u32>, u64)> = all
        .iter()
        .filter_map(|message| match message {
            Message::Lost { path, connection, samples } => Some((*path, *connection, *samples)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(0, Some(7), 134 - rows(0, 7)), (1, Some(8), 134 - rows(1, 8))]);
    assert_eq!(rows(0, 7) + rows(1, 8), 4 + 100);
    assert_eq!(rows(1, 9), 1);
    let last_three: Vec<_> = all.iter().rev().take(3).collect();
    assert!(
        matches!(last_three[..], [Message::Ended, Message::Lost { .. }, Message::Lost { .. }]),
        "losses are told before the end: {last_three:?}"
    );
}

/// The wall clock was set back by an hour while the disk stood still: for that hour no sample was a later one, and the queue
/// had no bound.
#[test]
fn clock_set_back_keeps_queue_bounded() {
    let (mut outbox, mut ring) = channel_of(4, 10, 40, || NOW_NS);
    let set_back_ns = NOW_NS - 3_600_000_000_000;
    for seq in 0..10_000 {
        outbox.sample(0, sample(7, seq, set_back_ns + seq as i64));
        outbox.other(note(seq.to_string()));
        let kind = EventKind::ScheduleOverrun { skipped: 1, behind_ns: 0, reason: "late".to_owned() };
        if seq % 1_000 == 0 {
            let event = Event { at: Timestamp::UNIX_EPOCH, mono_ns: 0, connection: None, kind };
            outbox.other(Message::Event(Some(0), Box::new(event)));
        }
        assert!(outbox.waiting.len() <= 40 + 10, "{} wait", outbox.waiting.len());
    }
    outbox.other(Message::Ended);
    let all = drained(&mut outbox, &mut ring);
    let (mut rows, mut lost, mut skipped, mut notes, mut notes_lost) = (0, 0, 0, 0, 0);
    for message in &all {
        match message {
            Message::Sample(..) => rows += 1,
            Message::Lost { connection: Some(7), samples, .. } => lost += samples,
            Message::Event(_, event) => match &event.kind {
                EventKind::ScheduleOverrun { skipped: more, .. } => skipped += more,
                EventKind::Note { text } if text.contains(" lost: ") => {
                    notes_lost +=
                        text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
                }
                _ => notes += 1,
            },
            _ => {}
        }
    }
    assert_eq!((rows + lost, skipped, notes + notes_lost), (10_000, 10, 10_000));
    assert!(matches!(all.last(), Some(Message::Ended)));
}

#[test]
fn losses_are_reported_when_space_returns() {
    let (mut outbox, mut ring) = channel_of(4, 0, usize::MAX, || NOW_NS);
    for seq in 0..10 {
        outbox.sample(0, sample(0, seq, 0));
    }
    outbox.sample(0, sample(0, 10, NOW_NS + 1));
    assert!(!outbox.deliver_waiting());
    let all = drained(&mut outbox, &mut ring);
    assert!(matches!(all.last(), Some(Message::Lost { connection: Some(0), samples: 1, .. })), "{all:?}");
}

#[test]
fn connections_beyond_a_bound_are_counted_together() {
    let (mut outbox, mut ring) = channel_of(4, 0, usize::MAX, || NOW_NS);
    (0..5).for_each(|seq| outbox.sample(0, sample(0, seq, 0)));
    let connections = LOST_BY_CONNECTION as u32 + 50;
    (0..connections).for_each(|connection| outbox.sample(0, sample(connection, 9, NOW_NS + 1)));
    outbox.sample(0, sample(0, 10, NOW_NS + 1));
    let all = drained(&mut outbox, &mut ring);
    let lost = |of: Option<u32>| {
        all.iter().find_map(|m| match m {
            Message::Lost { connection, samples, .. } if *connection == of => Some(*samples),
            _ => None,
        })
    };
    assert_eq!((lost(Some(0)), lost(None)), (Some(2), Some(50)));
}

/// Whatever comes and goes in whatever order: rows and told losses are what was given, in order, of each connection.
#[test]
fn every_sample_is_row_or_reported_loss() {
    for seed in 0..100 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut below = |n: u64| random.next_u64() % n;
        let (mut outbox, mut ring) =
            channel_of(1 << below(6), below(40) as usize, 20 + below(100) as usize, || NOW_NS);
        let mut given = [0_u64; 3];
        let mut all = Vec::new();
        for _ in 0..2_000 {
            match below(10) {
                0..6 => {
                    let connection = below(3);
                    let seq = &mut given[connection as usize];
                    outbox.sample(0, sample(connection as u32, *seq, NOW_NS - 500 + below(1_000) as i64));
                    *seq += 1;
                }
                6 => outbox.other(note(String::new())),
                7 => drop(outbox.deliver_waiting()),
                _ => {
                    let some = below(60) as usize;
                    all.extend(std::iter::from_fn(|| ring.pop().ok()).take(some));
                }
            }
            let waiting = outbox.waiting.iter().map(|m| outbox.later(m)).sum::<usize>();
            assert!(waiting == outbox.later && outbox.later <= outbox.later_at_most.max(1), "seed {seed}");
        }
        outbox.other(Message::Ended);
        all.extend(drained(&mut outbox, &mut ring));
        let mut kept = [0_u64; 3];
        let mut after = [0_u64; 3];
        for message in &all {
            match message {
                Message::Sample(0, sample) => {
                    let connection = sample.connection as usize;
                    assert!(sample.seq >= after[connection], "seed {seed}: out of order");
                    after[connection] = sample.seq + 1;
                    kept[connection] += 1;
                }
                Message::Lost { connection: Some(connection), samples, .. } => {
                    kept[*connection as usize] += samples;
                }
                _ => {}
            }
        }
        assert_eq!(kept, given, "seed {seed}");
        assert!(matches!(all.last(), Some(Message::Ended)), "seed {seed}");
    }
}

#[test]
fn finish_waits_only_for_live_recorder() {
    let (mut outbox, mut ring) = channel_of(4, 10, usize::MAX, || NOW_NS);
    (0..30).for_each(|seq| outbox.sample(0, sample(0, seq, 0)));
    let slow = std::thread::spawn(move || {
        let mut rows = 0;
        loop {
            match ring.pop() {
                Ok(Message::Ended) => return rows,
                Ok(_) => rows += 1,
                Err(_) => std::thread::yield_now(),
            }
        }
    });
    outbox.finish();
    assert_eq!(slow.join().expect("it ends"), 30);

    let (mut outbox, ring) = channel_of(4, 10, usize::MAX, || NOW_NS);
    (0..30).for_each(|seq| outbox.sample(0, sample(0, seq, 0)));
    drop(ring);
    outbox.finish();
}

fn unpacked(all: &[Message]) -> (Vec<Sample>, Statistics) {
    let (mut samples, mut statistics) = (Vec::new(), Statistics::default());
    for message in all {
        match message {
            Message::Packed(rows) => samples.extend(rows.samples()),
            Message::Batch(batch) => statistics.batch(batch),
            _ => {}
        }
    }
    (samples, statistics)
}

#[test]
fn packed_samples_are_complete_and_precede_event() {
    let bell = Bell::default();
    let (mut outbox, mut ring) = channel(None, 1, Some((&bell, true)));
    for seq in 0..1_000 {
        outbox.sample(0, Sample { rtt_ns: Some(seq as i64), ..sample(1, seq, seq as i64) });
        if seq == 600 {
            outbox.other(note("601".to_owned()));
        }
    }
    outbox.other(Message::Ended);
    let all = drained(&mut outbox, &mut ring);
    let event = all.iter().position(|message| matches!(message, Message::Event(..))).expect("a note");
    let (before, counted) = unpacked(&all[..event]);
    assert_eq!((before.len(), counted.samples), (601, 601));
    let (samples, counted) = unpacked(&all);
    assert!(samples.iter().enumerate().all(|(seq, sample)| sample.seq == seq as u64));
    assert_eq!((samples.len(), counted.samples, counted.rtt.max()), (1_000, 1_000, Some(999)));
}

/// Samples of one of so many rings, while a disk stands still for a minute: 100,000 of the run a second.
fn samples_of_a_minute(rings: usize) -> u64 {
    6_000_000 / rings as u64
}

/// A bounded number of samples waits, and the rest is told.
fn unread_packed_samples(rings: usize) {
    let bell = Bell::default();
    let (mut outbox, mut ring) = channel(None, rings, Some((&bell, true)));
    let (given, later) = (samples_of_a_minute(rings), utc_ns() + 1_000_000_000_000);
    for seq in 0..given {
        outbox.sample(0, sample(7, seq, later));
        if seq < 3_000 {
            outbox.other(note(String::new()));
        }
    }
    assert!(outbox.waiting.iter().filter(|m| matches!(m, Message::Batch(_))).count() <= BATCHES_WAIT);
    let waiting: usize = outbox.waiting.iter().map(|m| outbox.later(m)).sum();
    assert!(waiting <= outbox.later_at_most + fathom_recording::AT_ONCE, "{waiting} wait");
    outbox.other(Message::Ended);
    let all = drained(&mut outbox, &mut ring);
    let lost = |m: &Message| if let Message::Lost { samples, .. } = m { *samples } else { 0 };
    let (rows, counted) = unpacked(&all);
    let lost: u64 = all.iter().map(lost).sum();
    assert!(lost > 0, "there was room for all");
    assert_eq!(rows.len() as u64 + lost, given);
    assert_eq!(counted.samples, given, "what they come to is not lost");
}

/// What was sent before the queue began has a row whatever happens, but packed it has a bound.
fn old_packed_samples(rings: usize) {
    let bell = Bell::default();
    let (mut outbox, _ring) = channel(None, rings, Some((&bell, true)));
    for seq in 0..samples_of_a_minute(rings) {
        outbox.sample(0, sample(7, seq, 0));
        if seq < 3_000 {
            outbox.other(note(String::new()));
        }
    }
    let waiting: usize = outbox.waiting.iter().map(packed).sum();
    assert_eq!(waiting, outbox.packed);
    assert!(waiting <= outbox.at_most + fathom_recording::AT_ONCE, "{waiting} wait, of {}", outbox.at_most);
    assert!(!outbox.lost.is_empty(), "there was room for all");
}

#[test]
fn unread_packed_samples_are_bounded_and_counted() {
    unread_packed_samples(16);
}

#[test]
fn old_packed_samples_are_bounded_by_count() {
    old_packed_samples(16);
}

/// Back to back over a long path five samples come in the time that rows wait: a piece of rows for each five would cost a hundred
/// times their bytes, for as long as the disk stands still.
#[test]
fn rows_join_a_queue_in_whole_pieces() {
    let bell = Bell::default();
    let (mut outbox, mut ring) = channel(None, 1, Some((&bell, true)));
    let later = utc_ns() + 1_000_000_000_000;
    let (mut given, mut now) = (0, mono_ns());
    for _ in 0..10_000 {
        for _ in 0..5 {
            outbox.sample(0, sample(7, given, later));
            given += 1;
        }
        now += ROWS_FOR_NS;
        outbox.hand_over(now);
        // A queue that cannot be passed on makes nobody wake up for it all the time.
        assert!(outbox.waiting.is_empty() || outbox.due_ns().is_none_or(|due| due > now));
    }
    let pieces = outbox.waiting.iter().filter(|m| matches!(m, Message::Packed(_))).count() as u64;
    assert!(pieces > 0, "something waits");
    // The first of them found the ring full.
    assert!(pieces <= 1 + given / fathom_recording::AT_ONCE as u64, "{pieces} pieces of {given} samples");
    outbox.other(Message::Ended);
    let (rows, _) = unpacked(&drained(&mut outbox, &mut ring));
    assert_eq!(rows.len() as u64, given);
}

/// A rotation asked whether a ring was full after it had been emptied: what waited behind it went into the next recording.
#[test]
fn ring_reports_messages_queued_behind_it() {
    let (mut outbox, mut ring) = channel_of(4, 100, usize::MAX, || NOW_NS);
    (0..4).for_each(|seq| outbox.sample(0, sample(0, seq, 0)));
    assert!(!ring.is_behind(), "it is full, and that is all");
    (4..10).for_each(|seq| outbox.sample(0, sample(0, seq, 0)));
    assert_eq!(taken(&mut ring).len(), 4);
    assert!(ring.is_behind(), "it is empty, and there is more");
    assert!(!outbox.deliver_waiting());
    assert!(ring.is_behind());
    assert_eq!(taken(&mut ring).len(), 4);
    assert!(outbox.deliver_waiting());
    assert!(!ring.is_behind());
    assert_eq!(taken(&mut ring).len(), 2);
}

mod acceptance {
    use super::*;

    #[test]
    fn unread_packed_samples_are_bounded_and_counted() {
        unread_packed_samples(1);
    }

    #[test]
    fn old_packed_samples_are_bounded_by_count() {
        old_packed_samples(1);
    }
}
