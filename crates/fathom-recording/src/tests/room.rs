//! A disk that is full for a while: the recording goes on when there is room, and tells what is missing.

use super::*;
use crate::disk::{Disk, RealDisk};
use crate::events::Entry;
use crate::recorder::Recorder;
use crate::verify;
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind, Evidence};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A disk whose room is what was removed from it while it is full.
#[derive(Debug, Default)]
pub(super) struct Filling {
    full: AtomicBool,
    freed: AtomicU64,
    /// Bytes of writes that failed half-way, which took none of that room.
    torn: AtomicU64,
    /// So many writes that contain this find no room.
    refused: Mutex<(&'static str, u32)>,
    /// There is no room for Parquet.
    no_parquet: AtomicBool,
    /// Writes that found no room.
    failed: AtomicU64,
}

impl Filling {
    pub(super) fn without_parquet() -> Self {
        Self { no_parquet: AtomicBool::new(true), ..Self::default() }
    }

    pub(super) fn fill(&self) {
        self.freed.store(0, Ordering::Relaxed);
        self.full.store(true, Ordering::Relaxed);
    }

    pub(super) fn fill_but(&self, room: u64) {
        self.fill();
        self.freed.store(room, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn empty(&self) {
        self.full.store(false, Ordering::Relaxed);
    }
}

impl Disk for Filling {
    fn create(&self, path: &Path) -> io::Result<File> {
        if self.no_parquet.load(Ordering::Relaxed) && path.to_string_lossy().ends_with(".parquet.tmp") {
            return Err(io::ErrorKind::StorageFull.into());
        }
        RealDisk.create(path)
    }
    fn write(&self, file: &File, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.concat();
        let (text, times) = &mut *self.refused.lock().unwrap();
        if *times > 0 && String::from_utf8_lossy(&bytes).contains(*text) {
            *times -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let spend = |free: u64| free.checked_sub(bytes.len() as u64);
        let full = self.full.load(Ordering::Relaxed);
        if full && self.freed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err() {
            RealDisk.write(file, &[&bytes[..bytes.len() / 2]])?;
            self.torn.fetch_add(bytes.len() as u64 / 2, Ordering::Relaxed);
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        RealDisk.write(file, parts)
    }
    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        let cut = file.metadata()?.len().saturating_sub(len);
        RealDisk.truncate(file, len)?;
        let torn = self.torn.load(Ordering::Relaxed).min(cut);
        self.torn.fetch_sub(torn, Ordering::Relaxed);
        self.freed.fetch_add(cut - torn, Ordering::Relaxed);
        Ok(())
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        if let Ok(facts) = path.metadata() {
            self.freed.fetch_add(facts.len(), Ordering::Relaxed);
        }
        RealDisk.remove(path)
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn row(seq: u64) -> Sample {
    Sample { connection: 0, seq, ..sample(0) }
}

fn closed(sent: u64) -> Event {
    let (cause, verdict, errno, age_ns) = (ClosingCause::Finished, None, None, 1);
    let evidence = Evidence { sent, ..Evidence::default() };
    let kind = EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence };
    Event { at: manifest().started_at, mono_ns: 1, connection: Some(0), kind }
}

/// Sends so many samples a turn, in so many turns, of which the disk is full in some, and in the last too or not.
fn run(rows_a_turn: u64, turns: u64, full: std::ops::Range<u64>) -> (tempfile::TempDir, u64, bool) {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Filling::default());
    let mut probed = manifest();
    probed.probe = serde_json::json!({ "mode": "tcp" });
    let options = Options { segment_rows: 20_000, segment_age_ns: u64::MAX, readable: false };
    let mut recorder =
        Recorder::create_on(Arc::clone(&disk) as Arc<dyn Disk>, &dir.path().join("r"), probed, options)
            .unwrap();
    let mut sent = 0;
    for turn in 0..turns {
        if turn == full.start {
            disk.fill();
        }
        if turn == full.end {
            disk.empty();
        }
        for _ in 0..rows_a_turn {
            // An error here is the disk's, and told by the next flush too.
            let _ = recorder.push(&row(sent));
            sent += 1;
        }
        let flushed = recorder.flush((turn + 1) * SECOND / 4);
        assert_eq!(recorder.waits_for_room(), flushed.is_err(), "turn {turn}");
        assert!(full.contains(&turn) || flushed.is_ok(), "turn {turn}: {flushed:?}");
        assert!(recorder.stopped().is_none());
    }
    recorder.event(&closed(sent)).unwrap();
    let finished = recorder.finish(manifest().started_at, turns * SECOND / 4);
    (dir, sent, finished.is_ok())
}

pub(super) fn kinds(dir: &Path) -> Vec<EventKind> {
    let known = |entry| match entry {
        Ok(Entry::Known(event)) => Some(event.kind),
        _ => None,
    };
    Recording::open(dir).unwrap().events().unwrap().filter_map(known).collect()
}

fn losses(dir: &Path) -> u64 {
    let lost = |kind: &EventKind| match kind {
        EventKind::RecordingOverflowed { lost, reason } => {
            assert_eq!(reason.as_deref(), Some("no_space"));
            *lost
        }
        _ => 0,
    };
    kinds(dir).iter().map(lost).sum()
}

/// A disk full for 1.5 s ended the recording for good: 883 of 6,000 samples.
#[test]
fn temporarily_full_disk_loses_no_row() {
    let (home, sent, finished) = run(125, 48, 8..14);
    let dir = home.path().join("r");
    assert!(finished);
    assert_eq!((sent, read(&dir).len() as u64, losses(&dir)), (6_000, 6_000, 0));
    let resumed = kinds(&dir).into_iter().filter(|kind| matches!(kind, EventKind::RecordingResumed { .. }));
    let resumed: Vec<_> = resumed.collect();
    assert_eq!(resumed, [EventKind::RecordingResumed { waited_ns: 6 * SECOND / 4, lost: 0 }]);
    let found = verify(&dir, |_| {}).unwrap();
    assert!(found.is_sound(), "{found:?}");
}

#[test]
fn memory_overflow_is_counted_and_recording_resumes() {
    let (home, sent, finished) = run(10_000, 17, 5..15);
    let dir = home.path().join("r");
    let (rows, lost) = (read(&dir).len() as u64, losses(&dir));
    assert!(finished && lost > 10_000, "{lost} lost");
    assert_eq!(rows + lost, sent);
    assert_eq!(read(&dir).last().unwrap().seq, sent - 1);
    let found = verify(&dir, |_| {}).unwrap();
    assert!(found.is_sound(), "{found:?}");
}

#[test]
fn permanently_full_disk_reports_every_loss() {
    for rows_a_turn in [125, 10_000] {
        let (home, sent, finished) = run(rows_a_turn, 30, 5..30);
        let dir = home.path().join("r");
        assert!(!finished);
        assert_eq!(read(&dir).len() as u64 + losses(&dir), sent);
        assert!(losses(&dir) > 0);
        let last = kinds(&dir).pop();
        let said = matches!(&last, Some(EventKind::RecordingEnded { error: Some(e), .. }) if e.contains("free some space"));
        assert!(said, "{last:?}");
        let found = verify(&dir, |_| {}).unwrap();
        assert!(found.is_sound(), "{found:?}");
        a_recovery_without_room_leaves_the_log_sealed(&dir);
    }
}

/// A stranger: it took the log's sum away, and the next one gave its sum to a log that somebody had changed meanwhile.
fn a_recovery_without_room_leaves_the_log_sealed(dir: &Path) {
    let recover_with = |no_parquet| {
        let disk = Filling { no_parquet: AtomicBool::new(no_parquet), ..Filling::default() };
        crate::recover::recover_on(&disk, dir, manifest().started_at)
    };
    recover_with(true).unwrap_err();
    let log = dir.join("events.jsonl");
    let kept = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, kept.replacen("\"mono_ns\":", "\"mono_ns\":1", 1)).unwrap();
    assert!(!verify(dir, |_| {}).unwrap().is_sound());
    recover_with(false).unwrap();
    assert!(!verify(dir, |_| {}).unwrap().is_sound(), "it was given a new sum");
    std::fs::write(&log, kept).unwrap();
}

/// The disk was full of others just as the last segment was to be closed: "the recording is incomplete", of which all rows were there
/// (a stranger).
#[test]
fn last_segment_left_open_is_complete() {
    for sent in [100, crate::recorder::INLINE_ROWS + 100] {
        let (disk, home) = (Arc::new(Filling::default()), tempfile::tempdir().unwrap());
        let dir = home.path().join("r");
        let mut recorder = begin(&disk, home.path(), u64::MAX);
        (0..sent).for_each(|seq| recorder.push(&row(seq)).unwrap());
        recorder.event(&closed(sent)).unwrap();
        recorder.flush(SECOND).unwrap();
        disk.no_parquet.store(true, Ordering::Relaxed);
        assert_eq!(recorder.finish_with(manifest().started_at, 2 * SECOND, None).unwrap(), sent);
        assert!(recorder.is_left_open());
        drop(recorder);
        let check = || {
            let found = verify(&dir, |_| {}).unwrap();
            assert!(found.is_sound() && found.rows == sent, "{found:?}");
            assert_eq!((read(&dir).len() as u64, losses(&dir)), (sent, 0));
        };
        check();
        let recovery = crate::recover(&dir, Timestamp::now()).unwrap();
        assert!(recovery.needed && recovery.is_in_order() && recovery.lost == 0, "{recovery:?}");
        check();
        assert!(!dir.join("samples-00000.arrows").exists());
    }
}

/// Its rows stay where they were written, since there is no room for others. `--keep` refused it for ever: "samples-00000.arrows in it
/// is not of a whole recording".
#[test]
fn unclosed_recording_is_recoverable_and_removable() {
    for has_room in [false, true] {
        let (home, sent, finished) = run(10_000, 30, 5..30);
        let dir = home.path().join("r");
        let has_open = || {
            let files = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
            files.into_iter().any(|name| name.to_string_lossy().ends_with(".arrows"))
        };
        assert!(!finished && has_open());
        if has_room {
            let rows = read(&dir).len() as u64;
            let recovery = crate::recover(&dir, Timestamp::now()).unwrap();
            assert!(recovery.needed && recovery.is_in_order(), "{recovery:?}");
            assert!(!has_open());
            assert_eq!((read(&dir).len() as u64, rows + losses(&dir)), (rows, sent));
        }
        let later = manifest().started_at + jiff::SignedDuration::from_hours(1);
        assert_eq!(
            crate::rotation::remove_old_on(crate::disk::real(false).as_ref(), home.path(), |_, manifest| {
                manifest.ended_at.is_some_and(|ended| ended < later)
            }),
            (vec![dir.clone()], vec![])
        );
        assert!(!dir.exists());
    }
}

fn begin(disk: &Arc<Filling>, dir: &Path, segment_rows: u64) -> Recorder {
    let mut probed = manifest();
    probed.probe = serde_json::json!({ "mode": "tcp" });
    let options = Options { segment_rows, segment_age_ns: u64::MAX, readable: false };
    Recorder::create_on(Arc::clone(disk) as Arc<dyn Disk>, &dir.join("r"), probed, options).unwrap()
}

fn event(connection: Option<u32>, kind: EventKind) -> Event {
    Event { at: manifest().started_at, mono_ns: 1, connection, kind }
}

/// Beyond 1 MiB of events any event was dropped, also those by which `verify` counts: "missing", though a note told of it.
#[test]
fn event_overflow_drops_notes_keeps_counts() {
    let home = tempfile::tempdir().unwrap();
    let (dir, disk) = (home.path().join("r"), Arc::new(Filling::default()));
    let mut recorder = begin(&disk, home.path(), u64::MAX);
    (0..10).for_each(|seq| recorder.push(&row(seq)).unwrap());
    recorder.flush(SECOND).unwrap();
    disk.fill();
    (10..20).for_each(|seq| recorder.push(&row(seq)).unwrap());
    recorder.flush(2 * SECOND).unwrap_err();
    let mut notes = 0;
    let mut note = |recorder: &mut Recorder| {
        notes += 1;
        recorder.event(&event(None, EventKind::Note { text: "x".repeat(1_000) })).unwrap();
    };
    (0..3_000).for_each(|_| note(&mut recorder));
    let (mut skipped, mut behind) = (0, 0);
    for n in 1..=500 {
        let lost = EventKind::RecordingOverflowed { lost: n, reason: Some("no_space".to_owned()) };
        recorder.event(&event(Some(0), lost)).unwrap();
        behind += n;
        let reason = "late".to_owned();
        let overrun = EventKind::ScheduleOverrun { skipped: 2, behind_ns: n, reason };
        recorder.event(&event(None, overrun)).unwrap();
        skipped += 2;
    }
    note(&mut recorder);
    let sent = 20 + behind;
    recorder.event(&closed(sent)).unwrap();
    recorder.event(&event(None, EventKind::ScheduleEnded { due: sent + skipped })).unwrap();
    assert!(recorder.flush(3 * SECOND).is_err());
    disk.empty();
    // The first attempts to tell of it fail.
    for refused in [("events lost", 1), ("recording.resumed", 2)] {
        *disk.refused.lock().unwrap() = refused;
        recorder.flush(4 * SECOND).unwrap_err();
        assert_eq!(disk.refused.lock().unwrap().1, 0, "{refused:?}");
    }
    recorder.flush(5 * SECOND).unwrap();
    let gaps = recorder.gaps();
    recorder.finish(manifest().started_at, 6 * SECOND).unwrap();
    let found = verify(&dir, |_| {}).unwrap();
    assert!(found.is_sound(), "{found:?}");
    assert_eq!(losses(&dir), behind);
    let all = kinds(&dir);
    let count = |holds: fn(&EventKind) -> bool| all.iter().filter(|kind| holds(kind)).count() as u64;
    let kept = count(|kind| matches!(kind, EventKind::Note { text } if text.starts_with('x')));
    assert!(kept < notes);
    let lost = format!("{} events lost: the disk was full", notes - kept);
    assert_eq!(
        all.iter().filter(|kind| **kind == EventKind::Note { text: lost.clone() }).count(),
        1,
        "{lost}"
    );
    assert_eq!(count(|kind| matches!(kind, EventKind::ScheduleOverrun { .. })), 1, "coalesced");
    assert_eq!((gaps.rows, gaps.events), (0, notes - kept));
}

/// `recording.resumed` told what only its last attempt had had to tell: nothing.
#[test]
fn retried_resume_reports_whole_gap() {
    let home = tempfile::tempdir().unwrap();
    let (dir, disk) = (home.path().join("r"), Arc::new(Filling::default()));
    let mut recorder = begin(&disk, home.path(), u64::MAX);
    let mut sent = 0;
    for gap in 1..=2 {
        disk.fill();
        for _ in 0..100_000 {
            let _ = recorder.push(&row(sent));
            sent += 1;
        }
        recorder.flush(gap * 10 * SECOND).unwrap_err();
        disk.empty();
        // Once more on the reserve.
        *disk.refused.lock().unwrap() = ("recording.resumed", 2);
        recorder.flush((gap * 10 + 1) * SECOND).unwrap_err();
        recorder.flush((gap * 10 + 2) * SECOND).unwrap();
    }
    let gaps = recorder.gaps();
    recorder.event(&closed(sent)).unwrap();
    recorder.finish(manifest().started_at, 60 * SECOND).unwrap();
    let resumed = |kind: &EventKind| match kind {
        EventKind::RecordingResumed { lost, .. } => Some(*lost),
        _ => None,
    };
    let told: Vec<u64> = kinds(&dir).iter().filter_map(resumed).collect();
    assert!(told.len() == 2 && told.iter().all(|&lost| lost > 10_000), "{told:?}");
    assert_eq!((told.iter().sum(), gaps.rows), (losses(&dir), losses(&dir)));
    assert_eq!(read(&dir).len() as u64 + losses(&dir), sent);
    assert!(verify(&dir, |_| {}).unwrap().is_sound());
}

/// What happened beside the queries while the disk was full, to the end, had no room in what is kept for the last words, and with it these
/// had none: no end, and nobody knew how many queries were missing.
#[test]
fn query_run_result_survives_full_disk() {
    for beside in [20, 2_000] {
        let home = tempfile::tempdir().unwrap();
        let (dir, disk) = (home.path().join("r"), Arc::new(Filling::default()));
        let mut of_queries = manifest();
        of_queries.probe = serde_json::json!({ "mode": "connect", "sql": { "connections": 1 } });
        let on = Arc::clone(&disk) as Arc<dyn Disk>;
        let mut recorder = Recorder::create_on(on, &dir, of_queries, Options::default()).unwrap();
        disk.fill();
        for number in 0..beside {
            _ = recorder.push(&Sample { connection: number, seq: 0, ..sample(0) });
            let (cause, verdict, errno, age_ns) = (ClosingCause::Finished, None, None, 1);
            let evidence = Evidence { sent: 1, ..Evidence::default() };
            let kind = EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence };
            recorder.event(&event(Some(number), kind)).unwrap();
            if number % 10 == 0 {
                recorder.flush(u64::from(number) * SECOND).unwrap_err();
            }
        }
        let result = serde_json::json!({ "queries": 7, "failed": 0, "unrecorded": 7 });
        recorder.event(&event(None, EventKind::SqlEnded { result: result.clone() })).unwrap();
        // Others have taken what it had made room by.
        disk.fill();
        recorder.finish(manifest().started_at, 9_000 * SECOND).unwrap_err();
        let kinds = kinds(&dir);
        assert!(kinds.contains(&EventKind::SqlEnded { result }), "{beside}");
        assert!(kinds.iter().any(|kind| matches!(kind, EventKind::RecordingEnded { error: Some(_), .. })));
        assert_eq!(read(&dir).len() as u64 + losses(&dir), u64::from(beside));
        let found = verify(&dir, |_| {}).unwrap();
        assert!(found.is_sound(), "{beside}: {found:?}");
        let lost = kinds.iter().filter(|kind| matches!(kind, EventKind::Note { text } if text.ends_with(" events lost: the disk was full")));
        assert_eq!(lost.count(), usize::from(beside == 2_000), "{beside}");
    }
}

/// The segment that was closing when the one before it found no room to be converted was never converted itself, and
/// "segments are numbered without gaps" was broken.
#[test]
fn segment_closed_without_room_is_converted_later() {
    let home = tempfile::tempdir().unwrap();
    let (dir, disk) = (home.path().join("r"), Arc::new(Filling::default()));
    // Large enough to be converted on a thread of their own.
    let rows = crate::recorder::INLINE_ROWS + 4_096;
    let mut recorder = begin(&disk, home.path(), rows);
    disk.no_parquet.store(true, Ordering::Relaxed);
    for seq in 0..2 * rows {
        let _ = recorder.push(&row(seq));
    }
    assert!(recorder.waits_for_room());
    disk.no_parquet.store(false, Ordering::Relaxed);
    for turn in 1..=2 {
        recorder.flush(turn * SECOND).unwrap();
        let first = 2 * rows + (turn - 1) * 100;
        (first..first + 100).for_each(|seq| recorder.push(&row(seq)).unwrap());
    }
    recorder.event(&closed(2 * rows + 200)).unwrap();
    assert_eq!(recorder.finish(manifest().started_at, 3 * SECOND).unwrap(), 2 * rows + 200);
    let found = verify(&dir, |_| {}).unwrap();
    assert!(found.is_sound(), "{found:?}");
    assert_eq!(found.rows, 2 * rows + 200);
    let left = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".arrows")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[cfg(unix)]
mod links {
    use super::*;
    use crate::recover;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// `probe --record` and `recover` overwrote what links in a prepared directory led to.
    #[test]
    fn a_prepared_directory_leads_to_no_other_file() {
        for name in [".lock", "events.jsonl", ".reserve", "recording.json.tmp", "samples-00000.parquet.tmp"] {
            let home = tempfile::tempdir().unwrap();
            let (mine, dir) = (home.path().join("mine"), home.path().join("r"));
            fs::write(&mine, "precious").unwrap();
            fs::create_dir(&dir).unwrap();
            symlink(&mine, dir.join(name)).unwrap();
            if let Ok(mut recorder) = Recorder::create_with(&dir, manifest(), SMALL) {
                (0..40).for_each(|n| recorder.push(&sample(n)).unwrap());
                recorder.finish(manifest().started_at, SECOND).unwrap();
            }
            assert_eq!(fs::read_to_string(&mine).unwrap(), "precious", "{name}");

            // The same in one that was interrupted, for recovery.
            let dir = home.path().join("interrupted");
            let mut recorder = Recorder::create(&dir, manifest()).unwrap();
            (0..40).for_each(|n| recorder.push(&sample(n)).unwrap());
            recorder.flush(SECOND).unwrap();
            drop(recorder);
            let at = dir.join(name);
            if at.exists() {
                fs::remove_file(&at).unwrap();
            }
            symlink(&mine, &at).unwrap();
            let _ = recover(&dir, manifest().started_at);
            assert_eq!(fs::read_to_string(&mine).unwrap(), "precious", "recovery, {name}");
        }
    }

    #[test]
    fn symlinked_lock_is_named_in_error() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("r");
        fs::create_dir(&dir).unwrap();
        symlink(home.path().join("mine"), dir.join(".lock")).unwrap();
        let error = Recorder::create(&dir, manifest()).unwrap_err().to_string();
        assert!(error.contains(".lock") && error.contains("symbolic link"), "{error}");
    }
}
