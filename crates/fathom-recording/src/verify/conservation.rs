//! The law of conservation. For each connection, the samples sent are its rows, its recorded losses and those in flight
//! at the end of the run. For the whole run, the samples due are those sent and those recorded as not sent.
//!
//! Only a crash makes an exception, and only of what ended shortly before it, until recovery tells what it took.

use super::Findings;
use crate::recorder::progress::Progress;
use crate::remains::Remains;
use crate::{EVENTS, Manifest};
use fathom_core::event::{Event, EventKind, LOST_UNREADABLE, PROBING_FAILED, tells_lost_events};
use fathom_core::sample::Sample;
use fathom_core::text::count;
use std::collections::HashMap;

const OF_A_CONNECTION: &str = "of a connection the samples sent are its rows and its told losses";
const OF_AN_OPEN_ONE: &str = "rows of a connection without an end follow one another up to the last";
const OF_THE_RUN: &str = "what was due is sent, or recorded as not sent";
const ENDS_ONCE: &str = "a connection ends once";
const ENDS_AT_ALL: &str = "in a recording that ended in order every connection has its end";
const SET_ASIDE_IS_LOST: &str = "the event log counts the rows of a segment that was set aside as lost";
const AGREES: &str = "samples answered and outstanding at the end of a connection were sent";

/// A crash may take rows of connections that ended this long before it: the promise is one second, and a disk that takes its
/// time over a sync delays it.
const CRASH_NS: u64 = 10_000_000_000;

/// One connection, as far as it is counted.
#[derive(Debug, Default)]
struct Tally {
    /// Samples sent on it, by its end.
    sent: Option<u64>,
    ended_ns: u64,
    /// It was established, by an event.
    opened: bool,
    /// Events that tell its end.
    ends: u64,
    /// By its end more were answered or outstanding than were sent.
    contradicts_itself: bool,
    rows: u64,
    /// Samples of it that stand in the recordings before this one.
    before: u64,
    /// One more than the greatest number seen.
    next_seq: u64,
    /// Samples recorded as lost, or as in flight at the end of the run.
    lost: u64,
    /// Of these, the ones told as unreadable.
    unreadable: u64,
    /// Of rows that cannot be read: how many are known, and one more than the greatest number of them.
    behind: (u64, u64),
    /// One more than the greatest number that an event names.
    named: u64,
}

/// Who wrote the recording last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A probe writes it: rows and losses may yet come, and rows were read after the events.
    Running,
    /// It was interrupted and is not recovered yet.
    Interrupted,
    /// It was interrupted, and recovery has told what is missing.
    Recovered,
    /// Its probe closed it.
    Closed,
}

/// Counts of a recording: every event and every row is given to it, and then it is asked.
#[derive(Debug)]
pub(crate) struct Conservation {
    connections: HashMap<u32, Tally>,
    /// Losses that name no connection.
    lost_of_several: u64,
    /// Samples that were due and not sent.
    not_sent: u64,
    /// Samples of connections that ended before this recording began, whose rows and losses are in those before.
    before: u64,
    due: Option<u64>,
    /// TCP resolves samples in the order in which they were sent.
    in_order: bool,
    /// Samples are datagrams.
    datagrams: bool,
    /// Each sample is a connection. Older recordings do not say how many samples one of this mode had.
    connections_are_samples: bool,
    /// The run goes on in another recording.
    goes_on: bool,
    /// What was under way in a probing thread that failed is in no count of the run.
    probing_failed: bool,
    /// Events are missing, and a note says so.
    events_lost: bool,
    /// Losses told as unreadable.
    unreadable: u64,
    /// Segments that recovery has set aside.
    remains: Remains,
    /// When an error stopped the recording; later samples have no rows, and their loss is told at the end.
    stopped_ns: Option<u64>,
    /// The latest moment in the event log.
    last_ns: u64,
    state: State,
}

/// A connection of which rows are missing or too many.
struct Case {
    connection: u32,
    law: &'static str,
    sent: u64,
    rows: u64,
    lost: u64,
    missing: u64,
    too_many: u64,
    /// A crash may have taken what is missing.
    by_crash: bool,
}

