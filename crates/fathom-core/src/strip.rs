//! Round trips by the second in which they were sent, for pictures of the last minutes and hours.

use crate::sample::{Flags, Sample};
use std::collections::VecDeque;

/// Seconds to an entry of each strip, and how many entries are kept: ten minutes, an hour and a half, six hours.
const STRIPS: [(i64, usize); 3] = [(1, 600), (10, 540), (60, 360)];

/// A second of a path's life, or ten, or a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Second {
    /// When it began, in seconds since the Unix epoch.
    pub utc_s: i64,
    /// Samples resolved that were sent in it.
    pub samples: u32,
    /// Of those, without an intact echo.
    pub unanswered: u32,
    /// Of those, late.
    pub late: u32,
    /// Smallest round trip, ns; `i64::MAX` where none.
    pub min_ns: i64,
    /// Largest round trip, ns; 0 where none.
    pub max_ns: i64,
    /// Sum of round trips, ns.
    pub sum_ns: i64,
}

impl Second {
    /// One without samples.
    pub fn new(utc_s: i64) -> Self {
        Self { utc_s, samples: 0, unanswered: 0, late: 0, min_ns: i64::MAX, max_ns: 0, sum_ns: 0 }
    }

    /// Samples with a round trip.
    pub fn answered(&self) -> u32 {
        self.samples - self.unanswered
    }

    /// Mean round trip, ns.
    pub fn mean_ns(&self) -> Option<i64> {
        (self.answered() > 0).then(|| self.sum_ns / i64::from(self.answered()))
    }

    /// Adds a resolved sample that was sent in it.
    pub fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        match sample.rtt_ns {
            Some(rtt_ns) => {
                self.min_ns = self.min_ns.min(rtt_ns);
                self.max_ns = self.max_ns.max(rtt_ns);
                self.sum_ns = self.sum_ns.saturating_add(rtt_ns);
                self.late += u32::from(sample.flags.contains(Flags::ANSWERED_LATE));
            }
            None => self.unanswered += 1,
        }
    }

    /// Adds what was counted elsewhere of the same time.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.unanswered += other.unanswered;
        self.late += other.late;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

/// The last minutes or hours of a path, oldest first; times without samples are absent.
#[derive(Debug, Clone, Default)]
pub struct Strip(VecDeque<Second>);

impl Strip {
    /// Oldest first.
    pub fn seconds(&self) -> impl ExactSizeIterator<Item = Second> {
        self.0.iter().copied()
    }

    /// The entry of a moment; a late echo finds the one in which it was sent, while that is still kept.
    pub(crate) fn entry(&mut self, utc_s: i64, kept: usize) -> &mut Second {
        // Nearly always it is the latest one.
        if self.0.back().is_some_and(|latest| latest.utc_s == utc_s) {
            let latest = self.0.len() - 1;
            return &mut self.0[latest];
        }
        let at = match self.0.binary_search_by_key(&utc_s, |s| s.utc_s) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, Second::new(utc_s));
                if self.0.len() > kept {
                    self.0.pop_front();
                    at.saturating_sub(1)
                } else {
                    at
                }
            }
        };
        &mut self.0[at]
    }
}

/// Strips of several steps of the same path.
#[derive(Debug, Clone, Default)]
pub struct Strips([Strip; STRIPS.len()]);

impl Strips {
    /// Adds a resolved sample.
    pub fn sample(&mut self, sample: &Sample) {
        self.each(sample.sent_ns.div_euclid(1_000_000_000), |entry| entry.add(sample));
    }

    /// Adds what was counted of a second.
    pub fn add(&mut self, second: &Second) {
        self.each(second.utc_s, |entry| entry.merge(second));
    }

    fn each(&mut self, utc_s: i64, add: impl Fn(&mut Second)) {
        for (strip, (step_s, kept)) in self.0.iter_mut().zip(STRIPS) {
            add(strip.entry(utc_s.div_euclid(step_s) * step_s, kept));
        }
    }

    /// The finest strip that is not finer than this many seconds.
    pub fn of(&self, step_s: i64) -> &Strip {
        let which = STRIPS.iter().position(|(step, _)| *step >= step_s).unwrap_or(STRIPS.len() - 1);
        &self.0[which]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(s: i64, rtt_ns: i64) -> Sample {
        Sample { sent_ns: s * 1_000_000_000 + 5, rtt_ns: Some(rtt_ns), ..Sample::default() }
    }

    #[test]
    fn ten_minute_strip_accepts_late_echoes() {
        let mut strips = Strips::default();
        for s in 0..1_000 {
            strips.sample(&sample(s, 100));
        }
        let strip = strips.of(1);
        assert_eq!(strip.seconds().len(), STRIPS[0].1);
        assert_eq!(strip.seconds().next().unwrap().utc_s, 400);
        strips.sample(&sample(990, 300));
        let second = strips.of(1).seconds().find(|s| s.utc_s == 990).unwrap();
        assert_eq!(
            (second.samples, second.min_ns, second.max_ns, second.mean_ns()),
            (2, 100, 300, Some(200))
        );
    }

    #[test]
    fn coarser_strips_reach_further_back() {
        let mut strips = Strips::default();
        for s in -30..30_000 {
            strips.sample(&sample(s, 100 + s.rem_euclid(60)));
        }
        for (step_s, kept) in STRIPS {
            let seconds: Vec<Second> = strips.of(step_s).seconds().collect();
            assert_eq!(seconds.len(), kept);
            assert_eq!(seconds[0].utc_s, 30_000 - step_s * kept as i64);
            assert!(seconds.iter().all(|s| i64::from(s.samples) == step_s && s.utc_s % step_s == 0));
        }
        let minute = strips.of(60).seconds().last().unwrap();
        assert_eq!((minute.min_ns, minute.max_ns), (100, 159));
    }
}
