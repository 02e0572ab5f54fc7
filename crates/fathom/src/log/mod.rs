//! `-v`, `--log`: what goes on inside, for whoever must find out why a run does what it does. Without them nothing is
//! formatted and nothing is written: each place in the code costs one comparison.

mod writer;

use crate::exit::Failure;
use crate::{signals, version};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use writer::Writer;

/// Arguments of the log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "To find out what goes on inside")]
pub(crate) struct LogArgs {
    /// Log to standard error: -v what was decided, -vv what happened too, -vvv every message (which slows the run down)
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Log by this filter instead: a level (error, warn, info, debug, trace), or levels by module, as in `info,fathom_core=trace,fathom_cloud=debug`
    #[arg(long, env = "FATHOM_LOG", value_name = "FILTER", hide_env_values = true)]
    log: Option<Filter>,
    /// Append the log to this file instead; without -v or --log as -vv. SIGHUP reopens it after a rotation
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
}

/// What to log, as `RUST_LOG` and its kin have it.
#[derive(Debug, Clone)]
struct Filter(Targets);

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mend = "write a level (error, warn, info, debug, trace), or levels by module, as in info,fathom_core=trace";
        let targets: Targets = text.parse().map_err(|e| format!("{e}; {mend}"))?;
        // The library takes a word that is no level for a module of which everything is logged.
        match targets.iter().find(|(module, _)| !module.starts_with("fathom")) {
            Some((module, _)) => Err(format!("{module} is no level and no module of ours (fathom…); {mend}")),
            None => Ok(Self(targets)),
        }
    }
}

impl LogArgs {
    fn filter(&self) -> Option<Targets> {
        let level = match (self.verbose, &self.log, &self.log_file) {
            (0, Some(Filter(targets)), _) => return Some(targets.clone()),
            (0, None, None) => return None,
            (1, ..) => LevelFilter::INFO,
            (0 | 2, ..) => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        let chosen = self.log.as_ref().map(|Filter(targets)| targets.clone()).unwrap_or_default();
        Some(chosen.with_default(level))
    }

    /// Whether the log and a live view would write over each other.
    pub(crate) fn takes_the_terminal(&self) -> bool {
        self.filter().is_some() && self.log_file.is_none() && io::stderr().is_terminal()
    }
}

/// A log that goes on until this is dropped; what was logged is written then.
#[must_use = "the log ends when this is dropped"]
pub(crate) struct Log {
    writer: Writer,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.writer.finish();
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    Ok(Box::new(OpenOptions::new().create(true).append(true).open(path)?))
}

/// Begins to log, if that is asked for. A hang-up (SIGHUP) reopens the file: it was rotated.
pub(crate) fn start(args: &LogArgs) -> Result<Option<Log>, Failure> {
    let Some(filter) = args.filter() else { return Ok(None) };
    let out: Box<dyn Write + Send> = match &args.log_file {
        None => Box::new(io::stderr()),
        Some(path) => open(path).map_err(|e| {
            Failure::run(format!("cannot log to {}: {e}; name another file with --log-file", path.display()))
        })?,
    };
    let writer = Writer::start(out, args.log_file.clone().map(|path| move || open(&path)))
        .map_err(|e| Failure::run(format!("cannot start the log: {e}")))?;
    if args.log_file.is_some() {
        let rotated = writer.clone();
        signals::on_hangup(move || rotated.reopen());
    }
    let (to, plain) = (writer.clone(), tracing_subscriber::fmt::layer().with_ansi(false));
    let layer = plain.with_thread_names(true).with_writer(move || to.clone()).with_filter(filter);
    tracing_subscriber::registry()
        .with(layer)
        .try_init()
        .map_err(|e| Failure::run(format!("cannot start the log: {e}")))?;
    tracing::info!(
        version = version::VERSION,
        revision = version::REVISION,
        pid = std::process::id(),
        "began"
    );
    Ok(Some(Log { writer }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(verbose: u8, log: Option<&str>, file: bool) -> Option<String> {
        let log = log.map(|text| text.parse().expect("a filter"));
        let log_file = file.then(|| PathBuf::from("log"));
        LogArgs { verbose, log, log_file }.filter().map(|targets| targets.to_string())
    }

    #[test]
    fn options_amount_to_a_filter() {
        assert_eq!(filter(0, None, false), None);
        assert_eq!(filter(0, None, true).as_deref(), Some("debug"));
        for (verbose, level) in [(1, "info"), (2, "debug"), (3, "trace"), (9, "trace")] {
            assert_eq!(filter(verbose, None, false).as_deref(), Some(level));
        }
        assert_eq!(filter(0, Some("fathom_core=trace"), false).as_deref(), Some("fathom_core=trace"));
        let both = filter(1, Some("fathom_core=trace"), false).unwrap();
        assert!(both.contains("info") && both.contains("fathom_core=trace"), "{both}");
    }

    #[test]
    fn invalid_filter_error_shows_example() {
        for text in ["loud", "fathom_core=loud", "core=trace"] {
            let error = text.parse::<Filter>().expect_err(text);
            assert!(error.contains("as in info,fathom_core=trace"), "{text}: {error}");
        }
        assert!("debug".parse::<Filter>().is_ok() && "INFO,fathom::probe=debug".parse::<Filter>().is_ok());
    }
}
