//! What a run amounts to: counts, distributions and connections, built sample by sample and event by event. The same
//! code serves a run while it goes on and a recording read back.
//!
//! Memory is bounded: histograms have a fixed number of buckets, and of closed connections only the latest
//! [`CLOSED_KEPT`] keep their own line.

mod batch;
mod connection;
mod gaps;
mod group;
mod lost_here;
mod outages;
mod reasons;
#[cfg(test)]
mod tests;
mod under_load;

pub use batch::Batch;
pub use connection::{CLOSED_KEPT, Connection};
pub use gaps::{Gap, Gaps};
pub use group::Group;
use lost_here::LostHere;
pub use outages::{OUTAGES_KEPT, Outage, OutageEnd, Outages};
pub use reasons::Reasons;
pub use under_load::UnderLoad;

use crate::event::{Event, EventKind, LOST_BEHIND};
use crate::histogram::Histogram;
use crate::loss::Losses;
use crate::sample::{Flags, Sample};
use std::collections::BTreeMap;

/// Events of the files themselves.
const BOOKKEEPING: [&str; 8] = [
    "recording.rotated",
    "recording.continues",
    "recording.started",
    "recording.ended",
    "recording.recovered",
    "segment.closed",
    "queries.closed",
    "schedule.progress",
];

/// The reason of samples that were due and not sent because this host could not connect: it had no port, no descriptor, no
/// address or no route of its own.
pub const LOCAL: &str = "local";

/// Sizes that have statistics of their own; samples of further ones are counted in the run's totals only.
pub const SIZES_KEPT: usize = 64;

/// The statistics of one run. Counts are of all its samples. Distributions never hold samples of two sizes: those of a
/// run with more than one stand in `by_size`, and `rtt`, `latency`, `lateness` and `first_sample` are empty. Nor do they
/// hold samples under load, which stand in `under_load`, or any of a run with silences, which stand in `gaps`.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Samples resolved: answered, unanswered or corrupt.
    pub samples: u64,
    /// Samples whose intact echo came, late or not.
    pub answered: u64,
    /// Of those, samples whose echo came after the timeout.
    pub late: u64,
    /// Samples that no echo came for.
    pub unanswered: u64,
    /// Samples whose echo was not what was sent.
    pub corrupt: u64,
    /// Samples flagged as warm-up: counted above, left out of the distributions.
    pub warm_up: u64,
    /// Due but never sent: `unconnected`, `blocked` (the connection took no more) or `late` (this host did not run).
    pub not_sent: Reasons,
    /// Samples in flight when the run ended, before their time-out: neither answered nor lost.
    pub in_flight: u64,
    /// Sent, and without a row in the recording, by the reason of `recording.overflowed`. A run that goes on may have counted
    /// them above; its recording read back cannot have.
    pub not_recorded: Reasons,
    /// Times without a connection that answers.
    pub outages: Outages,
    lost_here: LostHere,
    /// What is known of datagrams that were lost, came twice or out of order; `unknown` is kept by [`Statistics::loss`].
    losses: Losses,
    /// How far differences of the two clocks may be from the truth, in ns, at the most; `None`: nobody said.
    pub clock_error_ns: Option<u64>,
    /// Round trips.
    pub rtt: Histogram,
    /// From due to answered.
    pub latency: Histogram,
    /// Sent minus due.
    pub lateness: Histogram,
    /// Connection set-up; empty where nothing is connected, as over UDP.
    pub connect: Histogram,
    /// TLS handshakes, from established on.
    pub tls: Histogram,
    /// Round trips of each connection's first sample.
    pub first_sample: Histogram,
    /// Connections by ordinal.
    pub connections: BTreeMap<u32, Connection>,
    /// Closed connections that lost their line to the bound.
    pub connections_omitted: u64,
    /// Events by kind.
    pub events: BTreeMap<String, u64>,
    /// First and last `sent_ns` seen.
    pub span_ns: Option<(i64, i64)>,
    /// When the sample seen last was sent.
    pub last_sent_ns: Option<i64>,
    /// An event said that the recording ended in order.
    pub ended: bool,
    /// They are of a recording: what is not recorded was not counted as a sample.
    read_back: bool,
    /// The earliest and the latest event seen, by the monotonic clock of the run, in ns.
    pub mono_ns: Option<(u64, u64)>,
    /// The same of the latest that is no bookkeeping of the recording's files.
    pub last_told_ns: Option<u64>,
    /// By size, where samples of more than one have been seen; empty otherwise.
    pub by_size: BTreeMap<u32, Group>,
    /// Samples sent under a load of ours, and that load.
    pub under_load: UnderLoad,
    /// Of a run with silences, by the gap before them.
    pub gaps: Gaps,
    first_size: Option<u32>,
    closed: usize,
    /// Samples that were due, by the schedule's end.
    due: Option<u64>,
    /// Of those, the ones that an earlier recording of the same run accounts for.
    before: u64,
}

