use super::*;
use serde_json::{Value, json};

mod accounts;
mod attempts;
mod seams;

const S: u64 = 1_000_000_000;

/// An event `at_ns` after 10:00:00, as it stands in a recording.
fn event(at_ns: u64, connection: Option<u32>, kind: &str, fields: &Value) -> Event {
    let start: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
    let at = Timestamp::from_nanosecond(start.as_nanosecond() + i128::from(at_ns)).unwrap();
    let mut value = json!({"at": at, "mono_ns": at_ns + 5 * S, "kind": kind});
    if let Some(id) = connection {
        value["connection"] = id.into();
    }
    value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap_or_else(|e| panic!("{kind} {fields}: {e}"))
}

fn opened(at: u64, id: u32) -> Event {
    let fields = json!({"target": "db:7007", "local": "10.0.0.5:40000", "remote": "10.0.0.4:7007", "connect_ns": 400_000});
    event(at, Some(id), "connection.opened", &fields)
}

fn closed(at: u64, id: u32, cause: &str, errno: i32) -> Event {
    let evidence = json!({"sent": 100, "answered": 97, "outstanding": 3, "silent_ns": 5_400_000_000_u64});
    let fields = json!({"cause": cause, "errno": errno, "age_ns": 40_500 * S, "evidence": evidence});
    event(at, Some(id), "connection.closed", &fields)
}

fn explained(at: u64, id: u32, about: &str, verdict: &str, fresh: &str) -> Event {
    let fields = json!({"about": about, "verdict": verdict, "because": ["the first fact", "the second"], "fresh": fresh});
    event(at, Some(id), "connection.explained", &fields)
}

fn stall(at: u64, id: u32, lasted: u64, recovered: bool) -> [Event; 2] {
    let began = json!({"seq": 7, "outstanding": 3, "threshold_ns": 200_000_000});
    let ended = json!({"duration_ns": lasted, "samples": 30, "recovered": recovered, "retransmits": 3});
    [
        event(at + 200_000_000, Some(id), "stall.began", &began),
        event(at + lasted, Some(id), "stall.ended", &ended),
    ]
}

fn refused(at: u64) -> Event {
    let fields = json!({"target": "db:7007", "errno": 111, "error": "db:7007 refused", "retry_in_ns": 8 * S});
    event(at, None, "connection.refused", &fields)
}

fn told_as(state: State, events: &[Event], gathered: &Gathered) -> Vec<Line> {
    let measured = Measured {
        label: "zone".into(),
        reflector: "10.0.0.4:7007".into(),
        mode: "tcp".into(),
        size: 64,
        interval_ns: Some(S),
        started_at: "2026-11-21T10:00:00Z".parse().unwrap(),
        ended_at: (state == State::Finished).then(|| "2026-11-21T11:00:00Z".parse().unwrap()),
        state,
    };
    tell(&measured, events, gathered)
}

fn told(events: &[Event]) -> Vec<Line> {
    told_as(State::Finished, events, &Gathered::default())
}

#[track_caller]
fn has(line: &Line, phrases: &[&str]) {
    let text = format!("{} | {}", line.statement, line.evidence.join(" | "));
    for phrase in phrases {
        assert!(text.contains(phrase), "no {phrase:?} in {text:?}");
    }
}

#[test]
fn a_lost_connection_its_explanation_and_what_followed() {
    let mut events = vec![opened(0, 0)];
    events.extend(stall(100 * S, 0, 5 * S, false));
    events.push(closed(105 * S, 0, "timed_out", 110));
    events.extend((0..50).map(|i| refused(106 * S + i * 8 * S)));
    events.push(explained(107 * S, 0, "closing", "flow_forgotten", "echoed"));
    events.push(opened(510 * S, 1));
    let lines = told(&events);
    assert_eq!(lines.len(), 4, "{lines:#?}");
    let phrases = [
        "connection #0 to 10.0.0.4:7007 ended after 11h 15m: the kernel gave up retransmitting (errno 110)",
        "Verdict: flow_forgotten, because the first fact; the second",
        "3 samples had no echo",
        "no echo came for 5 s",
        "6m 45s later connection #1",
    ];
    has(&lines[1], &phrases);
    assert_eq!(lines[1].cause, Some(ClosingCause::TimedOut));
    assert_eq!((lines[1].verdict, lines[1].confidence), (Some(Verdict::FlowForgotten), Confidence::Medium));
    has(&lines[2], &["was refused 50 times over 6m 32s, then connected as #1", "50 times: db:7007 refused"]);
    has(&lines[3], &["2 connections (1 timed_out, 1 open), 1 stall, longest silence 5 s, 0 unexplained"]);
}

