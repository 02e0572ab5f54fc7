//! A disk that is easily filled.

use super::must;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file system of half a MiB, unmounted when dropped.
pub(crate) struct Small(TempDir);

impl Small {
    pub(crate) fn mount() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        must("mount", &["-t", "tmpfs", "-o", "size=512k", "fathom-test", &dir.path().display().to_string()]);
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes whatever is free, to the last byte; what took it.
    pub(crate) fn fill(&self) -> PathBuf {
        let ballast = self.path().join("ballast");
        let mut filling = std::fs::File::options().append(true).create(true).open(&ballast).expect("created");
        while filling.write(&[1; 512]).is_ok() {}
        ballast
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let path = self.path().display().to_string();
        let unmounted = std::process::Command::new("umount").arg(&path).status();
        assert!(std::thread::panicking() || unmounted.is_ok_and(|s| s.success()), "{path} is still mounted");
    }
}

/// What a recording keeps back, at the least.
const RESERVE: u64 = 128 << 10;

/// Waits until a recording on a disk that is full has given up what it kept back for what happens meanwhile.
pub(crate) fn wait_until_it_waits(dir: &Path) {
    super::wait_for("the recording to wait", || {
        std::fs::metadata(dir.join(".reserve")).map_or(true, |file| file.len() < RESERVE).then_some(())
    });
}
