//! The law of recovery: where it says that a recording is in order, `verify` calls it sound, and every row that was there before
//! the damage is there, or its loss is told.

use super::*;
use crate::disk::{Disk, RealDisk};
use crate::events::Entry;
use crate::recover::recover_on;
use crate::stream::head;
use crate::{EVENTS, Error, MANIFEST, Recorder, Recovery, segment_name, verify};
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind, Evidence, LOST_NO_SPACE, LOST_UNREADABLE};
use proptest::prelude::*;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

const ROWS: u64 = 60;

/// Where a power failure is no matter.
#[derive(Debug)]
struct Unsynced;

impl Disk for Unsynced {
    fn write(&self, file: &File, parts: &[&[u8]]) -> io::Result<()> {
        RealDisk.write(file, parts)
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn recover(dir: &Path) -> Result<Recovery, Error> {
    recover_on(&Unsynced, dir, manifest().started_at)
}

/// Of connection 2 three samples are lost in the middle of the run.
fn row(n: u64) -> Sample {
    let sample = sample(n);
    let lost = if sample.connection == 2 && n > ROWS / 2 { 3 } else { 0 };
    Sample { seq: sample.seq + lost, ..sample }
}

fn event(at_s: u64, connection: Option<u32>, kind: EventKind) -> Event {
    Event { at: manifest().started_at, mono_ns: at_s * SECOND, connection, kind }
}

/// Three connections, of which one ended; `segments` of them close. It was killed, or it ended in order.
fn run(dir: &Path, options: Options, killed: bool) {
    let mut manifest = manifest();
    manifest.probe = serde_json::json!({ "mode": "tcp" });
    let mut recorder = Recorder::create_on(Arc::new(Unsynced), dir, manifest, options).unwrap();
    for n in 0..ROWS {
        // Two of a batch, but for some.
        recorder.push(&row(n)).unwrap();
        if n % 2 == 1 || n % 5 == 0 {
            recorder.flush(n * SECOND).unwrap();
        }
        if n == ROWS / 2 {
            recorder.event(&overflowed(2, 3)).unwrap();
        }
    }
    let end = |connection: u32, sent| {
        let evidence = Evidence { sent, ..Evidence::default() };
        let (cause, verdict, errno, age_ns) = (ClosingCause::Finished, None, None, 1);
        let kind = EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence };
        event(ROWS, Some(connection), kind)
    };
    recorder.event(&end(0, ROWS / 3)).unwrap();
    if killed {
        recorder.flush(ROWS * SECOND).unwrap();
    } else {
        recorder.event(&end(1, ROWS / 3)).unwrap();
        recorder.event(&end(2, ROWS / 3 + 3)).unwrap();
        recorder.event(&event(ROWS, None, EventKind::ScheduleEnded { due: ROWS + 3 })).unwrap();
        recorder.finish(super::manifest().started_at, (ROWS + 1) * SECOND).unwrap();
    }
}

fn rows_of_all() -> Vec<Sample> {
    (0..ROWS).map(row).collect()
}

fn overflowed(connection: u32, lost: u64) -> Event {
    let reason = Some(LOST_NO_SPACE.to_owned());
    event(ROWS / 2, Some(connection), EventKind::RecordingOverflowed { lost, reason })
}

/// Losses that are told, of this reason or of any.
fn told(dir: &Path, why: Option<&str>) -> u64 {
    let events = Recording::open(dir).unwrap().events().unwrap().flatten();
    let lost = events.filter_map(|entry| match entry {
        Entry::Known(Event { kind: EventKind::RecordingOverflowed { lost, reason }, .. }) => {
            (why.is_none() || reason.as_deref() == why).then_some(lost)
        }
        _ => None,
    });
    lost.sum()
}

/// Recovers it, and holds the law. `torn` rows are what a kill could have taken. Whether it is in order now.
fn hold(dir: &Path, torn: u64, case: &str) -> bool {
    hold_told(dir, torn, 0, case)
}

/// The same where so much more may be told than was lost.
fn hold_told(dir: &Path, torn: u64, too_much: u64, case: &str) -> bool {
    let before = read_all(dir);
    let Ok(recovery) = recover(dir) else { return false };
    let found = verify(dir, |_| {}).unwrap();
    let rows = read(dir);
    if recovery.is_in_order() {
        assert!(found.is_sound(), "{case}: {recovery:?}, and then {found:?}");
    }
    if found.is_sound() {
        let (rows, told) = (rows.len() as u64, told(dir, None));
        assert!(rows + told + torn >= ROWS + 3, "{case}: {rows} rows and {told} told: {recovery:?}");
        assert!(
            rows + told <= (ROWS + 3).saturating_add(too_much),
            "{case}: more was told than was lost, {rows} rows, {told}: {recovery:?}"
        );
    }
    let all = rows_of_all();
    assert!(rows.iter().all(|row| all.contains(row)), "{case}: rows were made up");
    assert!(before.is_none_or(|before| before.len() <= rows.len()), "{case}: recovery took rows");
    let again = recover(dir).unwrap();
    assert!(!again.needed, "{case}: {again:?}");
    assert_eq!(again.is_in_order(), found.is_sound(), "{case}: {again:?}");
    recovery.is_in_order()
}

fn read_all(dir: &Path) -> Option<Vec<Sample>> {
    Recording::open(dir).ok().map(|recording| recording.samples().flatten().collect())
}

/// The files of a recording that hold something.
fn files(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        files.filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.')).collect();
    files.sort_unstable();
    files
}

fn copied(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in files(dir) {
        fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
    }
    copy
}

const ONE: Options = Options { segment_rows: 1 << 20, ..SMALL };

/// A bit of each `every`th of some bytes is flipped: the recording is whole, or the loss of the unreadable rows is told.
fn bit_flips_are_reported_or_harmless(every: usize) {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), ONE, true);
    let bytes = fs::read(dir.path().join("samples-00000.arrows")).unwrap();
    let begin = head().unwrap().len();
    let mut counted = 0;
    // The first batches, those in the middle and the last ones; of what is between them each bit would say the same.
    let places = (begin..begin + 200)
        .chain(bytes.len() / 2..bytes.len() / 2 + 900)
        .chain(bytes.len() - 1_400..bytes.len());
    for (n, at) in (0..begin).step_by(97).chain(places.step_by(23)).step_by(every).enumerate() {
        let copy = copied(dir.path());
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (n % 8);
        fs::write(copy.path().join("samples-00000.arrows"), &damaged).unwrap();
        let case = format!("bit {} of byte {at} of {}", n % 8, bytes.len());
        let in_order = hold(copy.path(), 0, &case);
        if in_order {
            assert_eq!(read(copy.path()), rows_of_all(), "{case}");
        } else if verify(copy.path(), |_| {}).unwrap().is_sound() {
            assert!(told(copy.path(), Some(LOST_UNREADABLE)) > 0, "{case}");
            counted += 1;
        }
    }
    assert!((counted + 2) * every > 15, "{counted}");
}

