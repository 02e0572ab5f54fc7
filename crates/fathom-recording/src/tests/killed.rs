//! What `kill -9` and a power failure leave: `verify` names it and cries no wolf, and after recovery every sample that was
//! sent is a row or a told loss.

use super::*;
use crate::disk::{Disk, RealDisk};
use crate::events::Entry;
use crate::recover::recover_on;
use crate::{Recorder, recover, verify};
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind, Evidence};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MS: u64 = 1_000_000;

/// Counts writes.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Disk for Counting {
    fn write(&self, file: &File, parts: &[&[u8]]) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        RealDisk.write(file, parts)
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn event(connection: Option<u32>, mono_ns: u64, kind: EventKind) -> Event {
    Event { at: manifest().started_at, mono_ns, connection, kind }
}

fn closed(connection: u32, sent: u64, mono_ns: u64) -> Event {
    let (cause, verdict, errno, age_ns) = (ClosingCause::Finished, None, None, 1);
    let evidence = Evidence { sent, ..Evidence::default() };
    let kind = EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence };
    event(Some(connection), mono_ns, kind)
}

fn recorder(disk: &Arc<Counting>, dir: &Path, mode: &str) -> Recorder {
    let mut manifest = manifest();
    manifest.probe = serde_json::json!({ "mode": mode });
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    Recorder::create_on(disk, &dir.join("r"), manifest, Options::default()).unwrap()
}

fn push(recorder: &mut Recorder, connection: u32, seqs: std::ops::Range<u64>) {
    seqs.for_each(|seq| recorder.push(&Sample { connection, seq, ..sample(0) }).unwrap());
}

fn findings(dir: &Path) -> Vec<String> {
    verify(dir, |_| {}).unwrap().findings.into_iter().map(|finding| finding.first).collect()
}

fn losses(dir: &Path) -> Vec<(Option<u32>, u64, Option<String>)> {
    let lost = |entry| match entry {
        Ok(Entry::Known(Event {
            connection, kind: EventKind::RecordingOverflowed { lost, reason }, ..
        })) => Some((connection, lost, reason)),
        _ => None,
    };
    Recording::open(dir).unwrap().events().unwrap().filter_map(lost).collect()
}

const INTERRUPTED: &str = "it was interrupted: what it sent in its last 1.5 s may be missing, and in the time for which its host or disk held it up; `fathom recording recover` puts it in order";

/// Kills after each `every`th connection of some.
fn kills_keep_rows_of_closed_connections(every: usize) {
    for (course, every_ms) in [1, 7, 40, 300].into_iter().enumerate() {
        for connections in some_of(0..60, every, 5 * course).map(|connections| connections as u32) {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("r");
            let mut recorder = recorder(&Arc::default(), home.path(), "connect");
            let mut flushed_ms = 0;
            for connection in 0..connections {
                let now_ms = u64::from(connection) * every_ms;
                push(&mut recorder, connection, 0..1);
                recorder.event(&closed(connection, 1, now_ms * MS)).unwrap();
                if now_ms >= flushed_ms + 250 {
                    flushed_ms = now_ms;
                    recorder.flush(now_ms * MS).unwrap();
                }
            }
            // As it is killed: nothing more is written.
            drop(recorder);
            let case = format!("{connections} connections, every {every_ms} ms");
            assert_eq!(findings(&dir), [INTERRUPTED], "{case}");
            let ends = Recording::open(&dir).unwrap().events().unwrap().flatten();
            let ends =
                ends.filter(|e| e.known().is_some_and(|e| e.kind.name() == "connection.closed")).count();
            let lost_ms = (connections as usize - ends) as u64 * every_ms;
            assert!(ends <= read(&dir).len() && lost_ms <= 250 + every_ms, "{case}: {ends} ends");
            assert!(recover_on(&Counting::default(), &dir, manifest().started_at).unwrap().needed);
            assert_eq!((findings(&dir), losses(&dir)), (vec![], vec![]), "{case}");
        }
    }
}

/// With a connection for each sample a kill nearly always left "connection 37: 1 sent, 0 rows: 1 missing", also after
/// `recover`: the end was on the disk at once, and the row 250 ms later.
#[test]
fn kill_keeps_rows_of_closed_connections() {
    kills_keep_rows_of_closed_connections(2 * SOME);
}

#[test]
fn ends_that_come_fast_are_written_in_batches() {
    let home = tempfile::tempdir().unwrap();
    let disk = Arc::new(Counting::default());
    let mut recorder = recorder(&disk, home.path(), "connect");
    let before = disk.0.load(Ordering::Relaxed);
    for connection in 0..1_000 {
        let now_ns = u64::from(connection) * MS;
        push(&mut recorder, connection, 0..1);
        recorder.event(&closed(connection, 1, now_ns)).unwrap();
    }
    let writes = disk.0.load(Ordering::Relaxed) - before;
    // Ten batches of rows, each with the events behind them; not a thousand.
    assert!(writes <= 2 * 10 + 10, "{writes} writes in a second");
    assert_eq!(recorder.finish(manifest().started_at, SECOND).unwrap(), 1_000);
    assert_eq!(findings(&home.path().join("r")), Vec::<String>::new());
}

