//! What is written down of a run: rows and events, in the recording where there is one, and their sums in any case.

use fathom_core::event::EventKind;
use fathom_core::policy::{Amounts, Counts, Tally};
use fathom_core::sample::Sample;
use fathom_recording::Keeper;
use std::collections::BTreeMap;

/// See the module. What cannot be written ends the recording, not the run.
#[derive(Debug)]
pub struct Account {
    keeper: Keeper,
    tally: Tally,
}

impl Account {
    /// Of a run against this target, as its events name it.
    pub fn new(target: &str, keeper: Keeper) -> Self {
        Self { keeper, tally: Tally::new(target) }
    }

    pub(crate) fn utc_of(&self, mono_ns: u64) -> i64 {
        self.keeper.utc_of(mono_ns)
    }

    pub(crate) fn sample(&mut self, sample: &Sample) {
        self.tally.sample(sample);
        self.keeper.sample(sample);
    }

    pub(crate) fn event(&mut self, connection: Option<u32>, kind: EventKind) {
        let event = self.keeper.event(connection, kind);
        self.tally.event(&event);
    }

    /// Puts what was told on the disk, once a second, with the number of requests that were due by then: a kill leaves of those
    /// under way nothing else. When it wants to be called again; `None`: nothing is recorded.
    pub(crate) fn flush(&mut self, now: u64, due: u64) -> Option<u64> {
        if self.keeper.due_ns().is_some_and(|at| at <= now) {
            self.event(None, EventKind::ScheduleProgress { due, sent: BTreeMap::new() });
            self.keeper.flush(now);
        }
        self.keeper.due_ns()
    }

    /// What the run amounts to. The requests are counted by the client: what was lost for the recording is no less true.
    pub(crate) fn amounts(&self, counts: Counts) -> Amounts {
        Amounts { counts, not_known: 0, ..self.tally.amounts() }
    }

    /// Writes the result and ends the recording; what kept it from being whole, where something did.
    pub fn finish(self, result: serde_json::Value) -> Result<(), String> {
        self.keeper.finish(EventKind::ClientEnded { result })
    }
}