#[test]
fn unknown_is_an_answer_and_gives_no_confidence() {
    let events = [
        opened(0, 0),
        closed(9 * S, 0, "reset", 104),
        explained(10 * S, 0, "closing", "unknown", "connected"),
    ];
    for (upto, phrase) in
        [(2, "Why is not known: the recording holds no explanation"), (3, "why is not known: the first")]
    {
        let lines = told(&events[..upto]);
        has(&lines[1], &["was reset (RST) (errno 104)", phrase]);
        assert_eq!(lines[1].confidence, Confidence::None);
        has(&lines[2], &["1 unexplained"]);
    }
}

#[test]
fn stall_account_includes_pause_notice_and_baseline() {
    let notice = |state: &str| json!({"host": "remote", "cloud": "azure", "id": "A", "what": "Freeze", "state": state, "not_before": "2026-11-21T10:02:00Z", "notice": {}});
    let mut events = vec![opened(0, 0), event(S, None, "maintenance", &notice("scheduled"))];
    events.extend(stall(100 * S, 0, 3 * S, true));
    events.push(event(
        103 * S,
        None,
        "pause",
        &json!({"host": "remote", "duration_ns": 2 * S, "reason": "steal"}),
    ));
    events.push(explained(104 * S, 0, "stall", "peer_paused", "not_tried"));
    let mut gatherer = Gatherer::new(&events);
    let base = events[0].at.as_nanosecond() as i64;
    for i in 0..200 {
        // The later half is ten times as slow: it must not count as what was usual before.
        let rtt_ns = Some(if i < 100 { 450_000 } else { 4_500_000 });
        gatherer.sample(&crate::sample::Sample {
            sent_ns: base + i * S as i64,
            rtt_ns,
            ..Default::default()
        });
    }
    let lines = told_as(State::Finished, &events, &gatherer.finish());
    assert_eq!(lines.len(), 4, "the pause is told with the stall: {lines:#?}");
    has(&lines[1], &["azure gave notice of Freeze to the reflector's host: scheduled, not before 10:02:00"]);
    let phrases = [
        "stalled for 3 s, then the echo came: 30 samples waited, 3 segments sent again",
        "Verdict: peer_paused",
        "the reflector's host did not run for 2 s: the hypervisor ran others in place of this machine",
        "inside the window of azure's Freeze notice to the reflector's host; whether that caused it is not known",
        "before it: median 450",
        "of 100 round trips",
    ];
    has(&lines[2], &phrases);
    assert_eq!(
        (lines[2].confidence, lines[2].at.to_string().as_str()),
        (Confidence::High, "2026-11-21T10:01:40Z")
    );
    assert!(lines[2].evidence.iter().all(|e| !e.contains("p99")), "100 round trips support no p99");
}

/// A notice for the probe's machine was shown beside a stopped reflector, as if it were the cause.
#[test]
fn notice_explains_only_the_host_it_names() {
    for host in ["local", "remote", "other"] {
        let notice = json!({"host": host, "cloud": "azure", "what": "Freeze", "state": "started", "not_before": "2026-11-21T10:01:40Z", "notice": {}});
        for (verdict, links) in [
            ("peer_paused", host == "remote"),
            ("local_paused", host == "local"),
            ("path_down", host != "other"),
        ] {
            let mut events = vec![opened(0, 0), event(S, None, "maintenance", &notice)];
            events.extend(stall(100 * S, 0, 3 * S, true));
            events.push(explained(104 * S, 0, "stall", verdict, "not_tried"));
            let lines = told(&events);
            let line = lines.iter().find(|line| line.statement.contains("stalled for")).unwrap();
            let linked = line.evidence.iter().any(|e| e.contains("azure's Freeze notice"));
            assert_eq!(linked, links, "{host} {verdict}: {line:?}");
        }
    }
}

