//! `fathom recording recover`.

use super::{Done, each};
use crate::exit::Failure;
use crate::output;
use fathom_core::event::KILLED_WITHOUT_ROOM;
use fathom_core::text::{cleaned, count};
use fathom_recording::{Begun, Recovery};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `fathom recording recover`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Open segments become Parquet, a torn last record is cut off and counted, and the recording gets the end that its \
last evidence tells. A second call changes nothing. A running recording is refused. Samples that were sent more than \
1.5 s before the probe was killed have their rows, or are counted as lost, but for those that were sent while there was no \
room on the disk: of these it says only that some may be missing. Queries (`fathom sql`) that are missing \
between others are counted as lost.

Exit code 0: in order, and `fathom recording verify` finds it sound; 1: something beyond a torn tail could not be read, a \
law of the format is broken, or it failed.

Examples:
  fathom recording recover recordings/zone1-20260102T030405Z
  fathom recording recover recordings")]
pub(crate) struct Args {
    /// Recordings; or directories that hold recordings
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
    let done = fathom_recording::recover(directory, jiff::Timestamp::now())
        .map_err(|e| Failure::run(e.to_string()))?;
    let read = if json {
        let report = json!({
            "format": 1, "recording": directory, "needed": done.needed, "samples": done.rows,
            "lost": done.lost, "queries_lost": done.queries_lost, "without_room": done.without_room, "torn_bytes": done.torn_bytes, "ended_at": done.ended_at, "damage": done.damage,
            "findings": done.findings,
        });
        output::print("the result", &format!("{report}\n"))?
    } else {
        let mut lines: Vec<String> = done.damage.iter().map(ToString::to_string).collect();
        lines.extend(done.findings.iter().map(ToString::to_string));
        let name = directory.display().to_string();
        let dir = cleaned(&name);
        lines.push(if done.ended_at.is_none() {
            let begun = Begun::of(directory).unwrap_or(Begun::Shared);
            format!("{dir}: {begun}")
        } else if done.needed {
            let Recovery { rows, lost, queries_lost, torn_bytes, without_room, .. } = done;
            let lost = match lost {
                0 => String::new(),
                lost => format!("; {} sent without a row, now recorded as lost", count(lost, "sample")),
            };
            let queries = match queries_lost {
                0 => String::new(),
                lost => {
                    format!("; {} without a row, now recorded as lost", count(lost, "query"))
                }
            };
            let room = if without_room { format!("; {KILLED_WITHOUT_ROOM}") } else { String::new() };
            let (saved, torn) = (count(rows, "sample"), count(torn_bytes, "torn byte"));
            format!("{dir}: recovered {saved}, {torn} cut off{lost}{queries}{room}")
        } else {
            match (done.is_in_order(), done.findings.is_empty()) {
                (true, _) => format!("{dir}: nothing to recover"),
                (false, true) => {
                    format!("{dir}: it ended in order, and what cannot be read of it cannot be brought back")
                }
                (false, false) => {
                    format!("{dir}: it has its end, and recovery cannot mend what is wrong with it")
                }
            }
        });
        output::print("the result", &(lines.join("\n") + "\n"))?
    };
    Ok(Done { sound: done.is_in_order(), read })
}
