//! Options for runs that nobody watches.

use crate::values;
use std::path::PathBuf;
use std::time::Duration;

/// Options of `fathom probe` for operations.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "For runs that nobody watches")]
pub(crate) struct OperateArgs {
    /// Go on in a new recording each such period, at its boundary in UTC (1d: at midnight); nothing is lost between two. --record then names the directory that holds them
    #[arg(long, value_name = "DURATION", value_parser = period_of_recordings, conflicts_with_all = ["no_record", "throughput"])]
    pub(crate) rotate: Option<Duration>,
    /// Remove whole recordings of this rotation that ended longer ago than this, also those of earlier runs whose own --keep is over
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "rotate")]
    pub(crate) keep: Option<Duration>,
    /// Print a line about each target so often (counts, p50 and p99 of the interval, availability so far); with --json one object a line
    #[arg(long, value_name = "DURATION", value_parser = at_least_a_second, conflicts_with_all = ["plain", "throughput"])]
    pub(crate) interval_report: Option<Duration>,
    /// Run this command for each event (a stall, an outage, a verdict) with the event as one JSON line on its standard input; by `sh -c` where it has anything but plain words. At most 4 run at a time, none for longer than 30 s, and none holds the probe up
    #[arg(long, value_name = "COMMAND", conflicts_with = "throughput")]
    pub(crate) on_event: Option<String>,
    /// Keep the figures so far in this file for the textfile collector of Prometheus' node exporter: written anew every 10 s, replaced in one step
    #[arg(long, value_name = "FILE.prom", conflicts_with = "throughput")]
    pub(crate) textfile: Option<PathBuf>,
}

fn period_of_recordings(text: &str) -> Result<Duration, String> {
    match values::duration(text).map_err(|e| e.to_string())? {
        short if short < Duration::from_secs(1) => {
            Err("a recording lasts 1s at the least; write it as in 1d, 1h".to_owned())
        }
        period => Ok(period),
    }
}

fn at_least_a_second(text: &str) -> Result<Duration, String> {
    match values::duration(text).map_err(|e| e.to_string())? {
        short if short < Duration::from_secs(1) => {
            Err("an interval has 1s at the least; each sample has a line with --plain".to_owned())
        }
        period => Ok(period),
    }
}
