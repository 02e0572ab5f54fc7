//! What a probe recorded, as far as both worlds must agree on it.

use super::script::{FAULT, RATES, Story};
use crate::support::rows::{Events, Row, events, of_kind, rows};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A silence that is shorter is left out: by 1.5 s the timers of both TCPs have repaired what a short loss broke (Linux
/// begins at 200 ms, smoltcp at 1 s), and a busy machine makes such ones of its own.
const SHORTEST_NS: u64 = 1_500_000_000;

/// A silence that begins so soon after another is what that one left: each end's timer repairs its own way, one after the
/// other. Two faults are further apart.
const AFTERMATH_NS: u64 = 2_500_000_000;

/// A recording that is whole.
pub(crate) struct Recorded {
    pub(crate) events: Events,
    rows: Vec<Row>,
}

impl Recorded {
    pub(crate) fn read(dir: &Path) -> Self {
        Self { events: events(dir), rows: rows(dir) }
    }

    /// A sample that was sent has a row, was in flight at the end, or is recorded as lost. A due sample was sent, or is
    /// recorded as not sent.
    pub(crate) fn broken_law(&self) -> Option<String> {
        let mut rows: BTreeMap<u64, u64> = BTreeMap::new();
        for row in &self.rows {
            *rows.entry(row.at("connection") as u64).or_default() += 1;
        }
        let sum = |kind: &str, field: &str, of: Option<u64>| -> u64 {
            let events = of_kind(&self.events, kind).into_iter();
            let of_it = events.filter(|event| of.is_none() || event["connection"].as_u64() == of);
            of_it.map(|event| event[field].as_u64().expect("a count")).sum()
        };
        for closed in of_kind(&self.events, "connection.closed") {
            let connection = closed["connection"].as_u64();
            let of_it = connection.and_then(|connection| rows.get(&connection)).copied().unwrap_or(0);
            let lost = sum("recording.overflowed", "lost", connection)
                + sum("samples.in_flight", "samples", connection);
            if closed["evidence"]["sent"] != of_it + lost {
                return Some(format!("{of_it} rows and {lost} told losses are not what was sent: {closed}"));
            }
        }
        let opened = of_kind(&self.events, "connection.opened").len();
        let closed = of_kind(&self.events, "connection.closed").len();
        if opened != closed {
            return Some(format!("{opened} connections were opened and {closed} closed"));
        }
        let due = sum("schedule.ended", "due", None);
        let skipped = sum("schedule.overrun", "skipped", None);
        let lost = sum("recording.overflowed", "lost", None) + sum("samples.in_flight", "samples", None);
        let sent = self.rows.len() as u64 + lost;
        (due != sent + skipped).then(|| format!("{due} were due, {sent} sent and {skipped} told as not sent"))
    }

    /// Where a direction is told it is the one that was lost. Of a fault of both ways either is right: what was on its way
    /// tells. What is said of a silence that is left out is the machine's.
    pub(crate) fn wrong_direction(&self, direction: Option<&str>) -> Option<String> {
        let right = direction?;
        let told =
            self.events.iter().enumerate().filter(|(_, event)| event["kind"] == "connection.explained");
        let mut told = told.filter_map(|(at, event)| Some((at, event, event["direction"].as_str()?)));
        let wrong = told.find(|&(at, event, told)| {
            let mut before = self.events[..at].iter().rev();
            let latest = before.find(|before| {
                let of_a_stall = before["kind"] == "stall.began" || before["kind"] == "stall.ended";
                of_a_stall && before["connection"] == event["connection"]
            });
            let is_short = |latest: &Value| latest["kind"] == "stall.ended" && !is_long(latest);
            let left_out = event["about"] == "stall" && latest.is_some_and(is_short);
            told != right && !left_out
        });
        wrong.map(|(_, event, _)| format!("{right} was lost: {event}"))
    }

    /// The latest that a sample went out after it was due.
    fn lateness_ns(&self) -> u64 {
        self.rows.iter().map(|row| row.at("lateness_ns") as u64).max().unwrap_or(0)
    }
}

/// How often a host did not run for most of a fault.
pub(crate) fn long_pauses(events: &Events, host: &str) -> usize {
    let long = |event: &&Value| event["duration_ns"].as_u64() >= Some(FAULT.as_nanos() as u64 / 2);
    of_kind(events, "pause").into_iter().filter(|event| event["host"] == host).filter(long).count()
}

/// Whether the latest connection is in a stall that its run must end in: the third of it, or of the recording.
pub(crate) fn lost_silence(events: &Events) -> bool {
    let told = stories(events, |_| true).concat();
    let ended = told.iter().filter(|told| told.starts_with("stall.ended")).count();
    ended == 2 && told.last().is_some_and(|told| told == "stall.began")
}

/// What happened to each connection, in order. Attempts that were refused belong to the connection that came of them, and
/// are one however many they were: how many is chance.
/// A stall that goes on at the end is told by whether what is said of it `may_be_said`.
pub(crate) fn stories(events: &Events, may_be_said: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut opened = 0;
    // Connections whose next explanation of a stall is about one that is left out.
    let mut left_out = BTreeSet::new();
    let aftermaths = aftermaths(events);
    for (at, event) in events.iter().enumerate() {
        let kind = event["kind"].as_str().expect("a kind");
        let connection = event["connection"].as_u64();
        let of = if kind == "connection.refused" { opened } else { connection.unwrap_or(0) as usize };
        let told = match kind {
            "connection.refused" => "refused".to_owned(),
            "connection.opened" => {
                opened += 1;
                "opened".to_owned()
            }
            "connection.closed" => format!("closed: {}", event["cause"].as_str().expect("a cause")),
            "stall.began" if aftermaths.contains(&at) => continue,
            "stall.began" if end_of(&events[at..], connection).is_none_or(is_long) => kind.to_owned(),
            "stall.ended" if is_long(event) && !aftermaths.contains(&at) => {
                let end = if event["recovered"] == true { "recovered" } else { "lost" };
                format!("{kind}: {end}")
            }
            "stall.ended" if event["recovered"] == true => {
                left_out.insert(connection);
                continue;
            }
            "connection.explained" if event["about"] == "stall" && left_out.remove(&connection) => continue,
            "connection.explained"
                if event["about"] == "stall"
                    && all
                        .get(of)
                        .and_then(|story| story.last())
                        .is_some_and(|told| told == "stall.began") =>
            {
                let verdict = event["verdict"].as_str().expect("a verdict");
                let right = if may_be_said(verdict) { "not wrong" } else { verdict };
                format!("stall goes on: {right}")
            }
            "connection.explained" => {
                let words = [&event["about"], &event["verdict"]].map(|word| word.as_str().expect("a word"));
                words.join(": ")
            }
            _ => continue,
        };
        if all.len() <= of {
            all.resize(of + 1, Vec::new());
        }
        let story = &mut all[of];
        if kind == "connection.explained" && event["about"] == "closing" {
            // The last of them counts.
            story.retain(|told| !told.starts_with("closing: "));
        }
        if !(told == "refused" && story.last() == Some(&told)) {
            story.push(told);
        }
    }
    all
}

/// The beginnings and ends of stalls that follow a longer one at once.
fn aftermaths(events: &[Value]) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    let mut over: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        let (connection, now) = (event["connection"].as_u64(), event["mono_ns"].as_u64().expect("a time"));
        let soon = |over: &u64| now < over + AFTERMATH_NS;
        if event["kind"] == "stall.began" && over.get(&connection).is_some_and(soon) {
            all.insert(at);
            let end =
                |event: &Value| event["kind"] == "stall.ended" && event["connection"].as_u64() == connection;
            all.extend(events[at..].iter().position(end).map(|end| at + end));
        } else if event["kind"] == "stall.ended" && is_long(event) {
            over.insert(connection, now);
        }
    }
    all
}

