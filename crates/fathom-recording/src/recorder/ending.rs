//! The end of a recording: its last words, and what is left of one that stopped early.

use super::directory::{give_up, tidy};
use super::{Recorder, Stopped, progress};
use crate::Error;
use fathom_core::event::{Event, EventKind};
use jiff::Timestamp;

impl Recorder {
    /// Ends the recording in order and gives the number of its rows.
    pub fn finish(mut self, ended_at: Timestamp, now_mono_ns: u64) -> Result<u64, Error> {
        self.finish_with(ended_at, now_mono_ns, None)
    }

    /// As [`Recorder::finish`], for a caller that then asks what this recorder had to tell ([`Recorder::take_told`]). `error`
    /// is what ended the run early, where something did. Nothing else may be called afterwards.
    pub fn finish_with(
        &mut self,
        ended_at: Timestamp,
        now_mono_ns: u64,
        error: Option<&str>,
    ) -> Result<u64, Error> {
        self.now_ns = now_mono_ns;
        let mut ended = Ok(());
        if self.stopped.is_none() {
            self.ending = true;
            ended = self.guarded(|r| {
                r.refuse_if_gone()?;
                r.catch_up().or_else(|error| {
                    if !error.is_full() {
                        return Err(error);
                    }
                    // The last words may need its block.
                    progress::remove(r.disk.as_ref(), &r.dir);
                    r.catch_up()
                })?;
                // Not before: a kill would have taken rows of samples that were out, and their ends.
                progress::remove(r.disk.as_ref(), &r.dir);
                r.sync()?;
                let closed = r.close_segment().and_then(|()| r.collect_closed(true));
                closed.and_then(|()| r.close_unclosed()).or_else(|error| {
                    if !error.wants_room() {
                        return Err(error);
                    }
                    // Every row is on the disk: where there is no room for them in another form they stay as they are.
                    tracing::warn!(dir = %r.dir.display(), %error, "left as it was written");
                    Ok(())
                })?;
                r.tell_gap()?;
                let kind = EventKind::RecordingEnded { samples: r.rows, error: error.map(str::to_owned) };
                r.event(&Event { at: ended_at, mono_ns: now_mono_ns, connection: None, kind })?;
                r.end_told = true;
                // The last words may need the block that was kept for them.
                r.seal(ended_at).or_else(|error| {
                    if !error.is_full() {
                        return Err(error);
                    }
                    r.reserve.give_up(r.disk.as_ref());
                    r.seal(ended_at)
                })
            });
        }
        // A conversion that outlived the stop must not outlive the lock.
        let _ = self.collect_closed(true);
        // Another recording may have been begun in its place.
        if self.gone || self.removed().is_some() {
            ended?;
            return self.refuse_if_stopped().map(|()| self.rows);
        }
        // Without its end in the manifest the recording is one that was interrupted, and recovery completes it: with what stands
        // beside the log too, which is in no other file yet.
        let is_sealed = self.end_stopped().is_ok();
        let _ = self.events.sync(self.disk.as_ref());
        if is_sealed {
            tidy(self.disk.as_ref(), &self.dir);
        } else {
            give_up(self.disk.as_ref(), &self.dir);
        }
        ended?;
        self.refuse_if_stopped()?;
        Ok(self.rows)
    }

    /// Whether rows of it stayed in the files in which they were written, for want of room: recovery closes them.
    pub fn is_left_open(&self) -> bool {
        !self.unclosed.is_empty()
    }

    /// Ends a recording that stopped early: tells what has been lost since.
    fn end_stopped(&mut self) -> Result<(), Error> {
        let Some(Stopped { at, .. }) = self.stopped else { return Ok(()) };
        self.take_back();
        self.tell_end(at).or_else(|error| {
            if !error.is_full() {
                return Err(error);
            }
            self.have_last_words();
            self.tell_end(at)
        })
    }

    /// Tells what is left to tell, and that this was all.
    fn tell_end(&mut self, ended_at: Timestamp) -> Result<(), Error> {
        self.write_kept(true)?;
        self.tell_lost()?;
        self.seal(ended_at)
    }

    /// Says in the manifest that the recording has ended, and what its event log is from then on.
    fn seal(&mut self, ended_at: Timestamp) -> Result<(), Error> {
        self.events.sync(self.disk.as_ref())?;
        self.manifest.ended_at = Some(ended_at);
        self.manifest.events = Some(self.events.sum());
        self.manifest.write(self.disk.as_ref(), &self.dir)
    }
}
