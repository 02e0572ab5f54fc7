//! `fathom fabric simulate`: a scenario in virtual time, recorded like a run of `fathom probe`.

use crate::exit::Failure;
use crate::output;
use crate::probe::tool;
use crate::values;
use fathom_core::clock::Anchor;
use fathom_core::histogram::Histogram;
use fathom_core::marks;
use fathom_core::statistics::Statistics;
use fathom_core::summary::{self, Heading};
use fathom_fabric::scenario::{Path as ScenarioPath, ProbeSpec, Scenario};
use fathom_fabric::simulate::{Item, Options, Simulation, simulate};
use fathom_recording::{ClockAnchor, Manifest, PathLabels, Recorder, Recording, ReflectorFacts};
use jiff::Timestamp;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  fathom fabric simulate scenarios/azure-live-migration.toml
  fathom fabric simulate scenarios/azure-eleven-hours.toml --record eleven-hours
  fathom fabric simulate my.toml --for 1h --every 100ms --json

Nothing is sent and no privilege is needed: hosts, their TCP and the clock are virtual. A recording goes into
DIR/LABEL for each path, marked as simulated, and DIR/truth.jsonl says what the fabric did.";

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
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    every: Option<Duration>,
    /// Random numbers from here, instead of the scenario's seed
    #[arg(long)]
    seed: Option<u64>,
    /// A JSON object a path instead of the text (schema/summary.md)
    #[arg(long)]
    json: bool,
}

/// One probe's side of the run.
struct ProbeRun {
    recorder: Option<Recorder>,
    dir: Option<PathBuf>,
    statistics: Statistics,
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
    let mut simulation = simulate(&scenario, &options)
        .map_err(|e| Failure::usage(format!("{} cannot be simulated: {e}", args.scenario.display())))?;
    let seed = args.seed.unwrap_or(scenario.seed);
    let mut truth = args
        .record
        .as_deref()
        .map(|dir| Truths::create(dir, &scenario, seed, simulation.clock()))
        .transpose()?;
    let mut runs = open(args.record.as_deref(), &scenario, seed, &simulation)?;
    let began = Instant::now();
    let mut told = began;
    while let Some(item) = simulation.next() {
        let failed = |e: fathom_recording::Error| Failure::run(e.to_string());
        match item {
            Item::Sample { probe, sample } => {
                runs[probe].statistics.sample(&sample);
                if let Some(recorder) = &mut runs[probe].recorder {
                    recorder.push(&sample).map_err(failed)?;
                }
            }
            Item::Event { probe, event } => {
                runs[probe].statistics.event(&event);
                if let Some(recorder) = &mut runs[probe].recorder {
                    recorder.event(&event).map_err(failed)?;
                }
            }
            Item::Truth(what) => {
                if let Some(truth) = &mut truth {
                    truth.line(what.at_ns, &what)?;
                }
            }
            Item::Packet(_) => {}
        }
        if io::stderr().is_terminal() && told.elapsed() > Duration::from_millis(500) {
            told = Instant::now();
            let share = 100.0 * simulation.now_ns() as f64 / simulation.end_ns().max(1) as f64;
            eprint!("\rfathom: {share:.0} % simulated");
        }
    }
    if told > began {
        eprintln!();
    }
    if let Some(truth) = truth {
        truth.finish(simulation.now_ns())?;
    }
    finish(args, &scenario, &simulation, runs)
}

/// Reads a scenario, with the recordings that its jitter comes from.
pub(crate) fn read(file: &Path) -> Result<Scenario, Failure> {
    let text = fs::read_to_string(file).map_err(|e| {
        Failure::usage(format!(
            "cannot read the scenario {}: {e}; name one, as in scenarios/",
            file.display()
        ))
    })?;
    Scenario::parse_with(&text, &file.display().to_string(), &round_trips)
        .map_err(|e| Failure::usage(e.to_string()))
}

