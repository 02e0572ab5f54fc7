//! What the accounts of the 51 kinds of faults were read for: nothing that happened is left out, and each reads as a
//! colleague's would.

use super::*;

/// Row 1 of issue 14: such a recording was told as "nothing happened", with high confidence.
#[test]
fn unfinished_stall_at_close_is_reported() {
    let [began, _] = stall(100 * S, 0, 5 * S, false);
    let events = [
        opened(0, 0),
        began,
        explained(104 * S, 0, "stall", "unknown", "no_answer"),
        closed(104 * S, 0, "finished", 0),
    ];
    for upto in [3, 4] {
        let lines = told(&events[..upto]);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        has(
            &lines[1],
            &["connection #0 to 10.0.0.4:7007 stalled", "Verdict: unknown, why is not known: the first fact"],
        );
        assert_eq!((lines[1].cause, lines[1].confidence), (None, Confidence::None));
        has(&lines[2], &["1 stall", "1 unexplained"]);
    }
    let lines = told(&events);
    has(&lines[1], &["still waited after 4 s when this probe closed it as planned"]);
    has(&lines[2], &["1 connection (1 finished), 1 stall, longest silence 4 s"]);
}

/// Row 15 of issue 14: a run that lost a third of its datagrams was told as "nothing happened".
#[test]
fn lost_datagrams_are_reported_with_direction() {
    let lost = |at, id, forward: u64, backward: u64, unknown: u64| {
        let fields = json!({"forward": forward, "backward": backward, "unknown": unknown, "duplicates": 1, "reordered": 2});
        event(at, Some(id), "loss.attributed", &fields)
    };
    for (n, what) in [
        (
            (47, 0, 0),
            "47 datagrams on connection #0 were lost, by the reflector's count: 47 on the way there",
        ),
        ((0, 1, 0), "1 datagram on connection #0 was lost, by the reflector's count: 1 on the way back"),
        (
            (2, 1, 3),
            "6 datagrams on connection #0 were lost, by the reflector's count: 2 on the way there, 1 on the way back, 3 where nobody can say",
        ),
        (
            (0, 0, 3),
            "3 datagrams on connection #0 had no answer; nobody can say whether, and on which way, they were lost",
        ),
    ] {
        let lines = told(&[opened(0, 0), lost(9 * S, 0, n.0, n.1, n.2), lost(9 * S, 1, 0, 0, 0)]);
        assert_eq!((lines.len(), lines[1].statement.as_str()), (3, what), "{lines:#?}");
        assert_eq!(
            (lines[1].connection, lines[1].confidence, lines[1].verdict),
            (Some(0), Confidence::High, None)
        );
        has(&lines[1], &["to look at next: what drops"]);
    }
    let quiet = told(&[opened(0, 0), lost(9 * S, 0, 0, 0, 0)]);
    assert!(quiet[1].statement.starts_with("nothing happened"), "{quiet:#?}");
}

/// Numbers, names of the program's own, and where to look next.
#[test]
fn an_account_reads_as_a_colleagues() {
    let pause = json!({"host": "local", "duration_ns": 80_000_000, "reason": "host_scheduling"});
    let lines = told(&[opened(0, 0), event(5 * S, None, "pause", &pause)]);
    has(
        &lines[1],
        &[
            "this host did not run for 80 ms",
            "it was able to run and got no processor: the host ran others in its place, or",
        ],
    );
    let unsent = json!({"skipped": 1, "behind_ns": 1, "reason": "unconnected"});
    let events = [
        opened(0, 0),
        closed(9 * S, 0, "local_error", 103),
        explained(9 * S, 0, "closing", "unknown", "echoed"),
        opened(10 * S, 1),
        event(10 * S, Some(1), "schedule.overrun", &unsent),
    ];
    has(
        &told(&events)[1],
        &["1 sample due meanwhile was not sent", "to look at next: who ends sockets on this host"],
    );
    // An ICMP message may be this host's own: its kernel found nobody on its network.
    has(&told(&[opened(0, 0), closed(9 * S, 0, "unreachable", 113)])[1], &["this host or the network said"]);
}

