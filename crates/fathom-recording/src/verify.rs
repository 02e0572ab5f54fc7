//! Every law of the format, held against a recording. Memory is bounded by the number of connections and of samples
//! out of order, not by the length of the run.

mod ceiling;
pub(crate) mod conservation;
mod queries;
mod requests;

use crate::begun::{Begun, is_written};
use crate::checksum::LogSum;
use crate::damage::Damage;
use crate::events::Entry;
use crate::recording::Recording;
use crate::remains::Remains;
use crate::shape::breaks_manifest_schema;
use crate::{EVENTS, Error, MANIFEST, Manifest};
use ceiling::Ceiling;
use conservation::Conservation;
use fathom_core::event::EventKind;
use fathom_core::sample::{Flags, Sample};
use fathom_core::text::{self, cleaned};
use queries::Told as Queries;
use requests::Requests;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

/// Runs of seen sequence numbers that are remembered over all connections; a sound recording needs a few each.
const MAX_RUNS: usize = 1 << 20;

/// One law that a recording breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// File it concerns; `samples` where it concerns rows.
    pub file: String,
    /// The law.
    pub law: &'static str,
    /// How often it is broken.
    pub count: u64,
    /// The first case.
    pub first: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, law, count, first } = self;
        let first = cleaned(first);
        write!(f, "{file}: {law}: {first}")?;
        if *count > 1 { write!(f, " (and {} more)", count - 1) } else { Ok(()) }
    }
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Rows that were read.
    pub rows: u64,
    /// Queries of a database that were read; `None`: it is a recording of something else.
    pub queries: Option<u64>,
    /// Events that were read.
    pub events: u64,
    /// Whether a probe is writing it: a torn tail is then no finding.
    pub running: bool,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Laws broken by what could be read.
    pub findings: Vec<Finding>,
}

impl Verification {
    /// Whether nothing is wrong with it.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.damage.iter().all(|d| d.torn && self.running)
    }
}

/// Checks the recording in `dir`; `progress` is told the rows read, every now and then.
pub fn verify(dir: &Path, mut progress: impl FnMut(u64)) -> Result<Verification, Error> {
    // Asked first: one that ends between the two is one that runs, and lacks nothing.
    let running = is_written(dir);
    if Begun::of(dir).is_some() {
        let (damage, findings) = (Vec::new(), Vec::new());
        return Ok(Verification { rows: 0, queries: None, events: 0, running, damage, findings });
    }
    let recording = Recording::open(dir)?;
    let mut findings = Findings::default();
    if let Some(broken) = breaks_manifest_schema(&Manifest::read_value(dir, MANIFEST)?) {
        findings.add(MANIFEST, "the manifest keeps to its schema, as the report demands", || broken);
    }
    let mut conservation = Conservation::of(recording.manifest(), running);
    let mut requests = Requests::of(&recording);
    let mut ceiling = Ceiling::default();
    let log = EventLog::read(&recording, &mut conservation, requests.as_mut(), &mut ceiling, &mut findings)?;
    ceiling.check(recording.event_damage().iter().all(|damage| damage.torn), &mut findings);

    let mut rows = 0;
    let mut seen = Seen::default();
    let mut samples = recording.samples();
    for chunk in samples.by_ref() {
        for sample in &chunk {
            check(sample, &mut findings);
            conservation.row(sample);
            if let Some(requests) = &mut requests {
                requests.row(sample);
            }
            if seen.insert(sample.connection, sample.seq) == Some(false) {
                findings.add("samples", "(connection, seq) is unique", || at(sample));
            }
        }
        rows += chunk.len() as u64;
        progress(rows);
    }
    if samples.disagreeing() > 0 {
        let count = samples.disagreeing();
        findings
            .add_many("samples", "rtt_bucket is the bucket of rtt_ns", count, || text::count(count, "row"));
    }
    let (queries, unread) = log.queries.check(&recording, running, &mut findings)?.unzip();
    let mut damage = recording.event_damage().to_vec();
    damage.extend_from_slice(samples.damage());
    log.check(&recording, running, rows, &mut findings);
    if !running {
        check_log_sum(&recording, &mut findings)?;
    }
    // Rows that cannot be read are damage, and told as that.
    let is_whole = damage.iter().all(|damage| damage.torn);
    damage.extend(unread.unwrap_or_default());
    if is_whole {
        conservation.remains(Remains::set_aside(dir)?);
        conservation.check(&mut findings);
        if let Some(requests) = requests.filter(|_| !running) {
            requests.check(&recording, &mut findings);
        }
    }
    Ok(Verification {
        rows,
        queries,
        events: log.count,
        running,
        damage,
        findings: findings.0.into_values().collect(),
    })
}

