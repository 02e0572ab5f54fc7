//! What becomes of a recording on a full disk: it waits until there is room again, keeps what it can meanwhile, and tells the
//! gap.

use super::Recorder;
use crate::disk::Disk;
use crate::{Error, RESERVE};
use fathom_core::event::{Event, EventKind, LOST_NO_SPACE};
use std::collections::BTreeMap;
use std::path::Path;

/// Kept back for the last events and the manifest on a full disk.
const RESERVE_BYTES: usize = 64 << 10;
/// Rows that are kept in memory while there is no room (some 8 MiB).
pub(super) const ROWS_KEPT: usize = 64 << 10;
/// Bytes of events that are kept in memory then.
const EVENTS_KEPT: usize = 1 << 20;

/// A disk without room.
#[derive(Debug)]
pub(super) struct Waiting {
    since_ns: u64,
    /// Rows that could not be kept, by connection.
    pub(super) lost: BTreeMap<u32, u64>,
    /// Events that could not be kept.
    events_lost: u64,
}

/// Keeps blocks back. Real bytes: a hole would reserve nothing.
pub(super) fn reserve(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let path = dir.join(RESERVE);
    let file = disk.create(&path).map_err(Error::io("create", &path))?;
    disk.write(&file, &vec![0x46; RESERVE_BYTES]).map_err(Error::io("reserve space in", &path))?;
    disk.sync(&file).map_err(Error::io("sync", &path))
}

impl Recorder {
    /// Whether the disk is full and the recording goes on when there is room.
    pub fn waits_for_room(&self) -> bool {
        self.waiting.is_some() && self.stopped.is_none()
    }

    /// Events that this recorder wrote of its own accord since this was last asked: gaps, and that they are over.
    pub fn take_told(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.told)
    }

    pub(super) fn wait_for_room(&mut self) {
        // What is said meanwhile takes the reserve's place.
        self.release_reserve();
        let (since_ns, lost) = (self.now_ns, BTreeMap::new());
        self.waiting.get_or_insert_with(|| {
            tracing::warn!(dir = %self.dir.display(), "the disk is full");
            Waiting { since_ns, lost, events_lost: 0 }
        });
    }

    pub(super) fn keep_unsaid(&mut self, line: &[u8]) {
        if self.unsaid.len() + line.len() <= EVENTS_KEPT {
            self.unsaid.extend_from_slice(line);
        } else if let Some(waiting) = &mut self.waiting {
            waiting.events_lost += 1;
        }
    }

    /// Goes on, if there is room for the reserve and for everything that was kept.
    pub(super) fn resume(&mut self) -> Result<(), Error> {
        reserve(self.disk.as_ref(), &self.dir)?;
        self.catch_up()?;
        self.close_unclosed()?;
        self.tell_gap()
    }

    /// Writes what was kept.
    pub(super) fn catch_up(&mut self) -> Result<(), Error> {
        if !self.unsaid.is_empty() {
            let lines = std::mem::take(&mut self.unsaid);
            if let Err(error) = self.events.append(self.disk.as_ref(), &lines) {
                self.unsaid = lines;
                return Err(error);
            }
        }
        self.write_pending()?;
        if self.manifest_due {
            self.manifest.write(self.disk.as_ref(), &self.dir)?;
            self.manifest_due = false;
        }
        Ok(())
    }

    /// Tells which rows are missing, and that the recording goes on.
    pub(super) fn tell_gap(&mut self) -> Result<(), Error> {
        let Some(waiting) = &mut self.waiting else { return Ok(()) };
        let events_lost = std::mem::take(&mut waiting.events_lost);
        let waited_ns = self.now_ns.saturating_sub(waiting.since_ns);
        let lost: u64 = waiting.lost.values().sum();
        if events_lost > 0 {
            self.tell(
                None,
                EventKind::Note { text: format!("{events_lost} events were lost: the disk was full") },
            )?;
        }
        self.tell_lost()?;
        self.tell(None, EventKind::RecordingResumed { waited_ns, lost })?;
        self.waiting = None;
        Ok(())
    }

    /// Rows that will never be written are lost.
    pub(super) fn give_up_rows(&mut self) {
        let lines = std::mem::take(&mut self.unsaid);
        if !lines.is_empty() {
            let _ = self.events.append(self.disk.as_ref(), &lines);
        }
        let (since_ns, lost) = (self.now_ns, BTreeMap::new());
        let waiting = self.waiting.get_or_insert(Waiting { since_ns, lost, events_lost: 0 });
        for sample in self.pending.drain(..) {
            *waiting.lost.entry(sample.connection).or_default() += 1;
        }
        self.pending.shrink_to_fit();
        let _ = self.tell_lost();
    }

    fn tell_lost(&mut self) -> Result<(), Error> {
        while let Some((connection, lost)) =
            self.waiting.as_mut().and_then(|waiting| waiting.lost.pop_first())
        {
            let reason = Some(LOST_NO_SPACE.to_owned());
            let told = self.tell(Some(connection), EventKind::RecordingOverflowed { lost, reason });
            if let (Err(_), Some(waiting)) = (&told, &mut self.waiting) {
                waiting.lost.insert(connection, lost);
                return told;
            }
        }
        Ok(())
    }

    fn tell(&mut self, connection: Option<u32>, kind: EventKind) -> Result<(), Error> {
        let event = Event { at: self.wall_clock(), mono_ns: self.now_ns, connection, kind };
        let line = self.line(&event)?;
        self.append_event(&line)?;
        self.told.push(event);
        Ok(())
    }
}
