//! `[simulate]`: what a simulation of the scenario probes, and for how long.

use std::net::IpAddr;

use jiff::Timestamp;

use super::Scenario;
use super::error::ScenarioError;
use super::read::{Table, Value, unknown};

const SECOND: u64 = 1_000_000_000;

/// What a simulation does. Every value has a default, so that each scenario can be simulated as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulateSpec {
    /// The wall clock at the simulation's start (2026-01-01 where the file does not say).
    pub start: Timestamp,
    /// How long it goes on, ns (10 minutes).
    pub duration_ns: u64,
    /// The probes, in the order of the file. Empty: one on each path whose two ends are hosts.
    pub probes: Vec<ProbeSpec>,
    /// What probes have where they do not say otherwise.
    pub defaults: ProbeSpec,
    /// When reflectors are restarted, in the order of the file.
    pub restarts: Vec<Restart>,
}

/// The process that answers on a host ends, and another one begins a while later. Its connections are closed in order, as
/// a kernel closes those of a process that is gone; until the next one listens, new ones are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// The host's name.
    pub host: String,
    /// When it ends, ns from the start.
    pub at_ns: u64,
    /// How long nothing listens, ns.
    pub down_ns: u64,
}

/// A probe of a simulation: one connection at a time over one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSpec {
    /// The path's label, which is the recording's label too.
    pub path: String,
    /// The addresses that the target's name leads to, in the resolver's order; the path's own is among them. Empty: that
    /// one alone.
    pub addresses: Vec<IpAddr>,
    /// When it begins, ns from the start.
    pub begin_ns: u64,
    /// From one sample to the next, ns (1 s).
    pub every_ns: u64,
    /// Payload bytes each way (64).
    pub size: u32,
    /// After this a sample counts as late, ns (5 s). Nothing else happens then.
    pub timeout_ns: u64,
    /// `TCP_USER_TIMEOUT`, RFC 5482: unacknowledged data older than this ends the connection, ns (30 s, which is what
    /// Azure recommends).
    pub user_timeout_ns: u64,
    /// Whether a connection that ended is followed by another (yes).
    pub reconnect: bool,
}

impl Default for ProbeSpec {
    fn default() -> Self {
        Self {
            path: String::new(),
            addresses: Vec::new(),
            begin_ns: 0,
            every_ns: SECOND,
            size: 64,
            timeout_ns: 5 * SECOND,
            user_timeout_ns: 30 * SECOND,
            reconnect: true,
        }
    }
}

impl Default for SimulateSpec {
    fn default() -> Self {
        Self {
            start: Timestamp::constant(1_767_225_600, 0),
            duration_ns: 600 * SECOND,
            probes: Vec::new(),
            defaults: ProbeSpec::default(),
            restarts: Vec::new(),
        }
    }
}

pub(super) fn spec(scenario: &Scenario, mut table: Table<'_>) -> Result<SimulateSpec, ScenarioError> {
    table.call("[simulate]".to_owned());
    let mut spec = SimulateSpec::default();
    if let Some(start) = table.take("start") {
        spec.start = start.datetime()?;
    }
    if let Some(duration) = table.take("for") {
        spec.duration_ns = positive(&duration, duration.duration_ns()?)?;
    }
    spec.defaults = probe_values(&mut table, ProbeSpec::default())?;
    if let Some(probes) = table.take("probe") {
        for probe in probes.list()? {
            let mut probe = probe.table()?;
            probe.call("a [[simulate.probe]]".to_owned());
            let value = probe.require("path", "\"same-zone\"")?;
            let path = value.text()?.value;
            let Some(found) = scenario.path(&path) else {
                let labels = scenario.paths.iter().map(|p| &p.label);
                return Err(value.error(unknown("a path", &path, labels, "add a [[path]] of that label")));
            };
            if scenario.host(&found.from).is_none() {
                return Err(value.error(format_args!(
                    "is a path from the middlebox \"{}\"; a probe starts at a host",
                    found.from
                )));
            }
            probe.call(format!("the probe of \"{path}\""));
            let begin_ns = probe.take("begin").map(|v| v.duration_ns()).transpose()?.unwrap_or(0);
            let addresses = addresses(scenario, &path, &mut probe)?;
            let defaults = ProbeSpec { path, addresses, begin_ns, ..spec.defaults.clone() };
            spec.probes.push(probe_values(&mut probe, defaults)?);
            probe.finish()?;
        }
    }
    if let Some(restarts) = table.take("restart") {
        for restart in restarts.list()? {
            spec.restarts.push(self::restart(scenario, restart.table()?)?);
        }
    }
    table.finish()?;
    Ok(spec)
}

/// What the name of a probe's target leads to.
fn addresses(scenario: &Scenario, path: &str, probe: &mut Table<'_>) -> Result<Vec<IpAddr>, ScenarioError> {
    let Some(list) = probe.take("addresses") else { return Ok(Vec::new()) };
    let place = list.place();
    let of_path = scenario.path(path).map(|path| scenario.target(path).ip());
    let parse = |value: Value<'_>| value.parsed(str::parse::<IpAddr>);
    let all = list.list()?.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if let Some(own) = of_path.filter(|own| !all.contains(own)) {
        return Err(place.error(format_args!("must have the path's own address too; add \"{own}\"")));
    }
    Ok(all)
}

fn restart(scenario: &Scenario, mut table: Table<'_>) -> Result<Restart, ScenarioError> {
    table.call("a [[simulate.restart]]".to_owned());
    let host = super::events::host(scenario, &mut table)?;
    let at_ns = table.require("at", "\"30s\"")?.duration_ns()?;
    let down = table.require("for", "\"2s\"")?;
    let down_ns = positive(&down, down.duration_ns()?)?;
    table.finish()?;
    Ok(Restart { host, at_ns, down_ns })
}

fn probe_values(table: &mut Table<'_>, mut probe: ProbeSpec) -> Result<ProbeSpec, ScenarioError> {
    for (key, ns) in [
        ("every", &mut probe.every_ns),
        ("timeout", &mut probe.timeout_ns),
        ("user-timeout", &mut probe.user_timeout_ns),
    ] {
        if let Some(value) = table.take(key) {
            *ns = positive(&value, value.duration_ns()?)?;
        }
    }
    if let Some(value) = table.take("size") {
        let size = value.size()?;
        // The echo message needs its frame, and one segment must hold it.
        if !(1..=1_400).contains(&size) {
            return Err(value.error(format_args!("must lie between 1 and 1400 bytes, not {size}")));
        }
        probe.size = size as u32;
    }
    if let Some(value) = table.take("reconnect") {
        probe.reconnect = value.boolean()?;
    }
    Ok(probe)
}

fn positive(value: &Value<'_>, ns: u64) -> Result<u64, ScenarioError> {
    if ns == 0 { Err(value.error("must be longer than 0")) } else { Ok(ns) }
}
