//! Of every connection the samples sent are its rows and its told losses: `verify` holds that law.

use super::*;
use crate::{Recorder, verify};
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind, Evidence, LOST_BEHIND};
use serde_json::json;

/// A recording of these samples, and of these events after them, in this mode.
fn recording(mode: &str, rows: &[(u32, u64)], events: &[(Option<u32>, EventKind)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = manifest();
    manifest.probe = json!({ "mode": mode });
    let mut recorder = Recorder::create_with(dir.path(), manifest, SMALL).unwrap();
    for &(connection, seq) in rows {
        recorder.push(&Sample { connection, seq, ..sample(0) }).unwrap();
    }
    for (connection, kind) in events {
        let at = super::manifest().started_at;
        let event = Event { at, mono_ns: 1, connection: *connection, kind: kind.clone() };
        recorder.event(&event).unwrap();
    }
    recorder.finish(super::manifest().started_at, SECOND).unwrap();
    dir
}

fn closed(connection: u32, sent: u64) -> (Option<u32>, EventKind) {
    let evidence = Evidence { sent, ..Evidence::default() };
    let (cause, verdict, errno, age_ns) = (ClosingCause::Finished, None, None, 1);
    (Some(connection), EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence })
}

fn lost(connection: Option<u32>, lost: u64) -> (Option<u32>, EventKind) {
    (connection, EventKind::RecordingOverflowed { lost, reason: Some(LOST_BEHIND.to_owned()) })
}

/// The laws it breaks, and the first case of each.
fn findings(dir: &tempfile::TempDir) -> Vec<String> {
    verify(dir.path(), |_| {}).unwrap().findings.iter().map(|finding| finding.first.clone()).collect()
}

fn rows(connection: u32, seqs: std::ops::Range<u64>) -> Vec<(u32, u64)> {
    seqs.map(|seq| (connection, seq)).collect()
}

/// 1,181 samples of a connection had no row, and `verify` said "sound".
#[test]
fn row_mismatch_names_connection_and_count() {
    let of = [rows(3, 0..20), rows(4, 0..5)].concat();
    assert_eq!(findings(&recording("tcp", &of, &[closed(3, 20), closed(4, 5)])), Vec::<String>::new());
    assert_eq!(
        findings(&recording("tcp", &of, &[closed(3, 27), closed(4, 5)])),
        ["connection 3: 27 sent, 20 rows, 0 recorded as lost or in flight: 7 missing"]
    );
    assert_eq!(
        findings(&recording("tcp", &of, &[closed(3, 20), closed(4, 3)])),
        ["connection 4: 3 sent, 5 rows, 0 recorded as lost or in flight: 2 too many"]
    );
    let broken = verify(recording("tcp", &of, &[closed(3, 27), closed(4, 6)]).path(), |_| {}).unwrap();
    assert!(!broken.is_sound() && broken.findings[0].count == 2, "{broken:?}");
}

#[test]
fn recorded_loss_is_not_a_missing_row() {
    let of = rows(0, 0..20);
    assert!(findings(&recording("tcp", &of, &[closed(0, 27), lost(Some(0), 7)])).is_empty());
    // As older recordings tell it, and losses of too many connections to name each.
    assert!(findings(&recording("tcp", &of, &[closed(0, 27), lost(None, 7)])).is_empty());
    assert_eq!(
        findings(&recording("tcp", &of, &[closed(0, 27), lost(Some(0), 4), lost(Some(1), 3)])).len(),
        1,
        "another connection's losses are not this one's"
    );
    assert_eq!(
        findings(&recording("tcp", &of, &[closed(0, 27), lost(None, 4)])),
        ["connection 0: 27 sent, 20 rows, 0 recorded as lost or in flight: 3 missing"]
    );
}

#[test]
fn unclosed_connection_is_judged_by_its_rows() {
    assert!(findings(&recording("tcp", &rows(0, 0..9), &[])).is_empty());
    let gap = [rows(0, 0..9), rows(0, 12..14)].concat();
    assert_eq!(
        findings(&recording("tcp", &gap, &[])),
        ["connection 0: 14 sent, 11 rows, 0 recorded as lost or in flight: 3 missing"]
    );
    assert!(findings(&recording("tcp", &gap, &[lost(Some(0), 3)])).is_empty());
    // A datagram that is lost is resolved a minute later than those sent after it.
    assert!(findings(&recording("udp", &gap, &[])).is_empty());
}

