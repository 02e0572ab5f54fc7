//! When this process did not run: the pause clock of a run, as a probe has it. What it tells goes into the recording, and onto the
//! screen; each thread that asks, or waits for something, learns by itself of the pauses that it had ([`Clock`]).

use crate::lock::lock;
use crate::record::Record;
use fathom_core::text::count;
use fathom_core::units::narrow::time_or_dash;
use fathom_os::pause::{DEFAULT_PERIOD, DEFAULT_THRESHOLD, Gap, Pause, PauseCause, PauseClock, Running};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Pauses of less than this in all are in the recording alone: a busy host has some in every run.
const TOLD_NS: u64 = 100_000_000;

/// How many, and for how long, by why.
type Told = BTreeMap<&'static str, (u64, u64)>;

/// See the module.
pub(crate) struct Standing {
    pauses: Option<PauseClock>,
    told: Arc<Mutex<Told>>,
    /// Once there is one.
    record: Arc<OnceLock<Record>>,
}

/// From which each thread of the run learns when this process did not run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Option<Gap>);

impl Clock {
    /// For the thread that asks; `None`: nobody knows.
    pub(crate) fn running(&self) -> Option<Running> {
        self.0.clone().map(Running::new)
    }
}

impl Standing {
    /// Begins the clock, of a run that begins. Without one no pause is known.
    pub(crate) fn begin() -> Self {
        let (told, record) = (Arc::<Mutex<Told>>::default(), Arc::<OnceLock<Record>>::default());
        let (tells, records) = (Arc::clone(&told), Arc::clone(&record));
        let pauses = PauseClock::start(DEFAULT_PERIOD, DEFAULT_THRESHOLD, move |pause| {
            if let Some(record) = records.get() {
                record.pause(pause.duration_ns(), reason(&pause));
            }
            let mut told = lock(&tells);
            let (times, ns) = told.entry(words(&pause)).or_default();
            (*times, *ns) = (*times + 1, *ns + pause.duration_ns());
        });
        let pauses = pauses.map_err(|error| tracing::debug!(%error, "no pause clock")).ok();
        Self { pauses, told, record }
    }

    /// From now on they are recorded.
    pub(crate) fn record(&self, record: Record) {
        _ = self.record.set(record);
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock(self.pauses.as_ref().map(PauseClock::gap))
    }

    /// Ends the clock; what is to be said of the run.
    pub(crate) fn end(&mut self) -> Vec<String> {
        // With it everything is told.
        self.pauses = None;
        let line = |(why, (times, ns)): (&str, (u64, u64))| {
            let time = time_or_dash(Some(ns), 3);
            let times = if times == 1 { String::new() } else { format!(" in all, {}", count(times, "time")) };
            format!("this host stood still for {time}{times}: {why}; what waited for it is the client's time")
        };
        let told = std::mem::take(&mut *lock(&self.told));
        told.into_iter().filter(|(_, (_, ns))| *ns >= TOLD_NS).map(line).collect()
    }
}

/// The name of the reason in recordings; `None`: the host's accounts do not say.
fn reason(pause: &Pause) -> Option<String> {
    let name = match pause.cause() {
        PauseCause::Stopped => "stopped",
        PauseCause::HostScheduling => "host_scheduling",
        PauseCause::Steal => "steal",
        PauseCause::Unknown => return None,
    };
    Some(name.to_owned())
}

fn words(pause: &Pause) -> &'static str {
    match pause.cause() {
        PauseCause::Stopped => "fathom's process was stopped, or all of the machine was",
        PauseCause::HostScheduling => "it ran other processes than fathom",
        PauseCause::Steal => "its hypervisor ran other machines",
        PauseCause::Unknown => "fathom's process did not run, and the system does not tell why",
    }
}