#[test]
fn notice_applies_only_inside_its_window() {
    let notice = |at: u64, state: &str| {
        let not_before = (state == "scheduled").then_some("2026-11-21T10:10:00Z");
        let mut fields = json!({"cloud": "gcp", "what": "MIGRATE", "state": state, "notice": {}});
        if let Some(at) = not_before {
            fields["not_before"] = at.into();
        }
        event(at, None, "maintenance", &fields)
    };
    for (at, inside) in [(538, false), (541, true), (900, true), (1_198, true), (1_202, false)] {
        let mut events =
            vec![opened(0, 0), notice(S, "scheduled"), notice(601 * S, "started"), notice(900 * S, "gone")];
        events.extend(stall(at * S, 0, S, true));
        let lines = told(&events);
        let line = lines.iter().find(|line| line.statement.contains("stalled for")).unwrap();
        assert_eq!(
            line.evidence.iter().any(|e| e.contains("gcp's MIGRATE notice")),
            inside,
            "{at}: {line:?}"
        );
    }
}

#[test]
fn connections_ending_together_are_one_line() {
    let mut events: Vec<Event> = (0..4).map(|id| opened(0, id)).collect();
    for (id, at) in [(0, 50 * S), (1, 51 * S), (2, 52_100_000_000), (3, 60 * S)] {
        events.push(closed(at, id, "reset", 104));
        events.push(explained(at, id, "closing", "flow_forgotten", "echoed"));
    }
    let lines = told(&events);
    has(&lines[1], &["3 connections (#0, #1 and #2) ended within 2.1 s: 3 reset", "flow_forgotten for all"]);
    assert_eq!((lines[1].connection, lines[1].cause), (None, Some(ClosingCause::Reset)));
    assert_eq!(lines[1].confidence, Confidence::Low);
    has(&lines[2], &["connection #3"]);
    assert_eq!(lines[2].connection, Some(3));
}

/// The reflector stood still, and 1.2 s after it ran again the path was cut: "4 stalled. Their verdicts differ", and no verdict.
#[test]
fn separate_faults_have_separate_accounts() {
    let mut events = vec![opened(0, 0), opened(0, 1)];
    for (at, lasted, verdict) in
        [(50 * S, 1_300_000_000, "peer_paused"), (52_500_000_000, 2 * S, "path_down")]
    {
        for id in [0, 1] {
            let began = at + u64::from(id) * 20_000_000;
            events.extend(stall(began, id, lasted, true));
            events.push(explained(began + lasted, id, "stall", verdict, "not_tried"));
        }
    }
    events.sort_by_key(|event| event.mono_ns);
    let lines = told(&events);
    has(
        &lines[1],
        &["2 connections (#0 and #1) stalled within 20 ms: 2 stalled. Verdict: peer_paused for all"],
    );
    has(
        &lines[2],
        &["2 connections (#0 and #1) stalled within 20 ms: 2 stalled. Verdict: path_down for all"],
    );
    // Of one fault that two connections meet one after the other there is one account.
    let mut one = vec![opened(0, 0), opened(0, 1)];
    for (id, at) in [(0, 50 * S), (1, 51 * S)] {
        one.extend(stall(at, id, S / 2, true));
        one.push(explained(at + S / 2, id, "stall", "path_down", "not_tried"));
    }
    has(&told(&one)[1], &["2 connections (#0 and #1) stalled within 1 s"]);
}

#[test]
fn verdicts_that_differ_are_not_made_one() {
    let events = [
        opened(0, 0),
        opened(0, 1),
        closed(9 * S, 0, "reset", 104),
        closed(10 * S, 1, "timed_out", 110),
        explained(11 * S, 0, "closing", "flow_forgotten", "echoed"),
        explained(11 * S, 1, "closing", "path_down", "no_answer"),
    ];
    let line = &told(&events)[1];
    has(line, &["2 connections", "verdicts differ: 1 flow_forgotten and 1 path_down"]);
    assert_eq!((line.cause, line.verdict, line.confidence), (None, None, Confidence::None));
}

