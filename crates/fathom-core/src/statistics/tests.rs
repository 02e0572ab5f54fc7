use super::*;
use crate::cause::ClosingCause;
use crate::event::Evidence;
use jiff::Timestamp;

fn at(connection: u32, kind: EventKind) -> Event {
    Event { at: Timestamp::UNIX_EPOCH, mono_ns: 0, connection: Some(connection), kind }
}

fn opened(connection: u32) -> Event {
    let [target, local, remote] = ["t", "l", "r"].map(String::from);
    at(
        connection,
        EventKind::ConnectionOpened {
            target,
            local,
            remote,
            connect_ns: 500,
            tls_ns: None,
            interface: None,
            lane: None,
        },
    )
}

fn closed(connection: u32) -> Event {
    let evidence = Evidence::default();
    let kind = EventKind::ConnectionClosed {
        cause: ClosingCause::Reset,
        verdict: None,
        errno: Some(104),
        age_ns: 9,
        evidence,
    };
    at(connection, kind)
}

/// "198 due" was said of a killed run in which 300 had been.
#[test]
fn what_a_kill_took_was_due() {
    // A run that goes on has counted them.
    for (mut s, due) in [(Statistics::default(), 5), (Statistics::read_back(&[]), 8)] {
        (0..5).for_each(|_| s.sample(&Sample { size: 64, rtt_ns: Some(1), ..Sample::default() }));
        s.event(&at(0, EventKind::RecordingOverflowed { lost: 3, reason: Some("crash".to_owned()) }));
        assert_eq!((s.due(), s.availability()), (due, Some(1.0)));
    }
}

#[test]
fn only_good_samples_are_timed() {
    let mut s = Statistics::default();
    s.event(&opened(0));
    let base = Sample { size: 64, lateness_ns: 5, ..Sample::default() };
    let first = Flags::FIRST_ON_CONNECTION;
    s.sample(&Sample { rtt_ns: Some(900), flags: first | Flags::WARM_UP, ..base });
    s.sample(&Sample { rtt_ns: Some(100), sent_ns: 10, ..base });
    s.sample(&Sample { rtt_ns: Some(300), flags: Flags::ANSWERED_LATE, sent_ns: 20, ..base });
    s.sample(&Sample { flags: Flags::UNANSWERED, ..base });
    s.sample(&Sample { flags: Flags::UNANSWERED | Flags::CORRUPTED, ..base });
    s.event(&closed(0));
    assert_eq!((s.samples, s.answered, s.late, s.unanswered, s.corrupt, s.warm_up), (5, 3, 1, 1, 1, 1));
    assert_eq!((s.rtt.count(), s.rtt.min(), s.rtt.max()), (2, Some(100), Some(300)));
    assert_eq!(s.latency.max(), Some(305));
    assert_eq!(s.first_sample.max(), Some(900));
    assert_eq!(s.span_ns, Some((0, 20)));
    let connection = &s.connections[&0];
    assert_eq!(
        (connection.samples, connection.cause, connection.errno),
        (5, Some(ClosingCause::Reset), Some(104))
    );
}

#[test]
fn sizes_are_never_pooled() {
    let mut s = Statistics::default();
    let sample = |size, rtt_ns| Sample { size, rtt_ns: Some(rtt_ns), ..Sample::default() };
    s.sample(&sample(64, 100));
    s.sample(&Sample { size: 64, flags: Flags::UNANSWERED, ..Sample::default() });
    assert_eq!((s.rtt.count(), s.by_size.len(), s.sizes()[&64].rtt.max()), (1, 0, Some(100)));
    s.sample(&sample(4_096, 900));
    s.sample(&sample(64, 120));
    assert_eq!((s.samples, s.answered, s.unanswered), (4, 3, 1));
    let pooled = [&s.rtt, &s.latency, &s.lateness, &s.first_sample].map(Histogram::count);
    assert_eq!(pooled, [0; 4]);
    let (small, large) = (&s.by_size[&64], &s.by_size[&4_096]);
    assert_eq!((small.samples, small.unanswered, small.lateness.count()), (3, 1, 3));
    assert_eq!((small.rtt.min(), small.rtt.max(), small.rtt.count()), (Some(100), Some(120), 2));
    assert_eq!((large.samples, large.rtt.max(), large.latency.max()), (1, Some(900), Some(900)));
    for size in 0..1_000 {
        s.sample(&sample(size, 5));
    }
    assert_eq!((s.by_size.len(), s.samples), (SIZES_KEPT, 1_004), "bounded, and all counted");
}

#[test]
fn idle_and_loaded_are_never_pooled() {
    let mut s = Statistics::default();
    let between = Flags::UNDER_LOAD | Flags::WARM_UP;
    for (rtt_ns, flags) in [(100, Flags::default()), (700, between), (900, Flags::UNDER_LOAD)] {
        s.sample(&Sample { size: 64, rtt_ns: Some(rtt_ns), flags, ..Sample::default() });
    }
    s.sample(&Sample { size: 64, flags: Flags::UNDER_LOAD | Flags::UNANSWERED, ..Sample::default() });
    assert_eq!((s.samples, s.answered, s.unanswered, s.warm_up), (4, 3, 1, 1), "all are counted");
    assert_eq!((s.rtt.count(), s.rtt.max(), s.lateness.count()), (1, Some(100), 1));
    let loaded = &s.under_load.samples;
    assert_eq!((loaded.samples, loaded.unanswered, loaded.warm_up), (3, 1, 1));
    assert_eq!((loaded.rtt.count(), loaded.rtt.min()), (1, Some(900)), "those between are in no figure");
    for (duration_ns, sent_bytes) in [(1_000_000_000, 1_000_000), (3_000_000_000, 7_000_000)] {
        let (echoed_bytes, rate) = (sent_bytes / 2, 0);
        let (sent_bits_per_s, echoed_bits_per_s) = (rate, rate);
        let error = None;
        let ended = EventKind::LoadEnded {
            duration_ns,
            sent_bytes,
            echoed_bytes,
            sent_bits_per_s,
            echoed_bits_per_s,
            error,
        };
        s.event(&at(0, ended));
    }
    let load = &s.under_load;
    assert_eq!(
        (load.phases, load.sent_bits_per_s(), load.echoed_bits_per_s()),
        (2, Some(16_000_000), Some(8_000_000)),
        "8 MB in 4 s"
    );
}

#[test]
fn weeks_of_reconnecting_take_bounded_memory() {
    let mut s = Statistics::default();
    s.event(&opened(0));
    for id in 1..5_000 {
        s.event(&opened(id));
        s.event(&closed(id));
    }
    assert_eq!(s.connections.len(), CLOSED_KEPT + 1);
    assert!(s.connections.contains_key(&0), "the open one stays");
    assert_eq!(s.connections_omitted, 4_999 - CLOSED_KEPT as u64);
    assert_eq!(s.events["connection.closed"], 4_999);
}
