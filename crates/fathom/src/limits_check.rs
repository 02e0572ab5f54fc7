//! `fathom limits check`: settings against limits. What they mean, `fathom_settings` knows; here files are read.

use crate::exit::Failure;
use crate::output::{self, tell};
use crate::{limits as search, values};
use clap::Subcommand;
use fathom_core::text::cleaned;
use fathom_recording::Recording;
use fathom_settings::{Kind, Limits, Report, Version};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `fathom limits`: of a search, or of a check.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SearchOrCheck {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    search: Option<search::Args>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which settings of pools, drivers and the kernel lose against limits that were found, and what to write instead
    Check(Args),
}

/// Runs `fathom limits`.
pub(crate) fn run(args: SearchOrCheck) -> Result<(), Failure> {
    match args.command {
        Some(Command::Check(args)) => check(&args),
        None => args.search.map_or(Ok(()), search::run),
    }
}

/// Arguments of `fathom limits check`.
#[derive(Debug, clap::Args)]
#[group(id = "check")]
#[command(after_help = fathom_settings::HELP)]
struct Args {
    /// Files with settings; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The idleness after which connections die on the path
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    idle: Option<Duration>,
    /// The age at which connections end on the path
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    age: Option<Duration>,
    /// The limit that a search found: the recording of `fathom limits --record DIR`; may be given twice
    #[arg(long, value_name = "DIR")]
    record: Vec<PathBuf>,
    /// Whose settings they are, where a file does not show it: hikari, npgsql, adonet, pgx, sqlalchemy,
    /// node-postgres, mysql2 or sysctl
    #[arg(long = "as", value_name = "LIBRARY", value_parser = str::parse::<Kind>)]
    kind: Option<Kind>,
    /// The library's version. Without it a setting must hold in every version whose defaults are known
    #[arg(long, value_name = "X.Y.Z", value_parser = str::parse::<Version>)]
    library_version: Option<Version>,
    /// One JSON object a file
    #[arg(long)]
    json: bool,
}

/// Runs `fathom limits check`.
fn check(args: &Args) -> Result<(), Failure> {
    let limits = limits(args)?;
    let (mut loses, mut wrong) = (false, false);
    for file in &args.files {
        let stdin = file == Path::new("-");
        let name = if stdin { "stdin".to_owned() } else { file.display().to_string() };
        let report = match if stdin { read(io::stdin()) } else { File::open(file).and_then(read) } {
            Ok(bytes) => fathom_settings::check(&name, &bytes, args.kind, args.library_version, &limits),
            Err(e) => Report::unread(e),
        };
        for fault in &report.faults {
            tell!("fathom: {name}{fault}");
        }
        loses |= report.loses();
        wrong |= !report.faults.is_empty();
        if !print(&name, &report, args.json)? {
            break;
        }
    }
    match (wrong, loses) {
        (true, _) => Err(Failure::Passed(2)),
        (false, true) => Err(Failure::Told),
        (false, false) => Ok(()),
    }
}

/// Prints what was found in one file; whether somebody still reads it.
fn print(name: &str, report: &Report, json: bool) -> Result<bool, Failure> {
    if json {
        return output::print("the judgement", &format!("{}\n", fathom_settings::json(name, report)));
    }
    // <https://no-color.org>: set and not empty.
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let coloured = io::stdout().is_terminal() && !plain;
    // The file's name is the only part of it that is not ours.
    let text = fathom_settings::text(&cleaned(name), report, coloured);
    let outcome = io::stdout().lock().write_all(text.as_bytes());
    let read = outcome.is_ok();
    output::written("the judgement", outcome).map(|()| read)
}

fn limits(args: &Args) -> Result<Limits, Failure> {
    let given = [args.idle, args.age];
    if given == [None, None] && args.record.is_empty() {
        return Err(Failure::usage(
            "against which limit? Add --idle 4m, --age 30m, or --record DIR of a search (fathom limits HOST --record DIR)",
        ));
    }
    if given.contains(&Some(Duration::ZERO)) {
        return Err(Failure::usage("a limit is longer than 0, as in --idle 4m"));
    }
    let [idle_ns, age_ns] = given.map(|time| time.map(|time| time.as_nanos() as u64));
    let given = Limits { idle_ns, age_ns };
    args.record.iter().try_fold(given, |limits, dir| Ok(limits.and(recorded(dir)?)))
}

/// What a search found, from its recording.
fn recorded(dir: &Path) -> Result<Limits, Failure> {
    let name = dir.display();
    let search = Recording::open(dir).and_then(|recording| recording.search());
    let (search, _) = search.map_err(|e| Failure::usage(e.to_string()))?;
    let outcome = search.outcome().ok_or_else(|| {
        Failure::usage(format!(
            "{name} is no recording of a search; make one with fathom limits HOST --record DIR"
        ))
    })?;
    let limits = Limits::found(&outcome).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    if limits == Limits::default() {
        tell!("{name}: the search found no limit: nothing loses against it");
    }
    Ok(limits)
}

fn read(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(fathom_settings::LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