#[test]
fn uneventful_run_is_one_sentence() {
    let gathered = Gathered { samples: 60, longest_ns: Some(2_100_000), ..Gathered::default() };
    let events = [opened(0, 0)];
    let lines = told_as(State::Finished, &events, &gathered);
    assert_eq!(lines.len(), 3);
    has(&lines[0], &["10.0.0.4:7007 was measured with 64 bytes every 1 s (tcp), for 1h 0m"]);
    has(
        &lines[1],
        &[
            "nothing happened: no stall, no connection lost, every sample was answered, the longest round trip took 2.1 ms",
        ],
    );
    let lost = Gathered { unanswered: 4, ..gathered };
    let lines = told_as(State::Finished, &events, &lost);
    has(&lines[1], &["4 samples got no echo; why is not known"]);
    assert!(!lines[1].statement.contains("nothing happened"));
}

#[test]
fn unfinished_recording_says_so() {
    let mut events = vec![opened(0, 0)];
    events.push(stall(60 * S, 0, 3 * S, true)[0].clone());
    events.push(event(70 * S, None, "note", &json!({"text": "no stamps"})));
    let running = told_as(State::Running, &events, &Gathered::default());
    has(&running[0], &["so far; it is still running"]);
    has(&running[1], &["stalls, for 10 s so far", "Why is not known"]);
    let interrupted = told_as(State::Interrupted, &events, &Gathered::default());
    has(&interrupted[0], &["breaks off at 10:01:10: what came after is not known"]);
    has(&interrupted[1], &["when the recording ends; how it went on is not known"]);
    has(interrupted.last().unwrap(), &["1 whose end nobody saw"]);
}

/// The run of the other tests lasts an hour by its wall clock.
#[test]
fn clock_steps_are_no_part_of_lengths() {
    let step =
        |at_s: u64, by_s: i64| event(at_s * S, None, "clock.stepped", &json!({"step_ns": by_s * S as i64}));
    for (steps, lasted) in [
        (vec![step(10, 60)], "for 59m"),
        (vec![step(10, 3_600), step(20, -3_000)], "for 50m"),
        (vec![step(10, -60)], "for 1h 1m"),
    ] {
        let lines = told(&[vec![opened(0, 0)], steps.clone()].concat());
        assert!(lines[0].statement.contains(lasted), "{}", lines[0].statement);
        assert_eq!(lines.len(), 2 + steps.len(), "each step has its line: {lines:#?}");
    }
    // A stall that goes on until the end began after the step.
    let began = json!({"seq": 70, "outstanding": 1, "threshold_ns": S});
    let events = [opened(0, 0), step(10, -600), event(70 * S, Some(0), "stall.began", &began)];
    let lines = told_as(State::Interrupted, &events, &Gathered::default());
    has(&lines[2], &["had for 1 s when the recording ends"]);
}

#[test]
fn steps_overruns_pauses_addresses_have_own_lines() {
    let mut events = vec![opened(0, 0)];
    events.push(event(10 * S, None, "clock.stepped", &json!({"step_ns": -3 * S as i64})));
    for i in 0..3 {
        let fields = json!({"skipped": 4, "behind_ns": S, "reason": "late"});
        events.push(event((20 + i) * S, Some(0), "schedule.overrun", &fields));
    }
    events.push(event(40 * S, None, "address.changed", &json!({"from": "10.0.0.4", "to": "10.0.0.9"})));
    events.extend((0..7).map(|i| {
        event((50 + i) * S, None, "pause", &json!({"host": "local", "duration_ns": (i + 50) * 1_000_000}))
    }));
    let lines = told(&events);
    assert_eq!(lines.len(), 6, "{lines:#?}");
    has(&lines[1], &["set back by 3 s", "round trips and durations do not"]);
    has(&lines[2], &["12 samples due were not sent: this process did not run in time"]);
    // What a recording does not name is where the target's name leads.
    has(&lines[3], &["led to 10.0.0.9, no longer to 10.0.0.4"]);
    has(&lines[4], &["this host did not run 7 times", "for 50 ms to 56 ms, 371 ms in all"]);
}