#[test]
fn older_connect_recordings_may_claim_zero_sent() {
    assert!(findings(&recording("connect", &rows(0, 0..1), &[closed(0, 0)])).is_empty());
    assert!(findings(&recording("connect", &rows(0, 0..1), &[closed(0, 1)])).is_empty());
    assert_eq!(findings(&recording("connect", &[], &[closed(0, 1)])).len(), 1);
}

#[test]
fn overflowing_loss_counts_are_a_finding() {
    let events = [
        closed(0, 22),
        lost(Some(0), u64::MAX / 2 + 1),
        lost(Some(0), u64::MAX / 2 + 1),
        lost(None, u64::MAX),
    ];
    assert!(!findings(&recording("tcp", &rows(0, 0..20), &events)).is_empty());
}

#[test]
fn due_equals_rows_losses_and_skips() {
    let overrun = |skipped| {
        (None, EventKind::ScheduleOverrun { skipped, behind_ns: 1, reason: "unconnected".to_owned() })
    };
    let ended = |due| (None, EventKind::ScheduleEnded { due });
    let events = |due| [closed(0, 22), lost(Some(0), 2), overrun(5), overrun(3), ended(due)];
    assert!(findings(&recording("tcp", &rows(0, 0..20), &events(30))).is_empty());
    assert_eq!(
        findings(&recording("tcp", &rows(0, 0..20), &events(31))),
        ["31 due, 20 rows, 2 recorded as lost or in flight, 8 recorded as not sent: 1 missing"]
    );
    assert_eq!(
        findings(&recording("tcp", &rows(0, 0..20), &events(28))),
        ["28 due, 20 rows, 2 recorded as lost or in flight, 8 recorded as not sent: 2 too many"]
    );
}

/// Samples that were out when the run ended have no row, and are not lost.
#[test]
fn samples_in_flight_are_accounted_for() {
    let in_flight = |samples| (Some(0), EventKind::SamplesInFlight { samples });
    let events = |samples| [in_flight(samples), closed(0, 22), (None, EventKind::ScheduleEnded { due: 22 })];
    assert_eq!(findings(&recording("tcp", &rows(0, 0..20), &events(2))), Vec::<String>::new());
    assert_eq!(findings(&recording("tcp", &rows(0, 0..20), &events(1))).len(), 2);
}

/// Of two probing threads the schedule of one ended just before a seam, and was missing in what had been due after it: "40906 too
/// many".
#[test]
fn seam_carries_due_of_ended_thread() {
    let opened = |connection| fathom_core::event::CarriedConnection {
        connection,
        samples: 10,
        lane: None,
        remote: None,
        stall: None,
        stall_over: None,
    };
    let carried = |due| fathom_core::event::Carried {
        samples: 30,
        due,
        connections: vec![opened(1)],
        ..fathom_core::event::Carried::default()
    };
    let continues =
        |due| (None, EventKind::RecordingContinues { previous: String::new(), carried: carried(due) });
    let ended = (None, EventKind::ScheduleEnded { due: 15 });
    let after = |due| recording("tcp", &rows(1, 10..15), &[continues(due), closed(1, 15), ended.clone()]);
    assert_eq!(findings(&after(20)), Vec::<String>::new());
    assert_eq!(
        findings(&after(0)),
        ["15 due, 5 rows, 30 recorded as lost or in flight, 0 recorded as not sent: 20 too many"]
    );
    // Before it, what stands there is what was due.
    let rotated = (None, EventKind::RecordingRotated { next: String::new(), carried: carried(20) });
    let before = [closed(0, 20), (None, EventKind::ScheduleEnded { due: 20 }), rotated];
    let all: Vec<(u32, u64)> = rows(0, 0..20).into_iter().chain(rows(1, 0..10)).collect();
    assert_eq!(findings(&recording("tcp", &all, &before)), Vec::<String>::new());
}
