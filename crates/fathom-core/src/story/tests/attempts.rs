//! Attempts to connect that hang, or that this host could not begin.

use super::*;

/// The story of nine seconds without any connection was "Nothing happened".
#[test]
fn hanging_attempts_are_told_with_their_end() {
    let hang = |at, waited: u64, attempts: u64| {
        let fields = json!({"target": "db:7007", "remote": "10.0.0.9:7007", "attempts": attempts,
            "waited_ns": waited, "latest_waited_ns": S});
        event(at, None, "connection.unanswered", &fields)
    };
    let hanging = [opened(S, 0), hang(12 * S, 2 * S, 3), hang(18 * S, 8 * S, 16)];
    let lines = told(&[&hanging[..], &[opened(19 * S, 1)]].concat());
    has(
        &lines[1],
        &[
            "no new connection to db:7007 could be made for 9 s: no attempt was answered, then connected as #1",
            "10.0.0.9:7007 did not answer: 16 attempts",
        ],
    );
    has(&told(&hanging)[1], &["for 8 s", "not connected by the end of the recording"]);
    // An attempt that fails after others were made says nothing about the time since.
    let fields = json!({"target": "db:7007", "errno": 110, "error": "timed out", "waited_ns": 100 * S, "retry_in_ns": S});
    let late = event(110 * S, None, "connection.refused", &fields);
    let lines = told(&[&hanging[..], &[opened(19 * S, 1), late]].concat());
    let of_tries = lines.iter().filter(|line| line.statement.contains("connection to")).count();
    assert_eq!(of_tries, 1, "{lines:?}");
    has(&lines[1], &["could not be reached: 1 attempt failed, then connected as #1", "once: timed out"]);
}

/// A host without a free port was asked "Is its server still there?".
#[test]
fn local_failures_have_their_own_verdict() {
    let failed = |at, local: bool| {
        let fields =
            json!({"target": "db:7007", "errno": 99, "error": "no port", "retry_in_ns": S, "local": local});
        event(at, None, "connection.refused", &fields)
    };
    let events = [failed(S, true), failed(2 * S, true), failed(3 * S, false), opened(4 * S, 0)];
    let lines = told(&events);
    let lines: Vec<&Line> = lines.iter().filter(|line| line.statement.contains("db:7007")).collect();
    has(
        lines[0],
        &["this host could not begin a connection to db:7007: 2 attempts failed", "Verdict: local"],
    );
    assert_eq!((lines[0].verdict, lines[0].confidence), (Some(Verdict::Local), Confidence::High));
    has(lines[1], &["could not be reached: 1 attempt failed, then connected as #0"]);
    assert_eq!(lines[1].verdict, None);
}
