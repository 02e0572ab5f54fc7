//! Samples that were out without an answer when a probe was killed: recovery tells each of them, on its connection where that is
//! known, whatever has a row that was sent later. And what a disk holds up that takes seconds over a sync.

use super::*;
use crate::disk::Disk;
use crate::events::Entry;
use crate::{Recorder, recover, verify};
use fathom_core::event::{Event, EventKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn recorder(dir: &Path, mode: &str) -> Recorder {
    let mut manifest = manifest();
    manifest.probe = serde_json::json!({ "mode": mode });
    Recorder::create(dir, manifest).unwrap()
}

fn push(recorder: &mut Recorder, connection: u32, seqs: impl IntoIterator<Item = u64>) {
    seqs.into_iter().for_each(|seq| recorder.push(&Sample { connection, seq, ..sample(0) }).unwrap());
}

fn tell(recorder: &mut Recorder, second: u64, kind: EventKind) {
    let (at, mono_ns) = (manifest().started_at, second * SECOND);
    recorder.event(&Event { at, mono_ns, connection: None, kind }).unwrap();
}

fn progress<const N: usize>(due: u64, sent: [(u32, u64); N]) -> EventKind {
    EventKind::ScheduleProgress { due, sent: BTreeMap::from(sent) }
}

/// Recovers it, holds it to be sound, and gives the losses that are told.
fn lost(dir: &Path) -> Vec<(Option<u32>, u64)> {
    recover(dir, manifest().started_at).unwrap();
    let findings = verify(dir, |_| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
    assert!(!recover(dir, manifest().started_at).unwrap().needed, "a second recovery found something");
    let lost = |entry| match entry {
        Ok(Entry::Known(Event { connection, kind: EventKind::RecordingOverflowed { lost, .. }, .. })) => {
            Some((connection, lost))
        }
        _ => None,
    };
    Recording::open(dir).unwrap().events().unwrap().filter_map(lost).collect()
}

/// 20 rows of a connection that went on stood for 15 samples of one that was silent, and nothing was told.
#[test]
fn rows_never_mask_losses_of_other_connections() {
    for mode in ["tcp", "udp", "tcp-ping-pong"] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("r");
        let mut recorder = recorder(&dir, mode);
        push(&mut recorder, 0, 0..30);
        push(&mut recorder, 1, 0..5);
        // Two probing threads, each of its own.
        tell(&mut recorder, 1, progress(0, [(1, 12)]));
        tell(&mut recorder, 2, progress(50, [(1, 20)]));
        tell(&mut recorder, 2, progress(0, [(0, 30)]));
        push(&mut recorder, 0, 30..50);
        recorder.flush(3 * SECOND).unwrap();
        drop(recorder);
        assert_eq!(lost(&dir), [(Some(1), 15)], "{mode}");
    }
}

/// Rows before a seam tell less than a probing thread did, or more.
#[test]
fn recorded_connection_counts_stay_true() {
    for sent in [[12, 20], [20, 12]] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("r");
        let mut recorder = recorder(&dir, "udp");
        push(&mut recorder, 0, 0..5);
        for sent in sent {
            tell(&mut recorder, 1, progress(0, [(0, sent)]));
        }
        recorder.flush(SECOND).unwrap();
        drop(recorder);
        assert_eq!(lost(&dir), [(Some(0), 15)]);
    }
}

#[test]
fn lost_datagrams_between_rows_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = recorder(&dir, "udp");
    push(&mut recorder, 0, [0, 1, 3, 4, 9]);
    push(&mut recorder, 1, [0, 1]);
    recorder.flush(SECOND).unwrap();
    drop(recorder);
    assert_eq!(lost(&dir), [(Some(0), 5)]);
}

/// A connection that hangs is a sample without anything but its number.
#[test]
fn hanging_connections_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = recorder(&dir, "connect");
    for connection in [0, 1, 3, 6] {
        push(&mut recorder, connection, 0..1);
    }
    recorder.flush(SECOND).unwrap();
    drop(recorder);
    assert_eq!(lost(&dir), [(None, 3)]);
}

/// A disk over whose syncs others decide.
#[derive(Debug, Default)]
struct Slow {
    hangs: AtomicBool,
    fails: AtomicBool,
    /// The next one.
    panics: AtomicBool,
}

impl Disk for Slow {
    fn takes_its_time(&self) -> bool {
        true
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        while self.hangs.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!self.panics.swap(false, Ordering::Relaxed), "as if by a bug");
        if self.fails.load(Ordering::Relaxed) {
            Err(io::Error::other("it is gone"))
        } else {
            file.sync_data()
        }
    }
}

fn on(disk: &Arc<Slow>, dir: &Path) -> Recorder {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    Recorder::create_on(disk, dir, manifest(), Options::default()).unwrap()
}

/// Seconds of samples were lost to a kill because the thread that writes them waited for a sync.
#[test]
fn a_sync_that_hangs_holds_up_no_row() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let disk = Arc::new(Slow::default());
    let mut recorder = on(&disk, &dir);
    push(&mut recorder, 0, 0..1);
    recorder.flush(SECOND).unwrap();
    disk.hangs.store(true, Ordering::Relaxed);
    for second in 2..12 {
        push(&mut recorder, 0, [second - 1]);
        recorder.flush(second * SECOND).unwrap();
        // As a kill would leave it.
        assert_eq!(read(&dir).len() as u64, second);
    }
    disk.hangs.store(false, Ordering::Relaxed);
    assert_eq!(recorder.finish(manifest().started_at, 13 * SECOND).unwrap(), 11);
    assert_eq!(lost(&dir), []);
}

/// After a failed sync nobody knows what is on the disk: the recording stops, if a flush later.
#[test]
fn a_sync_that_fails_stops_the_recording() {
    stops_the_recording(|disk| &disk.fails, "it is gone");
}

/// A sync that goes wrong so: the first flush that fails says this. The clock stands still, so that nothing else is synced, by a
/// segment that closes, say.
fn stops_the_recording(wrong: fn(&Slow) -> &AtomicBool, words: &str) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let disk = Arc::new(Slow::default());
    let mut recorder = on(&disk, &dir);
    push(&mut recorder, 0, 0..1);
    wrong(&disk).store(true, Ordering::Relaxed);
    recorder.flush(SECOND).unwrap();
    // A thread that panics may first print where.
    let deadline = Instant::now() + Duration::from_mins(1);
    let error = loop {
        match recorder.flush(2 * SECOND) {
            Err(error) => break error.to_string(),
            Ok(()) => assert!(Instant::now() < deadline, "no flush fails"),
        }
        std::thread::yield_now();
    };
    assert!(error.contains(words), "{error}");
    assert!(recorder.stopped().is_some());
}

/// A sync that nobody answers for is none: it was taken for one.
#[test]
fn a_sync_that_panics_stops_the_recording() {
    stops_the_recording(|disk| &disk.panics, "the thread that syncs has failed");
}
