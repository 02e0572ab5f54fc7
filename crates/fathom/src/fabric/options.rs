//! What makes a fabric, as arguments: of `up` and `run`, and of the daemon that they start.

use crate::exit::Failure;
use fathom_emulator::daemon::{Options, Ready};
use fathom_emulator::directory::{FabricDir, name_from};
use fathom_emulator::{Spinning, Wait};
use fathom_fabric::scenario::Scenario;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// What makes a fabric: for `up` and for `run`.
#[derive(Debug, clap::Args)]
pub(super) struct FabricOptions {
    /// The scenario: hosts, middleboxes, paths and events
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// What to call the fabric [default: the scenario's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write what the fabric does to DIR/truth.jsonl
    #[arg(long, value_name = "DIR")]
    truth: Option<PathBuf>,
    /// And every packet's stamps to DIR/truth-packets.parquet
    #[arg(long, requires = "truth")]
    packets: bool,
    /// How to wait for the moment at which a packet is due
    #[arg(long, value_enum, default_value_t)]
    wait: Waiting,
    /// For how long a hybrid wait spins: a duration, or by what this machine's sleeps are late
    #[arg(long, value_name = "auto|DURATION", default_value = "auto", value_parser = spinning)]
    spin_window: Spinning,
    /// Keep the thread that moves packets on this CPU
    #[arg(long, visible_alias = "core", value_name = "N")]
    cpu: Option<usize>,
    /// Keep CPUs out of idle states that take longer than so many µs to leave, where permitted (machine-wide)
    #[arg(long, value_name = "US|off", default_value = "0", value_parser = cpu_latency)]
    cpu_latency: CpuLatency,
}

/// How the loop waits for the moment at which a packet is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Waiting {
    /// Sleep until shortly before, then spin: on time, at a part of a core.
    #[default]
    Hybrid,
    /// Never sleep: on time and quick to take packets in, at a whole core.
    Spin,
    /// Only sleep: late by what the machine takes to wake up, at the least cost.
    Sleep,
}

impl From<Waiting> for Wait {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Hybrid => Self::Hybrid,
            Waiting::Spin => Self::Spin,
            Waiting::Sleep => Self::Sleep,
        }
    }
}

fn spinning(text: &str) -> Result<Spinning, String> {
    if text == "auto" {
        return Ok(Spinning::Adaptive);
    }
    let span = crate::values::duration(text).map_err(|e| format!("{e}; or write auto"))?;
    Ok(Spinning::Fixed(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}

/// Not an `Option`: to clap that would mean an argument that may be left out.
#[derive(Debug, Clone, Copy)]
struct CpuLatency(Option<u32>);

fn cpu_latency(text: &str) -> Result<CpuLatency, String> {
    if text == "off" {
        return Ok(CpuLatency(None));
    }
    text.parse()
        .map(|us| CpuLatency(Some(us)))
        .map_err(|_| format!("write a number of µs, or off (got {text})"))
}

/// Which fabric, for commands whose operand can be its name: every command takes `--name`.
#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// Which fabric [default: that of the environment, or the only one]
    name: Option<String>,
    /// The same, as `up`, `exec` and `event` have it
    #[arg(long = "name", value_name = "NAME", conflicts_with = "name")]
    named: Option<String>,
}

impl Which {
    pub(super) fn find(&self) -> Result<FabricDir, Failure> {
        Ok(FabricDir::find(self.name.as_deref().or(self.named.as_deref()))?)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Leash {
    None,
    Stdin,
}

impl FabricOptions {
    /// Reads the scenario: what the daemon is to make.
    pub(super) fn read(&self) -> Result<Options, Failure> {
        let shown = self.scenario.display();
        let failed = |e: &dyn std::fmt::Display| {
            Failure::run(format!("cannot read {shown}: {e}; name a scenario (TOML)"))
        };
        let text = std::fs::read_to_string(&self.scenario).map_err(|e| failed(&e))?;
        let source = self.scenario.canonicalize().map_err(|e| failed(&e))?;
        let scenario = Scenario::parse(&text, &shown.to_string()).map_err(|e| Failure::run(e.to_string()))?;
        Ok(Options {
            name: self.name.clone().unwrap_or_else(|| name_from(&scenario.name)),
            scenario,
            source,
            truth: self.truth.clone(),
            packets: self.packets,
            wait: self.wait.into(),
            spinning: self.spin_window,
            cpu: self.cpu,
            cpu_latency_us: self.cpu_latency.0,
        })
    }

    /// The same as arguments of a new process.
    fn arguments(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["fabric".into(), "up".into(), self.scenario.clone().into()];
        let mut add = |option: &str, value: OsString| all.extend([option.into(), value]);
        if let Some(name) = &self.name {
            add("--name", name.into());
        }
        if let Some(truth) = &self.truth {
            add("--truth", truth.into());
        }
        if let Some(cpu) = self.cpu {
            add("--cpu", cpu.to_string().into());
        }
        if let Some(wait) = clap::ValueEnum::to_possible_value(&self.wait) {
            add("--wait", wait.get_name().into());
        }
        if let Spinning::Fixed(ns) = self.spin_window {
            add("--spin-window", format!("{ns}ns").into());
        }
        add("--cpu-latency", self.cpu_latency.0.map_or("off".into(), |us| us.to_string().into()));
        if self.packets {
            all.push("--packets".into());
        }
        all
    }

    /// Starts a daemon and waits until its fabric is up. On a leash, the child's standard input is what holds it.
    pub(super) fn start(&self, leash: Leash) -> Result<(Ready, Child), Failure> {
        let failed =
            |e: &dyn std::fmt::Display| Failure::run(format!("cannot start the fabric's daemon: {e}"));
        let mut command = Command::new(std::env::current_exe().map_err(|e| failed(&e))?);
        command.args(self.arguments()).stdout(Stdio::piped());
        match leash {
            Leash::None => command.args(["--daemon", "none"]).stdin(Stdio::null()),
            Leash::Stdin => command.args(["--daemon", "stdin"]).stdin(Stdio::piped()),
        };
        let mut child = command.spawn().map_err(|e| failed(&e))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(|e| failed(&e))?;
        }
        if let Ok(ready) = serde_json::from_str(&line) {
            return Ok((ready, child));
        }
        // It has said why.
        let code = child.wait().map_err(|e| failed(&e))?.code();
        Err(Failure::Passed(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_duration_or_the_machines() {
        assert_eq!(spinning("50us"), Ok(Spinning::Fixed(50_000)));
        assert_eq!(spinning("auto"), Ok(Spinning::Adaptive));
        assert!(spinning("50").unwrap_err().contains("or write auto"));
    }
}