impl Statistics {
    /// Statistics of a run with silences of these lengths, in ns; with none, of any other run.
    pub fn with_gaps(lengths_ns: &[u64]) -> Self {
        Self { gaps: Gaps::new(lengths_ns), ..Self::default() }
    }

    /// The same of a recording that is read back.
    pub fn read_back(lengths_ns: &[u64]) -> Self {
        Self { read_back: true, ..Self::with_gaps(lengths_ns) }
    }

    /// Adds a resolved sample.
    pub fn sample(&mut self, sample: &Sample) {
        let pooled = self.is_pooled(sample);
        self.samples += 1;
        let (first, last) = self.span_ns.unwrap_or((sample.sent_ns, sample.sent_ns));
        self.span_ns = Some((first.min(sample.sent_ns), last.max(sample.sent_ns)));
        self.last_sent_ns = Some(sample.sent_ns);
        if let Some(connection) = self.connections.get_mut(&sample.connection) {
            connection.samples += 1;
        }
        let warm_up = sample.flags.contains(Flags::WARM_UP);
        self.warm_up += u64::from(warm_up);
        if pooled {
            self.lateness.record(sample.lateness_ns);
        }
        match sample.rtt_ns {
            Some(rtt_ns) => {
                self.answered += 1;
                self.late += u64::from(sample.flags.contains(Flags::ANSWERED_LATE));
                if pooled && sample.flags.contains(Flags::FIRST_ON_CONNECTION) {
                    self.first_sample.record(rtt_ns);
                }
                if pooled && !warm_up {
                    self.rtt.record(rtt_ns);
                    self.latency.record(rtt_ns + sample.lateness_ns);
                }
            }
            None if sample.flags.contains(Flags::CORRUPTED) => self.corrupt += 1,
            None => self.unanswered += 1,
        }
    }

    /// Whether a sample goes into the run's own distributions; one that does not is put where it belongs.
    fn is_pooled(&mut self, sample: &Sample) -> bool {
        if sample.flags.contains(Flags::UNDER_LOAD) {
            self.under_load.samples.sample(sample);
            return false;
        }
        if !self.gaps.all.is_empty() {
            self.gaps.sample(sample);
            return false;
        }
        let one_size = self.is_of_one_size(sample.size);
        if !one_size {
            self.sample_of_size(sample);
        }
        one_size
    }

    fn is_of_one_size(&mut self, size: u32) -> bool {
        self.by_size.is_empty() && *self.first_size.get_or_insert(size) == size
    }

    /// A run of several sizes: what was of one until now becomes the statistics of that size.
    fn sample_of_size(&mut self, sample: &Sample) {
        if self.by_size.is_empty() {
            self.by_size = self.sizes();
            for pooled in [&mut self.rtt, &mut self.latency, &mut self.lateness, &mut self.first_sample] {
                *pooled = Histogram::default();
            }
        }
        if self.by_size.len() < SIZES_KEPT || self.by_size.contains_key(&sample.size) {
            self.by_size.entry(sample.size).or_default().sample(sample);
        }
    }

    /// The statistics by size, of a run of one size too.
    pub fn sizes(&self) -> BTreeMap<u32, Group> {
        let (Some(size), true) = (self.first_size, self.by_size.is_empty()) else {
            return self.by_size.clone();
        };
        let only = Group {
            samples: self.samples,
            answered: self.answered,
            late: self.late,
            unanswered: self.unanswered,
            corrupt: self.corrupt,
            warm_up: self.warm_up,
            rtt: self.rtt.clone(),
            latency: self.latency.clone(),
            lateness: self.lateness.clone(),
        };
        BTreeMap::from([(size, only)])
    }

    /// Which way samples were lost. What nobody has said yet, or ever will, is unknown: the three directions add up to
    /// the unanswered samples.
    pub fn loss(&self) -> Losses {
        let Losses { forward, backward, .. } = self.losses;
        Losses { unknown: self.unanswered.saturating_sub(forward + backward), ..self.losses }
    }

    /// Samples that were due, sent or not. For a recording this is a minimum: those with a row, those not sent, those
    /// in flight at its end, and those recorded as lost.
    pub fn due(&self) -> u64 {
        let due = self.due.map_or(0, |due| due.saturating_sub(self.before));
        // Not every probing thread may have said how many, and before a seam of a rotation none does.
        let not_recorded = if self.read_back { self.not_recorded.total() } else { 0 };
        let told = [self.not_sent.total(), self.in_flight, not_recorded];
        due.max(told.into_iter().fold(self.samples, u64::saturating_add))
    }

    /// The share of samples that were answered, late ones included, among those that were sent or had no connection that took
    /// them. Samples that this host failed to send say nothing about the target, and the outcome of
    /// unrecorded samples is unknown. `None`: there was none.
    pub fn availability(&self) -> Option<f64> {
        let here = self.not_sent.of("late").saturating_add(self.not_sent.of(LOCAL));
        let of_the_path = self.not_sent.total().saturating_sub(here);
        let asked = self.samples.saturating_add(of_the_path).saturating_sub(self.lost_here.count());
        (asked > 0).then(|| self.answered as f64 / asked as f64)
    }

