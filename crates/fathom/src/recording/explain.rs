//! `fathom recording explain`: the story of a run, from its recording alone.

use super::progress::Progress;
use super::readable;
use crate::exit::Failure;
use crate::output::{self, tell};
use fathom_core::event::{Event, EventKind, KILLED_WITHOUT_ROOM};
use fathom_core::marks;
use fathom_core::story::{Confidence, Gathered, Gatherer, Labelled, Line, Measured, Page, State, merged};
use fathom_core::text::{count, lines_cleaned};
use fathom_recording::{Entry, Recording};
use jiff::Timestamp;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// Events among which a recording says which one it continues.
const BEFORE_ANYTHING: usize = 8;

/// Arguments of `fathom recording explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Times are UTC. Confidence says how sure a verdict is: high, medium, low, or none where why is not known
(docs/verdicts.md). Several recordings make one story, in the order of time; those of a rotation (--rotate) that \
follow one another are one run, and the story has what went on over a seam once.

Examples:
  fathom recording explain recordings/zone1-20260102T030405Z
  fathom recording explain kept
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
    let mut recordings = Vec::new();
    let dirs = readable(&args.dirs);
    let mut dir_of = BTreeMap::new();
    for dir in &dirs {
        match Recording::open(dir).map_err(|e| failure(&e)) {
            Ok(recording) => match dir_of.insert(recording.manifest().id.clone(), dir) {
                // What happened happened once.
                Some(before) => {
                    tell!(
                        "fathom: {}: is {} once more, and is not told again",
                        dir.display(),
                        before.display()
                    );
                }
                None => recordings.push(recording),
            },
            // It hides none of the others.
            Err(failure) if dirs.len() > 1 => {
                failure.report();
                damaged = true;
            }
            Err(failure) => return Err(failure),
        }
    }
    let mut stories = Vec::new();
    let runs = runs(recordings);
    for run in &runs {
        match read(run) {
            Ok((story, unreadable)) => {
                stories.push(story);
                damaged |= unreadable;
            }
            Err(failure) if runs.len() > 1 => {
                failure.report();
                damaged = true;
            }
            Err(failure) => return Err(failure),
        }
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

fn failure(error: &fathom_recording::Error) -> Failure {
    Failure::run(error.to_string())
}

/// Recordings by their runs: those of a rotation that follow one another are one run, and the story has what went on over a seam once. The
/// clock may have been set over a seam: what follows what is said by their ids.
fn runs(mut recordings: Vec<Recording>) -> Vec<Vec<Recording>> {
    recordings.sort_by_key(|recording| recording.manifest().started_at);
    let known: BTreeSet<String> =
        recordings.iter().map(|recording| recording.manifest().id.clone()).collect();
    let mut following: BTreeMap<String, Vec<Recording>> = BTreeMap::new();
    let mut firsts = Vec::new();
    for recording in recordings {
        match previous(&recording).filter(|id| known.contains(id) && *id != recording.manifest().id) {
            Some(id) => following.entry(id).or_default().push(recording),
            None => firsts.push(recording),
        }
    }
    let mut runs: Vec<Vec<Recording>> = Vec::new();
    while let Some(first) = firsts.pop() {
        let mut run = vec![first];
        // Of several that say so one is a copy: each is a run of its own.
        while let Some(mut next) = run.last().and_then(|last| following.remove(&last.manifest().id)) {
            run.push(next.remove(0));
            firsts.append(&mut next);
        }
        runs.push(run);
    }
    // What continues itself in a circle is nothing that fathom made.
    runs.extend(following.into_values().flatten().map(|recording| vec![recording]));
    runs.sort_by_key(|run| run[0].manifest().started_at);
    runs
}

/// The recording that this one continues: it says so before anything else.
fn previous(recording: &Recording) -> Option<String> {
    recording.events().ok()?.flatten().take(BEFORE_ANYTHING).find_map(|entry| match entry {
        Entry::Known(Event { kind: EventKind::RecordingContinues { previous, .. }, .. }) => Some(previous),
        _ => None,
    })
}

/// Reads the recordings of a run, in order; true where part of them is damaged beyond a torn end.
fn read(run: &[Recording]) -> Result<(Labelled, bool), Failure> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(Default::default()) };
    let mut events = Vec::new();
    let mut is_damaged = false;
    for recording in run {
        let found = events_of(recording)?;
        // Within a run a seam is nothing that happened.
        let seam = |event: &Event| match event.kind {
            EventKind::RecordingContinues { .. } => !std::ptr::eq(recording, first),
            EventKind::RecordingRotated { .. } => !std::ptr::eq(recording, last),
            _ => false,
        };
        events.extend(found.events.into_iter().filter(|event| !seam(event)));
        is_damaged |= found.is_damaged;
    }
    if last.was_killed_without_room() {
        events.push(without_room(&events, last));
    }
    let (mut gatherer, mut rows) = (Gatherer::new(&events), 0);
    let mut progress = Progress::new("read");
    let (mut damage, mut queries) = (Vec::new(), None);
    for recording in run {
        let mut samples = recording.samples();
        for batch in &mut samples {
            for sample in &batch {
                gatherer.sample(sample);
                rows += 1;
            }
            progress.rows(rows);
        }
        damage.extend(samples.damage().iter().map(|damage| (recording, damage.clone())));
        let (asked, unreadable) = recording.asked().map_err(|e| failure(&e))?.unzip();
        damage.extend(unreadable.into_iter().flatten().map(|damage| (recording, damage)));
        queries = asked.or(queries);
    }
    drop(progress);
    for (recording, unreadable) in &damage {
        tell!("fathom: {}: {unreadable}", recording.dir().display());
        is_damaged |= !unreadable.torn;
    }
    let manifest = last.manifest();
    let reflector = manifest.reflector.resolved.as_ref().unwrap_or(&manifest.reflector.address);
    let measured = Measured {
        label: manifest.label.clone(),
        reflector: reflector.clone(),
        mode: manifest.probe["mode"].as_str().unwrap_or("unknown").to_owned(),
        size: manifest.probe["size"].as_u64().unwrap_or(0) as u32,
        interval_ns: manifest.probe["interval_ns"].as_u64(),
        started_at: first.manifest().started_at,
        ended_at: manifest.ended_at,
        state: match (manifest.ended_at, last.is_running()) {
            (Some(_), _) => State::Finished,
            (None, true) => State::Running,
            (None, false) => State::Interrupted,
        },
    };
    let gathered = Gathered { queries, ..gatherer.finish() };
    let mut story = fathom_core::story::tell(&measured, &events, &gathered);
    if run.len() > 1
        && let Some(heading) = story.first_mut()
    {
        heading.evidence.insert(0, format!("{} of one rotation", count(run.len() as u64, "recording")));
    }
    let marks = manifest.marks();
    let marks = marks.iter().map(|mark| line_before(measured.started_at, marks::in_words(mark)));
    let lines = marks.chain(story).collect();
    Ok(((measured.label, lines), is_damaged))
}

