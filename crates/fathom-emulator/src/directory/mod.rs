//! Where a fabric keeps what others must find: its socket, what it made, and the lock that says it lives.
//!
//! ```text
//! BASE/NAME.lock         locked by the daemon as long as it lives, however it ends
//! BASE/NAME/state.json   what was made, written before it is made, so that whoever comes next can remove it
//! BASE/NAME/control      the socket
//! BASE/NAME/log          what the daemon has to say once nobody watches it
//! BASE/NAME/hosts        /etc/hosts as the fabric's hosts see it
//! ```
//!
//! BASE is `/run/fathom/fabric` for root and `$XDG_RUNTIME_DIR/fathom/fabric` for others, else `/tmp/fathom-fabric-UID`;
//! `base` says how it is looked at. Names become paths only after they are checked against a whitelist.

mod base;
mod state;
#[cfg(test)]
mod tests;

pub use state::{FabricState, HostRecord};

use crate::error::Error;
use crate::users::is_root_of_machine;
use base::{Candidate, Owner, SafeDir};
use fathom_os::peer;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names the fabric that a command means, where it is not said: its name, or its directory. Set for what
/// `fathom fabric run` and `exec` start.
pub const NAME_VARIABLE: &str = "FATHOM_FABRIC";
/// A socket's path has at most 107 bytes, and a name is part of it.
const LONGEST_NAME: usize = 40;
/// How long a killed daemon may take to end: its kernel removes hundreds of devices first.
const DYING: Duration = Duration::from_secs(10);
const STATE: &str = "state.json";

/// The base directories of one user, the best first.
#[derive(Debug)]
struct Bases {
    candidates: Vec<Candidate>,
    owner: Owner,
}

impl Bases {
    fn of_this_user() -> Self {
        let user = peer::user();
        let in_tmp = Candidate::new("/tmp", &[&format!("fathom-fabric-{user}")]);
        let session = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute());
        let candidates = if user == 0 {
            let system = Candidate::new("/run", &["fathom", "fabric"]);
            // Who is root only in a user namespace may not write to /run.
            if is_root_of_machine() { vec![system] } else { vec![system, in_tmp] }
        } else {
            let session = session.map(|dir| Candidate::new(dir, &["fathom", "fabric"]));
            session.into_iter().chain([in_tmp]).collect()
        };
        Self { candidates, owner: peer::user }
    }

    /// The first that can be made and written to.
    fn make(&self) -> Result<SafeDir, Error> {
        let mut refused = Error::run("no directory to keep fabrics in");
        for candidate in &self.candidates {
            let trial = format!(".trial-{}", std::process::id());
            // As root in a user namespace /run may look writable and not be.
            let writable = |dir: SafeDir| match dir.create(&trial).and_then(|_| dir.remove_file(&trial)) {
                Ok(()) => Ok(dir),
                Err(e) => Err(Error::path("write in", dir.path(), e, "it must be writable to you")),
            };
            match SafeDir::make(candidate, self.owner).and_then(writable) {
                Ok(dir) => return Ok(dir),
                Err(e) => refused = e,
            }
        }
        Err(refused)
    }

    /// Those that are there, and why others that are there are not used.
    fn open(&self) -> (Vec<SafeDir>, Vec<Error>) {
        let (mut safe, mut refused) = (Vec::new(), Vec::new());
        for candidate in &self.candidates {
            match SafeDir::open(candidate, self.owner) {
                Ok(dir) => safe.extend(dir),
                Err(e) => refused.push(e),
            }
        }
        (safe, refused)
    }

    fn names(&self) -> Vec<String> {
        let (bases, _) = self.open();
        let names = bases.iter().flat_map(SafeDir::dirs);
        let mut names: Vec<String> = names.filter(|name| check_name(name).is_ok()).collect();
        names.sort();
        names.dedup();
        names
    }

    fn find(&self, name: &str) -> Result<FabricDir, Error> {
        check_name(name)?;
        let (mut bases, refused) = self.open();
        let mut there = None;
        for (index, base) in bases.iter().enumerate() {
            if base.dir(name)?.is_some() {
                there = Some(index);
                break;
            }
        }
        match there {
            Some(index) => Ok(FabricDir { base: bases.swap_remove(index), name: name.to_owned() }),
            None if !bases.is_empty() => Ok(FabricDir { base: bases.swap_remove(0), name: name.to_owned() }),
            None => Err(refused.into_iter().next().unwrap_or_else(|| not_up(name, &[]))),
        }
    }
}

/// The directory of one fabric; it need not exist.
#[derive(Debug)]
pub struct FabricDir {
    base: SafeDir,
    name: String,
}

impl FabricDir {
    /// For a fabric that is to be made.
    pub fn new(name: &str) -> Result<Self, Error> {
        check_name(name)?;
        Ok(Self { base: Bases::of_this_user().make()?, name: name.to_owned() })
    }

    /// The fabric that is meant: as named, else as the environment names it, else the only one there is.
    pub fn find(name: Option<&str>) -> Result<Self, Error> {
        let from_environment = std::env::var(NAME_VARIABLE).ok().filter(|name| !name.is_empty());
        let bases = Bases::of_this_user();
        match name.map(str::to_owned).or(from_environment) {
            None => bases.find(&only(&names())?),
            Some(path) if path.contains('/') => Self::at(Path::new(&path), bases.owner),
            Some(name) => bases.find(&name),
        }
    }

