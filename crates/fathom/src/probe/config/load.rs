//! The load beside the samples, checked.

use crate::exit::Failure;
use crate::probe::args::{Args, Rate};
use fathom_core::load::Phases;
use serde::Serialize;
use std::time::Duration;

/// A shorter phase would be all coming and going.
const SHORTEST_PHASE: Duration = Duration::from_millis(100);

/// A load that runs in every second phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct LoadPlan {
    /// What it sends, each way; `None`: as much as its connections take.
    pub(crate) bits_per_s: Option<u64>,
    pub(crate) connections: u32,
    pub(crate) phase_ns: u64,
}

impl LoadPlan {
    /// Checks the options of a load, where one is asked for.
    pub(super) fn new(args: &Args) -> Result<Option<Self>, Failure> {
        let Some(rate) = args.load.load else { return Ok(None) };
        let phase = args.load.load_phase;
        if args.targets.len() > 1 {
            return Err(Failure::usage(
                "--load loads one target: two loads from one host would be each other's; give one target a run",
            ));
        }
        if phase < SHORTEST_PHASE {
            return Err(Failure::usage(format!(
                "--load-phase {phase:?}: a load takes a while to come and to go; the shortest phase is 100ms"
            )));
        }
        let phase_ns = phase.as_nanos() as u64;
        let settling = Duration::from_nanos(Phases::settling_ns(phase_ns));
        let least = phase * 2 + settling;
        if let Some(duration) = args.duration.filter(|duration| *duration < least) {
            return Err(Failure::usage(format!(
                "--for {duration:?} is over before an idle and a loaded phase of {phase:?} each; give a shorter --load-phase"
            )));
        }
        let bits_per_s = match rate {
            Rate::BitsPerS(bits) => Some(bits),
            Rate::Max => None,
        };
        Ok(Some(Self { bits_per_s, connections: args.load.load_connections, phase_ns }))
    }
}
