//! The event log of a recording that is being written, and the sum by which a reader knows that nothing in it was changed.

use super::appender::Appender;
use super::syncer::Unsynced;
use super::{ENDS_EVERY_NS, KEPT_AT_MOST, Recorder};
use crate::checksum::LogSum;
use crate::disk::Disk;
use crate::events::lines_of;
use crate::{EVENTS, Error};
use fathom_core::event::{Event, EventKind};
use std::path::Path;

/// The event log as a file that only this recorder writes.
#[derive(Debug)]
pub(super) struct Log {
    file: Appender,
    bytes: u64,
    sum: crc32fast::Hasher,
}

impl Log {
    /// Makes the log of a new recording.
    pub(super) fn create(disk: &dyn Disk, dir: &Path) -> Result<Self, Error> {
        let file = Appender::open(disk, dir.join(EVENTS))?;
        Ok(Self { file, bytes: 0, sum: crc32fast::Hasher::new() })
    }

    /// Appends whole lines: all of them, or none.
    pub(super) fn append(&mut self, disk: &dyn Disk, lines: &[u8]) -> Result<(), Error> {
        self.file.append(disk, lines)?;
        self.bytes += lines.len() as u64;
        self.sum.update(lines);
        Ok(())
    }

    /// The log.
    pub(super) fn file(&self) -> &Appender {
        &self.file
    }

    pub(super) fn take_unsynced(&mut self) -> Option<Unsynced> {
        self.file.take_unsynced()
    }

    pub(super) fn sync(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        self.file.sync(disk)
    }

    /// What the manifest says of the log once the recording has ended.
    pub(super) fn sum(&self) -> LogSum {
        LogSum { bytes: self.bytes, crc32: self.sum.clone().finalize() }
    }
}

impl Recorder {
    /// Writes an event at once. The end of a connection follows the rows of that connection, with what comes after it at the
    /// latest at the next [`Recorder::flush`]: a kill leaves no connection that is over and lacks its last rows.
    ///
    /// On a full disk an event takes the reserve, but for what is kept for the last words; where that is used up too, it is written when
    /// there is room again. An event that cannot be written for another reason is tried again.
    ///
    /// One that is longer than the longest line that readers take is left out, and a note says so.
    ///
    /// `schedule.progress` is kept beside the log, for recovery.
    pub fn event(&mut self, event: &Event) -> Result<(), Error> {
        if let EventKind::ScheduleProgress { due, sent } = &event.kind {
            self.progress.add(*due, sent);
            self.write_progress();
            return Ok(());
        }
        if let (EventKind::ConnectionClosed { .. }, Some(connection)) = (&event.kind, event.connection) {
            self.progress.note_end(connection);
        }
        let line = match self.line(event) {
            Err(error @ Error::TooLong { .. }) => {
                tracing::error!(%error);
                let kind = EventKind::Note { text: error.to_string() };
                return self.event(&Event { kind, ..*event });
            }
            line => line?,
        };
        let ends = matches!(event.kind, EventKind::ConnectionClosed { .. });
        let waits = ends && !self.pending.is_empty();
        if self.kept.is_empty() && !waits {
            let Err(error) = self.append_event(&line) else { return Ok(()) };
            if self.ending && self.stopped.is_none() {
                return Err(error);
            }
            self.kept.push(event, &line);
            if error.is_full() && self.stopped.is_none() {
                self.wait_for_room(&error);
                return Ok(());
            }
            return Err(error);
        }
        self.kept.push(event, &line);
        let small = self.kept.len() < KEPT_AT_MOST;
        if self.stopped.is_some() {
            // What a broken disk refuses again and again must not be copied each time.
            return if small { self.write_kept(true) } else { Ok(()) };
        }
        let rare = event.mono_ns.saturating_sub(self.written_ns) >= ENDS_EVERY_NS;
        if self.waiting.is_none() && (rare || !small) {
            return self.guarded(|r| r.write_through(event.mono_ns));
        }
        Ok(())
    }

    pub(super) fn write_progress(&mut self) {
        if self.waiting.is_some() || self.stopped.is_some() || self.progress.is_nothing() {
            return;
        }
        if self.pending.is_empty() && self.kept.is_empty() {
            // The ends and the last rows of those that are over are on the disk.
            self.progress.forget_those_over();
        }
        // Where it cannot be written, a kill takes more; nothing else depends on it.
        let _ = self.progress.write(self.disk.as_ref(), &self.dir);
    }

    /// Writes the rows that are pending, and the events that wait for them.
    pub(super) fn write_through(&mut self, now_ns: u64) -> Result<(), Error> {
        self.write_pending()?;
        self.written_ns = now_ns;
        self.write_kept(true)
    }

    /// The line of an event; of a seam of many connections several.
    pub(super) fn line(&self, event: &Event) -> Result<Vec<u8>, Error> {
        lines_of(&self.dir.join(EVENTS), event)
    }

    pub(super) fn append_event(&mut self, line: &[u8]) -> Result<(), Error> {
        self.events.append(self.disk.as_ref(), line).or_else(|error| {
            if !error.is_full() {
                return Err(error);
            }
            self.give_way(false);
            self.events.append(self.disk.as_ref(), line)
        })
    }
}
