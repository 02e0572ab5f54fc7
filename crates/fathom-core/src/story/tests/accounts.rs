//! What the accounts of the 51 kinds of faults were read for: nothing that happened is left out, and each reads as a
//! colleague's would.

use super::*;

/// Row 1 of issue 14: such a recording was told as "nothing happened", with high confidence.
#[test]
fn a_stall_that_goes_on_when_the_probe_closes_the_connection_is_told() {
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
fn datagrams_that_were_lost_are_told_with_their_way() {
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
        ((0, 0, 3), "3 datagrams on connection #0 were lost; on which way nobody can say"),
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
        &["this host did not run for 80 ms", "it was able to run, and the host ran others in its place"],
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
fn what_waits_for_a_slow_server_at_its_end_is_told_with_the_delay() {
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