impl Conservation {
    pub(crate) fn of(manifest: &Manifest, running: bool) -> Self {
        let mode = manifest.probe["mode"].as_str().unwrap_or_default();
        Self {
            connections: HashMap::new(),
            lost_of_several: 0,
            not_sent: 0,
            before: 0,
            due: None,
            in_order: mode.starts_with("tcp"),
            datagrams: mode.starts_with("udp") || mode.starts_with("stamp"),
            connections_are_samples: mode.starts_with("connect"),
            goes_on: false,
            probing_failed: false,
            events_lost: false,
            unreadable: 0,
            remains: Remains::default(),
            stopped_ns: None,
            last_ns: 0,
            state: match manifest.ended_at {
                _ if running => State::Running,
                None => State::Interrupted,
                Some(_) => State::Closed,
            },
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.last_ns = self.last_ns.max(event.mono_ns);
        match (&event.kind, event.connection) {
            (EventKind::ConnectionClosed { evidence, .. }, Some(connection)) => {
                let known = evidence.sent > 0 || !self.connections_are_samples;
                let resolved = evidence.answered.saturating_add(evidence.outstanding);
                let tally = self.connections.entry(connection).or_default();
                (tally.sent, tally.ended_ns) = (known.then_some(evidence.sent), event.mono_ns);
                tally.ends += 1;
                tally.contradicts_itself = resolved > evidence.sent && known;
            }
            (EventKind::ConnectionOpened { .. }, Some(connection)) => {
                self.connections.entry(connection).or_default().opened = true;
            }
            (EventKind::RecordingContinues { carried, .. }, _) => {
                for one in &carried.connections {
                    let tally = self.connections.entry(one.connection).or_default();
                    (tally.before, tally.opened) = (one.samples, true);
                }
                let open = carried.connections.iter().map(|one| one.samples).fold(0, u64::saturating_add);
                self.due = (carried.due > 0).then_some(carried.due);
                self.not_sent = self.not_sent.saturating_add(carried.not_sent);
                self.lost_of_several = self.lost_of_several.saturating_add(carried.lost_of_several);
                self.before = carried.samples.saturating_sub(open.saturating_add(carried.lost_of_several));
            }
            // What stands here and before is what was sent, as far as it concerns this recording.
            (EventKind::RecordingRotated { carried, .. }, _) => {
                for one in &carried.connections {
                    let tally = self.connections.entry(one.connection).or_default();
                    (tally.sent, tally.ended_ns) = (Some(one.samples), event.mono_ns);
                    tally.ends += 1;
                }
                self.due = Some(carried.samples.saturating_add(carried.not_sent));
                self.goes_on = true;
            }
            (EventKind::RecordingOverflowed { lost, reason }, connection) => {
                let unreadable = if reason.as_deref() == Some(LOST_UNREADABLE) { *lost } else { 0 };
                self.unreadable = self.unreadable.saturating_add(unreadable);
                if let Some(connection) = connection {
                    let tally = self.connections.entry(connection).or_default();
                    tally.lost = tally.lost.saturating_add(*lost);
                    tally.unreadable = tally.unreadable.saturating_add(unreadable);
                } else {
                    self.lost_of_several = self.lost_of_several.saturating_add(*lost);
                }
            }
            (EventKind::SamplesInFlight { samples }, Some(connection)) => {
                let tally = self.connections.entry(connection).or_default();
                tally.lost = tally.lost.saturating_add(*samples);
            }
            (EventKind::SamplesInFlight { samples }, None) => {
                self.lost_of_several = self.lost_of_several.saturating_add(*samples);
            }
            (
                EventKind::StallBegan { seq, .. }
                | EventKind::DelayBegan { seq, .. }
                | EventKind::EchoCorrupted { seq, .. },
                Some(connection),
            ) => {
                let tally = self.connections.entry(connection).or_default();
                tally.named = tally.named.max(seq.saturating_add(1));
            }
            (EventKind::ScheduleOverrun { skipped, .. }, _) => {
                self.not_sent = self.not_sent.saturating_add(*skipped);
            }
            // Each probing thread tells of its own lanes.
            (EventKind::ScheduleEnded { due }, _) => {
                self.due = Some(self.due.unwrap_or(0).saturating_add(*due));
            }
            (EventKind::RecordingEnded { error: Some(_), .. }, _) => self.stopped_ns = Some(event.mono_ns),
            (EventKind::RecordingRecovered { .. }, _) if self.state == State::Closed => {
                self.state = State::Recovered;
            }
            (EventKind::Note { text }, _) if text == PROBING_FAILED => self.probing_failed = true,
            (EventKind::Note { text }, _) if tells_lost_events(text) => self.events_lost = true,
            _ => {}
        }
    }

    /// How far the run had come when that was last noted, whatever the log says. Where the run goes on in another recording, what
    /// was out is that one's.
    pub(crate) fn progress(&mut self, progress: &Progress) {
        if self.goes_on {
            return;
        }
        self.due = self.due.max(Some(progress.due));
        for (&connection, &sent) in &progress.sent {
            let tally = self.connections.entry(connection).or_default();
            tally.named = tally.named.max(sent);
        }
    }

    /// What is known of rows that recovery could not read.
    pub(crate) fn remains(&mut self, remains: Remains) {
        for (&connection, &behind) in &remains.connections {
            self.connections.entry(connection).or_default().behind = behind;
        }
        self.remains = remains;
    }

    pub(crate) fn row(&mut self, sample: &Sample) {
        let tally = self.connections.entry(sample.connection).or_default();
        tally.rows += 1;
        tally.next_seq = tally.next_seq.max(sample.seq.saturating_add(1));
    }

    pub(super) fn check(&self, findings: &mut Findings) {
        if self.state == State::Running {
            return;
        }
        for case in self.cases() {
            if case.too_many == 0 && case.by_crash && self.state == State::Interrupted {
                continue;
            }
            let Case { connection, law, sent, rows, lost, missing, too_many, .. } = case;
            findings.add("samples", law, || {
                let by =
                    if too_many > 0 { format!("{too_many} too many") } else { format!("{missing} missing") };
                format!("connection {connection}: {sent} sent, {rows} rows, {lost} recorded as lost or in flight: {by}")
            });
        }
        self.check_remains(findings);
        self.check_ends(findings);
        self.check_run(findings);
    }

    /// What was set aside is told as lost.
    fn check_remains(&self, findings: &mut Findings) {
        let (rows, told) = (self.rows_unreadable(), self.unreadable);
        if told < rows {
            findings.add("samples", SET_ASIDE_IS_LOST, || {
                let cannot = count(rows, "row");
                format!("at least {cannot} cannot be read, the log counts {told} as unreadable")
            });
        }
        for file in &self.remains.uncounted {
            findings.add("samples", SET_ASIDE_IS_LOST, || {
                format!("{file}: nobody can say how many rows its damaged end had")
            });
        }
    }

    /// At least so many rows stand in what was set aside and cannot be read.
    fn rows_unreadable(&self) -> u64 {
        let open = self.connections.values().filter(|tally| tally.sent.is_none() && tally.behind.0 > 0);
        let gaps = open.map(|tally| {
            let (rows, next_seq) = tally.behind;
            let others = tally.lost.saturating_sub(tally.unreadable);
            let kept = tally.rows.saturating_add(tally.before).saturating_add(others);
            if self.in_order { next_seq.saturating_sub(kept).max(rows) } else { rows }
        });
        gaps.fold(self.remains.last_rows, u64::saturating_add).max(self.remains.rows)
    }

    /// Each connection has one end, which agrees with itself.
    fn check_ends(&self, findings: &mut Findings) {
        // A probe that fails, or whose disk does, does not come to tell every end.
        let told = self.state == State::Closed
            && !self.probing_failed
            && !self.events_lost
            && self.stopped_ns.is_none();
        let mut all: Vec<_> = self.connections.iter().collect();
        all.sort_unstable_by_key(|(connection, _)| **connection);
        for (connection, tally) in all {
            if tally.ends > 1 {
                let ends = tally.ends;
                findings.add(EVENTS, ENDS_ONCE, || format!("connection {connection}: {ends} ends"));
            }
            if told && tally.opened && tally.ends == 0 {
                findings
                    .add(EVENTS, ENDS_AT_ALL, || format!("connection {connection}: no connection.closed"));
            }
            if tally.contradicts_itself {
                findings.add(EVENTS, AGREES, || format!("connection {connection}"));
            }
        }
    }

    /// What a crash took: the rows that are missing of each connection, and those of the run of which it is not known of
    /// which connection. With `damage`, also rows that were there once and cannot be read.
    pub(crate) fn untold(&self, damage: bool) -> Vec<(Option<u32>, u64)> {
        let cases = self.cases();
        let cases = cases.iter().filter(|case| case.missing > 0 && (case.by_crash || damage));
        let mut untold: Vec<_> = cases.map(|case| (Some(case.connection), case.missing)).collect();
        let missing = untold.iter().map(|(_, missing)| *missing).fold(0, u64::saturating_add);
        let unreadable = if damage { self.rows_unreadable() } else { 0 };
        let of_several = unreadable.saturating_sub(missing.saturating_add(self.unreadable));
        if of_several > 0 {
            untold.push((None, of_several));
        }
        let accounted = self.told().saturating_add(missing).saturating_add(of_several);
        let of_the_run = self.due.unwrap_or(0).saturating_sub(accounted).max(self.hanging());
        if of_the_run > 0 && !self.probing_failed {
            untold.push((None, of_the_run));
        }
        untold
    }

    fn cases(&self) -> Vec<Case> {
        let mut numbers: Vec<u32> = self.connections.keys().copied().collect();
        numbers.sort_unstable();
        // What is told for several connections may stand for any of them.
        let mut of_several = self.lost_of_several;
        let since_ns = self.last_ns.saturating_sub(CRASH_NS).min(self.stopped_ns.unwrap_or(u64::MAX));
        let mut cases = Vec::new();
        for connection in numbers {
            let tally = &self.connections[&connection];
            let Tally { sent, ended_ns, rows, before, next_seq, lost, behind, named, .. } = *tally;
            let rows = rows.saturating_add(before);
            let kept = rows.saturating_add(lost);
            let crashed = matches!(self.state, State::Interrupted | State::Recovered);
            let named = if crashed { named } else { 0 };
            let (law, sent) = match sent {
                Some(sent) => (OF_A_CONNECTION, sent),
                // It is not over, or nobody saw its end: it is judged by what is there.
                None if self.in_order => (OF_AN_OPEN_ONE, next_seq.max(rows).max(behind.1).max(named)),
                // Datagrams without an answer get their rows a minute later. A crash comes sooner.
                None if crashed && self.datagrams => {
                    (OF_AN_OPEN_ONE, next_seq.max(named).max(rows.saturating_add(behind.0)))
                }
                None if behind.0 > 0 => (OF_AN_OPEN_ONE, rows.saturating_add(behind.0)),
                None => continue,
            };
            let missing = sent.saturating_sub(kept);
            let covered = missing.min(of_several);
            of_several -= covered;
            let missing = missing - covered;
            let too_many = if law == OF_A_CONNECTION { kept.saturating_sub(sent) } else { 0 };
            if missing > 0 || too_many > 0 {
                // What an event names may have been out, however long ago, and so may any datagram.
                let by_crash = match law {
                    OF_A_CONNECTION => ended_ns >= since_ns,
                    _ => named >= sent || (crashed && self.datagrams),
                };
                cases.push(Case { connection, law, sent, rows, lost, missing, too_many, by_crash });
            }
        }
        cases
    }

    /// Connections that are samples are numbered in the order in which they are begun: so many were begun before a crash, and hung
    /// until it came, for nothing else is known of them.
    fn hanging(&self) -> u64 {
        let crashed = matches!(self.state, State::Interrupted | State::Recovered);
        if !(crashed && self.connections_are_samples) || self.goes_on {
            return 0;
        }
        let begun = self.connections.keys().max().map_or(0, |&last| u64::from(last) + 1);
        let is_known = |t: &&Tally| t.sent.is_some() || t.rows > 0 || t.before > 0 || t.lost > 0;
        let known = self.connections.values().filter(is_known).count() as u64;
        begun.saturating_sub(known.saturating_add(self.before).saturating_add(self.lost_of_several))
    }

    /// Samples of the run that have a row, or of which something is told.
    fn told(&self) -> u64 {
        // A file may say any number.
        let of_tallies = self.connections.values().flat_map(|tally| [tally.rows, tally.before, tally.lost]);
        let of_the_run = [self.before, self.lost_of_several, self.not_sent];
        of_tallies.chain(of_the_run).fold(0, u64::saturating_add)
    }

    fn check_run(&self, findings: &mut Findings) {
        let told = self.told();
        let broken = |due: u64| match self.state {
            State::Closed => told != due,
            // Other probing threads had not said yet what had been due on theirs.
            State::Recovered => told < due,
            State::Running | State::Interrupted => false,
        };
        if self.probing_failed {
            return;
        }
        let hanging = Some(self.hanging()).filter(|&hanging| hanging > 0);
        let due = self.due.max(hanging.map(|hanging| told.saturating_add(hanging)));
        if let Some(due) = due.filter(|&due| broken(due)) {
            findings.add(EVENTS, OF_THE_RUN, || {
                let rows: u64 = self.connections.values().map(|tally| tally.rows).sum();
                let (not_sent, lost) = (self.not_sent, told - rows - self.not_sent);
                let by = if told < due {
                    format!("{} missing", due - told)
                } else {
                    format!("{} too many", told - due)
                };
                format!("{due} due, {rows} rows, {lost} recorded as lost or in flight, {not_sent} recorded as not sent: {by}")
            });
        }
    }
}
