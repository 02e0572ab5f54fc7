//! What people see while it runs.

use super::config::{Config, Show};
use super::driver::Stop;
use super::ledger::{Boards, lock};
use super::plain::{self, Line};
use jiff::Timestamp;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a line tells how things stand, where there is no terminal.
const STATE_EVERY: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(50);

/// Prints lines until the run is over: samples on standard output with `--plain`, everything else on standard error.
pub(super) fn lines(config: &Config, boards: &Boards, lines: &Receiver<Line>, over: impl Fn() -> bool) {
    let mut next_state = Instant::now() + STATE_EVERY;
    loop {
        let finished = over();
        match lines.recv_timeout(GLANCE) {
            Ok(line) => print(config, boards, &line),
            Err(RecvTimeoutError::Timeout) if finished => return,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if config.show == Show::Auto && Instant::now() >= next_state {
            next_state += STATE_EVERY;
            let now = Timestamp::now();
            for (path, board) in config.paths.iter().zip(lock(boards).iter()) {
                eprintln!("{}", plain::state(&path.label, now, board));
            }
        }
    }
}

fn print(config: &Config, boards: &Boards, line: &Line) {
    let label = |path: u32| config.paths[path as usize].label.as_str();
    match line {
        Line::Sample(path, sample) if config.show == Show::Plain && !config.json => {
            let remote = lock(boards)[*path as usize].remote.clone().unwrap_or_default();
            let text = plain::sample(label(*path), &remote, sample, config.lanes() > 1);
            // A closed pipe ends the lines, not the run.
            let _ = writeln!(io::stdout().lock(), "{text}");
        }
        Line::Event(path, event) if config.show != Show::Nothing => {
            if let Some(text) = plain::event(path.map(label), event) {
                eprintln!("{text}");
            }
        }
        Line::RecordingStopped(path, error) => {
            eprintln!("fathom: {}: recording stopped, probing goes on: {error}", label(*path));
        }
        Line::Sample(..) | Line::Event(..) => {}
    }
}

/// The live view, on a terminal.
pub(super) fn live(config: &Config, boards: &Boards, stop: &Stop, over: impl Fn() -> bool) {
    let labels: Vec<&str> = config.paths.iter().map(|p| p.label.as_str()).collect();
    if let Err(e) = super::terminal::run(&labels, boards, stop, over) {
        eprintln!("fathom: the live view failed ({e}); probing went on without it");
    }
    for (path, board) in config.paths.iter().zip(lock(boards).iter()) {
        if let Some(error) = &board.recording_error {
            eprintln!("fathom: {}: recording stopped, probing went on: {error}", path.label);
        }
    }
}