/// An echo that is not what was sent is an echo: the summary told 19 corrupt and none unanswered, the account 19 unanswered.
#[test]
fn an_echo_that_was_changed_is_not_unanswered() {
    let changed = event(2 * S, Some(0), "echo.corrupted", &json!({"seq": 4, "count": 19}));
    let events = [opened(0, 0), changed];
    let gathered = |unanswered: usize| {
        let mut gatherer = Gatherer::new(&events);
        for n in 0..60 {
            use crate::sample::Flags;
            let flags = match n {
                0..19 => Flags::UNANSWERED | Flags::CORRUPTED,
                _ if n < 19 + unanswered => Flags::UNANSWERED,
                _ => Flags::default(),
            };
            let rtt_ns = (!flags.contains(Flags::UNANSWERED)).then_some(50_000);
            gatherer.sample(&crate::sample::Sample { rtt_ns, flags, ..Default::default() });
        }
        gatherer.finish()
    };
    let total = |unanswered| told_as(State::Finished, &events, &gathered(unanswered)).pop().unwrap();
    assert!(total(0).statement.ends_with("; 60 samples, 0 unanswered, 19 corrupt"), "{:?}", total(0));
    assert!(total(3).statement.ends_with("; 60 samples, 3 unanswered, 19 corrupt"), "{:?}", total(3));
    // The event may be missing, as from a recording that broke off.
    let nothing = told_as(State::Finished, &events[..1], &gathered(0));
    has(&nothing[1], &["nothing happened", "every sample was answered, 19 with another echo than was sent"]);
}

/// A server that sends a byte each 20 ms: 5 echoes came in 6.9 s and 55 did not, and the account spoke of one echo.
#[test]
fn waiting_samples_are_reported_with_delay() {
    let began = json!({"seq": 0, "rtt_ns": 1_300_000_000_u64, "threshold_ns": S});
    let evidence =
        json!({"sent": 60, "answered": 5, "last_answered_seq": 4, "outstanding": 55, "silent_ns": 8_000_000});
    let end = json!({"cause": "finished", "age_ns": 6_900_000_000_u64, "evidence": evidence});
    let events = [
        opened(0, 0),
        event(1_300_000_000, Some(0), "delay.began", &began),
        event(6_900_000_000, Some(0), "connection.closed", &end),
    ];
    let lines = told(&events);
    let phrases = [
        "connection #0 to 10.0.0.4:7007 was slow for 6.9 s, to its end: 5 echoes came, the first after 1.3 s, and 55 samples still waited",
        "Verdict: delayed",
    ];
    has(&lines[1], &phrases);
    assert!(!lines[1].statement.contains("1 echo "), "{:?}", lines[1]);
    // One that was over before the end waits for nothing.
    let mut over = vec![opened(0, 0)];
    over.extend(delay(100 * S, 0, S, S, None));
    over.push(event(200 * S, Some(0), "connection.closed", &end));
    let line = &told(&over)[1];
    has(line, &["was slow for 1 s: 30 echoes took up to 1 s, and came"]);
    assert!(!line.statement.contains("still waited"), "{line:?}");
}

/// A queue that filled over ten minutes, to 3.8 s with a median of 162 ms, was told as "nothing happened": what counts as late
/// grows with what is usual.
#[test]
fn gradual_rtt_rise_is_reported() {
    let base = opened(0, 0).at.as_nanosecond() as i64;
    let account = |events: &[Event], rtt_ms: &dyn Fn(f64) -> f64| {
        let mut gatherer = Gatherer::new(events);
        for n in 0..600_i64 {
            let rtt_ns = Some((rtt_ms(n as f64) * 1e6) as i64);
            let sent_ns = base + n * S as i64;
            gatherer.sample(&crate::sample::Sample { sent_ns, rtt_ns, ..Default::default() });
        }
        told_as(State::Finished, events, &gatherer.finish())
    };
    let grown = |n: f64| 7.0 * (3_800.0_f64 / 7.0).powf(n / 600.0);
    let events = [opened(0, 0)];
    let lines = account(&events, &grown);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    has(
        &lines[1],
        &[
            "round trips rose without a silence: their median was 8.2 ms in the 32 s from 10:00:00",
            "then 3.3 s in the 32 s from 10:09:36. Verdict: delayed, because echoes kept coming",
        ],
    );
    assert_eq!((lines[1].verdict, lines[1].confidence), (Some(Verdict::Delayed), Confidence::Medium));
    has(&account(&events, &|n| grown(600.0 - n))[1], &["round trips fell without a silence"]);
    has(
        &account(&events, &|n| grown(600.0 - (2.0 * n - 600.0).abs()))[1],
        &["round trips rose without a silence", ", and was 9"],
    );
    // A level that is no stall's length higher, single late echoes, and what is told already.
    let nothing = |events: &[Event], rtt_ms: &dyn Fn(f64) -> f64| {
        let lines = account(events, rtt_ms);
        assert!(lines.iter().all(|line| !line.statement.contains("round trips")), "{lines:#?}");
    };
    nothing(&events, &|n| if n < 300.0 { 1.0 } else { 190.0 });
    nothing(&events, &|n| if n as u64 % 20 == 3 { 900.0 } else { 1.0 });
    nothing(&events, &|n| if n < 300.0 { 300.0 } else { 900.0 });
    let [began, ended] = stall(100 * S, 0, 60 * S, true);
    let stalled = |n: f64| if (100.0..160.0).contains(&n) { (160.0 - n) * 1e3 } else { 1.0 };
    nothing(&[opened(0, 0), began, ended], &stalled);
    let began = json!({"seq": 200, "rtt_ns": 2 * S, "threshold_ns": S});
    let over = json!({"duration_ns": 90 * S, "samples": 90, "most_ns": 2 * S, "verdict": "delayed", "confidence": "medium"});
    let slow = |n: f64| if (200.0..290.0).contains(&n) { 2_000.0 } else { 1.0 };
    let late = event(202 * S, Some(0), "delay.began", &began);
    nothing(&[opened(0, 0), late, event(300 * S, Some(0), "delay.ended", &over)], &slow);
    // It is told with what else there was.
    let [began, ended] = stall(20 * S, 0, S, true);
    let lines = account(&[opened(0, 0), began, ended], &grown);
    has(&lines[1], &["stalled"]);
    has(&lines[2], &["round trips rose without a silence"]);
}