fn is_long(ended: &Value) -> bool {
    ended["duration_ns"].as_u64() >= Some(SHORTEST_NS)
}

/// The end of a stall that begins with the first of these events.
fn end_of(events: &[Value], connection: Option<u64>) -> Option<&Value> {
    events.iter().find(|event| event["kind"] == "stall.ended" && event["connection"].as_u64() == connection)
}

/// Says which stall that the connection survived is shorter than the fault, or longer than TCP's timers make of it.
pub(crate) fn long_stalls(recorded: &Recorded, rate: usize, story: Story) -> Option<String> {
    if !matches!(story, Story::Survives(_)) {
        return None;
    }
    let pace_ns = [1_000_000_000, 100_000_000, 10_000_000][rate];
    let fault_ns = FAULT.as_nanos() as u64;
    let lateness_ns = recorded.lateness_ns();
    // The first sample into the silence went out a pace after it began, or so much later; one that was on its way is a
    // round trip older. It came back with the retransmission after the fault, which is after as long again at the most.
    // A busy machine begins a fault late and ends it in time: a tenth.
    let least = (fault_ns - fault_ns / 10).saturating_sub(pace_ns + lateness_ns);
    let most = 2 * fault_ns + pace_ns + lateness_ns + 2_000_000_000;
    let aftermaths = aftermaths(&recorded.events);
    let ended = recorded.events.iter().enumerate().filter(|(_, event)| event["kind"] == "stall.ended");
    let ended = ended.filter(|(at, _)| !aftermaths.contains(at)).map(|(_, event)| event);
    let mut long = ended.filter(|event| event["recovered"] == true && is_long(event));
    let wrong =
        long.find(|event| !(least..=most).contains(&event["duration_ns"].as_u64().expect("a length")));
    wrong.map(|event| format!("a fault of {FAULT:?} at rate {} took {event}", RATES[rate].0))
}
