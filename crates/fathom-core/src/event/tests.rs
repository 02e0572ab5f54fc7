use super::*;

#[test]
fn a_line_reads_as_the_format_says() {
    let event = Event {
        at: "2026-11-21T10:00:00.000000005Z".parse().unwrap(),
        mono_ns: 7,
        connection: Some(2),
        kind: EventKind::StallBegan { seq: 5, outstanding: 3, threshold_ns: 200_000_000 },
    };
    let line = serde_json::to_string(&event).unwrap();
    assert_eq!(
        line,
        r#"{"at":"2026-11-21T10:00:00.000000005Z","mono_ns":7,"connection":2,"kind":"stall.began","seq":5,"outstanding":3,"threshold_ns":200000000}"#
    );
    assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
}

#[test]
fn a_peer_report_reads_as_the_format_says() {
    let head = r#"{"at":"2026-11-21T10:00:00Z","mono_ns":7,"connection":2,"kind":"connection.explained","about":"closing","verdict":"path_down","direction":"return","because":["a fact"],"fresh":"no_answer""#;
    for tail in [
        "}",
        r#","reflector":{"standing":"open","last_seq":41,"received_ns":5,"unsent_bytes":0,"unacked":3}}"#,
        r#","reflector":{"standing":"not_known","began_ns":5}}"#,
    ] {
        let line = format!("{head}{tail}");
        let event: Event = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }
}

#[test]
fn the_name_is_the_one_in_the_file() {
    let kinds = [
        EventKind::RecordingStarted {},
        EventKind::RecordingEnded { samples: 0, error: None },
        EventKind::ClockStepped { step_ns: -5 },
        EventKind::Note { text: String::new() },
        EventKind::Pause { host: "local".into(), duration_ns: 1, reason: None },
        EventKind::EchoDuplicated { seq: 0, count: 1 },
    ];
    for kind in kinds {
        let written = serde_json::to_value(&kind).unwrap();
        assert_eq!(written["kind"], kind.name());
    }
}
