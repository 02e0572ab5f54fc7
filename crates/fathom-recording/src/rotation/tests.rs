use super::*;
use crate::tests::durable::{Fault, FaultyDisk};
use crate::{Recorder, Tool, recordings_in};
use fathom_core::sample::Sample;
use jiff::Timestamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A recording of one sample that ended then.
fn recorded(dir: &Path, label: &str, ended: Option<i64>) {
    drop(begun(dir, &Manifest::new(label, at(0), Tool::default()), ended));
}

/// The same with this manifest; without an end it is being written, as long as the recorder lives.
fn begun(dir: &Path, manifest: &Manifest, ended: Option<i64>) -> Option<Recorder> {
    let mut recorder = Recorder::create(dir, manifest.clone()).unwrap();
    recorder.push(&Sample { size: 64, ..Sample::default() }).unwrap();
    recorder.flush(1).unwrap();
    match ended {
        Some(ended) => recorder.finish(at(ended), 2).map(|_| None).unwrap(),
        None => Some(recorder),
    }
}

fn old(label: &'static str, before: i64) -> impl Fn(&Path, &Manifest) -> bool {
    move |_, manifest| manifest.label == label && manifest.ended_at.is_some_and(|ended| ended < at(before))
}

fn remove_labelled(home: &Path, label: &'static str, before: i64) -> (Vec<PathBuf>, Vec<(PathBuf, String)>) {
    remove_old_on(disk::real(false).as_ref(), home, old(label, before))
}

/// A rotation of one label and target in one directory: who recorded what, and where.
struct Shared {
    home: tempfile::TempDir,
    /// What nobody but its own run may remove, with the run.
    all: Vec<(PathBuf, String)>,
    /// Recordings of the run "ours", and when they ended.
    ended: Vec<(PathBuf, i64)>,
    /// By how much the wall clock has been set since the run began, in s.
    set_s: i64,
}

