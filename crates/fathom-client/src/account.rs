//! What is written down of a run: rows and events, in the recording where there is one, and their sums in any case.

use fathom_core::clock::{ClockMap, Observation};
use fathom_core::event::{Event, EventKind};
use fathom_core::policy::{Amounts, Counts, Tally};
use fathom_core::sample::Sample;
use fathom_os::clock::{anchor, mono_ns};
use fathom_recording::Recorder;
use jiff::Timestamp;

const FLUSH_NS: u64 = 1_000_000_000;

/// See the module. What cannot be written ends the recording, not the run.
pub struct Account {
    recorder: Option<Recorder>,
    error: Option<String>,
    clock: ClockMap,
    flushed_ns: u64,
    tally: Tally,
}

impl Account {
    /// Of a run against this target, as its events name it.
    pub fn new(target: &str, recorder: Option<Recorder>) -> Self {
        let (clock, tally) = (ClockMap::new(anchor()), Tally::new(target));
        Self { recorder, error: None, clock, flushed_ns: mono_ns(), tally }
    }

    pub(crate) fn utc_of(&self, mono_ns: u64) -> i64 {
        self.clock.utc_of(mono_ns)
    }

    pub(crate) fn sample(&mut self, sample: &Sample) {
        self.tally.sample(sample);
        if let Some(recorder) = &mut self.recorder
            && let Err(e) = recorder.push(sample)
        {
            self.failed(&e);
        }
    }

    pub(crate) fn event(&mut self, connection: Option<u32>, kind: EventKind) {
        let event = Event { at: Timestamp::now(), mono_ns: mono_ns(), connection, kind };
        self.tally.event(&event);
        if let Some(recorder) = &mut self.recorder
            && let Err(e) = recorder.event(&event)
        {
            self.failed(&e);
        }
    }

    /// Puts what was told on the disk, once a second, and looks at the clocks. When it wants to be called again.
    pub(crate) fn flush(&mut self, now: u64) -> u64 {
        if now >= self.flushed_ns + FLUSH_NS {
            self.flushed_ns = now;
            let reading = anchor();
            let observation = self.clock.observe(reading);
            if let Observation::Stepped(step_ns) = observation {
                self.event(None, EventKind::ClockStepped { step_ns });
            }
            if let Some(recorder) = &mut self.recorder {
                let stepped = matches!(observation, Observation::Stepped(_));
                let anchored = stepped || observation == Observation::Anchored;
                let noted = if anchored { recorder.anchor(reading, stepped) } else { Ok(()) };
                if let Err(e) = noted.and_then(|()| recorder.flush(now)) {
                    self.failed(&e);
                }
            }
        }
        self.flushed_ns + FLUSH_NS
    }

    /// The recorder goes on counting what it could not write.
    fn failed(&mut self, error: &fathom_recording::Error) {
        tracing::warn!(%error, "recording");
        self.error.get_or_insert(error.to_string());
    }

    /// What the run amounts to. The requests are counted by the client: what was lost for the recording is no less true.
    pub(crate) fn amounts(&self, counts: Counts) -> Amounts {
        Amounts { counts, ..self.tally.amounts() }
    }

    /// Writes the result and ends the recording; what kept it from being whole, where something did.
    pub fn finish(mut self, result: serde_json::Value) -> Result<(), String> {
        self.event(None, EventKind::ClientEnded { result });
        if let Some(recorder) = self.recorder.take()
            && let Err(e) = recorder.finish(Timestamp::now(), mono_ns())
        {
            self.error.get_or_insert(e.to_string());
        }
        self.error.map_or(Ok(()), Err)
    }
}