#[test]
fn an_end_tells_what_was_different_afterwards() {
    let change = |what: &str, from: &str, to: &str| {
        event(52 * S, Some(1), "address.changed", &json!({"what": what, "from": from, "to": to}))
    };
    let events = [
        opened(0, 0),
        closed(50 * S, 0, "timed_out", 110),
        explained(51 * S, 0, "closing", "path_down", "no_answer"),
        opened(52 * S, 1),
        change("interface", "eth0", "eth1"),
        change("virtual_function", "yes", "no"),
        event(3_000 * S, None, "address.changed", &json!({"what": "mtu", "from": "9000", "to": "1500"})),
    ];
    let lines = told(&events);
    let facts = lines[1].evidence.join("\n");
    assert!(facts.contains("for connection #1 packets left by interface eth1, no longer by eth0"), "{facts}");
    assert!(!facts.contains("9000"), "that was an hour later: {facts}");
    // That something was different is no verdict.
    assert_eq!(lines[1].verdict, Some(Verdict::PathDown));
    has(&lines[2], &["packets left by interface eth1, no longer by eth0"]);
    has(&lines[3], &["no virtual function of the card any more"]);
    has(&lines[4], &["largest packet was 1500 bytes, no longer 9000"]);
}

#[test]
fn connection_and_successor_fail_separately() {
    let mut events = vec![opened(0, 0), closed(50 * S, 0, "reset", 104), opened(50 * S + 1, 1)];
    events.extend(stall(51 * S, 1, S, true));
    events.push(event(52 * S, None, "pause", &json!({"host": "remote", "duration_ns": S})));
    let lines = told(&events);
    has(&lines[1], &["connection #0 to 10.0.0.4:7007 ended"]);
    assert!(
        lines[1].evidence.iter().all(|e| !e.contains("did not run")),
        "the pause came later: {:?}",
        lines[1]
    );
    has(&lines[2], &["connection #1 to 10.0.0.4:7007 stalled for 1 s"]);
}

#[test]
fn replacement_connections_are_matched_by_lane() {
    let opened = |at, id, lane: u32| {
        let mut event = opened(at, id);
        let EventKind::ConnectionOpened { lane: of, .. } = &mut event.kind else { unreachable!() };
        *of = Some(lane);
        event
    };
    let refused = |at, lane: u32| {
        let fields =
            json!({"target": "db:7007", "errno": 111, "error": "refused", "retry_in_ns": S, "lane": lane});
        event(at, None, "connection.refused", &fields)
    };
    // Lane 0 ends first and is back last.
    let events = [
        opened(0, 0, 0),
        opened(0, 1, 1),
        closed(10 * S, 0, "reset", 104),
        closed(11 * S, 1, "reset", 104),
        refused(12 * S, 0),
        refused(12 * S + 1, 1),
        opened(13 * S, 2, 1),
        refused(14 * S, 0),
        opened(20 * S, 3, 0),
    ];
    let joined = join(&events);
    let again: Vec<_> = joined.closings.iter().map(|c| c.again.map(|(_, id)| id)).collect();
    assert_eq!(again, [Some(3), Some(2)]);
    let lines = told(&events);
    let tries = lines.iter().find(|line| line.statement.contains("refused")).expect("a line");
    has(
        tries,
        &["was refused 3 times over 2 s, then connected as #2 and #3, the last 8 s after the first attempt"],
    );
}

#[test]
fn what_the_reflector_said_makes_a_verdict_surer() {
    let told_with = |cause: &str, errno, verdict: &str, reflector: &Value| {
        let fields = json!({"about": "closing", "verdict": verdict, "because": ["a fact"], "fresh": "echoed", "reflector": reflector});
        let events = [
            opened(0, 0),
            closed(9 * S, 0, cause, errno),
            explained(10 * S, 0, "closing", "unknown", "echoed"),
            // It could be asked later only: the last explanation counts.
            event(11 * S, Some(0), "connection.explained", &fields),
        ];
        let line = told(&events)[1].clone();
        assert_eq!(line.verdict.map(Verdict::name), Some(verdict));
        line.confidence
    };
    let open = json!({"standing": "open", "last_seq": 96, "received_ns": 5, "unsent_bytes": 0, "unacked": 0});
    assert_eq!(told_with("reset", 104, "flow_forgotten", &open), Confidence::Medium);
    let idle = json!({"standing": "closed_idle", "last_seq": 96});
    assert_eq!(told_with("peer_closed", 0, "idle_expired", &idle), Confidence::High);
    let unknown = json!({"standing": "not_known", "began_ns": 5});
    // A younger reflector may be another backend.
    assert_eq!(told_with("reset", 104, "peer_down", &unknown), Confidence::Low);
    assert_eq!(told_with("reset", 104, "flow_forgotten", &unknown), Confidence::Low);
}

