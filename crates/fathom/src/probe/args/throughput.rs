//! The arguments of `fathom probe --throughput`, beside those that every probe has.

use crate::values;
use std::time::Duration;

/// What a throughput test is asked to do.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Throughput")]
pub(crate) struct ThroughputArgs {
    /// Measure how much TCP carries instead of round trips, as iperf3 does and against its servers too (port 5201, or `fathom echo --throughput`); for 10s unless --for says so, on --connections parallel streams
    #[arg(long, conflicts_with_all = ["every", "ping_pong", "connect", "sizes", "count", "warm_up", "udp", "give_up", "stall_after", "pause_clock", "no_reconnect", "keep_trying", "csv", "timestamps", "cpu", "recorder_cpu", "cpu_latency", "spin", "priority", "profile", "stamp", "idle_gap", "load", "threads", "reconnect_at_most", "connect_rate", "key", "on_full"])]
    pub(in crate::probe) throughput: bool,
    /// The reflector sends, and this end receives
    #[arg(long, requires = "throughput", conflicts_with = "bidirectional")]
    pub(in crate::probe) reverse: bool,
    /// Both send, on streams of their own
    #[arg(long, requires = "throughput")]
    pub(in crate::probe) bidirectional: bool,
    /// Send at most this much on each stream, as in 100Mbit [default: as fast as it goes]
    #[arg(long, value_name = "RATE", requires = "throughput", value_parser = values::bits_per_s)]
    pub(in crate::probe) bitrate: Option<u64>,
    /// Leave the first so many whole seconds out of the totals, while TCP finds its pace
    #[arg(long, value_name = "DURATION", default_value = "0", requires = "throughput", value_parser = values::duration, allow_hyphen_values = true)]
    pub(in crate::probe) omit: Duration,
}

impl ThroughputArgs {
    /// Whether this run is a throughput test.
    pub(in crate::probe) fn is_asked_for(&self) -> bool {
        self.throughput
    }
}
