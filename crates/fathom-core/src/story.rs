//! The story of a run, from its recording alone: what happened when, what the evidence for it is, and how sure one
//! may be. Nothing is claimed beyond the evidence; what is not known is said to be not known.

mod attempts;
mod between;
mod client;
mod delays;
mod gather;
mod incident;
mod join;
mod levels;
mod limits;
mod losses;
mod moment;
mod next;
mod page;
mod queries;
mod repeated;
mod shortest;
mod stood;
#[cfg(test)]
mod tests;
mod tries;
mod words;

pub use gather::{Baseline, Gathered, Gatherer};
pub use levels::Level;
pub use page::{Labelled, Page, merged};
pub use repeated::Repeated;
pub use shortest::Shortest;
pub use words::changed;

use crate::cause::ClosingCause;
use crate::event::{CLIENT_MODE, Event, EventKind, sought_with, why_lost};
use crate::statistics::LOCAL;
use crate::units::duration_text as duration;
pub use crate::verdict::Confidence;
use crate::verdict::Verdict;
use incident::{Context, told_together};
use jiff::Timestamp;
use join::{Joined, Overrun, Pause, join};
use moment::{Moment, elapsed_ns};
use serde::Serialize;
use std::collections::BTreeMap;
use words::{accounts, clock, count, list, times, were};

/// One line of the story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// When, in UTC.
    pub at: Timestamp,
    /// The connection it is about, if it is about one.
    pub connection: Option<u32>,
    /// What happened, in a sentence.
    pub statement: String,
    /// The facts behind it, each a sentence.
    pub evidence: Vec<String>,
    /// What ended the connection, where one ended (or several, for the same cause).
    pub cause: Option<ClosingCause>,
    /// What the evidence says about why; `None`: nothing to judge, or nobody judged.
    pub verdict: Option<Verdict>,
    /// How sure that is.
    pub confidence: Confidence,
}

impl Line {
    fn fact(at: Timestamp, statement: String) -> Self {
        let confidence = Confidence::High;
        Self { at, connection: None, statement, evidence: Vec::new(), cause: None, verdict: None, confidence }
    }
}

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It ended in order, or was recovered.
    Finished,
    /// Somebody is writing it.
    Running,
    /// Its writer is gone without a word.
    Interrupted,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Label of the path.
    pub label: String,
    /// The reflector's address.
    pub reflector: String,
    /// `tcp`, `udp`, `tcp-ping-pong` and so on.
    pub mode: String,
    /// Payload bytes; 0: none (`connect`), or several sizes.
    pub size: u32,
    /// Between two samples, in ns; `None`: back to back.
    pub interval_ns: Option<u64>,
    /// When the run began.
    pub started_at: Timestamp,
    /// When it ended; `None`: it has not, or nobody saw it.
    pub ended_at: Option<Timestamp>,
    /// How far it is.
    pub state: State,
}

