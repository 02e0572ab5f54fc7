//! What becomes of a recording on a full disk: it waits until there is room again, keeps what it can meanwhile, and tells the
//! gap.

use super::Recorder;
use super::kept::Kept;
use crate::Error;
use fathom_core::event::{Event, EventKind, note_of_lost_events, why_lost};
use fathom_core::text::count;
use fathom_core::units::duration_compact;

/// Rows that are kept in memory while there is no room (some 8 MiB).
pub(super) const ROWS_KEPT: usize = 64 << 10;

/// A disk without room.
#[derive(Debug)]
pub(super) struct Waiting {
    since_ns: u64,
    /// Rows that could not be kept, told or not.
    pub(super) lost: u64,
}

/// What full disks have cost a recording that went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gaps {
    /// Samples without a row.
    pub rows: u64,
    /// Events that were lost.
    pub events: u64,
    /// For how long there was no room, in ns.
    pub waited_ns: u64,
    /// Why there was none the last time: a reason as in `recording.overflowed`.
    pub reason: Option<&'static str>,
}

impl Gaps {
    /// Of both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            events: self.events + other.events,
            waited_ns: self.waited_ns + other.waited_ns,
            reason: other.reason.or(self.reason),
        }
    }

    /// What a recording lacks that waited for room, however often, and went on; `None`: nothing.
    pub fn in_words(&self) -> Option<String> {
        let what = match (self.rows, self.events) {
            (0, 0) => return None,
            (rows, 0) => format!("{} without a row", count(rows, "sample")),
            (0, events) => format!("{} lost", count(events, "event")),
            (rows, events) => {
                format!("{} without a row, {} lost", count(rows, "sample"), count(events, "event"))
            }
        };
        let why = why_lost(self.reason);
        Some(format!("{what}: {why} for {}", duration_compact(self.waited_ns)))
    }
}

impl Recorder {
    /// Whether the disk is full and the recording goes on when there is room.
    pub fn waits_for_room(&self) -> bool {
        self.waiting.is_some() && self.stopped.is_none()
    }

    /// What full disks have cost so far, but for one that is full now.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// Events that this recorder wrote of its own accord since this was last asked: gaps, and that they are over.
    pub fn take_told(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.told)
    }

    pub(super) fn wait_for_room(&mut self, error: &Error) {
        self.why_lost = error.why_lost();
        // What is said meanwhile takes the reserve's place.
        self.give_way(true);
        let since_ns = self.now_ns;
        self.waiting.get_or_insert_with(|| {
            tracing::warn!(dir = %self.dir.display(), %error, "the recording waits for room");
            Waiting { since_ns, lost: 0 }
        });
    }

    /// Goes on, if there is room for the reserve and for everything that was kept.
    pub(super) fn resume(&mut self) -> Result<(), Error> {
        self.reserve.fill(self.disk.as_ref())?;
        self.catch_up()?;
        self.close_unclosed()?;
        self.tell_gap()
    }

    /// Writes what was kept: the rows first, so that no connection ends before its last row is there.
    pub(super) fn catch_up(&mut self) -> Result<(), Error> {
        self.write_pending()?;
        self.write_kept(self.ending)?;
        if self.manifest_due {
            self.manifest.write(self.disk.as_ref(), &self.dir)?;
            self.manifest_due = false;
        }
        Ok(())
    }

    /// Writes the events that were kept, in one piece: all of them are there afterwards, or none and all are still kept.
    pub(super) fn write_kept(&mut self, on_the_reserve: bool) -> Result<(), Error> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let lost = self.kept.lost();
        let text = note_of_lost_events(lost, self.why_lost);
        let note = (lost > 0).then(|| self.own_event(None, EventKind::Note { text }));
        let (mut lines, counts) = self.kept.content();
        for event in counts.chain(&note) {
            lines.extend(self.line(event)?);
        }
        lines.extend(self.kept.last_words());
        if on_the_reserve {
            self.append_event(&lines)?;
        } else {
            self.events.append(self.disk.as_ref(), &lines)?;
        }
        self.kept = Kept::default();
        self.gaps.events += lost;
        self.told.extend(note);
        Ok(())
    }

    /// Tells which rows are missing, and that the recording goes on.
    pub(super) fn tell_gap(&mut self) -> Result<(), Error> {
        let Some(&Waiting { since_ns, lost }) = self.waiting.as_ref() else { return Ok(()) };
        let waited_ns = self.now_ns.saturating_sub(since_ns);
        self.tell_lost()?;
        self.tell(None, EventKind::RecordingResumed { waited_ns, lost })?;
        self.gaps.rows += lost;
        self.gaps.waited_ns += waited_ns;
        self.gaps.reason = Some(self.why_lost);
        self.waiting = None;
        Ok(())
    }

    /// Rows that will never be written are lost.
    pub(super) fn give_up_rows(&mut self) {
        self.take_back();
        for sample in self.pending.drain(..) {
            self.losses.add(Some(sample.connection), 1);
        }
        self.pending.shrink_to_fit();
        let _ = self.write_kept(false);
        let _ = self.tell_lost();
    }

    /// Makes room for the last words on a disk that is full to the end. Of a database's queries the run's own result says what they came
    /// to: the events of the round trips beside them, which may be many, must not take its room.
    pub(super) fn have_last_words(&mut self) {
        self.reserve.give_up(self.disk.as_ref());
        let is_much = self.kept.len() as u64 > self.reserve.of_last_words() / 2;
        if is_much && self.manifest.probe["sql"].is_object() {
            self.kept.keep_last_words();
        }
        self.losses.add_up();
    }

    pub(super) fn tell_lost(&mut self) -> Result<(), Error> {
        while let Some((connection, lost)) = self.losses.take_one() {
            let reason = Some(self.why_lost.to_owned());
            self.tell(connection, EventKind::RecordingOverflowed { lost, reason })
                .inspect_err(|_| self.losses.add(connection, lost))?;
        }
        Ok(())
    }

    fn tell(&mut self, connection: Option<u32>, kind: EventKind) -> Result<(), Error> {
        let event = self.own_event(connection, kind);
        let line = self.line(&event)?;
        self.append_event(&line)?;
        self.told.push(event);
        Ok(())
    }

    fn own_event(&self, connection: Option<u32>, kind: EventKind) -> Event {
        Event { at: self.wall_clock(), mono_ns: self.now_ns, connection, kind }
    }
}
