//! When this process did not run: the pause clock of a run, as a probe has it. What it tells goes into the recording, and onto the
//! screen; each thread that asks learns by itself of the pauses that its query had.

use crate::lock::lock;
use crate::record::Record;
use fathom_core::text::count;
use fathom_core::units::narrow::time_or_dash;
use fathom_os::pause::{DEFAULT_PERIOD, DEFAULT_THRESHOLD, Pause, PauseCause, PauseClock, Running};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Pauses of less than this in all are in the recording alone: a busy host has some in every run.
const TOLD_NS: u64 = 100_000_000;

/// How many, and for how long, by why.
type Told = BTreeMap<&'static str, (u64, u64)>;

/// See the module.
pub(crate) struct Standing {
    clock: Option<PauseClock>,
    told: Arc<Mutex<Told>>,
}

impl Standing {
    /// Begins the clock. Without one no pause is known.
    pub(crate) fn begin(record: Record) -> Self {
        let told = Arc::<Mutex<Told>>::default();
        let theirs = Arc::clone(&told);
        let clock = PauseClock::start(DEFAULT_PERIOD, DEFAULT_THRESHOLD, move |pause| {
            record.pause(pause.duration_ns(), reason(&pause));
            let mut told = lock(&theirs);
            let (times, ns) = told.entry(words(&pause)).or_default();
            (*times, *ns) = (*times + 1, *ns + pause.duration_ns());
        });
        let clock = clock.map_err(|error| tracing::debug!(%error, "no pause clock")).ok();
        Self { clock, told }
    }

    /// For a thread that asks.
    pub(crate) fn running(&self) -> Option<Running> {
        self.clock.as_ref().map(|clock| Running::new(clock.gap()))
    }

    /// Ends the clock; what is to be said of the run.
    pub(crate) fn end(&mut self) -> Vec<String> {
        // With it everything is told.
        self.clock = None;
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