fn delay(at: u64, id: u32, lasted: u64, most: u64, ways: Option<(u64, u64)>) -> [Event; 2] {
    let began = json!({"seq": 7, "rtt_ns": 300_000_000, "threshold_ns": 200_000_000});
    let mut ended = json!({"duration_ns": lasted, "samples": 30, "most_ns": most, "verdict": "delayed", "confidence": "medium"});
    if let Some((there, back)) = ways {
        (ended["forward_ns"], ended["back_ns"]) = (there.into(), back.into());
        (ended["direction"], ended["confidence"]) = ("return".into(), "high".into());
    }
    [
        event(at + 300_000_000, Some(id), "delay.began", &began),
        // Five samples in time came first.
        event(at + lasted + S / 2, Some(id), "delay.ended", &ended),
    ]
}

#[test]
fn late_echoes_are_reported_as_delay() {
    let mut events = vec![opened(0, 0)];
    events.extend(delay(100 * S, 0, 6 * S, 3 * S, Some((S / 50, 29 * S / 10))));
    events.extend(delay(110 * S, 0, 2 * S, S, None));
    let lines = told(&events);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    let phrases = [
        "connection #0 to 10.0.0.4:7007 was slow twice within 12 s: 60 echoes took up to 3 s, and came",
        "Verdict: delayed, because echoes kept coming, and the slowest was late by 20 ms on the way there and 2.9 s on the way back",
        "not every one of them was slow on the same way",
    ];
    has(&lines[1], &phrases);
    assert_eq!((lines[1].verdict, lines[1].confidence), (Some(Verdict::Delayed), Confidence::Medium));
    assert_eq!(lines[1].at.to_string(), "2026-11-21T10:01:40Z");
    // One that goes on.
    let lines = told(&events[..2]);
    has(&lines[1], &["was slow for", "and still was when last heard of", "on which way is not known"]);
    // Two connections, long after one another.
    let mut apart = vec![opened(0, 0), opened(0, 1)];
    apart.extend(delay(100 * S, 0, S, S, None));
    apart.extend(delay(200 * S, 1, S, S, None));
    let lines = told(&apart);
    assert_eq!((lines.len(), lines[1].connection, lines[2].connection), (4, Some(0), Some(1)));
    let mut together = vec![opened(0, 0), opened(0, 1)];
    together.extend([0, 1].into_iter().flat_map(|id| delay(100 * S, id, S, S, None)));
    together.sort_by_key(|event| event.mono_ns);
    let lines = told(&together);
    has(&lines[1], &["2 connections (#0 and #1) were slow twice within"]);
    assert_eq!((lines.len(), lines[1].connection), (3, None));
}

#[test]
fn advice_follows_verdict_or_candidates() {
    let line = |fields: Value| {
        let mut all = json!({"about": "closing", "because": ["a fact"], "fresh": "echoed"});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let explained = event(10 * S, Some(0), "connection.explained", &all);
        told(&[opened(0, 0), closed(9 * S, 0, "timed_out", 110), explained])[1].clone()
    };
    let back = line(json!({"verdict": "path_down", "direction": "return", "confidence": "high"}));
    has(&back, &["to look at next: what drops or holds packets on the way from the reflector to here"]);
    let could_be = json!(["flow_forgotten", "path_down"]);
    let open = line(json!({"verdict": "unknown", "could_be": could_be, "confidence": "none"}));
    has(&open, &["to tell them apart: whether other connections on this path were silent"]);
    let nothing = line(json!({"verdict": "unknown", "confidence": "none"}));
    assert!(nothing.evidence.iter().all(|fact| !fact.starts_with("to ")), "{nothing:?}");
}