/// Nothing was added to, taken from or changed in the event log since the recording ended.
fn check_log_sum(recording: &Recording, findings: &mut Findings) -> Result<(), Error> {
    let Some(stated) = recording.manifest().events else { return Ok(()) };
    let found = recording.log_sum()?;
    if found != stated {
        findings.add(EVENTS, "the event log is what it was when the recording ended", || {
            let LogSum { bytes, crc32 } = stated;
            format!("{bytes} bytes with the checksum {crc32} then, {} with {} now", found.bytes, found.crc32)
        });
    }
    Ok(())
}

fn at(sample: &Sample) -> String {
    format!("connection {} seq {}", sample.connection, sample.seq)
}

fn check(sample: &Sample, findings: &mut Findings) {
    let mut law = |law, holds: bool| {
        if !holds {
            findings.add("samples", law, || at(sample));
        }
    };
    let unanswered = sample.flags.contains(Flags::UNANSWERED);
    law("rtt_ns is absent exactly where the sample is unanswered", sample.rtt_ns.is_none() == unanswered);
    law("rtt_ns is not negative", sample.rtt_ns.is_none_or(|rtt| rtt >= 0));
    law(
        "a sample answered late has its rtt_ns",
        !(unanswered && sample.flags.contains(Flags::ANSWERED_LATE)),
    );
    law("a corrupted sample is unanswered", unanswered || !sample.flags.contains(Flags::CORRUPTED));
    law("reflector_ns is not negative", sample.reflector_ns.is_none_or(|ns| ns >= 0));
    law("only known flags are set", u32::from(sample.flags.0) >> Flags::NAMES.len() == 0);
}

/// Findings by file and law.
#[derive(Debug, Default)]
struct Findings(BTreeMap<(&'static str, &'static str), Finding>);

impl Findings {
    fn add(&mut self, file: &'static str, law: &'static str, first: impl FnOnce() -> String) {
        self.add_many(file, law, 1, first);
    }

    fn add_many(
        &mut self,
        file: &'static str,
        law: &'static str,
        count: u64,
        first: impl FnOnce() -> String,
    ) {
        let of = || Finding { file: file.to_owned(), law, count: 0, first: first() };
        self.0.entry((file, law)).or_insert_with(of).count += count;
    }
}

/// What the event log says, as far as the rest must agree with it.
#[derive(Debug, Default)]
struct EventLog {
    count: u64,
    ended: Option<u64>,
    /// Events that tell the recording's end.
    ends: u64,
    recovered: bool,
    /// Of a database, by the run's own last word.
    queries: Queries,
}

