//! Samples that may be pooled.

use crate::histogram::Histogram;
use crate::sample::{Flags, Sample};

/// What samples that may be pooled amount to (of one size, say); fields as in [`Statistics`](super::Statistics).
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Samples resolved.
    pub samples: u64,
    /// Intact echoes, late ones included.
    pub answered: u64,
    /// Of those, after the timeout.
    pub late: u64,
    /// No echo came.
    pub unanswered: u64,
    /// The echo was not what was sent.
    pub corrupt: u64,
    /// Flagged as warm-up: left out of `rtt` and `latency`.
    pub warm_up: u64,
    /// Round trips.
    pub rtt: Histogram,
    /// From due to answered.
    pub latency: Histogram,
    /// Sent minus due.
    pub lateness: Histogram,
}

impl Group {
    /// Adds a resolved sample.
    pub fn sample(&mut self, sample: &Sample) {
        self.samples += 1;
        let warm_up = sample.flags.contains(Flags::WARM_UP);
        self.warm_up += u64::from(warm_up);
        self.lateness.record(sample.lateness_ns);
        match sample.rtt_ns {
            Some(rtt_ns) => {
                self.answered += 1;
                self.late += u64::from(sample.flags.contains(Flags::ANSWERED_LATE));
                if !warm_up {
                    self.rtt.record(rtt_ns);
                    self.latency.record(rtt_ns + sample.lateness_ns);
                }
            }
            None if sample.flags.contains(Flags::CORRUPTED) => self.corrupt += 1,
            None => self.unanswered += 1,
        }
    }
}
