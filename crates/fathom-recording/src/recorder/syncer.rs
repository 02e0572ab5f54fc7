//! Syncs that nobody waits for: a disk may take seconds over one, and what comes meanwhile is to be written nevertheless, for a
//! kill takes what is not.

use crate::Error;
use crate::disk::Disk;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

/// Enough for a call of the system.
const STACK: usize = 128 << 10;

/// A file that is to be synced, and what it is called. It is the writer's own handle: a sync needs no further one.
pub(super) type Unsynced = (Arc<File>, PathBuf);
/// Such files, one after the other.
type Files = Vec<Unsynced>;
/// For what is asked of the thread, and for its answers.
type Ends = (Sender<Files>, Receiver<Result<(), Error>>);

/// A thread that syncs, from the first time on that it is asked to.
#[derive(Debug, Default)]
pub(super) struct Syncer {
    thread: Option<Ends>,
    /// What it was asked to sync first, until it has said that it is done.
    at_work: Option<PathBuf>,
}

impl Syncer {
    /// Has these synced. Nothing may be under way ([`Syncer::is_done`]).
    pub(super) fn sync(&mut self, disk: &Arc<dyn Disk>, files: Files) -> Result<(), Error> {
        if self.thread.is_none() {
            self.thread = spawn(Arc::clone(disk));
        }
        let Some((ask, _)) = &self.thread else { return sync_all(disk.as_ref(), &files) };
        let first = files.first().map(|(_, path)| path.clone());
        match ask.send(files) {
            Ok(()) => {
                self.at_work = first;
                Ok(())
            }
            // Its thread has failed.
            Err(unsent) => sync_all(disk.as_ref(), &unsent.0),
        }
    }

    /// Whether nothing is under way; what was wrong with the last sync, where something was.
    pub(super) fn is_done(&mut self) -> Result<bool, Error> {
        let Some(((_, answers), path)) = self.thread.as_ref().zip(self.at_work.take()) else {
            return Ok(true);
        };
        match answers.try_recv() {
            Err(TryRecvError::Empty) => {
                self.at_work = Some(path);
                Ok(false)
            }
            Ok(answer) => answer.map(|()| true),
            Err(TryRecvError::Disconnected) => Err(failed(&path)),
        }
    }

    /// Waits for what is under way.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let Some(((_, answers), path)) = self.thread.as_ref().zip(self.at_work.take()) else { return Ok(()) };
        answers.recv().unwrap_or_else(|_| Err(failed(&path)))
    }
}

/// The thread ended without an answer: nobody knows what is on the disk.
fn failed(path: &Path) -> Error {
    Error::io("sync", path)(io::Error::other("the thread that syncs has failed; this is a bug"))
}

/// None: there is no room for a thread.
fn spawn(disk: Arc<dyn Disk>) -> Option<Ends> {
    let (ask, asked) = channel::<Files>();
    let (answer, answers) = channel();
    let work = move || {
        for files in asked {
            let done = sync_all(disk.as_ref(), &files);
            // Whoever hears of it may remove them.
            drop(files);
            if answer.send(done).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("sync".to_owned()).stack_size(STACK).spawn(work).ok()?;
    Some((ask, answers))
}

fn sync_all(disk: &dyn Disk, files: &Files) -> Result<(), Error> {
    files.iter().try_for_each(|(file, path)| disk.sync(file).map_err(Error::io("sync", path)))
}