/// The round trips of a recording, for a scenario's empirical jitter.
pub(crate) fn round_trips(dir: &str) -> Result<Histogram, String> {
    let recording = Recording::open(Path::new(dir)).map_err(|e| e.to_string())?;
    let mut histogram = Histogram::default();
    // What is damaged is left out; what reads is what was measured.
    for sample in recording.samples().flatten() {
        if let Some(rtt_ns) = sample.rtt_ns {
            histogram.record(rtt_ns);
        }
    }
    Ok(histogram)
}

fn open(
    dir: Option<&Path>,
    scenario: &Scenario,
    seed: u64,
    simulation: &Simulation,
) -> Result<Vec<ProbeRun>, Failure> {
    let run = |(i, spec): (usize, &ProbeSpec)| {
        let Some(dir) = dir else {
            return Ok(ProbeRun { recorder: None, dir: None, statistics: Statistics::default() });
        };
        // Two probes of one path have a directory each.
        let before = simulation.probes()[..i].iter().filter(|other| other.path == spec.path).count();
        let name = if before == 0 { spec.path.clone() } else { format!("{}-{}", spec.path, before + 1) };
        let dir = dir.join(name);
        let manifest = manifest(scenario, seed, spec, simulation.clock());
        // Nothing is lost to a crash that could not be simulated again: segments close by size alone.
        let options =
            fathom_recording::Options { segment_age_ns: u64::MAX, ..fathom_recording::Options::default() };
        let recorder =
            Recorder::create_with(&dir, manifest, options).map_err(|e| Failure::run(e.to_string()))?;
        Ok(ProbeRun { recorder: Some(recorder), dir: Some(dir), statistics: Statistics::default() })
    };
    simulation.probes().iter().enumerate().map(run).collect()
}

