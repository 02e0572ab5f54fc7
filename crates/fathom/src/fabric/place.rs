//! Where a fabric keeps what others must find: its socket, what it made, and the lock that says it lives.
//!
//! ```text
//! BASE/NAME.lock         locked by the daemon as long as it lives, however it ends
//! BASE/NAME/state.json   what was made, written before it is made, so that whoever comes next can remove it
//! BASE/NAME/control      the socket
//! BASE/NAME/log          what the daemon has to say once nobody watches it
//! BASE/NAME/hosts        /etc/hosts as the fabric's hosts see it
//! ```

use crate::exit::Failure;
use fathom_os::peer;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names the fabric that a command means, where it is not said: its name, or its directory. Set for what
/// `fathom fabric run` and `exec` start.
pub(super) const NAME_VARIABLE: &str = "FATHOM_FABRIC";
/// A socket's path has at most 107 bytes, and a name is part of it.
const LONGEST_NAME: usize = 40;
/// How long a killed daemon may take to end: its kernel removes hundreds of devices first.
const DYING: Duration = Duration::from_secs(10);

/// What a fabric made, for whoever removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Tells this fabric's processes from those of an earlier one of the same name.
    pub(super) marker: String,
    /// The daemon.
    pub(super) pid: u32,
    pub(super) scenario: PathBuf,
    pub(super) hosts: Vec<HostState>,
}

/// One host of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostState {
    pub(super) name: String,
    pub(super) addresses: Vec<IpAddr>,
    /// What its largest packet has, bytes.
    pub(super) mtu: u16,
    /// Inode of its network namespace, once that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<u64>,
    /// The name it bears in `ip netns`, where it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) netns: Option<String>,
}

/// The directory of one fabric; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    dir: PathBuf,
}

impl Place {
    /// For a fabric that is to be made.
    pub(super) fn new(name: &str) -> Result<Self, Failure> {
        check_name(name)?;
        let mut refused = None;
        for base in bases() {
            match make_base(&base) {
                Ok(()) => return Ok(Self { dir: base.join(name) }),
                Err(e) => refused = Some(e),
            }
        }
        Err(Failure::run(refused.unwrap_or_default()))
    }

    /// The fabric that is meant: as named, else as the environment names it, else the only one there is.
    pub(super) fn find(name: Option<&str>) -> Result<Self, Failure> {
        let from_environment = std::env::var(NAME_VARIABLE).ok().filter(|name| !name.is_empty());
        let Some(name) = name.map(str::to_owned).or(from_environment) else { return only() };
        if name.contains('/') {
            return Ok(Self { dir: PathBuf::from(name) });
        }
        check_name(&name)?;
        let dirs: Vec<PathBuf> = bases().into_iter().map(|base| base.join(&name)).collect();
        let found = dirs.iter().find(|dir| dir.exists()).or(dirs.first());
        Ok(Self { dir: found.cloned().unwrap_or_default() })
    }

    pub(super) fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn control(&self) -> PathBuf {
        self.file("control")
    }

    /// Creates the directory, for its owner only.
    pub(super) fn create(&self) -> Result<(), Failure> {
        DirBuilder::new().mode(0o700).create(&self.dir).map_err(|e| self.failed("create", &e))
    }

    /// Writes what was or will be made, whole or not at all.
    pub(super) fn write_state(&self, state: &State) -> Result<(), Failure> {
        let temporary = self.file("state.json.tmp");
        let text = serde_json::to_string(state).map_err(|e| Failure::run(e.to_string()))?;
        fs::write(&temporary, text)
            .and_then(|()| fs::rename(&temporary, self.file("state.json")))
            .map_err(|e| self.failed("write the state in", &e))
    }

    /// What was made, where that stands here and can be read.
    pub(super) fn read_state(&self) -> Option<State> {
        serde_json::from_slice(&fs::read(self.file("state.json")).ok()?).ok()
    }

