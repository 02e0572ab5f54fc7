//! A recording that its run writes itself, event by event: an application's and a search's. A probe's has a thread of its own.

use crate::manifest::timestamp;
use crate::{Error, Recorder};
use fathom_core::clock::{Anchor, ClockMap, Observation};
use fathom_core::event::{Event, EventKind};
use fathom_core::sample::Sample;

/// From one flush to the next: what a kill takes.
const FLUSH_NS: u64 = 1_000_000_000;

/// Writes what it is told, puts it on the disk once a second, and keeps the clocks' anchors. What cannot be written ends nothing:
/// it is told at once, and again at the end. Without a recorder it only stamps events.
#[derive(Debug)]
pub struct Keeper {
    recorder: Option<Recorder>,
    /// Reads both clocks as one.
    read: fn() -> Anchor,
    /// Tells somebody who is there to see it.
    tell: fn(&str),
    clock: ClockMap,
    flushed_ns: u64,
    /// It has told that something cannot be written.
    in_trouble: bool,
}

impl Keeper {
    /// Of a recording that has just begun; `None`: nothing is recorded.
    pub fn new(recorder: Option<Recorder>, read: fn() -> Anchor, tell: fn(&str)) -> Self {
        let reading = read();
        let (clock, flushed_ns) = (ClockMap::new(reading), reading.mono_ns);
        Self { recorder, read, tell, clock, flushed_ns, in_trouble: false }
    }

    /// The UTC of a monotonic stamp, as rows have it.
    pub fn utc_of(&self, mono_ns: u64) -> i64 {
        self.clock.utc_of(mono_ns)
    }

    /// Takes a row.
    pub fn sample(&mut self, sample: &Sample) {
        let written = self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.push(sample));
        self.note(written);
    }

    /// Takes what happened now, as the event that it gives back.
    pub fn event(&mut self, connection: Option<u32>, kind: EventKind) -> Event {
        let Anchor { mono_ns, utc_ns } = (self.read)();
        let event = Event { at: timestamp(utc_ns), mono_ns, connection, kind };
        let written = self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.event(&event));
        self.note(written);
        event
    }

    /// When it wants to be flushed; `None`: nothing is recorded.
    pub fn due_ns(&self) -> Option<u64> {
        self.recorder.as_ref().map(|_| self.flushed_ns.saturating_add(FLUSH_NS))
    }

    /// Whether the disk is full, and what room there is kept for what is recorded here.
    pub fn waits_for_room(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::waits_for_room)
    }

    /// Puts what it was told on the disk and looks at the clocks, if it is time.
    pub fn flush(&mut self, now: u64) {
        if self.due_ns().is_none_or(|due_ns| now < due_ns) {
            return;
        }
        self.flushed_ns = now;
        let reading = (self.read)();
        let observation = self.clock.observe(reading);
        if let Observation::Stepped(step_ns) = observation {
            self.event(None, EventKind::ClockStepped { step_ns });
        }
        let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.stopped().is_none()) else {
            return;
        };
        let written = match observation {
            Observation::Steady => Ok(()),
            Observation::Anchored => recorder.anchor(reading, false),
            Observation::Stepped(_) => recorder.anchor(reading, true),
        };
        let written = written.and_then(|()| recorder.flush(now));
        let goes_on = written.is_ok() && !recorder.waits_for_room();
        self.note(written);
        if goes_on && std::mem::take(&mut self.in_trouble) {
            (self.tell)("the disk has room again: the recording goes on");
        }
    }

    /// Takes the last event and ends the recording; what it lacks, where it lacks something.
    pub fn finish(mut self, last: EventKind) -> Result<(), String> {
        let Event { at, mono_ns, .. } = self.event(None, last);
        let Some(mut recorder) = self.recorder.take() else { return Ok(()) };
        recorder.finish_with(at, mono_ns, None).map_err(|e| e.with_advice(false))?;
        recorder.gaps().in_words().map_or(Ok(()), Err)
    }

    /// Takes the recording back: nothing happened that is worth one.
    pub fn discard(mut self) {
        if let Some(recorder) = self.recorder.take() {
            let dir = recorder.dir().to_owned();
            drop(recorder);
            crate::discard_empty(&dir);
        }
    }

    /// Tells of trouble, once.
    fn note(&mut self, written: Result<(), Error>) {
        let Err(error) = written else { return };
        tracing::debug!(%error, "recording");
        if !std::mem::replace(&mut self.in_trouble, true) {
            let waits = self.recorder.as_ref().is_some_and(Recorder::waits_for_room);
            let what = if waits { "waits for room" } else { "has stopped" };
            (self.tell)(&format!("the recording {what}, the run goes on: {}", error.with_advice(false)));
        }
    }
}