/// Tells the story: first what was measured, then what happened in order, at last the counts.
pub fn tell(measured: &Measured, events: &[Event], gathered: &Gathered) -> Vec<Line> {
    let joined = join(events);
    let last = measured.ended_at.unwrap_or_else(|| {
        let sent = gathered.last_sent_ns.and_then(|ns| Timestamp::from_nanosecond(ns.into()).ok());
        let event = events.last().map(|event| event.at);
        [sent, event].into_iter().flatten().max().unwrap_or(measured.started_at).max(measured.started_at)
    });
    let context = Context { joined: &joined, events, gathered, state: measured.state, last };
    let mut told = told_together(&context);
    let incidents = told.len();
    told.extend(joined.tries.rows().iter().map(|tries| (tries.first.mono_ns, attempts::line(tries))));
    told.extend(delays::lines(events, &joined, &gathered.slow));
    if has_a_usual(measured) {
        told.extend(levels::line(&gathered.levels, events, &joined));
    }
    told.extend(losses::line(events));
    told.extend(limits::lines(measured, events, last));
    told.extend(gathered.queries.iter().flat_map(|outcome| queries::lines(outcome, events, last)));
    pauses(&context, &mut told);
    let alone = |o: &&Overrun<'_>| !context.tells_of(o);
    told.extend(joined.overruns.iter().filter(alone).map(|o| (o.first.mono_ns, overrun(o))));
    told.extend(events.iter().filter_map(|event| Some((event.mono_ns, other(event)?))));
    let quiet = told.iter().all(|(_, line)| line.statement.starts_with("noted: "));
    told.sort_by_key(|(mono_ns, _)| *mono_ns);

    let mut lines = vec![heading(measured, events, gathered, last)];
    lines.extend(between::line(measured, events, gathered));
    let repeated = repeated::line(measured, gathered.repeated, gathered.samples);
    let quiet = quiet && repeated.is_none();
    lines.extend(repeated);
    lines.extend(told.into_iter().map(|(_, line)| line));
    if quiet {
        lines.push(nothing(&joined, gathered, last));
    }
    debug_assert!(!quiet || incidents == 0);
    if sought_with(&measured.mode).is_none() {
        lines.push(counts(&joined, gathered, last, &context));
    }
    lines
}

/// Samples of several sizes, or after several silences, have no usual round trip in common; a search for a limit has no
/// samples.
fn has_a_usual(measured: &Measured) -> bool {
    let Measured { mode, size, .. } = measured;
    (*size > 0 && !mode.ends_with("idle-gap")) || mode.starts_with("connect")
}

fn heading(measured: &Measured, events: &[Event], gathered: &Gathered, last: Timestamp) -> Line {
    let Measured { reflector, mode, size, .. } = measured;
    let silences = mode.ends_with("idle-gap");
    let pace = match measured.interval_ns {
        _ if silences => "after silences".to_owned(),
        Some(ns) => format!("every {}", duration(ns)),
        None => "back to back".to_owned(),
    };
    let lasted = elapsed_ns(events, Moment { utc: measured.started_at, mono_ns: 0 }, last);
    let end = match measured.state {
        State::Finished => format!("for {}", duration(lasted)),
        State::Running => format!("for {} so far; it is still running", duration(lasted)),
        State::Interrupted => format!(
            "for {}, until the recording breaks off at {}: what came after is not known",
            duration(lasted),
            clock(last)
        ),
    };
    let sought = sought_with(mode);
    let what = match (mode.as_str(), size) {
        _ if sought.is_some() => sought.unwrap_or_default().to_owned(),
        (crate::event::THROUGHPUT_MODE, _) => "streams of data".to_owned(),
        (CLIENT_MODE, _) => format!("an application's requests {pace}"),
        _ if gathered.queries.is_some() => "queries, and round trips beside them".to_owned(),
        ("connect", _) => format!("a connection {pace}"),
        ("connect-tls", _) => format!("a connection and its TLS handshake {pace}"),
        (_, 0) => format!("samples of several sizes {pace}"),
        _ => format!("{} {pace}", count(u64::from(*size), "byte")),
    };
    let statement = format!("{reflector} was measured with {what} ({mode}), {end}");
    let mut line = Line::fact(measured.started_at, statement);
    if has_a_usual(measured) {
        line.evidence.extend(incident::usual("over the whole recording", &gathered.whole));
    }
    line
}

fn nothing(joined: &Joined<'_>, gathered: &Gathered, last: Timestamp) -> Line {
    let unfinished: u64 = joined.closings.iter().map(|c| c.evidence.outstanding).sum();
    let longest = gathered
        .longest_ns
        .map_or_else(String::new, |ns| format!(", the longest round trip took {}", duration(ns)));
    if gathered.unanswered > unfinished {
        let lost = count(gathered.unanswered, "sample");
        let text =
            format!("no connection stalled or ended unasked, yet {lost} got no echo; why is not known");
        return Line { confidence: Confidence::None, ..Line::fact(last, text) };
    }
    let waiting = match gathered.unanswered {
        0 if gathered.corrupt > 0 => {
            format!("every sample was answered, {} with another echo than was sent", gathered.corrupt)
        }
        0 => "every sample was answered".to_owned(),
        n => format!(
            "{} had no echo yet when the connection was closed, every other was answered",
            count(n, "sample")
        ),
    };
    if gathered.samples == 0 {
        return Line::fact(last, "nothing happened: the recording holds no sample and no incident".into());
    }
    Line::fact(last, format!("nothing happened: no stall, no connection lost, {waiting}{longest}"))
}