    /// Removes the directory and what is in it; nothing there is no error.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        match fs::remove_dir_all(&self.dir) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(self.failed("remove", &e)),
            _ => Ok(()),
        }
    }

    /// The lock of the daemon; none while one holds it.
    pub(super) fn lock(&self) -> Result<Option<Lock>, Failure> {
        let path = self.dir.with_extension("lock");
        loop {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(|e| self.failed("lock", &e))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(self.failed("lock", &e)),
            }
            // Its last holder may have removed it between the opening and the locking.
            let same = fs::metadata(&path).ok().map(|m| m.ino()) == file.metadata().ok().map(|m| m.ino());
            if same {
                return Ok(Some(Lock { path, _file: file }));
            }
        }
    }

    /// The lock, unless a daemon holds it that lives. One that was killed may hold it for a moment after its socket has
    /// closed, until its last thread has ended.
    pub(super) fn lock_unless_alive(&self) -> Result<Option<Lock>, Failure> {
        let deadline = Instant::now() + DYING;
        loop {
            let lock = self.lock()?;
            if lock.is_some() || UnixStream::connect(self.control()).is_ok() || Instant::now() >= deadline {
                return Ok(lock);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn failed(&self, what: &str, cause: &std::io::Error) -> Failure {
        Failure::run(format!("cannot {what} {}: {cause}; it must be writable to you", self.dir.display()))
    }
}

/// Held by whoever makes or removes the fabric. The file goes with it.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked here, so that nobody who waits for it takes a file without a name for the lock.
        let _ = fs::remove_file(&self.path);
    }
}

/// The names of all fabrics that stand here, running or not.
pub(super) fn names() -> Vec<String> {
    let entries = bases().into_iter().filter_map(|base| fs::read_dir(base).ok()).flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

fn only() -> Result<Place, Failure> {
    match names().as_slice() {
        [one] => Place::find(Some(one)),
        [] => Err(Failure::run("no fabric is up; make one with: fathom fabric up SCENARIO.toml")),
        several => {
            Err(Failure::usage(format!("which fabric? say --name with one of: {}", several.join(", "))))
        }
    }
}

/// A name out of any text: what a scenario is called, say.
pub(super) fn name_from(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(plain).take(LONGEST_NAME).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "fabric".to_owned() } else { name.to_owned() }
}

fn check_name(name: &str) -> Result<(), Failure> {
    let good = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if good && !name.is_empty() && !name.starts_with('-') && name.len() <= LONGEST_NAME {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "a fabric cannot be named {name:?}; use 1 to {LONGEST_NAME} of a-z, 0-9 and -, as in {:?}",
        name_from(name)
    )))
}

/// Directories where fabrics of this user may stand, the best first.
fn bases() -> Vec<PathBuf> {
    let user = peer::user();
    let own = if user == 0 {
        Some(PathBuf::from("/run/fathom/fabric"))
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("fathom/fabric"))
    };
    own.into_iter().chain([PathBuf::from(format!("/tmp/fathom-fabric-{user}"))]).collect()
}

/// Makes a directory that only this user can write to, or finds that it is one. (In /tmp anybody may have made it.)
fn make_base(base: &Path) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| {
        format!(
            "cannot keep state in {}: {e}; set XDG_RUNTIME_DIR to a directory of your own",
            base.display()
        )
    };
    DirBuilder::new().recursive(true).mode(0o700).create(base).map_err(|e| failed(&e))?;
    let found = fs::symlink_metadata(base).map_err(|e| failed(&e))?;
    if !found.is_dir() || found.uid() != peer::user() || found.mode() & 0o022 != 0 {
        return Err(failed(&"it is not a directory that only you can write to"));
    }
    // As root in a user namespace /run may look writable and not be.
    let trial = base.join(format!(".trial-{}", std::process::id()));
    File::create(&trial).and_then(|_| fs::remove_file(&trial)).map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &Path) -> Place {
        Place { dir: dir.join("a") }
    }

    #[test]
    fn names_are_made_of_any_text_and_those_are_accepted() {
        for (text, name) in
            [("Azure region", "azure-region"), ("--x--", "x"), ("", "fabric"), ("α", "fabric")]
        {
            assert_eq!(name_from(text), name);
            check_name(name).unwrap();
        }
        check_name(&name_from(&"long ".repeat(50))).unwrap();
        for bad in ["", "-a", "A", "a/b", "a.b", ".."] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_lock_is_held_by_one_and_leaves_no_file() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        let lock = place.lock().unwrap().unwrap();
        assert!(place.lock().unwrap().is_none());
        drop(lock);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        assert!(place.lock().unwrap().is_some());
    }

    #[test]
    fn what_was_made_is_read_again_and_goes_without_a_trace() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        assert_eq!(place.read_state(), None);
        place.create().unwrap();
        let host = HostState {
            name: "client".into(),
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            mtu: 1_500,
            network: Some(4_026_531_840),
            netns: None,
        };
        let state = State { marker: "a/1".into(), pid: 7, scenario: "x.toml".into(), hosts: vec![host] };
        place.write_state(&state).unwrap();
        assert_eq!(place.read_state(), Some(state));
        assert_eq!(fs::metadata(place.dir()).unwrap().mode() & 0o777, 0o700);
        place.remove().unwrap();
        place.remove().unwrap();
        assert!(!place.dir().exists());
    }
}