impl EventLog {
    fn read(
        recording: &Recording,
        conservation: &mut Conservation,
        mut requests: Option<&mut Requests>,
        ceiling: &mut Ceiling,
        findings: &mut Findings,
    ) -> Result<Self, Error> {
        let mut log = Self::default();
        let mut listed = BTreeMap::new();
        for entry in recording.events()?.flatten() {
            let first = log.count == 0;
            log.count += 1;
            let Entry::Known(event) = entry else { continue };
            let started_at = recording.manifest().started_at;
            if first && event.kind != (EventKind::RecordingStarted {}) {
                findings.add(EVENTS, "the first event is recording.started", || event.at.to_string());
            } else if first && event.at != started_at {
                findings.add(EVENTS, "the events are of this recording, and of no other", || {
                    format!("they begin at {}, the recording at {started_at}", event.at)
                });
            }
            conservation.event(&event);
            ceiling.event(&event);
            if let Some(requests) = &mut requests {
                requests.event(&event);
            }
            log.queries.event(&event.kind);
            match event.kind {
                EventKind::RecordingEnded { samples, .. } => {
                    log.ended = Some(samples);
                    log.ends += 1;
                }
                EventKind::RecordingRecovered { .. } => log.recovered = true,
                EventKind::SegmentClosed { file, rows, bytes, crc32 } => {
                    // An interrupted recovery may list a segment a second time, but never with other content.
                    let before = listed.insert(file.clone(), (rows, bytes, crc32));
                    if before.is_some_and(|b| b != (rows, bytes, crc32)) {
                        findings.add(EVENTS, "a segment is closed once", || file);
                    }
                }
                _ => {}
            }
        }
        Ok(log)
    }

    fn check(&self, recording: &Recording, running: bool, rows: u64, findings: &mut Findings) {
        let ended_at = recording.manifest().ended_at;
        if ended_at.is_none() && !running {
            let full = if recording.was_killed_without_room() {
                "there was no room for it then (a full disk, or the limit of a file's size), and what it sent meanwhile may be missing; "
            } else {
                ""
            };
            findings.add(MANIFEST, "a recording that nobody writes has its ended_at", || {
                format!(
                    "it was interrupted: what it sent in its last 1.5 s may be missing, and in the time for which its host or disk held it up; \
                     {full}`fathom recording recover` puts it in order"
                )
            });
        }
        if ended_at.is_some() && self.ended.is_none() && !self.recovered {
            findings.add(EVENTS, "a recording that ended says so in its events", || {
                "neither recording.ended nor recording.recovered".to_owned()
            });
        }
        if self.ends > 1 {
            findings.add(EVENTS, "a recording ends once", || format!("{} ends", self.ends));
        }
        if let Some(samples) = self.ended
            && samples != rows
        {
            findings.add("samples", "there are as many rows as recording.ended counts", || {
                format!("{samples} counted, {rows} read")
            });
        }
        let listed = recording.listed().keys().copied();
        if let Some(missing) = listed.zip(0..).find_map(|(is, should)| (is != should).then_some(should)) {
            findings.add("samples", "segments are numbered without gaps", || {
                format!("segment {missing} is missing")
            });
        }
    }
}

/// The sequence numbers seen on each connection, as runs: start to end (exclusive).
#[derive(Debug, Default)]
struct Seen {
    connections: HashMap<u32, BTreeMap<u64, u64>>,
    runs: usize,
}

impl Seen {
    /// Adds a number; `Some(false)` where it was there, nothing where there is no room to remember more.
    fn insert(&mut self, connection: u32, seq: u64) -> Option<bool> {
        let runs = self.connections.entry(connection).or_default();
        let before = runs.range(..=seq).next_back().map(|(&start, &end)| (start, end));
        if before.is_some_and(|(_, end)| seq < end) {
            return Some(false);
        }
        let next = seq.checked_add(1)?;
        let joined = before.filter(|&(_, end)| end == seq).map(|(start, _)| start);
        let after = runs.remove(&next);
        if joined.is_none() && after.is_none() && self.runs >= MAX_RUNS {
            return None;
        }
        self.runs += usize::from(joined.is_none());
        self.runs -= usize::from(after.is_some());
        runs.insert(joined.unwrap_or(seq), after.unwrap_or(next));
        Some(true)
    }
}

#[cfg(test)]
mod unit {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn seen_is_a_set(numbers in prop::collection::vec((0u32..3, 0u64..40), 0..200)) {
            let (mut seen, mut set) = (Seen::default(), HashSet::new());
            for &(connection, seq) in &numbers {
                prop_assert_eq!(seen.insert(connection, seq), Some(set.insert((connection, seq))));
            }
            prop_assert_eq!(seen.runs, seen.connections.values().map(BTreeMap::len).sum::<usize>());
        }
    }
}
