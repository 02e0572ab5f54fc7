//! What people see while it runs.

use super::config::{Config, Show};
use super::live_state::{LiveState, LiveStates, lock};
use super::operate::Intervals;
use super::plain::{self, Line};
use super::stop::Stop;
use super::unanswered::Unanswered;
use crate::exit::Failure;
use crate::output::{self, tell};
use fathom_core::event::{Event, EventKind};
use fathom_core::schedule::Pace;
use fathom_core::summary;
use fathom_core::text;
use fathom_core::units::duration_compact as duration;
use fathom_os::clock::mono_ns;
use jiff::Timestamp;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a line tells how things stand, where there is no terminal.
const STATE_EVERY: Duration = Duration::from_secs(10);

/// What begins on a path, said with its first connection: a start that fails says only why.
fn introduction(config: &Config, path: usize, state: &LiveState) -> String {
    let gaps = &config.idle_gaps_ns;
    let pace = match config.pace {
        _ if !gaps.is_empty() => {
            let gaps: Vec<String> = gaps.iter().map(|&ns| duration(ns)).collect();
            format!("after silences of {} in random order", gaps.join(", "))
        }
        Pace::Every(every_ns) => format!("every {}", duration(every_ns)),
        Pace::PingPong => "back to back".to_owned(),
    };
    let end = match (config.count, config.duration) {
        (None, None) => "until Ctrl-C".to_owned(),
        (Some(count), _) if config.connect => text::count(count, "time"),
        (Some(count), _) => format!("{} on each connection", text::count(count, "time")),
        (None, Some(time)) => format!("for {}", duration(time.as_nanos() as u64)),
    };
    let kept = state
        .recording
        .as_ref()
        .map_or("not recorded".to_owned(), |dir| format!("recorded in {}", dir.display()));
    let what = if config.tls.is_some() {
        "a connection and its TLS handshake".to_owned()
    } else if config.connect {
        "a connection".to_owned()
    } else {
        summary::sizes_in_words(config.one_size(), &config.sizes)
    };
    format!("probing {}: {what} {pace}, {end}; {kept}", config.paths[path].target)
}

/// Prints lines until the recording thread has none any more: samples on standard output with `--plain`, everything
/// else on standard error.
///
/// Where standard output cannot be written to any more, nobody sees the samples that were asked for: the run is asked
/// to end. That is a failure unless it was the reader who has seen enough (`fathom probe --plain | head -3`).
pub(super) fn lines(
    config: &Config,
    live: &LiveStates,
    lines: &Receiver<Line>,
    stop: &Stop,
) -> Result<(), Failure> {
    let mut printing = Ok(());
    let mut readable = true;
    let mut next_state = Instant::now() + STATE_EVERY;
    let mut intervals = Intervals::of(config, mono_ns());
    let mut unanswered = Unanswered::of(config);
    let mut introduced = vec![config.show == Show::Nothing; config.paths.len()];
    loop {
        // This thread sleeps until there is something to print: a run of weeks wakes it for nothing else.
        let until_state = next_state.saturating_duration_since(Instant::now());
        let wait = intervals.as_ref().map_or(until_state, |intervals| intervals.due_in(mono_ns()));
        match lines.recv_timeout(wait) {
            Ok(line) => {
                if let Line::Event(Some(path), event) = &line
                    && matches!(event.kind, EventKind::ConnectionOpened { .. })
                    && !std::mem::replace(&mut introduced[*path as usize], true)
                {
                    let path = *path as usize;
                    tell!("{}", introduction(config, path, &lock(live)[path]));
                }
                if readable && let Err(e) = print(config, live, &line) {
                    readable = false;
                    printing = output::written("the samples", Err(e));
                    stop.ask();
                }
                if let Line::Event(Some(path), event) = &line {
                    unanswered.take(config, live, *path, event);
                }
            }
            Err(RecvTimeoutError::Timeout) if config.show != Show::Auto => next_state += STATE_EVERY,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let last = intervals.as_mut().map(|intervals| intervals.lines(mono_ns(), live));
                return match last.filter(|_| readable) {
                    Some(last) => printing.and(output::print("the intervals", &last).map(drop)),
                    None => printing,
                };
            }
        }
        if let Some(now) = intervals.as_mut().and_then(|intervals| intervals.due(mono_ns(), live))
            && readable
        {
            readable = output::print("the intervals", &now).unwrap_or_else(|failure| {
                printing = Err(failure);
                false
            });
            if !readable {
                stop.ask();
            }
        }
        if config.show == Show::Auto && intervals.is_none() && Instant::now() >= next_state {
            next_state += STATE_EVERY;
            let now = Timestamp::now();
            for (path, state) in config.paths.iter().zip(lock(live).iter()) {
                tell!("{}", plain::state(&path.label, now, state));
            }
        }
    }
}

/// Where connections are the samples, these are their frame.
pub(super) fn is_opening_or_closing(event: &Event) -> bool {
    matches!(event.kind, EventKind::ConnectionOpened { .. } | EventKind::ConnectionClosed { .. })
}

fn print(config: &Config, live: &LiveStates, line: &Line) -> io::Result<()> {
    let label = |path: u32| config.paths[path as usize].label.as_str();
    match line {
        Line::Sample(path, sample) if config.show == Show::Plain && !config.json => {
            let remote = lock(live)[*path as usize].remote.clone().unwrap_or_default();
            let text = plain::sample(label(*path), &remote, sample, config.lanes() > 1);
            return writeln!(io::stdout().lock(), "{text}");
        }
        // Here they are the samples, not their frame.
        Line::Event(_, event) if config.connect && is_opening_or_closing(event) => {}
        Line::Event(path, event) if config.show != Show::Nothing => {
            if let Some(text) = plain::event(path.map(label), event) {
                tell!("{text}");
            }
        }
        Line::RecordingStopped(path, error) => {
            tell!("fathom: {}: recording stopped, probing goes on: {error}", label(*path));
        }
        Line::TableStopped(path, error) => {
            let state = &lock(live)[*path as usize];
            let recorded = state.recording.is_some() && state.recording_error.is_none();
            let on = if recorded { "probing and recording go on" } else { "probing goes on" };
            tell!("fathom: {}: {on} without a file of rows: {error}", label(*path));
        }
        Line::RecordingWaits(path, error) => {
            tell!("fathom: {}: recording waits for room on the disk, probing goes on: {error}", label(*path));
        }
        Line::EndsOnFull(path, error) => {
            tell!("fathom: {}: the disk is full, and --on-full exit ends the run: {error}", label(*path));
        }
        Line::Sample(..) | Line::Event(..) => {}
    }
    Ok(())
}

/// The live view, on a terminal.
pub(super) fn live(config: &Config, live: &LiveStates, stop: &Stop, over: impl Fn() -> bool) {
    let labels: Vec<&str> = config.paths.iter().map(|p| p.label.as_str()).collect();
    if let Err(e) = super::terminal::run(&labels, live, stop, over) {
        if output::reader_is_gone(&e) {
            stop.ask();
        } else {
            tell!("fathom: the live view failed ({e}); probing went on without it");
        }
    }
    for (path, state) in config.paths.iter().zip(lock(live).iter()) {
        for incomplete in state.incomplete() {
            tell!("fathom: {}: {incomplete}", path.label);
        }
    }
}