/// What recovery will note as the last thing that happened.
fn without_room(events: &[Event], last: &Recording) -> Event {
    let at = events.last().map_or(last.manifest().started_at, |event| event.at);
    let mono_ns = events.iter().map(|event| event.mono_ns).max().unwrap_or(0);
    let kind = EventKind::Note { text: KILLED_WITHOUT_ROOM.to_owned() };
    Event { at, mono_ns, connection: None, kind }
}

/// What a log says, and whether part of it is damaged beyond a torn end.
struct Log {
    events: Vec<Event>,
    is_damaged: bool,
}

fn events_of(recording: &Recording) -> Result<Log, Failure> {
    let (mut events, mut is_damaged, mut unknown) = (Vec::new(), false, 0_u64);
    for entry in recording.events().map_err(|e| failure(&e))? {
        match entry {
            Ok(Entry::Known(event)) => events.push(event),
            Ok(Entry::Other(_)) => unknown += 1,
            Err(unreadable) => {
                tell!("fathom: {}: {unreadable}", recording.dir().display());
                is_damaged |= !unreadable.torn;
            }
        }
    }
    if unknown > 0 {
        let unknown = count(unknown, "event");
        tell!("fathom: {}: left out {unknown} of a later version", recording.dir().display());
    }
    Ok(Log { events, is_damaged })
}

/// A line that comes before what happened.
fn line_before(at: Timestamp, statement: String) -> Line {
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
