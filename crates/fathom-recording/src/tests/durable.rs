//! Every operation on the disk fails in turn; what was acknowledged before reads back.

use super::*;
use crate::disk::{Disk, RealDisk};
use crate::recover::recover_on;
use crate::{Error, Recorder, Recovery, verify};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How a disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This one operation; the disk works again afterwards.
    Once(io::ErrorKind),
    /// This and every later one: what a process that is killed here leaves behind.
    Dead,
    /// No space for data from here on, but for what was given back.
    Full,
    /// The same, and others take what is given back.
    FullForGood,
}

/// A disk that does `sound` operations and then fails. A failing write leaves half of its bytes behind.
#[derive(Debug)]
pub(crate) struct FaultyDisk {
    sound: u64,
    fault: Fault,
    pub(super) done: AtomicU64,
    freed: AtomicU64,
}

impl FaultyDisk {
    pub(crate) fn new(sound: u64, fault: Fault) -> Arc<Self> {
        Arc::new(Self { sound, fault, done: AtomicU64::new(0), freed: AtomicU64::new(0) })
    }

    fn may(&self, needed: u64) -> io::Result<()> {
        let n = self.done.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::Once(kind) if n == self.sound => Err(kind.into()),
            Fault::Dead if n >= self.sound => Err(io::Error::other("the process was killed")),
            Fault::FullForGood if n >= self.sound && needed > 0 => Err(io::ErrorKind::StorageFull.into()),
            Fault::Full if n >= self.sound && needed > 0 => {
                let spend = |free: u64| free.checked_sub(needed);
                self.freed
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
                    .map(drop)
                    .map_err(|_| io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }
}

impl Disk for FaultyDisk {
    fn create_dirs(&self, dir: &Path) -> io::Result<()> {
        self.may(0).and_then(|()| RealDisk.create_dirs(dir))
    }
    fn append_to(&self, path: &Path) -> io::Result<File> {
        self.may(0).and_then(|()| RealDisk.append_to(path))
    }
    fn create(&self, path: &Path) -> io::Result<File> {
        self.may(0).and_then(|()| RealDisk.create(path))
    }
    fn write(&self, file: &File, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.concat();
        self.may(bytes.len() as u64).or_else(|e| {
            RealDisk.write(file, &[&bytes[..bytes.len() / 2]])?;
            Err(e)
        })?;
        RealDisk.write(file, parts)
    }
    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        self.may(0).and_then(|()| RealDisk.truncate(file, len))
    }
    // The machine stays up: what is in the page cache is read back, and syncing it would only take time.
    fn sync(&self, _: &File) -> io::Result<()> {
        self.may(0)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.may(0).and_then(|()| RealDisk.rename(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.may(0)?;
        if let Ok(facts) = path.metadata() {
            self.freed.fetch_add(facts.len(), Ordering::Relaxed);
        }
        RealDisk.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.may(0).and_then(|()| RealDisk.remove_dir(dir))
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.may(0)
    }
}

/// What a run was promised before it failed.
#[derive(Debug, Default)]
struct Promised {
    created: bool,
    rows: u64,
    finished: bool,
    error: Option<Error>,
}

const ROWS: u64 = 30;

fn run(disk: &Arc<FaultyDisk>, dir: &Path) -> Promised {
    let mut promised = Promised::default();
    let done = (|| {
        let mut recorder = Recorder::create_on(Arc::clone(disk) as Arc<dyn Disk>, dir, manifest(), SMALL)?;
        promised.created = true;
        let written = (0..ROWS).try_for_each(|n| {
            recorder.push(&sample(n))?;
            recorder.flush(n * SECOND)?;
            promised.rows = n + 1;
            Ok(())
        });
        // The probe finishes its recording whatever became of it.
        let ended = recorder.finish(manifest().started_at, ROWS * SECOND);
        written.and(ended.map(|_| promised.finished = true))
    })();
    promised.error = done.err();
    promised
}

/// Recovers without syncing: the machine stays up.
fn recover(dir: &Path) -> Result<Recovery, Error> {
    recover_on(FaultyDisk::new(u64::MAX, Fault::Dead).as_ref(), dir, manifest().started_at)
}

fn operations() -> u64 {
    let disk = FaultyDisk::new(u64::MAX, Fault::Dead);
    let dir = tempfile::tempdir().unwrap();
    assert!(run(&disk, &dir.path().join("r")).finished);
    disk.done.load(Ordering::Relaxed)
}

fn holds(dir: &Path, promised: &Promised, case: &str) {
    let rows = read(dir);
    assert!(rows.len() as u64 >= promised.rows, "{case}: {} rows of {}", rows.len(), promised.rows);
    assert_eq!(rows, samples(0..rows.len() as u64), "{case}");
}

fn law_holds(every: usize) {
    let operations = operations();
    assert!(operations > 100, "the run is worth testing: {operations} operations");
    let faults = [
        Fault::Once(io::ErrorKind::Other),
        Fault::Once(io::ErrorKind::StorageFull),
        Fault::Dead,
        Fault::Full,
    ];
    for (course, fault) in faults.into_iter().enumerate() {
        for sound in some_of(0..operations, every, 2 * course) {
            let case = format!("{fault:?} at operation {sound}");
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("r");
            let promised = run(&FaultyDisk::new(sound, fault), &dir);
            if !promised.created {
                assert!(promised.error.is_some(), "{case}");
                continue;
            }
            holds(&dir, &promised, &case);
            let log = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
            assert!(log.matches("\"recording.ended\"").count() <= 1, "{case}: {log}");
            let rows = read(&dir).len();
            recover(&dir).unwrap_or_else(|e| panic!("{case}: {e}"));
            assert_eq!(read(&dir).len(), rows, "{case}");
            let found = verify(&dir, |_| {}).unwrap();
            assert!(found.is_sound() && found.damage.is_empty(), "{case}: {found:?}");
            assert!(!recover(&dir).unwrap().needed, "{case}");
        }
    }
}

fn full_disk_is_told(every: usize) {
    let mut full = 0;
    for sound in some_of(20..operations(), every, 0) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("r");
        let promised = run(&FaultyDisk::new(sound, Fault::Full), &dir);
        let Some(error) = promised.error else { continue };
        full += 1;
        assert!(error.to_string().contains("free some space"), "{error}");
        let log = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
        // Where the reserve was enough for what was still to be written, it ended in order after all.
        let word = if promised.finished { "recording.ended" } else { "free some space" };
        let said = log.lines().any(|l| l.contains("recording.ended") && l.contains(word));
        assert!(said, "operation {sound}: {log}");
        assert!(Manifest::read(&dir).unwrap().ended_at.is_some(), "operation {sound}");
    }
    assert!((full + 1) * every > 20, "{full}");
}

fn recovery_can_be_repeated(every: usize) {
    for sound in some_of(0..60, every, 0) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("r");
        let promised = run(&FaultyDisk::new(75, Fault::Dead), &dir);
        assert!(promised.rows > 5 && !promised.finished);
        let evidence = Recording::open(&dir).unwrap().events().unwrap().flatten().count();
        let _ = recover_on(FaultyDisk::new(sound, Fault::Dead).as_ref(), &dir, much_later());
        holds(&dir, &promised, &format!("recovery interrupted at {sound}"));
        crate::recover(&dir, much_later()).unwrap();
        holds(&dir, &promised, &format!("recovery after one interrupted at {sound}"));
        let ended_at = Recording::open(&dir).unwrap().manifest().ended_at;
        assert!(ended_at.is_some_and(|at| at < much_later()), "{ended_at:?} {evidence}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_whichever_operation_fails() {
    law_holds(SOME);
}

#[test]
fn full_disk_still_records_error_and_end() {
    full_disk_is_told(SOME);
}

#[test]
fn interrupted_recovery_can_be_repeated() {
    recovery_can_be_repeated(SOME);
}

/// Keeps the names that a power failure would take: those in directories that were not synced since.
#[derive(Debug, Default)]
struct NotingDisk(Mutex<BTreeSet<PathBuf>>);

impl Disk for NotingDisk {
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.lock().unwrap().insert(dir.to_owned());
        Ok(())
    }
}

/// A power failure took the directory of a recording whose every row had been synced: its own name was in no journal yet.
#[test]
fn created_directory_names_are_synced() {
    let home = tempfile::tempdir().unwrap();
    let synced_for = |dir: &Path| {
        let disk = Arc::new(NotingDisk::default());
        Recorder::create_on(Arc::clone(&disk) as Arc<dyn Disk>, dir, manifest(), SMALL).unwrap();
        disk.0.lock().unwrap().clone()
    };
    let [above, kept] = ["above", "above/kept"].map(|name| home.path().join(name));
    let (first, second) = (kept.join("first"), kept.join("second"));
    assert_eq!(
        synced_for(&first),
        BTreeSet::from([home.path().to_owned(), above, kept.clone(), first.clone()])
    );
    // What was there already somebody else has made.
    assert_eq!(synced_for(&second), BTreeSet::from([kept, second.clone()]));
    let there = home.path().join("there");
    std::fs::create_dir(&there).unwrap();
    assert_eq!(synced_for(&there), BTreeSet::from([there.clone()]));
}

mod acceptance {
    use super::*;

    #[test]
    fn nothing_acknowledged_is_lost_whichever_operation_fails() {
        law_holds(1);
    }

    #[test]
    fn full_disk_still_records_error_and_end() {
        full_disk_is_told(1);
    }

    #[test]
    fn interrupted_recovery_can_be_repeated() {
        recovery_can_be_repeated(1);
    }
}
