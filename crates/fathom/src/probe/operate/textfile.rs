//! `--textfile`: the figures so far, for `node_exporter`. A thread of its own writes: whatever its disk does holds nobody up.

use crate::exit::Failure;
use crate::output::tell;
use crate::probe::config::Config;
use crate::probe::live_state::{LiveStates, lock};
use fathom_core::exposition::{Exposed, exposition};
use jiff::Timestamp;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

/// Collectors are asked every 15 s or more rarely.
const EVERY: Duration = Duration::from_secs(10);

/// Writes while it lives, and once more when it is dropped.
pub(in crate::probe) struct Textfile {
    _until_dropped: Sender<()>,
}

impl Textfile {
    /// Begins to write; what cannot be written is said before anything is sent.
    pub(in crate::probe) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        config: &'scope Config,
        live: &'scope LiveStates,
    ) -> Result<Option<Self>, Failure> {
        let Some(file) = &config.operate.textfile else { return Ok(None) };
        let started_s = Timestamp::now().as_millisecond() as f64 / 1e3;
        write(file, &text(config, live, started_s, false)).map_err(|e| {
            Failure::run(format!(
                "cannot write {}: {e}; name a file in a directory that is there, with --textfile",
                file.display()
            ))
        })?;
        let (until_dropped, dropped) = channel();
        let keep = move || {
            let (mut told, mut over) = (false, false);
            loop {
                if let Err(e) = write(file, &text(config, live, started_s, !over))
                    && !std::mem::replace(&mut told, true)
                {
                    tell!("fathom: cannot write {}: {e}; probing goes on (said once)", file.display());
                }
                if over {
                    return;
                }
                over = dropped.recv_timeout(EVERY) == Err(RecvTimeoutError::Disconnected);
            }
        };
        let thread = std::thread::Builder::new().name("textfile".into());
        thread
            .spawn_scoped(scope, keep)
            .map_err(|e| Failure::run(format!("cannot start the thread of --textfile: {e}")))?;
        Ok(Some(Self { _until_dropped: until_dropped }))
    }
}

fn text(config: &Config, live: &LiveStates, started_s: f64, running: bool) -> String {
    let targets: Vec<String> = config.paths.iter().map(|path| path.target.to_string()).collect();
    let live = lock(live);
    let each = config.paths.iter().zip(&targets).zip(live.iter());
    let paths: Vec<Exposed<'_>> = each
        .map(|((path, target), state)| Exposed {
            labels: labels(config, &path.label, target),
            statistics: &state.statistics,
            open: state.open,
            stalled: state.stalled,
        })
        .collect();
    exposition(&paths, started_s, running)
}

fn labels<'a>(config: &'a Config, label: &'a str, target: &'a str) -> Vec<(&'static str, &'a str)> {
    let ends = [("from", config.from.as_deref()), ("to", config.to.as_deref())];
    let ends = ends.into_iter().filter_map(|(name, word)| Some((name, word?)));
    [("label", label), ("target", target)].into_iter().chain(ends).collect()
}

/// Writes the file, which others read. The temporary name does not end in `.prom`, so no collector reads it.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    fathom_os::replace::replace(file, text.as_bytes(), 0o666)
}
