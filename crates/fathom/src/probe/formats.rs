//! `--sockperf-log`, `--histogram`, `--latte`: what is also written in another program's format.

use fathom_core::statistics::Statistics;
use fathom_core::summary::{CONNECT, Heading};
use fathom_recording::peers::{Buckets, Intervals, ResultFormat, Run, Totals, result};
use std::path::PathBuf;

/// The formats of other tools.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "For scripts that read other tools")]
pub(crate) struct Formats {
    /// Print PsPing's result and histogram too: so many buckets, or their beginnings in ms, as `psping -h` takes them (10; 0.01,0.05,1,5,10)
    #[arg(long, value_name = "BUCKETS", conflicts_with_all = ["json", "sizes", "idle_gap", "load", "throughput", "tls"])]
    histogram: Option<Buckets>,
    /// Print latte's result and histogram too
    #[arg(long, conflicts_with_all = ["json", "sizes", "idle_gap", "load", "throughput", "connect"])]
    latte: bool,
    #[command(flatten)]
    latte_intervals: LatteIntervals,
    /// Also append sockperf's full log (round trips, as --full-rtt has them) to this file while running
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sizes", "idle_gap", "load", "throughput", "connect"])]
    pub(super) sockperf_log: Option<PathBuf>,
}

/// The intervals of latte's histogram, under the names of its own options.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct LatteIntervals {
    /// How many intervals latte's histogram has, as its `-hc`: round trips above the last have no row [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    latte_hc: Option<u32>,
    /// How long each of them is in µs, as its `-hl` [default: 1]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    latte_hl: Option<u32>,
}

impl LatteIntervals {
    pub(crate) fn intervals(self) -> Intervals {
        Intervals { length_us: self.latte_hl.unwrap_or(1), count: self.latte_hc }
    }

    /// One was asked for.
    pub(crate) fn is_given(self) -> bool {
        self.latte_hc.is_some() || self.latte_hl.is_some()
    }
}

impl Formats {
    /// What is asked for, as the effective configuration names it.
    pub(super) fn words(&self) -> Vec<String> {
        let log = self.sockperf_log.as_ref().map(|file| format!("sockperf-log {}", file.display()));
        let histogram = self.histogram.as_ref().map(|_| "histogram".to_owned());
        let latte = self.latte.then(|| "latte".to_owned());
        [histogram, latte, log].into_iter().flatten().collect()
    }

    /// Intervals were given, and not what they are of.
    pub(super) fn lacks_latte(&self) -> bool {
        self.latte_intervals.is_given() && !self.latte
    }

    /// What is printed at the end of a run.
    pub(super) fn text(&self, heading: &Heading, s: &Statistics) -> String {
        let run = Run {
            reflector: heading.reflector.clone(),
            udp: heading.mode.starts_with("udp"),
            connects: heading.mode == CONNECT,
            size: heading.size,
            ..Run::default()
        };
        let totals = Totals { rtt: &s.rtt, sent: s.samples - s.warm_up, warm_up: s.warm_up };
        let psping = self.histogram.clone().map(ResultFormat::Psping);
        let latte = self.latte.then(|| ResultFormat::Latte(self.latte_intervals.intervals()));
        let mut out = String::new();
        for format in psping.into_iter().chain(latte) {
            out.push('\n');
            out.push_str(&result(&format, &run, &totals));
        }
        out
    }
}
