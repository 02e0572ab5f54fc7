//! The seam of a rotation: a run goes on in another recording, and one rename decides from when on.
//!
//! Until then the recording before tells what a kill takes, and from then on the next one does, by `.progress`, which is renamed from
//! the one to the other. Beside it the one before has what will be the last of the run in its log (`.seam`). So what a killed probe
//! left says whether there was a seam: `.seam` beside `.progress`, and there was none; `.seam` alone, and recovery completes the log.

use super::{Recorder, progress};
use crate::disk::Disk;
use crate::events::{Entry, Events};
use crate::{Error, PROGRESS, SEAM};
use fathom_core::event::{Event, EventKind};
use std::collections::BTreeMap;
use std::path::Path;

impl Recorder {
    /// Has the run go on in `next`, which has been begun and says so. `rotated` is the last event of the run in this one, and `sent` is
    /// how many samples were sent, at the least, on connections of which this one lacks rows.
    ///
    /// An error is one of that event's: the run goes on in `next` whatever is returned.
    pub fn goes_on_in(
        &mut self,
        next: &mut Self,
        sent: &BTreeMap<u32, u64>,
        rotated: &Event,
    ) -> Result<(), Error> {
        let line = self.line(rotated)?;
        self.progress.add(0, sent);
        // What is over is this one's alone.
        self.progress.forget_those_over();
        if self.gone {
            next.progress = std::mem::take(&mut self.progress);
            next.write_progress();
            return self.refuse_if_stopped();
        }
        let moved = self.move_on_to(&next.dir, &line);
        next.progress = std::mem::take(&mut self.progress);
        let written = self.event(rotated);
        if let Err(error) = &moved {
            // A directory that somebody removed, say, or no room: nothing is promised, but nothing is told by both.
            tracing::warn!(dir = %self.dir.display(), %error, "a kill now may take more than it should");
            next.write_progress();
            progress::remove(self.disk.as_ref(), &self.dir);
        }
        // An event that waits for room is in no file yet. Where that room never comes, `.seam` stays.
        if written.is_ok() && self.kept.is_empty() {
            remove(self.disk.as_ref(), &self.dir);
        }
        written
    }

    /// Moves what recovery is to know of the run; the last step decides. As `.progress` these files are not synced.
    fn move_on_to(&mut self, next: &Path, line: &[u8]) -> Result<(), Error> {
        let (disk, from, path) = (self.disk.as_ref(), self.dir.join(PROGRESS), self.dir.join(SEAM));
        // First, also where there is nothing to know: `.seam` alone says that there was a seam.
        self.progress.write(disk, &self.dir)?;
        let file = disk.create(&path).map_err(Error::io("create", &path))?;
        disk.write(&file, &[line]).map_err(Error::io("write", &path))?;
        disk.rename(&from, &next.join(PROGRESS)).map_err(Error::io("move", &from))
    }
}

/// The last event of a run that went on in another recording, where a killed probe left it beside the log.
pub(crate) fn left(dir: &Path) -> Option<Event> {
    if dir.join(PROGRESS).symlink_metadata().is_ok() {
        return None;
    }
    let mut last = None;
    for entry in Events::in_file(&dir.join(SEAM)).ok()? {
        last = Some(entry.ok()?);
    }
    match last? {
        Entry::Known(event @ Event { kind: EventKind::RecordingRotated { .. }, .. }) => Some(event),
        _ => None,
    }
}

/// Removes it: the log has it, or there was no seam.
pub(crate) fn remove(disk: &dyn Disk, dir: &Path) {
    // A leftover is what the log has already.
    let _ = disk.remove(&dir.join(SEAM));
}