    /// Unanswered samples that were lost in this host: it ended their connection, or caused its end or silence.
    pub fn lost_here(&self) -> u64 {
        self.lost_here.count()
    }

    /// True if no attempt to connect reached the network, and one failed in this host.
    pub fn failed_here(&self) -> bool {
        let connected = !self.connections.is_empty() || self.connections_omitted > 0;
        !connected
            && self.samples == 0
            && self.outages.all().iter().all(|outage| outage.local)
            && self.events.contains_key("connection.refused")
    }

    /// Whether attempts to connect were made, or may have been, that did not all fail.
    pub fn was_reached(&self) -> bool {
        let tried = self.events.contains_key("connection.refused");
        let connected = !self.connections.is_empty() || self.connections_omitted > 0;
        connected || self.samples > 0 || !tried
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event) {
        self.count_event(event.kind.name());
        let (first, last) = self.mono_ns.unwrap_or((event.mono_ns, event.mono_ns));
        self.mono_ns = Some((first.min(event.mono_ns), last.max(event.mono_ns)));
        if !BOOKKEEPING.contains(&event.kind.name()) {
            self.last_told_ns = self.last_told_ns.max(Some(event.mono_ns));
        }
        self.outages.event(event);
        self.lost_here.event(event);
        match &event.kind {
            EventKind::ConnectionOpened { connect_ns, tls_ns, .. } => {
                // Of a socket for datagrams, which has nothing to set up, 0 is told.
                if *connect_ns > 0 {
                    self.connect.record(*connect_ns);
                }
                if let Some(tls_ns) = tls_ns {
                    self.tls.record(*tls_ns);
                }
                let opened = Connection { opened_at: Some(event.at), ..Connection::unseen() };
                if let Some(id) = event.connection {
                    self.connections.insert(id, opened);
                }
            }
            EventKind::ConnectionClosed { cause, verdict, errno, age_ns, .. } => {
                if let Some(connection) = event.connection.and_then(|id| self.connections.get_mut(&id)) {
                    connection.closed_at = Some(event.at);
                    connection.age_ns = Some(*age_ns);
                    connection.cause = Some(*cause);
                    connection.verdict.clone_from(verdict);
                    connection.errno = *errno;
                    self.closed += 1;
                    self.forget_the_oldest();
                }
            }
            EventKind::ConnectionExplained { about, explanation, .. } if about == "closing" => {
                if let Some(connection) = event.connection.and_then(|id| self.connections.get_mut(&id)) {
                    connection.verdict = Some(explanation.verdict.name().to_owned());
                }
            }
            // What stands in the recordings before is no part of this one.
            EventKind::RecordingContinues { carried, .. } => {
                self.before = carried.samples.saturating_add(carried.not_sent);
                self.due = (carried.due > 0).then_some(carried.due);
                for one in &carried.connections {
                    self.connections.insert(one.connection, Connection::unseen());
                }
            }
            // What goes on over the seam has lasted until there.
            EventKind::RecordingRotated { .. } => {
                // Samples that are out are of the recording in which their echo comes.
                self.due = None;
                self.last_told_ns = self.last_told_ns.max(Some(event.mono_ns));
            }
            EventKind::ScheduleOverrun { skipped, reason, .. } => self.not_sent.add(reason, *skipped),
            EventKind::SamplesInFlight { samples } => {
                self.in_flight = self.in_flight.saturating_add(*samples);
            }
            EventKind::RecordingEnded { .. } => self.ended = true,
            EventKind::ScheduleEnded { due } => self.due = Some(self.due.unwrap_or(0).saturating_add(*due)),
            EventKind::RecordingOverflowed { lost, reason } => {
                self.not_recorded.add(reason.as_deref().unwrap_or(LOST_BEHIND), *lost);
            }
            EventKind::LoadEnded { duration_ns, sent_bytes, echoed_bytes, .. } => {
                self.under_load.ended(*duration_ns, *sent_bytes, *echoed_bytes);
            }
            EventKind::ClockBounded { error_ns, .. } => {
                self.clock_error_ns = self.clock_error_ns.max(Some(*error_ns));
            }
            EventKind::LossAttributed { losses } => self.losses.add(*losses),
            _ => {}
        }
    }

    /// Counts an event by its kind, known to this version or not. Bookkeeping of the files themselves is no event of
    /// the run, and differs between a run that goes on and its recording read back.
    pub fn count_event(&mut self, kind: &str) {
        if BOOKKEEPING.contains(&kind) {
            return;
        }
        match self.events.get_mut(kind) {
            Some(count) => *count += 1,
            None => {
                self.events.insert(kind.to_owned(), 1);
            }
        }
    }

    fn forget_the_oldest(&mut self) {
        while self.closed > CLOSED_KEPT {
            let oldest = self.connections.iter().find(|(_, c)| c.closed_at.is_some()).map(|(&id, _)| id);
            let Some(id) = oldest else { break };
            self.connections.remove(&id);
            self.connections_omitted += 1;
            self.closed -= 1;
        }
    }
}
