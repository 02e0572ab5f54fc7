//! The recordings of a simulation, and what their manifests say.

use crate::error::Error;
use fathom_core::clock::Anchor;
use fathom_core::marks;
use fathom_fabric::scenario::{Path as ScenarioPath, Scenario};
use fathom_recording::{ClockAnchor, Manifest, PathLabels, Recorder, ReflectorFacts, Tool};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// By what a simulation was made, for its recordings.
#[derive(Debug, Clone)]
pub struct Made {
    /// This program.
    pub tool: Tool,
    /// The command line, to be run again.
    pub command: String,
}

/// The wall clock of a simulation.
pub(crate) fn at(clock: Anchor, mono_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(clock.utc_of(mono_ns).into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What is measured over a path of a scenario.
pub(crate) struct Measured<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) seed: u64,
    /// The path's label.
    pub(crate) path: &'a str,
    /// What the recording is called.
    pub(crate) label: String,
    /// The policy that it is measured under, where there is one.
    pub(crate) policy: Option<&'a str>,
    pub(crate) begin_ns: u64,
    /// How.
    pub(crate) probe: Value,
}

impl Measured<'_> {
    pub(crate) fn recorder(&self, dir: &Path, clock: Anchor, made: &Made) -> Result<Recorder, Error> {
        // Nothing is lost to a crash that could not be simulated again: segments close by size alone.
        let options =
            fathom_recording::Options { segment_age_ns: u64::MAX, ..fathom_recording::Options::default() };
        Recorder::create_with(dir, self.manifest(clock, made), options).map_err(Error::failed)
    }

    fn manifest(&self, clock: Anchor, made: &Made) -> Manifest {
        let mut manifest = Manifest::new(self.label.as_str(), at(clock, self.begin_ns), made.tool.clone());
        manifest.marks = vec![marks::SIMULATED.to_owned()];
        manifest.command = Some(made.command.clone());
        manifest.path = labels(self.scenario, self.path);
        if let Some(policy) = self.policy {
            manifest.path.tags.insert("policy".to_owned(), policy.to_owned());
        }
        if let Some(path) = self.scenario.path(self.path) {
            let target = self.scenario.target(path).to_string();
            manifest.reflector = ReflectorFacts {
                address: target.clone(),
                resolved: Some(target),
                software: Some("simulated".to_owned()),
                stamps: Some(false),
            };
        }
        manifest.probe = self.probe.clone();
        manifest.extra.insert(
            "simulated".to_owned(),
            json!({ "scenario": self.scenario.name, "seed": self.seed, "tcp": "smoltcp", "clock": "virtual" }),
        );
        let begun = Anchor { mono_ns: self.begin_ns, utc_ns: clock.utc_of(self.begin_ns) };
        manifest.clock_anchors.push(ClockAnchor::new(begun, false));
        manifest
    }
}

/// What a scenario says of a path.
pub(crate) fn labels(scenario: &Scenario, label: &str) -> PathLabels {
    let Some(path) = scenario.path(label) else { return PathLabels::default() };
    PathLabels {
        from: Some(path.from.clone()),
        to: Some(path.to.clone()),
        via: (!path.via.is_empty()).then(|| path.via.join(", ")),
        tags: tags(scenario, path),
    }
}

/// The tags of both ends, those of the near host under their own names.
fn tags(scenario: &Scenario, path: &ScenarioPath) -> BTreeMap<String, String> {
    let far = scenario
        .tags(&path.to)
        .into_iter()
        .flatten()
        .map(|(key, value)| (format!("to_{key}"), value.clone()));
    let near =
        scenario.tags(&path.from).into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    far.chain(near).collect()
}
