//! `fathom probe --as-client`: an application under a policy. `fathom-core::policy` decides, `fathom-client` does; here are
//! arguments, the recording's manifest and what is shown.

use super::args::Args;
use super::config::{Config, Show, Target};
use super::start::{self, Granted};
use super::{Stop, keep, lookup, session};
use crate::exit::Failure;
use crate::output::{self, tell};
use crate::signals;
use fathom_client::{Account, Driver, Setup, Standing};
use fathom_core::event::CLIENT_MODE;
use fathom_core::policy::Fallback;
use fathom_core::rotation::Ages;
use fathom_core::text::count;
use fathom_core::units::duration_compact as duration;
use fathom_os::assist;
use fathom_os::clock::anchor;
use fathom_os::reactor::Reactor;
use fathom_recording::Keeper;
use fathom_reflector::DEFAULT_PORT;
use jiff::Timestamp;
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

const S: u64 = 1_000_000_000;

/// Runs the client to its end and prints what became of its requests.
pub(super) fn run(mut args: Args, file: &Path) -> Result<(), Failure> {
    let name = file.display().to_string();
    let policy = fathom_client::read_policy(file).map_err(|e| Failure::usage(e.to_string()))?;
    let interval_ns = (1e9 / args.client.rate.unwrap_or(1.0)).round() as u64;
    if args.targets.len() > 1 {
        return Err(Failure::usage("--as-client has one TARGET; a second one is the policy's [fallback]"));
    }
    // The schedule is that of a probe: what is polite and what is not is decided alike.
    args.every = Some(Duration::from_nanos(interval_ns));
    let config = Config::new(args)?;
    start::refuse_impolite(&config)?;
    let path = &config.paths[0];
    let mut names = vec![path.target.clone()];
    if let Some(Fallback::Target(second)) = &policy.fallback {
        let second = Target::parse(second, Some(DEFAULT_PORT))
            .map_err(|e| Failure::usage(format!("{name}: [fallback] {e}")))?;
        if second == path.target {
            return Err(Failure::usage(format!(
                "{name}: the [fallback] target is the TARGET itself, {second}; name another"
            )));
        }
        names.push(second);
    }
    let sockets = u64::from(policy.pool.max) * names.len() as u64 + 64;
    let (soft, hard) = assist::raise_open_files();
    if soft < sockets {
        return Err(Failure::run(format!(
            "this pool needs {} and the limit is {soft} (hard limit {hard}); raise it with `ulimit -Hn {sockets}`, or lower `max` in {name}",
            count(sockets, "open file")
        )));
    }
    let located = names
        .iter()
        .map(|name| Ok((name.to_string(), lookup(name, config.family).map_err(Failure::run)?[0])));
    let targets = located.collect::<Result<Vec<_>, Failure>>()?;
    let reactor = Reactor::new().map_err(|e| Failure::run(format!("cannot wait for sockets: {e}")))?;
    let stop = Stop::new(vec![reactor.waker()]);
    let asked = stop.clone();
    signals::on_request_to_end(move || asked.ask())?;

    let started_at = Timestamp::now();
    let manifest = || {
        let mut manifest = keep::manifest(&config, path, started_at, &Granted::new(), None);
        manifest.probe = json!({
            "mode": CLIENT_MODE,
            "size": policy.requests.size,
            "interval_ns": interval_ns,
            "duration_ns": config.duration.map(|d| d.as_nanos() as u64),
            "source": config.source,
            "dscp": config.dscp,
            "policy": policy,
        });
        manifest.reflector.resolved = Some(targets[0].1.to_string());
        manifest
    };
    let recorder = keep::record(&config, path, &Ages::new(anchor()), started_at, manifest)?;
    let shown = recorder.as_ref().map(|recorder| recorder.dir().display().to_string());
    let target = path.target.to_string();
    if config.show != Show::Nothing {
        let kept = shown.as_ref().map_or("not recorded".to_owned(), |dir| format!("recorded in {dir}"));
        tell!("requests to {target} every {} under {name}; {kept}", duration(interval_ns));
    }
    let setup = Setup {
        policy,
        targets,
        interval_ns,
        count: None,
        duration_ns: config.duration.map(|d| d.as_nanos() as u64),
        source: config.source,
        dscp: config.dscp,
        session: session()?,
        secret: config.secret.clone(),
    };
    let keeper = Keeper::new(recorder, anchor, |line| tell!("fathom: {line}"));
    let driver = Driver::new(setup, reactor, Account::new(&target, keeper));
    let mut ticker = Ticker::new(config.show != Show::Nothing);
    let run = driver.run(|| stop.times(), |standing| ticker.tick(&standing));
    ticker.clear();
    let (amounts, account) = run.map_err(|e| Failure::run(format!("cannot go on: {e}")))?;
    let mut result = amounts.json(&target);
    result["recording"] = json!(shown);
    let text = if config.json { format!("{result}\n") } else { amounts.text(&target) };
    let whole = account.finish(result);
    output::print("the summary", &text)?;
    whole.map_err(|e| Failure::run(format!("the recording is incomplete: {e}")))?;
    if amounts.counts.due > 0 && amounts.counts.answered + amounts.counts.fallback == 0 {
        return Err(Failure::run(format!("{target} answered no request; is `fathom echo` running there?")));
    }
    Ok(())
}

/// How it stands: on a terminal one line that is written over, elsewhere a line a minute.
struct Ticker {
    shows: bool,
    terminal: bool,
    next_ns: u64,
}

impl Ticker {
    fn new(shows: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { shows, terminal, next_ns: if terminal { 0 } else { 60 * S } }
    }

    fn tick(&mut self, standing: &Standing) -> Option<u64> {
        if !self.shows {
            return None;
        }
        let after_ns = standing.after_ns;
        if after_ns >= self.next_ns {
            self.next_ns = after_ns + if self.terminal { S } else { 60 * S };
            let line = standing.to_string();
            if self.terminal {
                let columns = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
                let line: String = line.chars().take(columns.saturating_sub(1)).collect();
                // A terminal that has gone away is no reason to end.
                let _ = write!(io::stderr(), "\r\x1b[K{line}");
            } else {
                tell!("{line}");
            }
        }
        Some(fathom_os::clock::mono_ns() + (self.next_ns - after_ns))
    }

    fn clear(&self) {
        if self.shows && self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
