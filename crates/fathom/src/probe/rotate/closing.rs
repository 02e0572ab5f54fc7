//! Closes the recordings that others have followed, on a thread of its own: that takes seconds on a loaded host.

use fathom_recording::{Manifest, Recorder};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// What is said of a recording whose closing did not come to its end.
const FAILED: &str =
    "the recording could not be closed; this is a bug, and `fathom recording recover` completes it";

/// A recording that is to be closed.
pub(super) struct Ending {
    pub(super) path: usize,
    pub(super) recorder: Recorder,
    /// What was wrong with its last words at the seam.
    pub(super) error: Option<String>,
    /// The one in which the run goes on, and where it is.
    pub(super) current: Manifest,
    pub(super) dir: PathBuf,
}

/// A recorder that has ended, by path, for what it had to tell, and the error of one that could not be ended in order.
pub(in crate::probe) type Ended = (usize, Recorder, Option<String>);

/// Each with what closing it came to; until that is known, with [`FAILED`].
type Ends = Arc<Mutex<Vec<(Ending, Result<(), String>)>>>;

fn lock_ends(ends: &Ends) -> MutexGuard<'_, Vec<(Ending, Result<(), String>)>> {
    ends.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Recordings that are being closed: [`Closing::begin`], and [`Closing::collect`] until it is busy no more.
#[derive(Default)]
pub(super) struct Closing {
    thread: Option<JoinHandle<()>>,
    ends: Ends,
}

impl Closing {
    /// Whether recordings are being closed or have been and were not collected. A thread that has ended since they were last asked
    /// for is not enough: what it left would be overwritten.
    pub(super) fn is_busy(&self) -> bool {
        self.thread.is_some() || !lock_ends(&self.ends).is_empty()
    }

    /// Closes these in order. Nothing may be under way ([`Closing::is_busy`]).
    pub(super) fn begin(
        &mut self,
        ends: Vec<Ending>,
        close: impl Fn(&mut Ending) -> Result<(), String> + Clone + Send + 'static,
    ) {
        let ends = ends.into_iter().map(|ending| (ending, Err(FAILED.to_owned()))).collect();
        self.ends = Arc::new(Mutex::new(ends));
        let (theirs, each) = (Arc::clone(&self.ends), close.clone());
        match thread::Builder::new().name("close".into()).spawn(move || close_all(&theirs, each)) {
            Ok(thread) => self.thread = Some(thread),
            // Without room for a thread, here and now.
            Err(e) => {
                tracing::warn!(error = %e, "no thread closes the recordings before");
                close_all(&self.ends, close);
            }
        }
    }

    /// Recordings that have been closed since this was last asked; with `wait`, those that are being closed, too.
    pub(super) fn collect(&mut self, wait: bool) -> Vec<Ended> {
        if self.thread.as_ref().is_some_and(|thread| !wait && !thread.is_finished()) {
            return Vec::new();
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("{FAILED}");
        }
        let ended = |(ending, closed): (Ending, Result<(), String>)| {
            (ending.path, ending.recorder, ending.error.or(closed.err()))
        };
        std::mem::take(&mut *lock_ends(&self.ends)).into_iter().map(ended).collect()
    }
}

fn close_all(ends: &Ends, close: impl Fn(&mut Ending) -> Result<(), String>) {
    for (ending, closed) in lock_ends(ends).iter_mut() {
        *closed = close(ending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_recording::Tool;
    use jiff::Timestamp;
    use std::path::Path;
    use std::time::{Duration, Instant};

    fn ending(home: &Path, path: usize) -> Ending {
        let tool = Tool { version: "0".into(), revision: None };
        let current = Manifest::new("x", Timestamp::UNIX_EPOCH, tool);
        let dir = home.join(path.to_string());
        let recorder = Recorder::create(&dir, current.clone()).expect("made");
        Ending { path, recorder, error: None, current, dir }
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            thread::yield_now();
        }
    }

    fn errors(ended: Vec<Ended>) -> Vec<(usize, Option<String>)> {
        ended.into_iter().map(|(path, _, error)| (path, error)).collect()
    }

    /// The thread ended between two questions: the next rotation overwrote what it had to tell, and the error was gone.
    #[test]
    fn finished_close_keeps_error_until_collected() {
        let home = tempfile::tempdir().expect("a directory");
        let (mut closing, gate) = (Closing::default(), Arc::new(Mutex::new(())));
        let held = gate.lock().expect("no panic");
        let theirs = Arc::clone(&gate);
        closing.begin(vec![ending(home.path(), 0)], move |_| {
            drop(theirs.lock());
            Err("the disk is gone".to_owned())
        });
        assert!(closing.collect(false).is_empty());
        drop(held);
        until("it ends", || closing.thread.as_ref().is_some_and(JoinHandle::is_finished));
        assert!(closing.is_busy(), "a rotation would overwrite what it left");
        assert_eq!(errors(closing.collect(false)), [(0, Some("the disk is gone".to_owned()))]);
        assert!(!closing.is_busy());
    }

    /// Those behind it stay unclosed too.
    #[test]
    fn close_panic_fails_every_remaining_recording() {
        let home = tempfile::tempdir().expect("a directory");
        let mut closing = Closing::default();
        let ends = (0..3).map(|path| ending(home.path(), path)).collect();
        closing.begin(ends, |ending| {
            assert_ne!(ending.path, 1, "as if by a bug");
            Ok(())
        });
        let failed = Some(FAILED.to_owned());
        assert_eq!(errors(closing.collect(true)), [(0, None), (1, failed.clone()), (2, failed)]);
    }
}
