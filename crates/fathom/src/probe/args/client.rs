//! The arguments of `fathom probe --as-client`, beside those that every probe has.

use std::path::PathBuf;

/// What a client is asked to do.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "As an application")]
pub(crate) struct ClientArgs {
    /// Behave as an application under the policy in this file (timeouts, retries, pool, circuit breaker, fallback) and tell what became of its requests: docs/policies.md
    #[arg(long, value_name = "POLICY.toml", conflicts_with_all = ["throughput", "every", "ping_pong", "connect", "size", "sizes", "count", "connections", "threads", "warm_up", "udp", "give_up", "timeout", "user_timeout", "stall_after", "pause_clock", "no_reconnect", "reconnect_at_most", "connect_rate", "keep_trying", "csv", "timestamps", "cpu", "cpu_latency", "spin", "priority", "profile", "stamp", "idle_gap", "load", "on_full", "rotate", "interval_report", "on_event", "textfile", "show_config", "cloud_tags", "cloud_every", "metadata_url"])]
    pub(in crate::probe) as_client: Option<PathBuf>,
    /// With --as-client: requests a second, whatever becomes of those before [default: 1]
    #[arg(long, value_name = "N", requires = "as_client", value_parser = a_second)]
    pub(in crate::probe) rate: Option<f64>,
}

fn a_second(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse::<f64>().ok().filter(|rate| (0.001..=100_000.0).contains(rate));
    rate.ok_or_else(|| "requests a second, from 0.001 to 100000, as in 20".to_owned())
}