/// Two files are synced one after the other, so that a power failure may keep the end and not the rows.
#[test]
fn recovery_attributes_only_recent_losses_to_crash() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = recorder(&Arc::default(), home.path(), "tcp");
    push(&mut recorder, 0, 0..20);
    push(&mut recorder, 1, 0..3);
    recorder.flush(SECOND).unwrap();
    recorder.event(&closed(0, 20, SECOND)).unwrap();
    recorder.event(&closed(1, 5, 60 * SECOND)).unwrap();
    recorder.event(&closed(2, 4, 61 * SECOND)).unwrap();
    recorder.event(&event(None, 61 * SECOND, EventKind::ScheduleEnded { due: 35 })).unwrap();
    drop(recorder);
    assert_eq!(findings(&dir), [INTERRUPTED]);
    let recovery = recover(&dir, manifest().started_at).unwrap();
    assert_eq!((recovery.rows, recovery.lost), (23, 12));
    let crash = || Some("crash".to_owned());
    assert_eq!(losses(&dir), [(Some(1), 2, crash()), (Some(2), 4, crash()), (None, 6, crash())]);
    assert_eq!(findings(&dir), Vec::<String>::new());
    assert!(!recover(&dir, manifest().started_at).unwrap().needed);

    // A row of a minute before the crash was lost by something else, and is not excused.
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = self::recorder(&Arc::default(), home.path(), "tcp");
    push(&mut recorder, 0, 0..19);
    recorder.flush(SECOND).unwrap();
    recorder.event(&closed(0, 20, SECOND)).unwrap();
    recorder.event(&event(None, 61 * SECOND, EventKind::Note { text: "later".into() })).unwrap();
    drop(recorder);
    let missing = "connection 0: 20 sent, 19 rows, 0 recorded as lost or in flight: 1 missing";
    assert!(findings(&dir).contains(&missing.to_owned()), "{:?}", findings(&dir));
    recover(&dir, manifest().started_at).unwrap();
    assert_eq!(findings(&dir), [missing]);
}

/// A recording that an earlier version recovered stayed unsound.
#[test]
fn what_was_recovered_without_its_losses_is_completed() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = recorder(&Arc::default(), home.path(), "connect");
    push(&mut recorder, 0, 0..1);
    recorder.flush(SECOND).unwrap();
    recorder.event(&closed(0, 1, SECOND)).unwrap();
    recorder.event(&closed(1, 1, SECOND)).unwrap();
    recorder.event(&event(None, SECOND, EventKind::RecordingRecovered { rows: 1, torn_bytes: 0 })).unwrap();
    drop(recorder);
    let mut manifest = Manifest::read(&dir).unwrap();
    manifest.ended_at = Some(manifest.started_at);
    manifest.write(&RealDisk, &dir).unwrap();
    assert_eq!(findings(&dir).len(), 1);
    let recovery = recover(&dir, manifest.started_at).unwrap();
    assert_eq!((recovery.needed, recovery.lost), (true, 1));
    assert_eq!(findings(&dir), Vec::<String>::new());
    assert!(!recover(&dir, manifest.started_at).unwrap().needed);
}

/// In the first ms the manifest is there and no event is.
#[test]
fn kill_before_first_event_is_recoverable() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    drop(recorder(&Arc::default(), home.path(), "tcp"));
    std::fs::remove_file(dir.join("events.jsonl")).unwrap();
    assert!(recover(&dir, manifest().started_at).unwrap().needed);
    assert_eq!(findings(&dir), Vec::<String>::new());
    assert!(!recover(&dir, manifest().started_at).unwrap().needed);
}

/// A silence of a minute, and the probe is killed in it: what had been sent and was not answered has no row yet, and was
/// missing without a word.
#[test]
fn samples_in_flight_at_kill_count_as_lost() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = recorder(&Arc::default(), home.path(), "tcp");
    push(&mut recorder, 0, 0..20);
    recorder.flush(SECOND).unwrap();
    for second in 2..62 {
        let kind =
            EventKind::ScheduleProgress { due: 20 + 10 * second, sent: std::collections::BTreeMap::new() };
        recorder.event(&event(None, second * SECOND, kind)).unwrap();
        recorder.flush(second * SECOND).unwrap();
    }
    drop(recorder);
    assert_eq!(findings(&dir), [INTERRUPTED]);
    let recovery = recover(&dir, manifest().started_at).unwrap();
    assert_eq!((recovery.rows, recovery.lost), (20, 610));
    assert_eq!(losses(&dir), [(None, 610, Some("crash".to_owned()))]);
    assert_eq!(findings(&dir), Vec::<String>::new());
    assert!(!recover(&dir, manifest().started_at).unwrap().needed);
    let hidden = std::fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.file_name());
    assert!(hidden.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
}

/// The silence is over, and the rows are there: nothing is told that is not missing.
#[test]
fn answered_samples_are_not_counted_as_lost() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = recorder(&Arc::default(), home.path(), "tcp");
    recorder
        .event(&event(
            None,
            SECOND,
            EventKind::ScheduleProgress { due: 15, sent: std::collections::BTreeMap::new() },
        ))
        .unwrap();
    push(&mut recorder, 0, 0..20);
    recorder.flush(2 * SECOND).unwrap();
    drop(recorder);
    assert_eq!(recover(&dir, manifest().started_at).unwrap().lost, 0);
    assert_eq!((findings(&dir), losses(&dir)), (vec![], vec![]));
}

mod acceptance {
    use super::*;

    #[test]
    fn kill_keeps_rows_of_closed_connections() {
        kills_keep_rows_of_closed_connections(1);
    }
}
