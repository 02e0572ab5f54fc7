//! Syncs that nobody waits for: a disk may take seconds over one, and what comes meanwhile is to be written nevertheless, for a
//! kill takes what is not.

use crate::Error;
use crate::disk::Disk;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

/// Enough for a call of the system.
const STACK: usize = 128 << 10;

/// Files that are to be synced, one after the other, and what each is called.
type Files = Vec<(File, PathBuf)>;
/// For what is asked of the thread, and for its answers.
type Ends = (Sender<Files>, Receiver<Result<(), Error>>);

/// A thread that syncs, from the first time on that it is asked to.
#[derive(Debug, Default)]
pub(super) struct Beside {
    thread: Option<Ends>,
    /// It was asked, and has not said yet that it is done.
    is_at_work: bool,
}

impl Beside {
    /// Has these synced. Nothing may be under way ([`Beside::is_done`]).
    pub(super) fn sync(&mut self, disk: &Arc<dyn Disk>, files: Files) -> Result<(), Error> {
        if self.thread.is_none() {
            self.thread = spawn(Arc::clone(disk));
        }
        let Some((ask, _)) = &self.thread else { return sync_all(disk.as_ref(), &files) };
        match ask.send(files) {
            Ok(()) => {
                self.is_at_work = true;
                Ok(())
            }
            // Its thread has failed.
            Err(unsent) => sync_all(disk.as_ref(), &unsent.0),
        }
    }

    /// Whether nothing is under way; what was wrong with the last sync, where something was.
    pub(super) fn is_done(&mut self) -> Result<bool, Error> {
        let Some((_, answers)) = self.thread.as_ref().filter(|_| self.is_at_work) else { return Ok(true) };
        let answer = match answers.try_recv() {
            Err(TryRecvError::Empty) => return Ok(false),
            Ok(answer) => answer,
            Err(TryRecvError::Disconnected) => Ok(()),
        };
        self.is_at_work = false;
        answer.map(|()| true)
    }

    /// Waits for what is under way.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let at_work = std::mem::take(&mut self.is_at_work);
        match &self.thread {
            Some((_, answers)) if at_work => answers.recv().unwrap_or(Ok(())),
            _ => Ok(()),
        }
    }
}

/// None: there is no room for a thread.
fn spawn(disk: Arc<dyn Disk>) -> Option<Ends> {
    let (ask, asked) = channel::<Files>();
    let (answer, answers) = channel();
    let work = move || {
        for files in asked {
            if answer.send(sync_all(disk.as_ref(), &files)).is_err() {
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
