//! A run of the scenario's probes.

use crate::error::Error;
use crate::played::{Kept, Taker, play};
use crate::recorded::{Made, Measured, labels};
use crate::truths::Truths;
use fathom_core::event::Event;
use fathom_core::marks;
use fathom_core::sample::Sample;
use fathom_core::statistics::Statistics;
use fathom_core::summary::Heading;
use fathom_fabric::scenario::{ProbeSpec, Scenario};
use fathom_fabric::simulate::{Options, Simulation, simulate};
use serde_json::json;
use std::path::Path;

/// What a probe measured.
#[derive(Debug)]
pub struct Probed {
    /// Of its summary.
    pub heading: Heading,
    /// What it measured.
    pub statistics: Statistics,
}

struct Run {
    kept: Kept,
    statistics: Statistics,
}

impl Taker for Vec<Run> {
    fn sample(&mut self, probe: usize, sample: &Sample) -> Result<(), Error> {
        self[probe].statistics.sample(sample);
        self[probe].kept.sample(sample)
    }

    fn event(&mut self, probe: usize, event: &Event) -> Result<(), Error> {
        self[probe].statistics.event(event);
        self[probe].kept.event(event)
    }
}

/// Plays a scenario to its end, or until `tell` says no. `record`: the directory for recordings and `truth.jsonl`; `tell` is
/// told now and then which share of it has passed, and says whether it is to go on.
pub fn probe(
    scenario: &Scenario,
    options: &Options,
    record: Option<&Path>,
    made: &Made,
    tell: impl FnMut(f64) -> bool,
) -> Result<Vec<Probed>, Error> {
    let mut simulation = simulate(scenario, options).map_err(Error::Asked)?;
    let seed = options.seed.unwrap_or(scenario.seed);
    let clock = simulation.clock();
    let truths = record.map(|dir| Truths::create(dir, scenario, seed, clock, made)).transpose()?;
    let mut runs = open(record, scenario, seed, &simulation, made)?;
    play(&mut simulation, truths, &mut runs, tell)?;
    let ended_ns = simulation.now_ns();
    let end = |(spec, run): (&ProbeSpec, Run)| {
        let heading = heading(scenario, spec, run.kept.dir(), ended_ns);
        run.kept.finish(clock, ended_ns)?;
        Ok(Probed { heading, statistics: run.statistics })
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
            return Ok(Run { kept: Kept::default(), statistics: Statistics::default() });
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
        Ok(Run { kept: Kept::new(recorder, dir), statistics: Statistics::default() })
    };
    simulation.probes().iter().enumerate().map(run).collect()
}

fn heading(scenario: &Scenario, spec: &ProbeSpec, recording: Option<String>, ended_ns: u64) -> Heading {
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
        recording,
        queries: None,
    }
}
