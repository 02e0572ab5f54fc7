//! What the user says about throughput tests.

use crate::exit::Failure;
use crate::values;
use std::time::Duration;

/// Arguments of `fathom echo` about throughput tests.
#[derive(Debug, clap::Args)]
pub(in crate::echo) struct ThroughputArgs {
    /// Serve throughput tests too, those of `fathom probe --throughput` and of iperf3's TCP clients, one at a time, on
    /// this port of the addresses listened on (port 0: any free port) [without PORT: 5201]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "5201")]
    throughput: Option<u16>,

    /// Serve no throughput test longer than this
    #[arg(long, value_name = "DURATION", default_value = "60s", requires = "throughput",
          value_parser = values::duration)]
    throughput_longest: Duration,
}

/// How throughput tests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::echo) struct Settings {
    /// 0: any free one.
    pub(super) port: u16,
    pub(super) longest_s: u32,
}

impl Settings {
    /// None: they are not.
    pub(in crate::echo) fn new(args: &ThroughputArgs) -> Result<Option<Self>, Failure> {
        let Some(port) = args.throughput else { return Ok(None) };
        // Clients ask for whole seconds.
        let longest_s = u32::try_from(args.throughput_longest.as_secs()).unwrap_or(u32::MAX);
        if longest_s == 0 {
            return Err(Failure::usage(
                "--throughput-longest: the shortest test takes a second; write it as in 60s",
            ));
        }
        Ok(Some(Self { port, longest_s }))
    }
}