    /// The fabric whose directory this is.
    fn at(path: &Path, owner: Owner) -> Result<Self, Error> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        check_name(name)?;
        let base = path.parent().unwrap_or(Path::new("/"));
        let (Some(system), Some(last)) = (base.parent(), base.file_name().and_then(|last| last.to_str()))
        else {
            return Err(not_up(name, &[]));
        };
        match SafeDir::open(&Candidate::new(system, &[last]), owner)? {
            Some(base) => Ok(Self { base, name: name.to_owned() }),
            None => Err(not_up(name, &names())),
        }
    }

    /// The fabric's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory's path, as others may give it to [`FabricDir::find`].
    pub fn path(&self) -> PathBuf {
        self.base.path().join(&self.name)
    }

    /// The path of a file in it, for those who take only paths.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.file("control")
    }

    /// Whether it is there.
    pub fn exists(&self) -> Result<bool, Error> {
        Ok(self.base.dir(&self.name)?.is_some())
    }

    fn dir(&self) -> Result<SafeDir, Error> {
        let missing = || self.failed("open", &std::io::Error::from(ErrorKind::NotFound));
        self.base.dir(&self.name)?.ok_or_else(missing)
    }

    /// Creates the directory, for its owner only.
    pub(crate) fn create(&self) -> Result<(), Error> {
        self.base.make_dir(&self.name).map_err(|e| self.failed("create", &e))
    }

    /// A new file in it, for its owner only.
    pub fn create_file(&self, name: &str) -> Result<File, Error> {
        let failed = |e| Error::path("create", &self.file(name), e, "see what stands there");
        self.dir()?.create(name).map_err(failed)
    }

    /// Writes what was or will be made, whole or not at all.
    pub(crate) fn write_state(&self, state: &FabricState) -> Result<(), Error> {
        let text = serde_json::to_vec(state).map_err(|e| Error::run(e.to_string()))?;
        self.dir()?.replace(STATE, &text).map_err(|e| self.failed("write the state in", &e))
    }

    /// What was made; none where it got no further than its directory. A state that this fabric cannot have written is
    /// an error, and nothing of it may be acted upon.
    pub(crate) fn read_state(&self) -> Result<Option<FabricState>, Error> {
        let Some(dir) = self.base.dir(&self.name)? else { return Ok(None) };
        let bytes = match dir.read(STATE) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.failed("read the state in", &e)),
        };
        FabricState::parse(&bytes, &self.name).map(Some).map_err(|e| {
            let remedy = "nothing was touched: remove the directory yourself";
            Error::path("trust", &self.file(STATE), e, remedy)
        })
    }

    /// Removes the directory and what is in it; nothing there is no error.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        // The base has been looked at, and this removes without following symlinks.
        match fs::remove_dir_all(self.path()) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(self.failed("remove", &e)),
            _ => Ok(()),
        }
    }

    /// The lock of the daemon; none while one holds it.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Error> {
        let name = format!("{}.lock", self.name);
        let failed = |e: &std::io::Error| {
            let remedy = "it must be a plain file of yours: remove what stands there";
            Error::path("lock", &self.base.path().join(&name), e, remedy)
        };
        loop {
            let file = match self.base.open_file(&name) {
                Err(e) if e.kind() == ErrorKind::NotFound => self.base.create(&name),
                other => other,
            };
            let file = match file {
                // Another came first; that one's is looked at now.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                other => other.map_err(|e| failed(&e))?,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(failed(&e)),
            }
            // Its last holder may have removed it between the opening and the locking.
            let locked = file.metadata().map(|m| (m.dev(), m.ino())).map_err(|e| failed(&e))?;
            if self.base.identity(&name).is_ok_and(|identity| identity == locked) {
                let base = self.base.try_clone().map_err(|e| failed(&e))?;
                return Ok(Some(Lock { base, name, _file: file }));
            }
        }
    }

    /// The lock, unless a daemon holds it that lives. One that was killed may hold it for a moment after its socket has
    /// closed, until its last thread has ended.
    pub(crate) fn lock_unless_alive(&self) -> Result<Option<Lock>, Error> {
        let deadline = Instant::now() + DYING;
        loop {
            let lock = self.lock()?;
            if lock.is_some() || UnixStream::connect(self.control()).is_ok() || Instant::now() >= deadline {
                return Ok(lock);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn failed(&self, what: &str, cause: &std::io::Error) -> Error {
        Error::path(what, &self.path(), cause, "it must be writable to you")
    }
}

/// Held by whoever makes or removes the fabric. The file goes with it.
#[derive(Debug)]
pub(crate) struct Lock {
    base: SafeDir,
    name: String,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked here, so that nobody who waits for it takes a file without a name for the lock.
        let _ = self.base.remove_file(&self.name);
    }
}

/// The names of all fabrics that stand here, running or not.
pub fn names() -> Vec<String> {
    Bases::of_this_user().names()
}

fn only(names: &[String]) -> Result<String, Error> {
    match names {
        [one] => Ok(one.clone()),
        [] => Err(Error::run("no fabric is up; make one with: fathom fabric up SCENARIO.toml")),
        several => Err(Error::Usage(format!(
            "there are several fabrics: choose one with --name: {}",
            several.join(", ")
        ))),
    }
}

/// That no fabric of this name is up, and which are.
pub(crate) fn not_up(name: &str, others: &[String]) -> Error {
    let remedy = if others.is_empty() {
        "make one with: fathom fabric up SCENARIO.toml".to_owned()
    } else {
        format!("there is: {}", others.join(", "))
    };
    Error::Run(format!("no fabric {name} is up; {remedy}"))
}

/// A name out of any text: what a scenario is called, say.
pub fn name_from(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(plain).take(LONGEST_NAME).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "fabric".to_owned() } else { name.to_owned() }
}

fn check_name(name: &str) -> Result<(), Error> {
    let good = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if good && !name.is_empty() && !name.starts_with('-') && name.len() <= LONGEST_NAME {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "a fabric cannot be named {name:?}; use 1 to {LONGEST_NAME} of a-z, 0-9 and -, as in {:?}",
        name_from(name)
    )))
}
