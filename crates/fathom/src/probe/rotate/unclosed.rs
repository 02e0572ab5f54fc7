//! Recordings of a rotation that could not be closed, as on a full disk: they are closed when there is room.

use fathom_recording::{Recorder, recover};
use jiff::Timestamp;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The recordings that this run has left and could not close: [`Unclosed::close`] for each that it leaves, and
/// [`Unclosed::try_again`] when it is over.
#[derive(Clone, Default)]
pub(super) struct Unclosed(Arc<Mutex<Vec<PathBuf>>>);

impl Unclosed {
    /// Closes a recording, and where that goes those, too, that could not be closed before.
    pub(super) fn close(
        &self,
        recorder: &mut Recorder,
        ended_at: Timestamp,
        mono_ns: u64,
    ) -> Result<(), String> {
        let finished = recorder.finish_with(ended_at, mono_ns, None);
        match &finished {
            Ok(_) if !recorder.is_left_open() => self.try_again(),
            _ => self.lock().push(recorder.dir().to_owned()),
        }
        finished.map(drop).map_err(|e| e.to_string())
    }

    /// Does what recovery does.
    pub(super) fn try_again(&self) {
        let mut left = std::mem::take(&mut *self.lock());
        left.retain(|dir| match recover(dir, Timestamp::now()) {
            Ok(_) => {
                tracing::info!(dir = %dir.display(), "closed after all");
                false
            }
            Err(error) => {
                tracing::warn!(dir = %dir.display(), %error, "still not closed");
                dir.exists()
            }
        });
        self.lock().append(&mut left);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_core::sample::Sample;
    use fathom_recording::{Manifest, Recording, Tool, verify};
    use std::path::Path;

    fn recorded(dir: &Path) -> Recorder {
        let tool = Tool { version: "0".into(), revision: None };
        let mut recorder =
            Recorder::create(dir, Manifest::new("x", Timestamp::UNIX_EPOCH, tool)).expect("made");
        recorder.push(&Sample { size: 64, rtt_ns: Some(1), ..Sample::default() }).expect("taken");
        recorder.flush(1).expect("written");
        recorder
    }

    /// It stayed with its rows in `.arrows` for ever, however much room there was later.
    #[test]
    fn failed_close_is_retried_with_next_close() {
        let home = tempfile::tempdir().expect("a directory");
        let [first, second] = ["a", "b"].map(|name| home.path().join(name));
        let unclosed = Unclosed::default();
        let mut recorder = recorded(&first);
        // Something that is no file is where the closed segment is made, which fails as without room.
        let in_the_way = first.join("samples-00000.parquet.tmp");
        std::fs::create_dir(&in_the_way).expect("made");
        assert!(unclosed.close(&mut recorder, Timestamp::UNIX_EPOCH, 2).is_err());
        assert!(first.join("samples-00000.arrows").exists());
        std::fs::remove_dir(&in_the_way).expect("removed");
        let mut next = recorded(&second);
        unclosed.close(&mut next, Timestamp::UNIX_EPOCH, 3).expect("in order");
        assert!(!first.join("samples-00000.arrows").exists());
        assert!(Recording::open(&first).expect("it reads").manifest().ended_at.is_some());
        let found = verify(&first, |_| {}).expect("it reads");
        assert!(found.is_sound(), "{found:?}");
        assert!(unclosed.lock().is_empty());
    }
}