impl Shared {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), all: Vec::new(), ended: Vec::new(), set_s: 0 }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn manifest(run: &str, name: &str, keep_s: Option<u64>, started: i64) -> Manifest {
        let mut manifest = Manifest::new("zone", at(started), Tool::default());
        let (every_ns, keep_ns) = (1, keep_s.map(|s| s * 1_000_000_000));
        Rotation { every_ns, keep_ns, run: run.to_owned(), directory: String::new() }.write_to(&mut manifest);
        Rotation::place(&mut manifest, Path::new(name));
        manifest
    }

    fn recorded(
        &mut self,
        run: &str,
        name: &str,
        keep_s: Option<u64>,
        from_to: (i64, Option<i64>),
    ) -> Option<Recorder> {
        let manifest = Self::manifest(run, name, keep_s, from_to.0);
        self.all.push((self.dir(name), run.to_owned()));
        if let Some(ended) = from_to.1.filter(|_| run == "ours") {
            self.ended.push((self.dir(name), ended));
        }
        begun(&self.dir(name), &manifest, from_to.1)
    }

    /// What goes at 100 s, for the run "ours" that began at 50 s and keeps for 20 s. The law of every removal: what goes is in the
    /// directory that its run made for it, and of that run or of one that was over when this one began.
    fn removed(&self) -> Vec<String> {
        let current = Self::manifest("ours", "current", Some(20), 95);
        let anchor = |second: i64| Anchor {
            mono_ns: second as u64 * 1_000_000_000,
            utc_ns: (second + self.set_s) * 1_000_000_000,
        };
        let begun = Anchor { utc_ns: 50_000_000_000, ..anchor(50) };
        let mut ages = Ages::new(begun);
        for (dir, ended) in &self.ended {
            ages.ended(name_of(dir), anchor(*ended).mono_ns);
        }
        let (removed, left) = remove_old(&current, &self.dir("current"), &ages, anchor(100));
        assert_eq!(left, []);
        for dir in &removed {
            let (_, run) =
                self.all.iter().find(|(made, _)| made == dir).expect("a directory that a run made");
            assert!(["ours", "earlier"].contains(&run.as_str()), "{run}: {}", dir.display());
            assert!(!dir.exists());
        }
        removed.iter().map(|dir| name_of(dir)).collect()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// `--keep` removed what another probe of the same target and label recorded in the same directory, and a copy of a recording of
/// its own.
#[test]
fn run_removes_own_and_predecessor_recordings() {
    let mut shared = Shared::new();
    let keep = Some(20);
    shared.recorded("ours", "a", keep, (50, Some(70)));
    shared.recorded("ours", "b", keep, (70, Some(90)));
    // Of the probe before it was started again: it kept as long, longer, and for ever.
    shared.recorded("earlier", "c", keep, (0, Some(40)));
    shared.recorded("earlier-longer", "d", Some(70), (0, Some(40)));
    shared.recorded("earlier-for-ever", "e", None, (0, Some(40)));
    // One that was killed, and one recording of the same run that is whole.
    shared.recorded("earlier", "f", keep, (40, None));
    // Another probe beside this one: it runs, or did until a while ago.
    shared.recorded("running", "g", keep, (0, Some(40)));
    let running = shared.recorded("running", "h", keep, (40, None));
    shared.recorded("beside", "i", keep, (0, Some(40)));
    shared.recorded("beside", "j", keep, (40, Some(60)));
    shared.recorded("later", "k", keep, (55, Some(60)));
    copy(&shared.dir("a"), &shared.dir("a copy of a"));
    copy(&shared.dir("c"), &shared.dir("c.bak"));
    // Of a version that did not say which run, and under no rotation.
    let mut unnamed = Manifest::new("zone", at(0), Tool::default());
    begun(&shared.dir("l"), &unnamed, Some(40));
    unnamed.extra.insert(ROTATION.to_owned(), serde_json::json!({"every_ns": 1, "keep_ns": 1}));
    begun(&shared.dir("m"), &unnamed, Some(40));
    assert_eq!(shared.removed(), ["a", "c"]);
    // The other has ended since: it was no earlier one.
    running.expect("it runs").finish(at(99), 2).unwrap();
    assert_eq!(shared.removed(), [""; 0]);
}

/// With `--keep 20s`, a clock set an hour forward removed the whole archive.
#[test]
fn clock_step_removes_no_young_recording() {
    for set_s in [3_600, -3_600] {
        let mut shared = Shared { set_s, ..Shared::new() };
        let keep = Some(20);
        shared.recorded("ours", "a", keep, (50, Some(70)));
        shared.recorded("ours", "b", keep, (70, Some(90)));
        // Before this run began, which was 50 s ago.
        shared.recorded("earlier", "c", keep, (0, Some(40)));
        shared.recorded("earlier", "d", Some(55), (0, Some(40)));
        assert_eq!(shared.removed(), ["a", "c"], "set by {set_s} s");
    }
}

#[test]
fn only_old_whole_recordings_of_the_rotation_go() {
    let home = tempfile::tempdir().unwrap();
    let dir = |name: &str| home.path().join(name);
    recorded(&dir("old"), "ours", Some(10));
    recorded(&dir("young"), "ours", Some(99));
    recorded(&dir("another's"), "theirs", Some(10));
    recorded(&dir("interrupted"), "ours", None);
    recorded(&dir("with notes"), "ours", Some(10));
    fs::write(dir("with notes").join("notes.txt"), "mine").unwrap();
    recorded(&dir("with a folder"), "ours", Some(10));
    fs::create_dir(dir("with a folder").join("x")).unwrap();
    recorded(&dir("torn"), "ours", Some(10));
    fs::remove_file(dir("torn").join("samples-00000.parquet")).unwrap();
    fs::create_dir(dir("deeper")).unwrap();
    recorded(&dir("deeper").join("old"), "ours", Some(10));
    fs::write(dir("a file"), "mine").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    recorded(&elsewhere.path().join("r"), "ours", Some(10));
    #[cfg(unix)]
    std::os::unix::fs::symlink(elsewhere.path().join("r"), dir("link")).unwrap();

    let (removed, left) = remove_labelled(home.path(), "ours", 50);
    assert_eq!(removed, [dir("old")]);
    let left: Vec<_> = left.iter().map(|(dir, _)| dir.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(left, ["torn", "with a folder", "with notes"]);
    for stays in ["young", "another's", "interrupted", "with notes", "with a folder", "torn", "deeper/old"] {
        assert!(dir(stays).join(MANIFEST).exists() && dir(stays).join(EVENTS).exists(), "{stays}");
    }
    assert!(dir("a file").exists() && elsewhere.path().join("r").join("samples-00000.parquet").exists());
    assert!(!dir("old").exists());
}

/// The log went first, and the next removals refused what was left for ever: "events.jsonl is missing".
#[test]
fn interrupted_removal_is_resumed() {
    let ours = old("ours", 50);
    for sound in 0.. {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("old");
        recorded(&dir, "ours", Some(10));
        let (disk, disk_of_the_next) =
            (FaultyDisk::new(sound, Fault::Dead), FaultyDisk::new(u64::MAX, Fault::Dead));
        let (removed, _) = remove_old_on(disk.as_ref(), home.path(), &ours);
        if !removed.is_empty() {
            assert_eq!(sound, 6, "a rename, a sync, three files, and the directory");
            break;
        }
        assert_eq!(dir.join(MANIFEST).exists(), sound == 0, "{sound}");
        // Where it is young yet, or another's, it stays.
        for (label, before) in [("ours", 5), ("theirs", 50)] {
            let next = remove_old_on(disk_of_the_next.as_ref(), home.path(), old(label, before));
            assert_eq!(next, (vec![], vec![]), "{sound}");
        }
        // What lies there is no recording with damage.
        let is_recording = Recording::open(&recordings_in(home.path())[0]).is_ok();
        assert_eq!(is_recording, sound == 0, "{sound}");
        let next = remove_old_on(disk_of_the_next.as_ref(), home.path(), &ours);
        if sound == 5 {
            // Empty, it could be anybody's.
            assert_eq!((next, fs::read_dir(&dir).unwrap().count()), ((vec![], vec![]), 0));
            continue;
        }
        assert_eq!(next, (vec![dir.clone()], vec![]), "{sound}");
        assert!(!dir.exists(), "{sound}");
    }
}

/// Somebody put a file there meanwhile.
#[test]
fn resumed_removal_keeps_foreign_files() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("old");
    recorded(&dir, "ours", Some(10));
    let disk = FaultyDisk::new(3, Fault::Dead);
    assert_eq!(remove_old_on(disk.as_ref(), home.path(), old("ours", 50)).0, Vec::<PathBuf>::new());
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    let (removed, left) = remove_labelled(home.path(), "ours", 50);
    assert_eq!((removed.len(), left.len()), (0, 1), "{left:?}");
    assert!(dir.join("notes.txt").exists());
    fs::remove_file(dir.join("notes.txt")).unwrap();
    assert_eq!(remove_labelled(home.path(), "ours", 50), (vec![dir], vec![]));
}
