//! `--csv`, `--sockperf-log`: files in another program's format that are written a row at a time.

use super::config::Config;
use crate::exit::Failure;
use fathom_core::schedule::Pace;
use fathom_recording::peers::{RowFormat, Rows, Run, rows};
use jiff::Timestamp;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// A file of rows, and the option that asked for it.
pub(super) struct Table {
    option: &'static str,
    path: PathBuf,
    pub(super) rows: Box<dyn Rows>,
}

impl Table {
    /// Why it has not every row.
    pub(super) fn failed(&self, error: &io::Error) -> String {
        let Self { option, path, .. } = self;
        let remedy = format!("free some space, or name another file with {option}");
        format!("{} ({option}) is incomplete: {error}; {remedy}", path.display())
    }
}

/// The options that write a file a row at a time, with what they write, and the files.
fn files(config: &Config) -> impl Iterator<Item = (&'static str, RowFormat, &Path)> {
    let all = [
        ("--csv", RowFormat::EchoClientCsv, &config.csv),
        ("--sockperf-log", RowFormat::SockperfLog, &config.formats.sockperf_log),
    ];
    all.into_iter().filter_map(|(option, format, file)| Some((option, format, file.as_deref()?)))
}

/// Makes the files; where one cannot be made, none is left behind.
pub(super) fn open(config: &Config, started_at: Timestamp) -> Result<Vec<Table>, Failure> {
    let mut tables = Vec::new();
    let run = Run {
        size: Some(config.size),
        interval_ns: match config.pace {
            Pace::Every(every_ns) => Some(every_ns),
            Pace::PingPong => None,
        },
        started_utc_ns: i64::try_from(started_at.as_nanosecond()).unwrap_or(0),
        ..Run::default()
    };
    for (option, format, path) in files(config) {
        match create(path).and_then(|file| rows(format, &run, BufWriter::new(file))) {
            Ok(rows) => tables.push(Table { option, path: path.to_owned(), rows }),
            Err(e) => {
                for (_, _, made) in files(config).take(tables.len()) {
                    take_back(made);
                }
                return Err(Failure::run(format!(
                    "cannot write {}: {e}; name another file with {option}",
                    path.display()
                )));
            }
        }
    }
    Ok(tables)
}

/// Takes the files back: nothing was written to them.
pub(super) fn discard(config: &Config) {
    for (_, _, path) in files(config) {
        take_back(path);
    }
}

/// A new file; or a device or a pipe that is there (`/dev/stdout`), which loses nothing by being written to.
fn create(path: &Path) -> io::Result<File> {
    if is_no_file(path) { OpenOptions::new().write(true).open(path) } else { File::create_new(path) }
}

/// Removes a file that this run made.
fn take_back(path: &Path) {
    if !is_no_file(path) {
        let _ = std::fs::remove_file(path);
    }
}

fn is_no_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}
