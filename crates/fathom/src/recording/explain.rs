//! `fathom recording explain`: the story of a run, from its recording alone.

use super::progress::Progress;
use crate::exit::Failure;
use crate::output::{self, tell};
use fathom_core::event::Event;
use fathom_core::marks;
use fathom_core::story::{Confidence, Gatherer, Line, Measured, State, tell};
use fathom_core::text::{cleaned, count, lines_cleaned};
use fathom_recording::{Entry, Recording, recordings_in};
use jiff::Timestamp;
use serde_json::json;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Arguments of `fathom recording explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Times are UTC. Confidence says how sure a verdict is: high, medium, low, or none where why is not known
(docs/verdicts.md). Several recordings make one story, in the order of time.

Examples:
  fathom recording explain recordings/zone1-20260102T030405Z
  fathom recording explain recordings/* --json | jq 'select(.verdict == \"flow_forgotten\")'")]
pub(super) struct Args {
    /// Recordings, a running one too; or directories that hold recordings
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// One JSON object a line of the story
    #[arg(long)]
    json: bool,
}

/// A recording's label and its story.
type Story = (String, VecDeque<Line>);

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
    let page = Page::of(&lines, several);
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
fn read(dir: &Path) -> Result<(Story, bool), Failure> {
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
    let marks = manifest.marks();
    let marks = marks.iter().map(|mark| first(measured.started_at, marks::in_words(mark)));
    let lines = marks.chain(tell(&measured, &events, &gatherer.finish())).collect();
    Ok(((measured.label, lines), damage.iter().any(|unreadable| !unreadable.torn)))
}

/// A line that comes before what happened.
fn first(at: Timestamp, statement: String) -> Line {
    let (connection, evidence, cause, verdict) = (None, Vec::new(), None, None);
    Line { at, connection, statement, evidence, cause, verdict, confidence: Confidence::High }
}

/// One story of several, by time; each keeps its own order, also where its wall clock was set back.
fn merged(mut stories: Vec<Story>) -> Vec<(String, Line)> {
    let mut all = Vec::new();
    loop {
        let next =
            stories.iter_mut().filter(|(_, lines)| !lines.is_empty()).min_by_key(|(_, lines)| lines[0].at);
        let Some((label, lines)) = next else { return all };
        all.extend(lines.pop_front().map(|line| (label.clone(), line)));
    }
}

fn object(label: &str, line: &Line) -> String {
    json!({
        "format": 1, "label": label, "at": line.at, "connection": line.connection, "statement": line.statement,
        "evidence": line.evidence, "cause": line.cause, "verdict": line.verdict, "confidence": line.confidence,
    })
    .to_string()
}

/// How lines are laid out.
#[derive(Debug)]
struct Page {
    /// Columns of the terminal; `None`: no terminal, no wrapping.
    width: Option<usize>,
    coloured: bool,
    /// Whether lines name their recording.
    labels: bool,
    /// Whether the day is part of the time.
    days: bool,
}

impl Page {
    fn of(lines: &[(String, Line)], labels: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns).max(40));
        let day = |line: &(String, Line)| line.1.at.strftime("%F").to_string();
        let days = lines.first().map(day) != lines.last().map(day);
        // <https://no-color.org>: set and not empty.
        let coloured = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { width: terminal.then_some(width), coloured, labels, days }
    }

    fn render(&self, label: &str, line: &Line) -> String {
        let label = if self.labels { format!("[{label}] ") } else { String::new() };
        let sure = match (line.verdict, line.confidence) {
            (None, Confidence::High) => "",
            (_, Confidence::High) => " (confidence: high)",
            (_, Confidence::Medium) => " (confidence: medium)",
            (_, Confidence::Low) => " (confidence: low)",
            (_, Confidence::None) => " (confidence: none)",
        };
        let time = self.time(line.at);
        let indent = time.chars().count() + 1;
        let first = self.wrap(&format!("{label}{}{sure}", line.statement), indent);
        let mut out = match (self.coloured, line.confidence) {
            (false, _) => format!("{time} {first}"),
            (true, Confidence::None) => format!("\x1b[2m{time}\x1b[0m \x1b[33m{first}\x1b[0m"),
            (true, _) if line.verdict.is_some() => format!("\x1b[2m{time}\x1b[0m \x1b[1m{first}\x1b[0m"),
            (true, _) => format!("\x1b[2m{time}\x1b[0m {first}"),
        };
        // What the sentence says already is not said again.
        for fact in line.evidence.iter().filter(|fact| !line.statement.contains(fact.as_str())) {
            let fact = self.wrap(fact, indent + 2);
            out.extend(["\n", &" ".repeat(indent), "- ", &fact]);
        }
        out
    }

    fn time(&self, at: Timestamp) -> String {
        at.strftime(if self.days { "%F %H:%M:%S" } else { "%H:%M:%S" }).to_string()
    }

    /// Wraps a text whose first line begins at column `indent` too.
    fn wrap(&self, text: &str, indent: usize) -> String {
        let room = self.width.map_or(usize::MAX, |width| width.saturating_sub(indent + 1).max(20));
        let (mut out, mut column) = (String::new(), 0);
        for word in text.split_whitespace() {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > room {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = 0;
            } else if column > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(&cleaned(word));
            column += length;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: &str, statement: &str) -> Line {
        let (connection, cause, verdict, evidence) = (None, None, None, vec!["a fact".to_owned()]);
        let at = at.parse().expect("a time");
        Line {
            at,
            connection,
            statement: statement.into(),
            evidence,
            cause,
            verdict,
            confidence: Confidence::High,
        }
    }

    #[test]
    fn it_wraps_with_a_hanging_indent_and_lets_no_control_character_through() {
        let page = Page { width: Some(40), coloured: false, labels: true, days: false };
        let text =
            page.render("z", &line("2026-11-21T10:00:00Z", "a sentence that is longer\x1b[31m than a line"));
        let expected =
            "10:00:00 [z] a sentence that is\n         longer\u{FFFD}[31m than a line\n         - a fact";
        assert_eq!(text, expected);
    }

    #[test]
    fn several_stories_become_one_by_time() {
        let story = |label: &str, times: &[&str]| {
            (label.to_owned(), times.iter().map(|at| line(&format!("2026-11-21T{at}Z"), at)).collect())
        };
        // The clock of `a` was set back: its order stays.
        let all = merged(vec![
            story("a", &["10:00:00", "10:00:09", "10:00:03"]),
            story("b", &["10:00:01", "10:00:10"]),
        ]);
        let order: Vec<&str> = all.iter().map(|(_, line)| line.statement.as_str()).collect();
        assert_eq!(order, ["10:00:00", "10:00:01", "10:00:09", "10:00:03", "10:00:10"]);
    }
}
