//! `fathom fabric up`: makes a fabric and leaves it running.

use super::daemon::{Attachment, Ready, serve};
use super::place::name_from;
use super::waiting::{Spinning, Wait};
use crate::exit::Failure;
use fathom_fabric::scenario::Scenario;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  fathom fabric up scenarios/azure-same-zone.toml
  fathom fabric up scenarios/azure-live-migration.toml --truth truth --packets --name migration
  fathom fabric up my.toml --wait spin --cpu 1 --foreground

Then `fathom fabric exec HOST -- COMMAND`, and `fathom fabric down`. Needs Linux with TUN devices (/dev/net/tun) and `ip`
(iproute2); root, or a kernel that allows user namespaces.";

/// What makes a fabric: for `up` and for `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Making {
    /// The scenario: hosts, middleboxes, paths and events
    #[arg(value_name = "SCENARIO.toml")]
    pub(super) scenario: PathBuf,
    /// What to call the fabric [default: the scenario's name]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Write what the fabric does to DIR/truth.jsonl
    #[arg(long, value_name = "DIR")]
    pub(super) truth: Option<PathBuf>,
    /// And every packet's stamps to DIR/truth-packets.parquet
    #[arg(long, requires = "truth")]
    pub(super) packets: bool,
    /// How to wait for the moment at which a packet is due
    #[arg(long, value_enum, default_value_t)]
    pub(super) wait: Wait,
    /// For how long a hybrid wait spins: a duration, or by what this machine's sleeps are late
    #[arg(long, value_name = "auto|DURATION", default_value = "auto")]
    pub(super) spin_window: Spinning,
    /// Keep the thread that moves packets on this CPU
    #[arg(long, visible_alias = "core", value_name = "N")]
    pub(super) cpu: Option<usize>,
    /// Keep CPUs out of idle states that take longer than so many µs to leave, where permitted (machine-wide)
    #[arg(long, value_name = "US|off", default_value = "0", value_parser = cpu_latency)]
    cpu_latency: CpuLatency,
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

/// Arguments of `fathom fabric up`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    making: Making,
    /// Stay here until Ctrl-C instead of going to the background
    #[arg(long)]
    foreground: bool,
    /// Tell what was made as one JSON object
    #[arg(long)]
    json: bool,
    /// What `up` and `run` start
    #[arg(long, hide = true, value_enum)]
    daemon: Option<Leash>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Leash {
    None,
    Stdin,
}

impl Making {
    /// The scenario, and where it stands.
    pub(super) fn read(&self) -> Result<(Scenario, PathBuf), Failure> {
        let shown = self.scenario.display();
        let failed = |e: &dyn std::fmt::Display| {
            Failure::run(format!("cannot read {shown}: {e}; name a scenario (TOML)"))
        };
        let text = std::fs::read_to_string(&self.scenario).map_err(|e| failed(&e))?;
        let path = self.scenario.canonicalize().map_err(|e| failed(&e))?;
        let scenario = Scenario::parse(&text, &shown.to_string()).map_err(|e| Failure::run(e.to_string()))?;
        Ok((scenario, path))
    }

    /// What it is to be called.
    pub(super) fn name(&self, scenario: &Scenario) -> String {
        self.name.clone().unwrap_or_else(|| name_from(&scenario.name))
    }

    pub(super) fn cpu_latency(&self) -> Option<u32> {
        self.cpu_latency.0
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

/// Runs `fathom fabric up`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    match args.daemon {
        Some(Leash::None) => return serve(&args.making, Attachment::Background, true),
        Some(Leash::Stdin) => return serve(&args.making, Attachment::Leashed, true),
        None => {}
    }
    if args.foreground {
        return serve(&args.making, Attachment::Foreground, args.json);
    }
    let (ready, _daemon) = args.making.start(Leash::None)?;
    show(&ready, args.json);
    Ok(())
}

/// Tells what has been made.
pub(super) fn show(ready: &Ready, json: bool) {
    if json {
        println!("{}", serde_json::to_string(ready).unwrap_or_default());
        return;
    }
    for note in &ready.notes {
        eprintln!("fathom: {note}");
    }
    if let Some(truth) = &ready.truth {
        eprintln!("fathom: the truth goes to {}", truth.display());
    }
    println!("fabric {}: {} hosts", ready.name, ready.hosts.len());
    let names =
        ready.hosts.iter().map(|host| host.name.len()).chain(ready.middleboxes.iter().map(|(n, _)| n.len()));
    let width = names.max().unwrap_or(0);
    for host in &ready.hosts {
        let addresses: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
        let netns = host.netns.as_ref().map(|name| format!("   ip netns: {name}")).unwrap_or_default();
        println!("  {:width$}  {}{netns}", host.name, addresses.join(" "));
    }
    for (name, address) in &ready.middleboxes {
        println!("  {name:width$}  {address}   middlebox");
    }
    if let Some(first) = ready.hosts.first() {
        eprintln!("fathom: next: fathom fabric exec --name {} {} -- COMMAND", ready.name, first.name);
    }
}
