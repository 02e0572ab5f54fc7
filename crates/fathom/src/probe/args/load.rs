//! The options of a background load.

use crate::values;
use std::time::Duration;

/// What `--load` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    /// Bits a second, each way.
    BitsPerS(u64),
    /// As much as the connections take.
    Max,
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    values::bits_per_s(text).map(Rate::BitsPerS).map_err(|e| format!("{e}, or max"))
}

/// Options of `fathom probe` for latency under load.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LoadArgs {
    /// Also send a load of this rate (`100Mbit`, `1Gbit`, `50MB` a second; `max`: what the connections take) in every second phase, on TCP connections of its own to the same target, which echoes it: it runs in both directions. Samples under load have figures of their own
    #[arg(long, value_name = "RATE|max", value_parser = rate, conflicts_with_all = ["connect", "sizes", "csv"], help_heading = "Under load")]
    pub(crate) load: Option<Rate>,
    /// Connections that share the load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000), requires = "load", help_heading = "Under load")]
    pub(crate) load_connections: u32,
    /// How long each phase lasts, idle and loaded by turns, idle first; the time the load takes to come and to go is not counted
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration, requires = "load", help_heading = "Under load", allow_hyphen_values = true)]
    pub(crate) load_phase: Duration,
}
