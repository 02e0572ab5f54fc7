//! A stall beside a seam of `--rotate`.

use super::*;
use crate::sample::Sample;

/// What both recordings say of connection 0 at a seam; the silence began at `since`.
fn carried(since: u64, over: &Value) -> Value {
    let absolute = |at: u64| at + 5 * S;
    let mut connection = json!({"connection": 0, "samples": 400, "remote": "10.0.0.4:7007"});
    match over {
        Value::Null => {
            let stall =
                json!({"seq": 7, "outstanding": 3, "threshold_ns": 200_000_000, "since_ns": absolute(since)});
            connection["stall"] = stall;
        }
        over => {
            connection["stall_over"] =
                json!({"since_ns": absolute(since), "over_ns": absolute(since + 3 * S), "waiting": 20});
            connection["stall_over"].as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
        }
    }
    json!({"next": "b", "previous": "a", "samples": 400, "not_sent": 0, "connections": [connection]})
}

/// The first recording, whose seam comes with the first late echo; `is_explained`: so did the explanation.
fn first(over: &Value, is_explained: bool) -> Vec<Event> {
    let mut events = vec![opened(0, 0)];
    events.extend(stall(100 * S, 0, 3 * S, true));
    if is_explained {
        events.push(explained(103 * S, 0, "stall", "path_down", "echoed"));
    }
    events.push(event(103 * S, None, "recording.rotated", &carried(100 * S, over)));
    events
}

fn second(over: &Value) -> Vec<Event> {
    vec![event(103 * S, None, "recording.continues", &carried(100 * S, over))]
}

/// The story of the second one: the late echoes came there, and those that came in time after them.
fn told_with_late_echoes(events: &[Event]) -> Vec<Line> {
    let mut gatherer = Gatherer::new(events);
    let seam_ns = events[0].at.as_nanosecond() as i64;
    for n in 0..600 {
        let sent_ns = seam_ns + (n - 300) * (S as i64) / 100;
        let rtt_ns = Some((seam_ns - sent_ns).max(0) + 1_000_000);
        gatherer.sample(&Sample { sent_ns, rtt_ns, seq: n as u64, ..Sample::default() });
    }
    told_as(State::Finished, events, &gatherer.finish())
}

/// The second one said "round trips fell without a silence ... Verdict: delayed".
#[test]
fn late_echoes_after_rotation_belong_to_stall() {
    let over = json!({"verdict": "path_down", "confidence": "low"});
    let lines = told(&first(&over, true));
    has(
        &lines[1],
        &[
            "stalled for 3 s, then the echo came: 30 samples waited",
            "20 of which have their echoes in the next",
        ],
    );
    assert_eq!((lines[1].verdict, lines[1].confidence), (Some(Verdict::PathDown), Confidence::Low));
    let lines = told_with_late_echoes(&second(&over));
    assert_eq!(lines.len(), 3, "{lines:#?}");
    let phrases = [
        "connection #0 to 10.0.0.4:7007 stalled for 3 s, which was over before this recording began: ",
        "the echoes of 20 samples that waited came here. Verdict: path_down; ",
        "because of what, the recording before says",
    ];
    has(&lines[1], &phrases);
    assert_eq!((lines[1].verdict, lines[1].confidence), (Some(Verdict::PathDown), Confidence::Low));
    has(&lines[2], &["0 unexplained"]);
}

#[test]
fn late_explanation_appears_in_next_recording() {
    let over = json!({});
    let lines = told(&first(&over, false));
    has(&lines[1], &["The next recording says why"]);
    assert_eq!(lines[1].verdict, None);
    has(&lines[2], &["0 unexplained"]);
    let mut events = second(&over);
    events.push(explained(104 * S, 0, "stall", "peer_paused", "echoed"));
    let lines = told_with_late_echoes(&events);
    has(
        &lines[1],
        &["which was over before this recording began", "Verdict: peer_paused, because the first"],
    );
    assert_eq!(lines[1].verdict, Some(Verdict::PeerPaused));
}

#[test]
fn ongoing_stall_defers_explanation_to_next_recording() {
    let mut events = first(&Value::Null, false);
    events.retain(|event| !matches!(event.kind, EventKind::StallEnded { .. }));
    let lines = told(&events);
    has(&lines[1], &["it goes on in the next recording. The next recording says why"]);
    has(&lines[2], &["1 stall, longest silence 3 s, 0 unexplained"]);
}

/// What a recording from before this was carried, or one whose stall nobody saw, has of the time before it is nobody's slow path.
#[test]
fn earlier_samples_do_not_set_levels() {
    let mut events = second(&json!({}));
    if let EventKind::RecordingContinues { carried, .. } = &mut events[0].kind {
        carried.connections[0].stall_over = None;
    }
    let lines = told_with_late_echoes(&events);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    has(&lines[1], &["nothing happened"]);
}

/// The second one said nothing of it, or that round trips had fallen without one that was late.
#[test]
fn path_delay_across_rotation_appears_in_both() {
    let began = json!({"seq": 7, "rtt_ns": S, "threshold_ns": 200_000_000});
    let ended = |verdict: &str| json!({"duration_ns": 9 * S, "samples": 800, "most_ns": 2 * S, "verdict": verdict, "confidence": "low"});
    let seam = json!({"next": "b", "previous": "a", "samples": 400, "not_sent": 0,
        "connections": [{"connection": 0, "samples": 400, "remote": "10.0.0.4:7007"}]});
    let first = [
        opened(0, 0),
        event(100 * S, Some(0), "delay.began", &began),
        event(103 * S, None, "recording.rotated", &seam),
    ];
    let lines = told(&first);
    has(&lines[1], &["was slow for 4 s, and goes on in the next recording", "Verdict: delayed"]);
    for (verdict, is_told) in [("delayed", true), ("local_paused", false)] {
        let second = [
            event(103 * S, None, "recording.continues", &seam),
            event(108 * S, Some(0), "delay.ended", &ended(verdict)),
        ];
        let lines = told(&second);
        let says = lines
            .iter()
            .any(|line| line.statement.contains("connection #0 to 10.0.0.4:7007 was slow for 9 s"));
        assert_eq!(says, is_told, "{lines:#?}");
    }
}