/// The wall clock of a simulation.
fn at(clock: Anchor, mono_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(clock.utc_of(mono_ns).into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn manifest(scenario: &Scenario, seed: u64, spec: &ProbeSpec, clock: Anchor) -> Manifest {
    let mut manifest = Manifest::new(spec.path.as_str(), at(clock, spec.begin_ns), tool());
    manifest.marks = vec![marks::SIMULATED.to_owned()];
    manifest.command = Some(crate::command_line::to_run_again());
    manifest.path = labels(scenario, spec);
    if let Some(path) = scenario.path(&spec.path) {
        let target = scenario.target(path).to_string();
        manifest.reflector = ReflectorFacts {
            address: target.clone(),
            resolved: Some(target),
            software: Some("simulated".to_owned()),
            stamps: Some(false),
        };
    }
    manifest.probe = json!({
        "mode": "tcp",
        "size": spec.size,
        "interval_ns": spec.every_ns,
        "connections": 1,
        "timeout_ns": spec.timeout_ns,
        "user_timeout_ns": spec.user_timeout_ns,
        "reconnect": spec.reconnect,
        "nodelay": true,
    });
    manifest.extra.insert(
        "simulated".to_owned(),
        json!({ "scenario": scenario.name, "seed": seed, "tcp": "smoltcp", "clock": "virtual" }),
    );
    manifest.clock_anchors.push(ClockAnchor::new(
        Anchor { mono_ns: spec.begin_ns, utc_ns: clock.utc_of(spec.begin_ns) },
        false,
    ));
    manifest
}

fn labels(scenario: &Scenario, spec: &ProbeSpec) -> PathLabels {
    let Some(path) = scenario.path(&spec.path) else { return PathLabels::default() };
    PathLabels {
        from: Some(path.from.clone()),
        to: Some(path.to.clone()),
        via: (!path.via.is_empty()).then(|| path.via.join(", ")),
        tags: tags(scenario, path),
    }
}

/// The tags of both ends, those of the near host under their own names.
fn tags(scenario: &Scenario, path: &ScenarioPath) -> std::collections::BTreeMap<String, String> {
    let far = scenario
        .tags(&path.to)
        .into_iter()
        .flatten()
        .map(|(key, value)| (format!("to_{key}"), value.clone()));
    let near =
        scenario.tags(&path.from).into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    far.chain(near).collect()
}

fn finish(
    args: &Args,
    scenario: &Scenario,
    simulation: &Simulation,
    runs: Vec<ProbeRun>,
) -> Result<(), Failure> {
    let ended_ns = simulation.now_ns();
    let ended_at = at(simulation.clock(), ended_ns);
    let mut text = String::new();
    for (spec, run) in simulation.probes().iter().zip(runs) {
        if let Some(recorder) = run.recorder {
            recorder.finish(ended_at, ended_ns).map_err(|e| Failure::run(e.to_string()))?;
        }
        let heading = heading(spec, &labels(scenario, spec), run.dir, ended_ns);
        text += &if args.json {
            summary::json(&heading, &run.statistics) + "\n"
        } else {
            summary::text(&heading, &run.statistics)
        };
    }
    output::print("the summary", &text).map(drop)
}

/// `truth.jsonl`, as `fathom fabric up --truth` writes it, on the simulation's clock.
struct Truths {
    lines: BufWriter<File>,
    path: PathBuf,
    clock: Anchor,
}

impl Truths {
    fn create(dir: &Path, scenario: &Scenario, seed: u64, clock: Anchor) -> Result<Self, Failure> {
        let path = dir.join("truth.jsonl");
        let cannot = |e: io::Error| {
            Failure::run(format!("cannot create {}: {e}; name a new directory with --record", path.display()))
        };
        fs::create_dir_all(dir).map_err(cannot)?;
        let lines = BufWriter::new(File::create_new(&path).map_err(cannot)?);
        let mut truths = Self { lines, path: path.clone(), clock };
        truths.line(
            0,
            &json!({
                "place": "fabric", "kind": "truth.started", "fathom": env!("CARGO_PKG_VERSION"),
                "scenario": scenario.name, "seed": seed, "clock": "virtual",
            }),
        )?;
        truths.line(
            0,
            &json!({
                "place": "fabric", "kind": "clock.anchored",
                "anchor_mono_ns": clock.mono_ns, "anchor_utc_ns": clock.utc_ns,
            }),
        )?;
        Ok(truths)
    }

    fn line(&mut self, mono_ns: u64, what: &impl serde::Serialize) -> Result<(), Failure> {
        #[derive(serde::Serialize)]
        struct Line<'a, T> {
            at: Timestamp,
            mono_ns: u64,
            #[serde(flatten)]
            rest: &'a T,
        }
        serde_json::to_writer(&mut self.lines, &Line { at: at(self.clock, mono_ns), mono_ns, rest: what })
            .map_err(io::Error::from)
            .and_then(|()| self.lines.write_all(b"\n"))
            .map_err(|e| Failure::run(format!("cannot write {}: {e}", self.path.display())))
    }

    fn finish(mut self, now_ns: u64) -> Result<(), Failure> {
        self.line(now_ns, &json!({ "place": "fabric", "kind": "truth.ended" }))?;
        let path = self.path;
        self.lines.flush().map_err(|e| Failure::run(format!("cannot write {}: {e}", path.display())))
    }
}

fn heading(spec: &ProbeSpec, path: &PathLabels, dir: Option<PathBuf>, ended_ns: u64) -> Heading {
    Heading {
        label: spec.path.clone(),
        marks: vec![marks::SIMULATED.to_owned()],
        path: path.clone(),
        reflector: "simulated".to_owned(),
        mode: "tcp".to_owned(),
        size: Some(spec.size),
        sizes: Vec::new(),
        interval_ns: Some(spec.every_ns),
        load: None,
        duration_ns: ended_ns.saturating_sub(spec.begin_ns),
        recording: dir.map(|dir| dir.display().to_string()),
    }
}
