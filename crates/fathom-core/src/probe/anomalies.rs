//! Anomalies are counted between the events that report them, so that a peer that corrupts everything fills no disk.

/// The longest time between two reports of an anomaly that goes on.
const GAP_MOST_NS: u64 = 60_000_000_000;
const GAP_LEAST_NS: u64 = 1_000_000_000;

/// When to report again: at once the first time, then at growing gaps of up to a minute.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    quiet_until_ns: u64,
    gap_ns: u64,
}

impl RateLimit {
    /// Whether it is time; if so, the next gap begins.
    pub(super) fn is_time(&mut self, now_ns: u64, last_chance: bool) -> bool {
        if now_ns < self.quiet_until_ns && !last_chance {
            return false;
        }
        self.gap_ns = (self.gap_ns * 2).clamp(GAP_LEAST_NS, GAP_MOST_NS);
        self.quiet_until_ns = now_ns + self.gap_ns;
        true
    }
}

/// How often an anomaly happened since it was last reported, and to which sample first.
#[derive(Debug, Default)]
pub(super) struct Tally {
    count: u64,
    connection: u32,
    seq: u64,
    reports: RateLimit,
}

impl Tally {
    pub(super) fn add(&mut self, connection: u32, seq: u64, count: u64) {
        if self.count == 0 {
            (self.connection, self.seq) = (connection, seq);
        }
        self.count += count;
    }

    /// Whether it has happened since it was last reported.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What to report now, if there is something and it is time: the first connection and sample, and the count.
    pub(super) fn take(&mut self, now_ns: u64, last_chance: bool) -> Option<(u32, u64, u64)> {
        let reports = self.count > 0 && self.reports.is_time(now_ns, last_chance);
        reports.then(|| (self.connection, self.seq, std::mem::take(&mut self.count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anomalies_are_reported_at_once_and_then_seldom() {
        const S: u64 = 1_000_000_000;
        let mut tally = Tally::default();
        let mut counts = Vec::new();
        for second in 1..=600 {
            tally.add(3, second, 1);
            counts.extend(tally.take(second * S, false).map(|(_, _, count)| count));
        }
        assert_eq!(counts[0], 1);
        assert!(counts.len() < 20, "{} events in ten minutes", counts.len());
        counts.extend(tally.take(600 * S, true).map(|(_, _, count)| count));
        assert_eq!(counts.iter().sum::<u64>(), 600, "and every one is counted");
    }
}
