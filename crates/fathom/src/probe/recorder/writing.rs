//! Writes what was taken to the disk, and tells what becomes of a recording that cannot be written: it waits for room, or it is over.

use super::{RunRecorder, Update, stamps};
use crate::probe::plain::Line;
use crate::probe::rotate::Rotating;
use fathom_core::event::{Event, EventKind};
use fathom_core::sample::Sample;
use fathom_recording::peers::Rows;
use fathom_recording::{Error, Recorder};
use std::io;

impl RunRecorder<'_> {
    pub(super) fn sample(&mut self, path: u32, sample: &Sample) {
        let p = path as usize;
        self.updates.push((p, Update::Sample(*sample)));
        if let Some(rotating) = &mut self.rotating {
            rotating.sample(p, sample);
        }
        self.write(p, |recorder| stamps::note(recorder, sample));
        // A recorder that has stopped takes it too, and tells its loss.
        if let Some(recorder) = &mut self.sinks[p].recorder
            && let Err(e) = recorder.push(sample)
        {
            self.failed(p, &e);
        }
        if !self.sinks[p].tables.is_empty() {
            self.write_tables(p, |rows| rows.write(sample));
        }
        if self.every_sample {
            self.show(Line::Sample(path, *sample));
        }
    }

    pub(super) fn write_packed(&mut self) {
        let rows = std::mem::take(&mut self.packed);
        if let Some(recorder) = &mut self.sinks[0].recorder
            && !rows.is_empty()
            && let Err(e) = recorder.push_packed(&rows)
        {
            self.failed(0, &e);
        }
    }

    pub(super) fn flush(&mut self, now: u64) {
        for p in 0..self.sinks.len() {
            let flushed = match &mut self.sinks[p].recorder {
                Some(recorder) if recorder.stopped().is_none() => recorder.flush(now),
                _ => Ok(()),
            };
            match flushed {
                Ok(()) => self.told_by_recorder(p),
                Err(error) => self.failed(p, &error),
            }
            self.write_tables(p, |rows| rows.flush());
        }
    }

    /// Passes on what a recorder told of its own accord: a gap, and that its recording goes on.
    pub(super) fn told_by_recorder(&mut self, p: usize) {
        let Some(recorder) = &mut self.sinks[p].recorder else { return };
        let events = recorder.take_told();
        self.troubles[p].gaps(&recorder.manifest().id, recorder.gaps());
        self.pass_on(p, events);
    }

    pub(super) fn pass_on(&mut self, p: usize, events: Vec<Event>) {
        for event in events {
            self.note_time(&event);
            if let EventKind::RecordingResumed { .. } = event.kind {
                let waits = self.sinks[p].recorder.as_ref().is_some_and(Recorder::waits_for_room);
                self.troubles[p].went_on(waits);
            }
            self.updates.push((p, Update::Event(event.clone())));
            self.happened(p as u32, &event);
        }
    }

    /// Writing to a path's recording failed: it waits for room, or it is over.
    pub(super) fn failed(&mut self, p: usize, error: &Error) {
        let waits = self.sinks[p].recorder.as_ref().is_some_and(Recorder::waits_for_room);
        if !waits {
            let is_followed = self.rotating.as_ref().is_some_and(Rotating::begins_another);
            return self.stopped(p, error.to_string(), error.with_advice(is_followed));
        }
        if self.exit_on_full {
            self.stop.ask_once();
        }
        let why = if self.exit_on_full { "the run ended early by --on-full exit: " } else { "" };
        if self.troubles[p].wait(format!("{why}{error}"), self.exit_on_full) {
            let line = if self.exit_on_full { Line::EndsOnFull } else { Line::RecordingWaits };
            self.show(line(p as u32, error.to_string()));
        }
    }

    /// Writes to a path's recording. A failure concerns that recording and nothing else; its event log is kept open for
    /// what can still be said.
    pub(super) fn write(&mut self, p: usize, act: impl FnOnce(&mut Recorder) -> Result<(), Error>) {
        if let Some(recorder) = &mut self.sinks[p].recorder
            && recorder.stopped().is_none()
            && let Err(e) = act(recorder)
        {
            self.failed(p, &e);
        }
    }

    /// A path's recording is over. The line with its advice is for the moment: what is incomplete at the end is told without it.
    pub(super) fn stopped(&mut self, p: usize, error: String, line: String) {
        if self.troubles[p].stop(error) {
            self.show(Line::RecordingStopped(p as u32, line));
        }
    }

    /// Does something to a path's files of rows; one that fails is not written any more.
    pub(super) fn write_tables(&mut self, p: usize, mut act: impl FnMut(&mut dyn Rows) -> io::Result<()>) {
        let mut failed = Vec::new();
        self.sinks[p].tables.retain_mut(|table| match table.rows().and_then(&mut act) {
            Ok(()) => true,
            Err(error) => {
                failed.push(table.failed(&error));
                false
            }
        });
        for reason in failed {
            self.show(Line::TableStopped(p as u32, reason.clone()));
            self.table_errors[p].push(reason);
        }
    }
}