fn counts(joined: &Joined<'_>, gathered: &Gathered, last: Timestamp, context: &Context<'_>) -> Line {
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for closing in &joined.closings {
        *causes.entry(closing.cause.name()).or_default() += 1;
    }
    let open = joined.opened.saturating_sub(joined.closings.len() as u64);
    let end = if context.state == State::Interrupted { "whose end nobody saw" } else { "open" };
    let mut ends: Vec<String> = causes.into_iter().map(|(cause, n)| format!("{n} {cause}")).collect();
    if open > 0 {
        ends.push(format!("{open} {end}"));
    }
    let ends = if ends.is_empty() { String::new() } else { format!(" ({})", ends.join(", ")) };
    let fatal = joined.closings.iter().filter(|c| c.stall.is_some()).count();
    let stalls = (joined.stalls.len() + fatal) as u64;
    let silences = joined.stalls.iter().map(|s| context.lasted_ns(s));
    let deaths = joined.closings.iter().filter_map(|c| c.stall.as_ref()).map(|s| s.duration_ns);
    let silence = silences
        .chain(deaths)
        .max()
        .map_or_else(String::new, |ns| format!(", longest silence {}", duration(ns)));
    let unexplained = joined
        .incidents()
        .filter(|i| i.verdict().is_none_or(|verdict| verdict == Verdict::Unknown) && !i.is_explained_later())
        .count();
    let corrupt = match gathered.corrupt {
        0 => String::new(),
        n => format!(", {n} corrupt"),
    };
    let in_flight = context.events.iter().map(|event| match event.kind {
        EventKind::SamplesInFlight { samples } => samples,
        _ => 0,
    });
    let in_flight = match in_flight.fold(0, u64::saturating_add) {
        0 => String::new(),
        n => format!(", {n} in flight at the end"),
    };
    let statement = format!(
        "in all {}{ends}, {}{silence}, {unexplained} unexplained; {}, {} unanswered{corrupt}{in_flight}",
        count(joined.opened, "connection"),
        count(stalls, "stall"),
        count(gathered.samples, "sample"),
        gathered.unanswered
    );
    Line::fact(last, statement)
}

/// Pauses that no incident tells of; many of one host in one line.
fn pauses(context: &Context<'_>, told: &mut Vec<(u64, Line)>) {
    const EACH: usize = 5;
    let mut by_host: BTreeMap<&str, Vec<&Pause<'_>>> = BTreeMap::new();
    for pause in &context.joined.pauses {
        if !context.during_an_incident(pause.start.mono_ns, pause.end_mono_ns) {
            by_host.entry(pause.host).or_default().push(pause);
        }
    }
    for (host, all) in by_host {
        let who = whose(host);
        if all.len() > EACH {
            let lengths = || all.iter().map(|p| p.duration_ns);
            let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
            let statement = format!(
                "{who} did not run {} until {}, for {} to {}, {} in all; no stall or end coincides",
                times(all.len() as u64),
                clock(all[all.len() - 1].start.utc),
                duration(least),
                duration(most),
                duration(lengths().sum())
            );
            told.push((all[0].start.mono_ns, Line::fact(all[0].start.utc, statement)));
            continue;
        }
        for pause in all {
            let statement = format!("{who} did not run for {}", duration(pause.duration_ns));
            let mut line = Line::fact(pause.start.utc, statement);
            line.evidence
                .extend(pause.reason.map(|reason| format!("its own accounts say: {}", accounts(reason))));
            told.push((pause.start.mono_ns, line));
        }
    }
}

