//! `fathom recording verify`.

use super::progress::Progress;
use super::{Done, each};
use crate::exit::Failure;
use crate::output;
use fathom_core::text::{cleaned, count};
use fathom_recording::Begun;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `fathom recording verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 0: sound; 1: damage or a broken law was found, or it could not be read.

Examples:
  fathom recording verify recordings/zone1-20260102T030405Z
  fathom recording verify recordings
  fathom recording verify --json DIR | jq .findings")]
pub(crate) struct Args {
    /// Recordings, a running one too; or directories that hold recordings
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// One JSON object a recording
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    each(&args.dirs, |dir| one(dir, args.json))
}

fn one(directory: &Path, json: bool) -> Result<Done, Failure> {
    let mut progress = Progress::new("checked");
    let found = fathom_recording::verify(directory, |rows| progress.rows(rows));
    drop(progress);
    let found = found.map_err(|e| Failure::run(e.to_string()))?;
    let sound = found.is_sound();
    let read = if json {
        let report = json!({
            "format": 1, "recording": directory, "sound": sound, "running": found.running, "samples": found.rows,
            "queries": found.queries, "events": found.events, "damage": found.damage, "findings": found.findings,
        });
        output::print("the result", &format!("{report}\n"))?
    } else {
        let mut lines: Vec<String> = found.damage.iter().map(ToString::to_string).collect();
        lines.extend(found.findings.iter().map(ToString::to_string));
        let running = if found.running { ", still running" } else { "" };
        let verdict = if sound { "sound" } else { "NOT sound" };
        let (rows, events) = (count(found.rows, "sample"), count(found.events, "event"));
        let queries = found.queries.map_or_else(String::new, |n| format!("{}, ", count(n, "query")));
        let name = directory.display().to_string();
        let dir = cleaned(&name);
        let begun = Begun::of(directory).filter(|_| found.events == 0);
        lines.push(match begun {
            Some(begun) => format!("{dir}: {begun}"),
            None => format!("{dir}: {verdict} ({rows}, {queries}{events}{running})"),
        });
        output::print("the result", &(lines.join("\n") + "\n"))?
    };
    Ok(Done { sound, read })
}
