//! `--csv`, `--sockperf-log`, `--histogram`, `--latte`: what is also written in another program's format.

use super::config::Config;
use crate::exit::Failure;
use crate::summary::{CONNECT, Heading};
use fathom_core::schedule::Pace;
use fathom_core::statistics::Statistics;
use fathom_recording::peers::{Buckets, ResultFormat, RowFormat, Rows, Run, Totals, result, rows};
use jiff::Timestamp;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

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
    /// Also write sockperf's full log (round trips, as --full-rtt has them) to this file while running
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sizes", "idle_gap", "load", "throughput", "connect"])]
    pub(super) sockperf_log: Option<PathBuf>,
}

impl Formats {
    /// What is asked for, as the effective configuration names it.
    pub(super) fn words(&self) -> Vec<String> {
        let log = self.sockperf_log.as_ref().map(|file| format!("sockperf-log {}", file.display()));
        let histogram = self.histogram.as_ref().map(|_| "histogram".to_owned());
        let latte = self.latte.then(|| "latte".to_owned());
        [histogram, latte, log].into_iter().flatten().collect()
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
        let latte = self.latte.then_some(ResultFormat::Latte);
        let mut out = String::new();
        for format in psping.into_iter().chain(latte) {
            out.push('\n');
            out.push_str(&result(&format, &run, &totals));
        }
        out
    }
}

/// A file of rows, and the option that asked for it.
pub(super) struct Table {
    pub(super) option: &'static str,
    pub(super) rows: Box<dyn Rows>,
}

/// The options that write a file a row at a time, with what they write, and the files.
fn files(config: &Config) -> impl Iterator<Item = (&'static str, RowFormat, &Path)> {
    let all = [
        ("--csv", RowFormat::EchoClientCsv, &config.csv),
        ("--sockperf-log", RowFormat::SockperfLog, &config.formats.sockperf_log),
    ];
    all.into_iter().filter_map(|(option, format, file)| Some((option, format, file.as_deref()?)))
}

/// Refuses what no file of rows can hold.
pub(super) fn refuse_several_targets(config: &Config) -> Result<(), Failure> {
    match files(config).next() {
        Some((option, ..)) if config.paths.len() > 1 => Err(Failure::usage(format!(
            "{option} FILE holds one path; with several targets use `fathom recording export --format …` on each recording"
        ))),
        _ => Ok(()),
    }
}

/// Makes the files; where one cannot be made, none is left behind.
pub(super) fn open(config: &Config, started_at: Timestamp) -> Result<Vec<Table>, Failure> {
    let mut tables = Vec::new();
    let run = Run {
        size: Some(config.size),
        interval_ns: match config.pace {
            Pace::Every(every_ns) => Some(every_ns),
            Pace::PingPong => None,
        },
        started_utc_ns: i64::try_from(started_at.as_nanosecond()).unwrap_or(0),
        ..Run::default()
    };
    for (option, format, path) in files(config) {
        match File::create_new(path).and_then(|file| rows(format, &run, BufWriter::new(file))) {
            Ok(rows) => tables.push(Table { option, rows }),
            Err(e) => {
                for (_, _, made) in files(config).take(tables.len()) {
                    let _ = std::fs::remove_file(made);
                }
                return Err(Failure::run(format!(
                    "cannot write {}: {e}; name another file with {option}",
                    path.display()
                )));
            }
        }
    }
    Ok(tables)
}

/// Takes the files back: nothing was written to them.
pub(super) fn discard(config: &Config) {
    for (_, _, path) in files(config) {
        let _ = std::fs::remove_file(path);
    }
}
