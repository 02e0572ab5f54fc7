//! Who may read a recording: its owner alone, unless it was asked for.

use super::golden::copy;
use super::*;
use crate::{Recorder, recover};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

/// The modes of what lies in a directory, by name.
fn modes(dir: &Path) -> BTreeMap<String, u32> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().to_string_lossy().into_owned(), mode(&entry.path()))
    };
    fs::read_dir(dir).unwrap().map(entry).collect()
}

/// What a program makes here that asks for no mode: the umask is the process's.
fn usual(home: &Path) -> (u32, u32) {
    fs::write(home.join("file"), "").unwrap();
    fs::create_dir(home.join("directory")).unwrap();
    (mode(&home.join("file")), mode(&home.join("directory")))
}

/// Recordings name hosts, and any account of the host could read them.
#[test]
fn recording_is_private_unless_readable_is_set() {
    let home = tempfile::tempdir().unwrap();
    let usual = usual(home.path());
    for (readable, (file, directory)) in [(false, (0o600, 0o700)), (true, usual)] {
        let above = home.path().join(format!("above-{readable}"));
        let dir = above.join("r");
        let options = Options { readable, ..SMALL };
        let mut recorder = Recorder::create_with(&dir, manifest(), options).unwrap();
        let mut names = modes(&dir);
        for n in 0..40 {
            recorder.push(&sample(n)).unwrap();
            recorder.flush(n * SECOND).unwrap();
            let progress = fathom_core::event::EventKind::ScheduleProgress { due: n, sent: BTreeMap::new() };
            let at = Timestamp::UNIX_EPOCH;
            let event =
                fathom_core::event::Event { at, mono_ns: n * SECOND, connection: None, kind: progress };
            recorder.event(&event).unwrap();
            names.extend(modes(&dir));
        }
        recorder.finish(Timestamp::UNIX_EPOCH, 40 * SECOND).unwrap();
        names.extend(modes(&dir));
        assert!(names.len() >= 7, "{names:?}");
        for (name, mode) in names {
            assert_eq!(mode, file, "{name} {mode:o}");
        }
        assert_eq!((mode(&dir), mode(&above)), (directory, directory));
    }
}

/// What recovery makes is for those who could read the recording before, and for nobody else.
#[test]
fn recovery_keeps_file_modes() {
    for wanted in [0o600, 0o644] {
        let home = copy("torn");
        let before: Vec<String> = modes(home.path()).into_keys().collect();
        for name in &before {
            fs::set_permissions(home.path().join(name), fs::Permissions::from_mode(wanted)).unwrap();
        }
        let made = if wanted == 0o600 { wanted } else { usual(tempfile::tempdir().unwrap().path()).0 };
        assert!(recover(home.path(), Timestamp::UNIX_EPOCH).unwrap().needed);
        let after = modes(home.path());
        assert!(after.keys().any(|name| !before.contains(name)), "{after:?}");
        for (name, mode) in after {
            assert!(mode == made || mode == wanted && before.contains(&name), "{name} {mode:o}");
        }
    }
}
