//! One thing that was started: its directory.

use crate::error::Error;
use crate::process::Identity;
use crate::state::State;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Room for the last word of a job on a disk that is full: a block of most file systems.
const RESERVE: usize = 4096;
/// A word that a process left has at most so many bytes.
const LONGEST_WORD: u64 = 4096;

/// What a supervisor leaves of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Supervisor {
    #[serde(flatten)]
    pub(crate) process: Identity,
    /// When it began, in seconds since the machine started; the time in which it slept counts.
    pub(crate) began_s: u64,
}

/// A job's directory, whether it is there or not.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    path: PathBuf,
}

impl Job {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes the directory, which claims the job; false: it was there.
    pub(crate) fn make(&self) -> Result<bool, Error> {
        match fs::create_dir(&self.path) {
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => return Ok(false),
            made => made.map_err(Error::path("make", &self.path))?,
        }
        let reserve = self.file("reserve");
        if let Err(cause) = fs::write(&reserve, [0; RESERVE]) {
            let _ = fs::remove_dir_all(&self.path);
            return Err(Error::path("write", &reserve)(cause));
        }
        Ok(true)
    }

    pub(crate) fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(Error::path("remove", &self.path)(cause))
            }
            _ => Ok(()),
        }
    }

    /// Writes a word at once or not at all.
    pub(crate) fn leave<T: Serialize>(&self, name: &str, word: &T) -> Result<(), Error> {
        let path = self.file(name);
        let bytes = serde_json::to_vec(word).map_err(|e| Error::run(e.to_string()))?;
        fathom_os::replace::replace(&path, &bytes, 0o600).map_err(Error::path("write", &path))
    }

    fn word<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Option<T> {
        let mut bytes = Vec::new();
        File::open(self.file(name)).ok()?.take(LONGEST_WORD).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// What its supervisor left of itself.
    pub(crate) fn supervisor(&self) -> Option<Supervisor> {
        self.word("supervisor")
    }

    /// The processes that belong to it and run.
    pub(crate) fn processes(&self) -> Vec<Identity> {
        let supervisor = self.supervisor().map(|word| word.process);
        let program = self.word::<Identity>("program");
        [program, supervisor].into_iter().flatten().filter(Identity::runs).collect()
    }

    pub(crate) fn state(&self) -> State {
        if let Some(state) = self.word("ended") {
            return state;
        }
        if self.supervisor().is_some_and(|word| word.process.runs()) {
            return State::Running;
        }
        // It may have ended between the two looks.
        self.word("ended").unwrap_or(State::Lost)
    }

    /// The recording's files, by name: those that are whole, or grow.
    pub(crate) fn recorded(&self) -> Vec<(String, Metadata)> {
        let entries = fs::read_dir(self.file("rec")).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let name = entry.file_name().to_str()?.to_owned();
                // What ends so is on its way to another name; what begins so is the recorder's own.
                let passing =
                    name.starts_with('.') || Path::new(&name).extension().is_some_and(|end| end == "tmp");
                let metadata = fs::symlink_metadata(entry.path()).ok()?;
                (metadata.is_file() && !passing).then_some((name, metadata))
            })
            .collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        files
    }
}

/// Opens a file that is one: no link, no pipe. None: there is none.
pub(crate) fn open_plain(path: &Path) -> Option<(File, Metadata)> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(i32::try_from(flags).ok()?).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((file, metadata))
}

/// The bytes from an offset on, so many at most; fewer where the file is shorter.
pub(crate) fn read_from(file: &File, offset: u64, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(most).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
