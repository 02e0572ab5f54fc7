//! What closes something (a connection, the schedule, the recording) is told once and stays as it was written: doubled,
//! taken out or changed in any number it makes a recording that is not sound.

use super::*;
use crate::{Recorder, recover, verify};
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind, Evidence, LOST_BEHIND, TcpInfo};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;

const CLOSING: [&str; 4] = ["connection.closed", "schedule.ended", "recording.ended", "recording.recovered"];

/// What was sent on a connection, and what became of it.
#[derive(Debug, Clone, Copy)]
struct Life {
    answered: u64,
    unanswered: u64,
    lost: u64,
}

fn event(at_s: u64, connection: Option<u32>, kind: EventKind) -> Event {
    Event { at: manifest().started_at, mono_ns: at_s * SECOND, connection, kind }
}

/// A run of connections one after the other, of which some samples were not sent; a killed one is recovered.
fn run(dir: &Path, lives: &[Life], not_sent: u64, killed: bool) {
    let mut manifest = manifest();
    manifest.probe = json!({ "mode": "tcp" });
    let mut recorder = Recorder::create_with(dir, manifest, SMALL).unwrap();
    let (mut at_s, mut due) = (0, not_sent);
    for (connection, life) in (0..).zip(lives) {
        at_s += 1;
        let [target, local, remote] = ["t", "l", "r"].map(String::from);
        let kind = EventKind::ConnectionOpened {
            target,
            local,
            remote,
            connect_ns: 70_000,
            tls_ns: None,
            interface: None,
            lane: Some(0),
        };
        recorder.event(&event(at_s, Some(connection), kind)).unwrap();
        for seq in 0..life.answered + life.unanswered {
            let flags = if seq < life.answered { Flags::default() } else { Flags::UNANSWERED };
            let rtt_ns = (seq < life.answered).then_some(50_000);
            recorder.push(&Sample { connection, seq, size: 64, rtt_ns, flags, ..sample(0) }).unwrap();
        }
        let evidence = Evidence {
            sent: life.answered + life.unanswered + life.lost,
            answered: life.answered,
            last_answered_seq: life.answered.checked_sub(1),
            outstanding: life.unanswered,
            silent_ns: Some(3 * SECOND),
            error: None,
            tcp: Some(Box::new(TcpInfo {
                srtt_us: 51,
                rto_us: 201_000,
                total_retrans: 2,
                ..TcpInfo::default()
            })),
        };
        due += evidence.sent;
        let (cause, verdict, errno, age_ns) = (ClosingCause::Reset, None, Some(104), 9 * SECOND);
        let kind = EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence };
        recorder.event(&event(at_s, Some(connection), kind)).unwrap();
        if life.lost > 0 {
            let reason = Some(LOST_BEHIND.to_owned());
            let kind = EventKind::RecordingOverflowed { lost: life.lost, reason };
            recorder.event(&event(at_s, Some(connection), kind)).unwrap();
        }
        recorder.flush(at_s * SECOND).unwrap();
    }
    if not_sent > 0 {
        let reason = "unconnected".to_owned();
        let kind = EventKind::ScheduleOverrun { skipped: not_sent, behind_ns: 1, reason };
        recorder.event(&event(at_s, None, kind)).unwrap();
    }
    recorder.event(&event(at_s, None, EventKind::ScheduleEnded { due })).unwrap();
    if killed {
        drop(recorder);
        recover(dir, super::manifest().started_at).unwrap();
    } else {
        recorder.finish(super::manifest().started_at, (at_s + 1) * SECOND).unwrap();
    }
}

/// The numbers in a value, as the ways to them.
fn numbers(value: &Value, way: String, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(way),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| numbers(field, format!("{way}/{name}"), found));
        }
        _ => {}
    }
}

/// Does to one closing event what `what` says: 0 doubles it, 1 takes it out, and from 2 on one of its numbers is changed.
fn spoil(dir: &Path, which: usize, what: usize, by: u64) -> String {
    let path = dir.join("events.jsonl");
    let log = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
    let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["kind"].as_str().unwrap().to_owned();
    let closing: Vec<usize> =
        (0..lines.len()).filter(|&at| CLOSING.contains(&kind(&lines[at]).as_str())).collect();
    let at = closing[which % closing.len()];
    let mut value: Value = serde_json::from_str(&lines[at]).unwrap();
    let mut ways = Vec::new();
    numbers(&value, String::new(), &mut ways);
    let told = match what % (2 + ways.len()) {
        0 => {
            lines.insert(at, lines[at].clone());
            format!("doubled {}", lines[at])
        }
        1 => format!("took out {}", lines.remove(at)),
        n => {
            let number = value.pointer_mut(&ways[n - 2]).unwrap();
            *number = number.as_u64().unwrap().wrapping_add(by).into();
            lines[at] = value.to_string();
            format!("changed {} by {by} in {}", ways[n - 2], lines[at])
        }
    };
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    told
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let life = (0u64..30, 0u64..4, 0u64..4);
    let life = life.prop_map(|(answered, unanswered, lost)| Life { answered, unanswered, lost });
    prop::collection::vec(life, 1..5)
}

/// A closing event of any run, doubled, taken out or changed.
fn tampering() -> impl Strategy<Value = (Vec<Life>, u64, bool, usize, usize, u64)> {
    (lives(), 0u64..5, any::<bool>(), any::<usize>(), any::<usize>(), 1u64..1_000)
}

fn tampering_is_found((lives, not_sent, killed, which, what, by): (Vec<Life>, u64, bool, usize, usize, u64)) {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &lives, not_sent, killed);
    let found = verify(dir.path(), |_| {}).unwrap();
    assert!(found.is_sound(), "as it was written: {found:?}");
    let told = spoil(dir.path(), which, what, by);
    assert!(!verify(dir.path(), |_| {}).unwrap().is_sound(), "{told}");
}

/// Older recordings have no sum over their event log: what their laws tell is found there too.
fn tampering_is_found_without_checksum(lives: &[Life], which: usize, what: usize) {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), lives, 0, false);
    let path = dir.path().join("recording.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("events").unwrap();
    fs::write(&path, manifest.to_string()).unwrap();
    let found = verify(dir.path(), |_| {}).unwrap();
    assert!(found.is_sound(), "{found:?}");
    let told = spoil(dir.path(), which % lives.len(), what, 1);
    assert!(!verify(dir.path(), |_| {}).unwrap().is_sound(), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Doubled, removed or changed closing events passed as sound.
    #[test]
    fn tampered_closing_event_is_found(tampering in tampering()) {
        tampering_is_found(tampering);
    }

    #[test]
    fn missing_or_repeated_end_is_found_without_checksum(lives in lives(), which: usize, what in 0usize..2) {
        tampering_is_found_without_checksum(&lives, which, what);
    }
}

mod acceptance {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn tampered_closing_event_is_found(tampering in tampering()) {
            tampering_is_found(tampering);
        }

        #[test]
        fn missing_or_repeated_end_is_found_without_checksum(lives in lives(), which: usize, what in 0usize..2) {
            tampering_is_found_without_checksum(&lives, which, what);
        }
    }
}