/// `recover` and `verify` called a recording sound that had lost half of its rows without a word.
#[test]
fn open_segment_bit_flip_is_reported_or_harmless() {
    bit_flips_are_reported_or_harmless(3);
}

/// Recovery was interrupted when it had listed the file with what could be read: the rest was removed with the segment.
#[test]
fn interrupted_recovery_keeps_unreadable_data() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), ONE, true);
    let [open, aside] = ["arrows", "arrows.damaged"].map(|end| dir.path().join(segment_name(0, end)));
    let mut bytes = fs::read(&open).unwrap();
    let at = bytes.len() - 5;
    bytes[at] ^= 1;
    fs::write(&open, bytes).unwrap();
    let [log, json] = [EVENTS, MANIFEST].map(|name| dir.path().join(name));
    let unrecovered = fs::read(&json).unwrap();
    assert!(!hold(dir.path(), 0, "at once"));
    let told = fs::read_to_string(&log).unwrap();
    let listed = told.lines().take_while(|line| !line.contains("recording.overflowed\",\"lost\":2,"));
    let listed = listed.collect::<Vec<_>>().join("\n") + "\n";
    assert!(listed.len() < told.len() && listed.contains("segment.closed"), "{told}");
    fs::write(&log, listed).unwrap();
    fs::write(&json, unrecovered).unwrap();
    fs::rename(&aside, &open).unwrap();
    assert!(!hold(dir.path(), 0, "again"));
    assert!(aside.exists() && !open.exists());
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), told.lines().count());
}

/// A stall names a sample that was out: whatever became of the file, it was sent.
#[test]
fn stall_event_proves_samples_were_sent() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), ONE, true);
    let stall = EventKind::StallBegan { seq: 40, outstanding: 3, threshold_ns: 1 };
    let line = serde_json::to_string(&event(ROWS, Some(1), stall)).unwrap();
    let log = dir.path().join(EVENTS);
    fs::write(&log, format!("{}{line}\n", fs::read_to_string(&log).unwrap())).unwrap();
    assert_eq!(recover(dir.path()).unwrap().lost, 21);
    assert!(verify(dir.path(), |_| {}).unwrap().is_sound());
    assert!(recover(dir.path()).unwrap().is_in_order());
}

/// Damages one file of a recording: a recovery that says "in order" leaves a recording that is sound and complete.
fn damage_and_recover((killed, small, which, share, bit, what): (bool, bool, usize, f64, u8, u8)) {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), if small { SMALL } else { ONE }, killed);
    let all = files(dir.path());
    let path = &all[which % all.len()];
    let mut bytes = fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let at = (bytes.len() as f64 * share) as usize;
    match what {
        0 => bytes[at] ^= 1 << bit,
        1 => bytes.truncate(at),
        _ => {
            let end = bytes.len().min(at + 100);
            bytes[at..end].fill(0);
        }
    }
    fs::write(path, &bytes).unwrap();
    // What a kill can leave is no damage: a log and an open segment that end early, also in zeros.
    let early = killed && what > 0;
    let torn = if early && (name.ends_with("arrows") || name.ends_with("jsonl")) { ROWS + 3 } else { 0 };
    // A manifest that is another's: it is judged by other laws.
    if name.ends_with("json") {
        if let Ok(recovery) = recover(dir.path()) {
            assert_eq!(recovery.is_in_order(), verify(dir.path(), |_| {}).unwrap().is_sound());
        }
    } else {
        // The sum of a log is stated when its run has ended: until then a digit that has become another one says that more was sent.
        let too_much = if killed && what == 0 && name.ends_with("jsonl") { u64::MAX } else { 0 };
        hold_told(
            dir.path(),
            torn,
            too_much,
            &format!("{name} of {}, {what} at {at}, killed: {killed}", bytes.len()),
        );
    }
}

fn damage() -> impl Strategy<Value = (bool, bool, usize, f64, u8, u8)> {
    (any::<bool>(), any::<bool>(), any::<usize>(), 0.0f64..1.0, 0u8..8, 0u8..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn recovery_in_order_means_sound_and_complete(damage in damage()) {
        damage_and_recover(damage);
    }
}

mod acceptance {
    use super::*;

    #[test]
    fn open_segment_bit_flip_is_reported_or_harmless() {
        bit_flips_are_reported_or_harmless(1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn recovery_in_order_means_sound_and_complete(damage in damage()) {
            damage_and_recover(damage);
        }
    }
}
