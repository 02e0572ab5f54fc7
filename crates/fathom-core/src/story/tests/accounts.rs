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
