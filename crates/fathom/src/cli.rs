//! The command line: which command, with which arguments.

mod hints;
mod manual;
mod python_half;
mod shell;
mod short;

use crate::command_line::without_passwords;
use crate::exit::{self, Failure};
use crate::{echo, external, limits_check, output, probe, recording, signals, sql};
#[cfg(target_os = "linux")]
use crate::{fabric, host};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  here$  fathom demo                     an emulated cloud on this machine, measured and explained, in two minutes
  there$ fathom echo                     answer probes on port 7007
  here$  fathom probe THERE              measure once a second until Ctrl-C, recorded under ./recordings
  here$  fathom recording explain DIR    what happened to its connections, and why
  here$  fathom report DIR...            a page to read: figures, comparisons, findings, advice

`fathom COMMAND --help` has more of each.";

#[derive(Debug, Parser)]
#[command(name = "fathom", version = crate::version::in_words(), about, max_term_width = 110, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer probes: an RFC 862 echo server that also stamps our own frames
    Echo(Box<echo::Args>),
    /// Measure a path: send samples over long-lived connections, time their echoes, keep every one
    Probe(Box<probe::Args>),
    /// Find the limit after which connections on a path die, left idle or kept in use (--age), and how they die
    Limits(Box<limits_check::SearchOrCheck>),
    /// Time queries of a database, and say what the server, the path and the client take of each
    Sql(Box<sql::Args>),
    /// Emulate a network between hosts on this machine: delays, loss, middleboxes, migrations
    #[cfg(target_os = "linux")]
    Fabric(fabric::Args),
    /// Serve a study on this host; its runner calls it over SSH
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Host(host::Args),
    /// Read and look after recordings: summary, explain, verify, recover, export
    Recording(recording::Args),
    /// Report on recordings: figures, comparisons, changes, findings, advice (Python half)
    #[command(disable_help_flag = true)]
    Report(external::Args),
    /// Compare recordings: which is faster, by how much, how surely (Python half)
    #[command(disable_help_flag = true)]
    Compare(external::Args),
    /// Count recordings once, here or by an engine made for many machines, into what a report reads (Python half)
    #[command(disable_help_flag = true)]
    Rollup(external::Args),
    /// Find where a series of round trips changed (Python half)
    #[command(disable_help_flag = true)]
    Changes(external::Args),
    /// Bring another tool's output in as a recording (Python half)
    #[command(disable_help_flag = true)]
    Import(external::Args),
    /// Check whether a table of published figures can be true (Python half)
    #[command(disable_help_flag = true)]
    Check(external::Args),
    /// Run a study: many paths, many runs, one file, in turn so that drift favours none (Python half)
    #[command(disable_help_flag = true)]
    Study(external::Args),
    /// Make a lab in a cloud subscription, measure on it, remove it (Python half)
    #[command(disable_help_flag = true)]
    Cloud(external::Args),
    /// Measure an emulated cloud on this machine, and report: the quickest way to see all of this (Python half)
    #[command(disable_help_flag = true)]
    Demo(external::Args),
    /// Print what a shell needs to complete these commands and options
    Completions(shell::CompletionsArgs),
    /// Write manual pages of these commands
    Man(shell::ManArgs),
}

/// Reads the command line of this process; ends it with help, a version or a usage error where that is all there is.
fn parse() -> Result<Cli, Failure> {
    let words = python_half::asked_for_help(std::env::args_os().skip(1).collect());
    let parsed = short::shorten(Cli::command())
        .try_get_matches_from(std::iter::once("fathom".into()).chain(words))
        .and_then(|m| probe::refuse_beside_client(&m).and_then(|()| Cli::from_arg_matches(&m)));
    parsed.map_err(|mut error| {
        if !error.use_stderr() {
            let printed = error.print().and_then(|()| io::stdout().flush());
            return output::written("the help", printed).err().unwrap_or(Failure::Passed(0));
        }
        let words: Vec<String> = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into()).collect();
        hints::make_plain(&mut error, Cli::command(), &words);
        if let Some(hint) = hints::hint(Cli::command(), &words, &error) {
            return Failure::usage(hint);
        }
        let said = error.to_string();
        let without = without_passwords(&said);
        if without == said {
            error.exit();
        }
        eprint!("{without}");
        Failure::Passed(2)
    })
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    signals::outlive_the_limit_of_files();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(failure) => return failure.report(),
    };
    let done: Result<ExitCode, Failure> = match cli.command {
        Command::Echo(args) => echo::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Probe(args) => probe::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Limits(args) => limits_check::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Sql(args) => sql::run(*args).map(|()| ExitCode::SUCCESS),
        #[cfg(target_os = "linux")]
        Command::Fabric(args) => fabric::run(args).map(|()| ExitCode::SUCCESS),
        #[cfg(target_os = "linux")]
        Command::Host(args) => host::run(args),
        Command::Recording(args) => recording::run(args).map(|()| ExitCode::SUCCESS),
        Command::Report(args) => external::run("report", &args),
        Command::Compare(args) => external::run("compare", &args),
        Command::Rollup(args) => external::run("rollup", &args),
        Command::Changes(args) => external::run("changes", &args),
        Command::Import(args) => external::run("import", &args),
        Command::Check(args) => external::run("check", &args),
        Command::Study(args) => external::run("study", &args),
        Command::Cloud(args) => external::run("cloud", &args),
        Command::Demo(args) => external::run("demo", &args),
        Command::Completions(args) => shell::completions(&args).map(|()| ExitCode::SUCCESS),
        Command::Man(args) => shell::man(&args).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(_) if signals::hung_up() => Failure::Passed(exit::HUNG_UP).report(),
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
