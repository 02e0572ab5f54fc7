//! Where a study's jobs are on a host.

use crate::error::Error;
use crate::job::Job;
use crate::request::{HostName, JobName, StudyName};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// In the home: `.fathom/bin` has binaries, `.fathom/studies` what runs.
const ROOT: &str = ".fathom";

/// What one study has on one host.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    study: StudyName,
    host: HostName,
}

/// While it is held no other call starts or ends anything here.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Directory {
    pub(crate) fn new(home: &Path, study: StudyName, host: HostName) -> Self {
        Self { root: home.join(ROOT), study, host }
    }

    fn of_study(&self) -> PathBuf {
        self.root.join("studies").join(self.study.as_str())
    }

    fn path(&self) -> PathBuf {
        self.of_study().join(self.host.as_str())
    }

    fn jobs_path(&self) -> PathBuf {
        self.path().join("jobs")
    }

    pub(crate) fn make(&self) -> Result<(), Error> {
        let path = self.jobs_path();
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(Error::path("make", &path))
    }

    /// Waits for other calls. None: there is nothing of the study here.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Error> {
        let path = self.path().join("lock");
        let file = match OpenOptions::new().write(true).create(true).truncate(false).open(&path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::path("open", &path))?,
        };
        file.lock().map_err(Error::path("lock", &path))?;
        Ok(Some(Lock { _file: file }))
    }

    pub(crate) fn job(&self, name: &JobName) -> Job {
        Job::new(self.jobs_path().join(name.as_str()))
    }

    /// All jobs that are here, by name.
    pub(crate) fn jobs(&self) -> Result<Vec<(JobName, Job)>, Error> {
        let path = self.jobs_path();
        let entries = match fs::read_dir(&path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::path("read", &path))?,
        };
        let mut names: Vec<JobName> =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        Ok(names.into_iter().map(|name| (name.clone(), self.job(&name))).collect())
    }

    /// Takes all of it away, and what was left of a binary that did not arrive whole.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let path = self.path();
        match fs::remove_dir_all(&path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(Error::path("remove", &path)(cause));
            }
            _ => {}
        }
        let part = format!(".part-{}-", self.study);
        for entry in fs::read_dir(self.root.join("bin")).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&part) {
                let _ = fs::remove_file(entry.path());
            }
        }
        // They stay while another host of the study, or another study, has something in them.
        let _ = fs::remove_dir(self.of_study());
        let _ = fs::remove_dir(self.root.join("studies"));
        Ok(())
    }
}