fn whose(host: &str) -> &'static str {
    if host == "local" { "this host" } else { "the reflector's host" }
}

/// Whom a notice was given to, where that is not this host.
fn to_whom(host: &str) -> &'static str {
    match host {
        "local" => "",
        "remote" => " to the reflector's host",
        _ => " to other machines",
    }
}

fn overrun(overrun: &Overrun<'_>) -> Line {
    let why = match overrun.reason {
        "late" => "this process did not run in time",
        "blocked" => "the connection took no more data",
        "unconnected" => "there was no connection",
        LOCAL => "this host could not connect",
        other => other,
    };
    let statement =
        format!("{} due {} not sent: {why}", count(overrun.skipped, "sample"), were(overrun.skipped));
    Line { connection: overrun.connection, ..Line::fact(overrun.first.utc, statement) }
}

/// Events that are a line of their own.
fn other(event: &Event) -> Option<Line> {
    let statement = match &event.kind {
        EventKind::ClockStepped { step_ns } => {
            let way = if *step_ns < 0 { "back" } else { "forward" };
            let step = duration(step_ns.unsigned_abs());
            format!(
                "the wall clock was set {way} by {step}; times of day jump here, round trips and durations do not"
            )
        }
        EventKind::AddressChanged { what, from, to } => changed(what, from, to),
        EventKind::Maintenance { host, cloud, what, state, not_before, duration_ns, .. } => {
            let whom = to_whom(host);
            let when = not_before.map_or_else(String::new, |at| format!(", not before {}", clock(at)));
            let long =
                duration_ns.map_or_else(String::new, |ns| format!(", expected to take {}", duration(ns)));
            match state.as_str() {
                "gone" => {
                    format!(
                        "{cloud}'s {what} notice{whom} was gone (clouds do not say that the work is done)"
                    )
                }
                _ => format!("{cloud} gave notice of {what}{whom}: {state}{when}{long}"),
            }
        }
        EventKind::EchoCorrupted { seq, count: n } => {
            format!("echoes differed from what was sent {}, the first of sample {seq}", times(*n))
        }
        EventKind::EchoForeign { count: n, first } => {
            format!("{} came that are no echo of ours, beginning \"{first}\"", count(*n, "byte"))
        }
        EventKind::EchoDuplicated { seq, count: n } => {
            format!("echoes came again {}, the first of sample {seq}", times(*n))
        }
        EventKind::RecordingOverflowed { lost, reason } => {
            format!("{}: {} not recorded", why_lost(reason.as_deref()), count(*lost, "sample"))
        }
        EventKind::RecordingResumed { waited_ns, .. } => {
            format!("the recording went on after {} without room on the disk", duration(*waited_ns))
        }
        EventKind::RecordingEnded { error: Some(error), .. } => {
            format!("the recording stopped early: {error}")
        }
        EventKind::RecordingRecovered { rows, torn_bytes } => {
            format!(
                "the recording had not been closed and was put in order later: {} saved, {} left out",
                count(*rows, "sample"),
                count(*torn_bytes, "torn byte")
            )
        }
        EventKind::BreakerChanged(changed) => client::breaker(*changed)?,
        EventKind::ClientEnded { result } => client::ended(result),
        EventKind::ClientInterrupted(interrupted) => client::interrupted(*interrupted),
        EventKind::Note { text } => format!("noted: {text}"),
        _ => return None,
    };
    Some(Line { connection: event.connection, ..Line::fact(event.at, statement) })
}

/// The verdicts or causes of several, each with its number.
fn tally<T: std::fmt::Display>(all: impl Iterator<Item = T>) -> String {
    let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
    for one in all {
        *numbers.entry(one.to_string()).or_default() += 1;
    }
    list(&numbers.into_iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>())
}
