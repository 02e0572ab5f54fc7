//! Pipes in the place of a recording's files: whoever prepared the directory, nobody waits for them.

use super::golden::copy;
use super::*;
use crate::{EVENTS, LOCK, MANIFEST, PROGRESS, RESERVE, SEAM, recover, verify};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn named_pipe_as_file_never_blocks() {
    let files =
        [MANIFEST, EVENTS, LOCK, SEAM, PROGRESS, RESERVE, "samples-00000.parquet", "samples-00000.arrows"];
    for (recording, name) in ["closed", "torn"].into_iter().flat_map(|r| files.map(|name| (r, name))) {
        let home = copy(recording);
        let path = home.path().join(name);
        let _ = fs::remove_file(&path);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let dir = home.path();
            let _ = Recording::open(dir).map(|recording| (recording.is_running(), recording.damage()));
            let _ = verify(dir, |_| {}).map(|verification| verification.is_sound());
            let _ = recover(dir, Timestamp::UNIX_EPOCH);
            let _ = tell.send(());
        });
        told.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|e| panic!("{recording}, {name}: {e}"));
    }
}
