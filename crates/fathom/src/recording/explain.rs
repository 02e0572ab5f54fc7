//! `fathom recording explain`: the story of a run, from its recording alone.

use super::progress::Progress;
use crate::exit::Failure;
use crate::output::{self, tell};
use fathom_core::event::Event;
use fathom_core::marks;
use fathom_core::story::{
    Confidence, Gathered, Gatherer, Labelled, Line, Measured, Page, State, merged, tell,
};
use fathom_core::text::{count, lines_cleaned};
use fathom_recording::{Entry, Recording, recordings_in};
use jiff::Timestamp;
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Arguments of `fathom recording explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Times are UTC. Confidence says how sure a verdict is: high, medium, low, or none where why is not known
(docs/verdicts.md). Several recordings make one story, in the order of time.

Examples:
  fathom recording explain recordings/zone1-20260102T030405Z
  fathom recording explain DIR --json | jq 'select(.verdict == \"path_down\")'")]
pub(super) struct Args {
    /// Recordings, a running one too; or directories that hold recordings
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// One JSON object a line of the story
    #[arg(long)]
    json: bool,
}

/// Runs `fathom recording explain`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut damaged = false;
    let mut stories = Vec::new();
    for dir in &args.dirs.iter().flat_map(|dir| recordings_in(dir)).collect::<Vec<_>>() {
        let (story, unreadable) = read(dir)?;
        stories.push(story);
        damaged |= unreadable;
    }
    let several = stories.len() > 1;
    let lines = merged(stories);
    let page = page_of(&lines, several);
    let mut out = io::stdout().lock();
    for (label, line) in &lines {
        let text = if args.json {
            lines_cleaned(&object(label, line)).into_owned()
        } else {
            page.render(label, line)
        };
        let line = writeln!(out, "{text}");
        if line.is_err() {
            output::written("the story", line)?;
            break;
        }
    }
    if damaged { Err(Failure::Told) } else { Ok(()) }
}

/// Reads a recording; true where part of it is damaged beyond a torn end.
fn read(dir: &Path) -> Result<(Labelled, bool), Failure> {
    let failed = |e: fathom_recording::Error| Failure::run(e.to_string());
    let recording = Recording::open(dir).map_err(failed)?;
    let running = recording.is_running();
    let (mut events, mut damage, mut unknown) = (Vec::<Event>::new(), Vec::new(), 0_u64);
    for entry in recording.events().map_err(failed)? {
        match entry {
            Ok(Entry::Known(event)) => events.push(event),
            Ok(Entry::Other(_)) => unknown += 1,
            Err(unreadable) => damage.push(unreadable),
        }
    }
    let (mut gatherer, mut rows) = (Gatherer::new(&events), 0);
    let mut progress = Progress::new("read");
    let mut samples = recording.samples();
    for batch in &mut samples {
        for sample in &batch {
            gatherer.sample(sample);
            rows += 1;
        }
        progress.rows(rows);
    }
    drop(progress);
    damage.extend_from_slice(samples.damage());
    let (queries, unreadable) = recording.asked().map_err(failed)?.unzip();
    damage.extend(unreadable.unwrap_or_default());
    for unreadable in &damage {
        tell!("fathom: {}: {unreadable}", dir.display());
    }
    if unknown > 0 {
        tell!("fathom: {}: left out {} of a later version", dir.display(), count(unknown, "event"));
    }
    let manifest = recording.manifest();
    let reflector = manifest.reflector.resolved.as_ref().unwrap_or(&manifest.reflector.address);
    let measured = Measured {
        label: manifest.label.clone(),
        reflector: reflector.clone(),
        mode: manifest.probe["mode"].as_str().unwrap_or("unknown").to_owned(),
        size: manifest.probe["size"].as_u64().unwrap_or(0) as u32,
        interval_ns: manifest.probe["interval_ns"].as_u64(),
        started_at: manifest.started_at,
        ended_at: manifest.ended_at,
        state: match (manifest.ended_at, running) {
            (Some(_), _) => State::Finished,
            (None, true) => State::Running,
            (None, false) => State::Interrupted,
        },
    };
    let gathered = Gathered { queries, ..gatherer.finish() };
    let marks = manifest.marks();
    let marks = marks.iter().map(|mark| first(measured.started_at, marks::in_words(mark)));
    let lines = marks.chain(tell(&measured, &events, &gathered)).collect();
    Ok(((measured.label, lines), damage.iter().any(|unreadable| !unreadable.torn)))
}

/// A line that comes before what happened.
fn first(at: Timestamp, statement: String) -> Line {
    let (connection, evidence, cause, verdict) = (None, Vec::new(), None, None);
    Line { at, connection, statement, evidence, cause, verdict, confidence: Confidence::High }
}

fn object(label: &str, line: &Line) -> String {
    json!({
        "format": 1, "label": label, "at": line.at, "connection": line.connection, "statement": line.statement,
        "evidence": line.evidence, "cause": line.cause, "verdict": line.verdict, "confidence": line.confidence,
    })
    .to_string()
}

/// The page for this terminal, or for none.
fn page_of(lines: &[(String, Line)], labels: bool) -> Page {
    let terminal = io::stdout().is_terminal();
    let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns).max(40));
    let day = |line: &(String, Line)| line.1.at.strftime("%F").to_string();
    let days = lines.first().map(day) != lines.last().map(day);
    // <https://no-color.org>: set and not empty.
    let coloured = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Page { width: terminal.then_some(width), coloured, labels, days }
}