/// The probe was stopped, and its run ended when it went on: nobody told it of the pause before its connection was closed. Of seven
/// rows in a run of that kind one was late, and the account spoke of a queue.
#[test]
fn unfinished_delay_from_host_pauses_is_omitted() {
    let began = json!({"seq": 3, "rtt_ns": 3_900_000_000_u64, "threshold_ns": S});
    let pause = |at, host: &str| event(at, None, "pause", &json!({"host": host, "duration_ns": 2 * S}));
    let late = event(13_900_000_000, Some(0), "delay.began", &began);
    let account = |pauses: &[Event], later_rtt_ns: u64| {
        let mut events = vec![opened(0, 0), late.clone()];
        events.extend_from_slice(pauses);
        let base = opened(0, 0).at.as_nanosecond() as i64;
        let mut gatherer = Gatherer::new(&events);
        for (seq, at, rtt_ns) in [(3, 10 * S, 3_900_000_000), (4, 14 * S, later_rtt_ns)] {
            let (sent_ns, rtt_ns) = (base + at as i64, Some(rtt_ns as i64));
            gatherer.sample(&crate::sample::Sample { seq, sent_ns, rtt_ns, ..Default::default() });
        }
        told_as(State::Finished, &events, &gatherer.finish())
    };
    let delayed = |lines: &[Line]| lines.iter().any(|line| line.verdict == Some(Verdict::Delayed));
    // When the reflector stood nobody knows; both together are as long as the wait.
    let both = [pause(13_900_000_000, "local"), pause(13_900_000_000, "remote")];
    assert!(!delayed(&account(&both, 1_000_000)));
    assert!(delayed(&account(&both[..1], 1_000_000)), "half of it was no host's");
    assert!(delayed(&account(&[], 1_000_000)));
    assert!(delayed(&account(&both, S)), "it went on when all ran");
}

/// A starved probe: it did not run for nine tenths of four seconds, in pauses of 45 ms, and its round trips rose from 1 to 450 ms.
#[test]
fn rtt_rise_excludes_host_pauses() {
    const MS: u64 = 1_000_000;
    let account = |paused_ms: u64| {
        let pause = json!({"host": "local", "duration_ns": paused_ms * MS, "reason": "host_scheduling"});
        let pauses = (0..80).map(|n| event(10 * S + 50 * n * MS + 50 * MS, None, "pause", &pause));
        let events: Vec<Event> = std::iter::once(opened(0, 0)).chain(pauses).collect();
        let base = opened(0, 0).at.as_nanosecond() as i64;
        let mut gatherer = Gatherer::new(&events);
        for n in 0..150_i64 {
            let rtt_ns = Some(if (100..140).contains(&n) { 450 } else { 1 } * MS as i64);
            let sent_ns = base + n * S as i64 / 10;
            gatherer.sample(&crate::sample::Sample { sent_ns, rtt_ns, ..Default::default() });
        }
        told_as(State::Finished, &events, &gatherer.finish())
    };
    let rose = |lines: &[Line]| lines.iter().any(|line| line.verdict == Some(Verdict::Delayed));
    assert!(!rose(&account(45)), "{:#?}", account(45));
    let lines = account(10);
    let line = lines
        .iter()
        .find(|line| line.verdict == Some(Verdict::Delayed))
        .expect("a fifth of it was the host's");
    // 450 ms less nine pauses of 10 ms, which the classes of the medians make a little less.
    has(line, &["then 358.6 ms", "what waited for a host to run is left out of these medians"]);
}
