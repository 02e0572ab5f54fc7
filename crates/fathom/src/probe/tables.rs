//! `--csv`, `--sockperf-log`: files in another program's format that are written a row at a time.
//!
//! A run appends to the file of an earlier run, and reopens it at a hang-up (SIGHUP): a service can be restarted, and the file
//! rotated.

mod file;

use super::config::Config;
use crate::exit::Failure;
use crate::output::tell;
use crate::signals;
use fathom_core::schedule::Pace;
use fathom_recording::peers::{RowFormat, Rows, Run, rows_below};
use file::TableFile;
use jiff::Timestamp;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of rows, and the option that asked for it.
pub(super) struct Table {
    option: &'static str,
    file: TableFile,
    /// Set by a hang-up, to reopen the file.
    rotated: Arc<AtomicBool>,
    rows: Box<dyn Rows>,
}

impl Table {
    fn open(option: &'static str, format: RowFormat, path: &Path, run: &Run) -> io::Result<Self> {
        let file = TableFile::open(path, format, format.header(run))?;
        let rows = rows_below(format, run, file.writer());
        let rotated = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&rotated);
        signals::on_hangup(move || told.store(true, Ordering::SeqCst));
        Ok(Self { option, file, rotated, rows })
    }

    /// The rows, in the file that has the name now.
    pub(super) fn rows(&mut self) -> io::Result<&mut dyn Rows> {
        if self.rotated.swap(false, Ordering::SeqCst) {
            self.rows.flush()?;
            if let Err(e) = self.file.reopen() {
                let (path, option) = (self.file.path().display(), self.option);
                tell!("fathom: cannot reopen {path} ({option}): {e}; rows go on into the file that was open");
            }
        }
        Ok(self.rows.as_mut())
    }

    /// Why it has not every row.
    pub(super) fn failed(&self, error: &io::Error) -> String {
        let (path, option) = (self.file.path().display(), self.option);
        let remedy = format!("free some space, or name another file with {option}");
        format!("{path} ({option}) is incomplete: {error}; {remedy}")
    }

    /// Restores the file as it was found, because nothing was measured.
    pub(super) fn take_back(self) {
        drop(self.rows);
        self.file.take_back();
    }
}

/// Opens the files. If one cannot be opened, all are left as they were.
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
    let all = [
        ("--csv", RowFormat::EchoClientCsv, &config.csv),
        ("--sockperf-log", RowFormat::SockperfLog, &config.formats.sockperf_log),
    ];
    for (option, format, path) in all {
        let Some(path) = path else { continue };
        match Table::open(option, format, path, &run) {
            Ok(table) => tables.push(table),
            Err(e) => {
                tables.into_iter().for_each(Table::take_back);
                return Err(Failure::run(format!(
                    "cannot write {}: {e}; name another file with {option}",
                    path.display()
                )));
            }
        }
    }
    Ok(tables)
}
