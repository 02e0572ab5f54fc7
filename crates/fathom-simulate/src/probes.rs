//! A run of the scenario's probes.

use crate::error::Error;
use crate::recorded::{Made, Measured, at, labels};
use crate::truths::Truths;
use fathom_core::marks;
use fathom_core::statistics::Statistics;
use fathom_core::summary::Heading;
use fathom_fabric::scenario::{ProbeSpec, Scenario};
use fathom_fabric::simulate::{Item, Options, Simulation, simulate};
use fathom_recording::Recorder;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What a probe measured.
#[derive(Debug)]
pub struct Probed {
    /// Of its summary.
    pub heading: Heading,
    /// What it measured.
    pub statistics: Statistics,
}

struct Run {
    recorder: Option<Recorder>,
    dir: Option<PathBuf>,
    statistics: Statistics,
}

/// Plays a scenario to its end. `record`: the directory for recordings and `truth.jsonl`; `tell` is told now and then which
/// share of it has passed.
pub fn probe(
    scenario: &Scenario,
    options: &Options,
    record: Option<&Path>,
    made: &Made,
    mut tell: impl FnMut(f64),
) -> Result<Vec<Probed>, Error> {
    let mut simulation = simulate(scenario, options).map_err(Error::Asked)?;
    let seed = options.seed.unwrap_or(scenario.seed);
    let clock = simulation.clock();
    let mut truth = record.map(|dir| Truths::create(dir, scenario, seed, clock, made)).transpose()?;
    let mut runs = open(record, scenario, seed, &simulation, made)?;
    while let Some(item) = simulation.next() {
        match item {
            Item::Sample { probe, sample } => {
                runs[probe].statistics.sample(&sample);
                if let Some(recorder) = &mut runs[probe].recorder {
                    recorder.push(&sample).map_err(Error::failed)?;
                }
            }
            Item::Event { probe, event } => {
                runs[probe].statistics.event(&event);
                if let Some(recorder) = &mut runs[probe].recorder {
                    recorder.event(&event).map_err(Error::failed)?;
                }
            }
            Item::Truth(what) => {
                if let Some(truth) = &mut truth {
                    truth.line(what.at_ns, &what)?;
                }
            }
            Item::Packet(_) => {}
        }
        tell(simulation.now_ns() as f64 / simulation.end_ns().max(1) as f64);
    }
    let ended_ns = simulation.now_ns();
    if let Some(truth) = truth {
        truth.finish(ended_ns)?;
    }
    let end = |(spec, run): (&ProbeSpec, Run)| {
        if let Some(recorder) = run.recorder {
            recorder.finish(at(clock, ended_ns), ended_ns).map_err(Error::failed)?;
        }
        Ok(Probed { heading: heading(scenario, spec, run.dir, ended_ns), statistics: run.statistics })
    };
    simulation.probes().iter().zip(runs).map(end).collect()
}

fn open(
    dir: Option<&Path>,
    scenario: &Scenario,
    seed: u64,
    simulation: &Simulation,
    made: &Made,
) -> Result<Vec<Run>, Error> {
    let run = |(i, spec): (usize, &ProbeSpec)| {
        let Some(dir) = dir else {
            return Ok(Run { recorder: None, dir: None, statistics: Statistics::default() });
        };
        // Two probes of one path have a directory each.
        let before = simulation.probes()[..i].iter().filter(|other| other.path == spec.path).count();
        let name = if before == 0 { spec.path.clone() } else { format!("{}-{}", spec.path, before + 1) };
        let dir = dir.join(name);
        let probe = json!({
            "mode": "tcp",
            "size": spec.size,
            "interval_ns": spec.every_ns,
            "connections": 1,
            "timeout_ns": spec.timeout_ns,
            "user_timeout_ns": spec.user_timeout_ns,
            "reconnect": spec.reconnect,
            "nodelay": true,
        });
        let (path, begin_ns) = (&spec.path, spec.begin_ns);
        let measured = Measured { scenario, seed, path, label: path.clone(), policy: None, begin_ns, probe };
        let recorder = measured.recorder(&dir, simulation.clock(), made)?;
        Ok(Run { recorder: Some(recorder), dir: Some(dir), statistics: Statistics::default() })
    };
    simulation.probes().iter().enumerate().map(run).collect()
}

fn heading(scenario: &Scenario, spec: &ProbeSpec, dir: Option<PathBuf>, ended_ns: u64) -> Heading {
    Heading {
        label: spec.path.clone(),
        marks: vec![marks::SIMULATED.to_owned()],
        path: labels(scenario, &spec.path),
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
