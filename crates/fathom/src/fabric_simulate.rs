//! `fathom fabric simulate`: a scenario in virtual time, recorded like a run of `fathom probe`.

use crate::command_line;
use crate::exit::Failure;
use crate::output;
use crate::probe::{a_second, tool};
use crate::signals;
use fathom_core::summary;
use fathom_core::text;
use fathom_core::values;
use fathom_fabric::scenario::Scenario;
use fathom_fabric::simulate::{Applicant, Options};
use fathom_simulate::{Error, Made, Weigh, compare, probe};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  fathom fabric simulate scenarios/azure-live-migration.toml
  fathom fabric simulate scenarios/azure-eleven-hours.toml --record eleven-hours
  fathom fabric simulate my.toml --for 1h --every 100ms --json
  fathom fabric simulate month.toml --as-client a.toml --as-client b.toml

Nothing is sent and no privilege is needed: hosts, their TCP and the clock are virtual. A recording goes into DIR/LABEL for each path, marked as simulated, and DIR/truth.jsonl says what the fabric did. With --as-client, applications take the place of the probes, each policy in a network of its own, and are compared; their recordings go into DIR/POLICY/LABEL (docs/policies.md).";

/// Arguments of `fathom fabric simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Write recordings and the ground truth into this directory
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// How long the simulation goes on, instead of what the scenario says
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    duration: Option<Duration>,
    /// From one sample to the next, instead of what the scenario says
    #[arg(long, value_name = "DURATION", value_parser = values::duration, conflicts_with = "as_client")]
    every: Option<Duration>,
    /// Random numbers from here, instead of the scenario's seed
    #[arg(long)]
    seed: Option<u64>,
    /// An application under this policy on each path, in place of probes; several are compared
    #[arg(long, value_name = "POLICY.toml")]
    as_client: Vec<PathBuf>,
    /// Requests a second of each application [default: 1]
    #[arg(long, requires = "as_client", value_name = "N", value_parser = a_second)]
    rate: Option<f64>,
    /// So many runs, with one seed after the other
    #[arg(long, requires = "as_client", value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// What the policies are ranked by
    #[arg(long, requires = "as_client", value_name = "WHAT", default_value = "failed",
        value_parser = ["failed", "latency", "load"])]
    weigh: String,
    /// A JSON object a path instead of the text (schema/summary.md)
    #[arg(long)]
    json: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Asked(message) => Self::usage(message),
            Error::Failed(message) => Self::run(message),
        }
    }
}

/// Runs `fathom fabric simulate`.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = read(&args.scenario)?;
    let positive = |name: &str, duration: Option<Duration>| match duration {
        Some(Duration::ZERO) => Err(Failure::usage(format!("--{name} 0 simulates nothing; make it longer"))),
        other => Ok(other.map(|d| d.as_nanos() as u64)),
    };
    let options = Options {
        seed: args.seed,
        duration_ns: positive("for", args.duration)?,
        every_ns: positive("every", args.every)?,
    };
    let made = Made { tool: tool(), command: command_line::to_run_again() };
    let progress = Arc::new(Progress::default());
    let asked = Arc::clone(&progress);
    signals::on_request_to_end(move || asked.stopped.store(true, Ordering::Relaxed))?;
    let record = args.record.as_deref();
    let cannot = |e: Error| match e {
        Error::Asked(why) => {
            Failure::usage(format!("{} cannot be simulated: {why}", args.scenario.display()))
        }
        failed @ Error::Failed(_) => failed.into(),
    };
    let stopped = || progress.stopped.load(Ordering::Relaxed);
    let text: String = if args.as_client.is_empty() {
        let probed = probe(&scenario, &options, record, &made, |share| progress.tell(share));
        progress.end();
        let shown = |one: &fathom_simulate::Probed| {
            if args.json {
                summary::json(&one.heading, &one.statistics) + "\n"
            } else {
                summary::text(&one.heading, &one.statistics)
            }
        };
        let text = probed.map_err(cannot)?.iter().map(shown).collect();
        if stopped() {
            output::tell!("fathom: interrupted; the summary is of what had been simulated");
        }
        text
    } else {
        let applicants = applicants(&args.as_client, args.rate.unwrap_or(1.0))?;
        let runs = args.repeat as usize;
        let all =
            compare(&scenario, &options, &applicants, runs, record, &made, |share| progress.tell(share));
        progress.end();
        let weigh = match args.weigh.as_str() {
            "latency" => Weigh::Latency,
            "load" => Weigh::Load,
            _ => Weigh::Failed,
        };
        let shown = |one: &fathom_simulate::Comparison| {
            if args.json { format!("{}\n", one.json(weigh)) } else { one.text(weigh) }
        };
        let all = all.map_err(cannot)?;
        if stopped() {
            let whole = all.first().and_then(|one| one.outcomes.first()).map_or(0, Vec::len);
            let why = format!("interrupted; {whole} of {} were whole", text::count(runs as u64, "run"));
            if whole == 0 {
                return Err(Failure::run(why));
            }
            output::tell!("fathom: {why}");
        }
        all.iter().map(shown).collect()
    };
    output::print("the summary", &text).map(drop)
}

/// Reads a scenario, with the recordings that its jitter comes from.
pub(crate) fn read(file: &Path) -> Result<Scenario, Failure> {
    Ok(fathom_simulate::read(file)?)
}

fn applicants(files: &[PathBuf], rate: f64) -> Result<Vec<Applicant>, Failure> {
    let mut all: Vec<Applicant> = Vec::new();
    for file in files {
        let policy = fathom_client::read_policy(file).map_err(|e| Failure::usage(e.to_string()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if all.iter().any(|one| one.name == name) {
            return Err(Failure::usage(format!("two policies are called {name}; rename one of the files")));
        }
        all.push(Applicant { name, policy, interval_ns: (1e9 / rate).round().max(1.0) as u64 });
    }
    Ok(all)
}

/// What share has been simulated, on a terminal, and whether it is to go on.
#[derive(Default)]
struct Progress {
    told: Mutex<Option<Instant>>,
    stopped: AtomicBool,
}

impl Progress {
    /// Whether it is to go on.
    fn tell(&self, share: f64) -> bool {
        self.show(share);
        !self.stopped.load(Ordering::Relaxed)
    }

    fn show(&self, share: f64) {
        let Ok(mut told) = self.told.try_lock() else { return };
        if io::stderr().is_terminal() && told.is_none_or(|told| told.elapsed() > Duration::from_millis(500)) {
            *told = Some(Instant::now());
            eprint!("\rfathom: {:.0} % simulated", 100.0 * share);
        }
    }

    fn end(&self) {
        if self.told.lock().is_ok_and(|told| told.is_some()) {
            eprintln!();
        }
    }
}
