//! What is looked at once a second: clocks, percentiles, lost datagrams, anomalies; and pauses, when they are told.

use super::config::Transport;
use super::driver::{Driver, SECOND_NS};
use super::lane::{Kind, Link};
use super::outbox::Message;
use super::pauses;
use fathom_core::clock::Observation;
use fathom_core::event::EventKind;
use fathom_os::clock::wall_clock_error_ns;

/// Fewer samples than this say nothing about a path's usual round trip.
const FEW_SAMPLES: u64 = 10;

impl Driver<'_> {
    pub(super) fn tick(&mut self, now: u64) {
        self.arm_run(Kind::Tick, 0, now + SECOND_NS);
        let reading = (self.read_clocks)();
        match self.clock.observe(reading) {
            Observation::Steady => {}
            _ if !self.member.speaks_for_the_run() => {}
            Observation::Anchored => self.outbox.other(Message::Anchor { anchor: reading, stepped: false }),
            Observation::Stepped(step_ns) => {
                self.outbox.other(Message::Anchor { anchor: reading, stepped: true });
                self.event_of_run(now, EventKind::ClockStepped { step_ns });
            }
        }
        if self.config.stamp.is_some() {
            self.clock_error_ns = wall_clock_error_ns();
        }
        for path in &mut self.paths {
            // While the count does not support a percentile, the largest seen stands above it.
            let largest = path.rtt.max().filter(|_| path.rtt.count() >= FEW_SAMPLES);
            path.p99_ns = path.rtt.supported_quantile(0.99).or(largest);
        }
        for i in 0..self.lanes.len() {
            self.tick_lane(i, now);
        }
        self.report_anomalies(now, false);
        self.outbox.deliver_waiting();
    }

    fn tick_lane(&mut self, i: usize, now: u64) {
        let (lane, clock, outbox) = (&mut self.lanes[i], &self.clock, &mut self.outbox);
        let path = lane.path as u32;
        let Link::Open(open) = &mut lane.link else { return };
        if self.config.transport == Transport::Udp {
            let before = open.stream.is_idle();
            open.stream.expire(now, clock, |sample| outbox.sample(path, sample));
            let emptied = !before && open.stream.is_idle();
            let connection = Some(open.stream.key().connection);
            if let Some(losses) = open.take_losses(now, false) {
                self.event(now, Some(path as usize), connection, losses);
            }
            if emptied {
                return self.after_echo(i, now);
            }
        }
        let lane = &mut self.lanes[i];
        let Link::Open(open) = &mut lane.link else { return };
        if (open.blocked || open.stream.is_full())
            && let Some(skipped) = lane.schedule.as_mut().and_then(|s| s.skip_overdue(now))
        {
            self.skipped(i, now, skipped, "blocked");
        }
    }

    pub(super) fn report_anomalies(&mut self, now: u64, last_chance: bool) {
        for p in 0..self.paths.len() {
            let path = &mut self.paths[p];
            let corrupted = path.corrupted.take(now, last_chance).map(|count| {
                let seq = path.corrupted.seq;
                (path.corrupted.connection, EventKind::EchoCorrupted { seq, count })
            });
            let foreign = path.foreign.take(now, last_chance).map(|count| {
                let first = std::mem::take(&mut path.foreign_first);
                (path.foreign.connection, EventKind::EchoForeign { count, first })
            });
            let duplicated = path.duplicated.take(now, last_chance).map(|count| {
                let seq = path.duplicated.seq;
                (path.duplicated.connection, EventKind::EchoDuplicated { seq, count })
            });
            for (connection, kind) in [corrupted, foreign, duplicated].into_iter().flatten() {
                self.event(now, Some(p), Some(connection), kind);
            }
        }
    }

    /// Records the pauses of this host that have been told.
    pub(super) fn report_pauses(&mut self) {
        while let Some(pause) = self.pauses.as_mut().and_then(pauses::Pauses::next) {
            let (duration_ns, reason) = (pause.duration_ns(), pauses::reason(&pause));
            let kind = EventKind::Pause { host: "local".to_owned(), duration_ns, reason };
            self.event_of_run(pause.ended_mono_ns, kind);
        }
    }
}
