//! The law of conservation: of every connection the samples that were sent are its rows and its told losses; and of the
//! whole run, what was due is what was sent and what was told as not sent.

use super::Findings;
use crate::{EVENTS, Manifest};
use fathom_core::event::{Event, EventKind};
use fathom_core::sample::Sample;
use std::collections::HashMap;

const OF_A_CONNECTION: &str = "of a connection the samples sent are its rows and its told losses";
const OF_AN_OPEN_ONE: &str = "rows of a connection without an end follow one another up to the last";
const OF_THE_RUN: &str = "what was due is sent, or told as not sent";

/// One connection, as far as it is counted.
#[derive(Debug, Default)]
struct Tally {
    /// Samples sent on it, by its end.
    sent: Option<u64>,
    rows: u64,
    /// One more than the greatest number seen.
    next_seq: u64,
    lost: u64,
}

/// Counts of a recording.
#[derive(Debug)]
pub(super) struct Conservation {
    connections: HashMap<u32, Tally>,
    /// Losses that name no connection.
    lost_of_several: u64,
    /// Samples that were due and not sent.
    not_sent: u64,
    due: Option<u64>,
    /// TCP resolves samples in the order in which they were sent.
    in_order: bool,
    /// Older recordings do not say how many samples a connection of this mode had.
    connections_are_samples: bool,
    /// The recording stopped before the run did; what came later is told nowhere.
    ended_early: bool,
    running: bool,
}

impl Conservation {
    pub(super) fn of(manifest: &Manifest, running: bool) -> Self {
        let mode = manifest.probe["mode"].as_str().unwrap_or_default();
        Self {
            connections: HashMap::new(),
            lost_of_several: 0,
            not_sent: 0,
            due: None,
            in_order: mode.starts_with("tcp"),
            connections_are_samples: mode.starts_with("connect"),
            ended_early: false,
            running,
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match (&event.kind, event.connection) {
            (EventKind::ConnectionClosed { evidence, .. }, Some(connection)) => {
                let known = evidence.sent > 0 || !self.connections_are_samples;
                self.connections.entry(connection).or_default().sent = known.then_some(evidence.sent);
            }
            (EventKind::RecordingOverflowed { lost, .. }, Some(connection)) => {
                self.connections.entry(connection).or_default().lost += lost;
            }
            (EventKind::RecordingOverflowed { lost, .. }, None) => self.lost_of_several += lost,
            (EventKind::ScheduleOverrun { skipped, .. }, _) => self.not_sent += skipped,
            // Each probing thread tells of its own lanes.
            (EventKind::ScheduleEnded { due }, _) => self.due = Some(self.due.unwrap_or(0) + due),
            (EventKind::RecordingEnded { error: Some(_), .. }, _) => self.ended_early = true,
            _ => {}
        }
    }

    pub(super) fn row(&mut self, sample: &Sample) {
        let tally = self.connections.entry(sample.connection).or_default();
        tally.rows += 1;
        tally.next_seq = tally.next_seq.max(sample.seq.saturating_add(1));
    }

    pub(super) fn check(&self, findings: &mut Findings) {
        let mut numbers: Vec<u32> = self.connections.keys().copied().collect();
        numbers.sort_unstable();
        // What is told for several connections may stand for any of them.
        let mut of_several = self.lost_of_several;
        for number in numbers {
            let tally = &self.connections[&number];
            let Tally { sent, rows, next_seq, lost } = *tally;
            let (law, sent) = match sent {
                Some(sent) => (OF_A_CONNECTION, sent),
                // It is not over, or nobody saw its end: it is judged by what is there.
                None if self.in_order && !self.running => (OF_AN_OPEN_ONE, next_seq.max(rows)),
                None => continue,
            };
            let kept = rows.saturating_add(lost);
            let missing = sent.saturating_sub(kept);
            let covered = missing.min(of_several);
            of_several -= covered;
            let too_many = if law == OF_A_CONNECTION { kept.saturating_sub(sent) } else { 0 };
            // While it is being written, rows and losses may yet come; rows were read after the events.
            let forgiven = self.ended_early || self.running;
            if (missing > covered && !forgiven) || (too_many > 0 && !self.running) {
                findings.add("samples", law, || {
                    let by = if too_many > 0 {
                        format!("{too_many} too many")
                    } else {
                        format!("{} are missing", missing - covered)
                    };
                    format!("connection {number}: {sent} sent, {rows} rows, {lost} told as lost: {by}")
                });
            }
        }
        self.check_run(findings);
    }

    fn check_run(&self, findings: &mut Findings) {
        let Some(due) = self.due.filter(|_| !self.running && !self.ended_early) else { return };
        let rows: u64 = self.connections.values().map(|tally| tally.rows).sum();
        let lost = self.lost_of_several + self.connections.values().map(|tally| tally.lost).sum::<u64>();
        let told = rows + lost + self.not_sent;
        if told != due {
            findings.add(EVENTS, OF_THE_RUN, || {
                let not_sent = self.not_sent;
                let by = if told < due {
                    format!("{} are missing", due - told)
                } else {
                    format!("{} too many", told - due)
                };
                format!("{due} due, {rows} rows, {lost} told as lost, {not_sent} told as not sent: {by}")
            });
        }
    }
}
