//! What happened since the last look: a run of weeks told a line at a time. Time is an argument.
//!
//! Each interval is what the statistics have now less what they had at the last look, so that the intervals of a run add up
//! to its summary, whenever somebody comes to look.

use crate::histogram::Histogram;
use crate::statistics::Statistics;
use crate::summary::{clock_time, number, percent, unit_for};
use crate::units::duration_compact as duration;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write;

/// Looks at statistics once in so long. Looks that came late make one longer interval, and none is made up for.
#[derive(Debug)]
pub struct Looks {
    every_ns: u64,
    next_ns: u64,
}

impl Looks {
    /// The first look is one interval from now.
    pub fn new(every_ns: u64, now_ns: u64) -> Self {
        Self { every_ns: every_ns.max(1), next_ns: now_ns.saturating_add(every_ns.max(1)) }
    }

    /// How long until the next look, in ns; 0: it is due.
    pub fn due_in_ns(&self, now_ns: u64) -> u64 {
        self.next_ns.saturating_sub(now_ns)
    }

    /// Whether a look is due, which then counts as taken.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_ns {
            return false;
        }
        let late = (now_ns - self.next_ns) / self.every_ns;
        self.next_ns = self.next_ns.saturating_add((late + 1).saturating_mul(self.every_ns));
        true
    }
}

/// Counts of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Resolved: answered, unanswered or corrupt.
    pub samples: u64,
    /// With an intact echo, late or not.
    pub answered: u64,
    /// Of those, late.
    pub late: u64,
    /// Without an echo.
    pub unanswered: u64,
    /// With an echo that was not what was sent.
    pub corrupt: u64,
    /// Due and never sent.
    pub not_sent: u64,
}

impl Counts {
    fn of(s: &Statistics) -> Self {
        Self {
            samples: s.samples,
            answered: s.answered,
            late: s.late,
            unanswered: s.unanswered,
            corrupt: s.corrupt,
            not_sent: s.not_sent.total(),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            samples: self.samples - before.samples,
            answered: self.answered - before.answered,
            late: self.late - before.late,
            unanswered: self.unanswered - before.unanswered,
            corrupt: self.corrupt - before.corrupt,
            not_sent: self.not_sent - before.not_sent,
        }
    }
}

/// What the statistics of one path were at the last look.
#[derive(Debug, Default)]
pub struct Before {
    at_ns: u64,
    counts: Counts,
    rtt: Histogram,
}

/// One interval of one path.
#[derive(Debug)]
pub struct Interval {
    /// How long it was, in ns.
    pub lasted_ns: u64,
    /// What was resolved in it.
    pub counts: Counts,
    /// Round trips of it, in ns: the median and the 99th percentile, where the count supports them.
    pub p50_ns: Option<u64>,
    /// See `p50_ns`.
    pub p99_ns: Option<u64>,
    /// Of the whole run until its end.
    pub availability: Option<f64>,
    /// Since when there is no connection that answers, where that is so at its end.
    pub outage_since: Option<Timestamp>,
}

impl Before {
    /// Before the first look.
    pub fn new(now_ns: u64) -> Self {
        Self { at_ns: now_ns, ..Self::default() }
    }

    /// The interval since the last look, which this look ends.
    pub fn look(&mut self, now_ns: u64, s: &Statistics) -> Interval {
        // A run that turns out to be of several sizes moves its round trips away from here.
        let rtt = s.rtt.since(&self.rtt);
        let counts = Counts::of(s);
        let interval = Interval {
            lasted_ns: now_ns.saturating_sub(self.at_ns),
            counts: counts.since(self.counts),
            p50_ns: rtt.supported_quantile(0.5),
            p99_ns: rtt.supported_quantile(0.99),
            availability: s.availability(),
            outage_since: s.outages.current().map(|outage| outage.began_at),
        };
        *self = Self { at_ns: now_ns, counts, rtt: s.rtt.clone() };
        interval
    }
}

impl Interval {
    /// One JSON object (`schema/summary.md`).
    pub fn json(&self, at: Timestamp, label: &str, target: &str, marks: &[String]) -> Value {
        let Counts { samples, answered, late, unanswered, corrupt, not_sent } = self.counts;
        json!({
            "format": 1, "kind": "interval", "marks": marks, "label": label, "target": target, "at": at,
            "interval_ns": self.lasted_ns, "samples": samples, "answered": answered, "late": late,
            "unanswered": unanswered, "corrupt": corrupt, "not_sent": not_sent,
            "availability": self.availability, "outage_since": self.outage_since,
            "rtt_ns": { "p50": self.p50_ns, "p99": self.p99_ns },
        })
    }

    /// One line.
    pub fn text(&self, at: Timestamp, label: &str) -> String {
        let Counts { samples, unanswered, corrupt, not_sent, .. } = self.counts;
        let noun = if samples == 1 { "sample" } else { "samples" };
        let mut out = format!("{} {label}: {samples} {noun} in {}", clock_time(at), duration(self.lasted_ns));
        // Writing to a String cannot fail.
        for (name, ns) in [("p50", self.p50_ns), ("p99", self.p99_ns)] {
            if let Some(ns) = ns {
                let (divisor, unit) = unit_for(ns);
                let _ = write!(out, ", {name} {} {unit}", number(ns as f64 / divisor));
            }
        }
        for (what, count) in [("unanswered", unanswered), ("corrupt", corrupt), ("not sent", not_sent)] {
            if count > 0 || what == "unanswered" {
                let _ = write!(out, ", {count} {what}");
            }
        }
        if let Some(availability) = self.availability {
            let _ = write!(out, ", {} % available so far", percent(availability));
        }
        if let Some(since) = self.outage_since {
            let _ = write!(out, ", NO CONNECTION since {} UTC", clock_time(since));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Flags, Sample};

    const S: u64 = 1_000_000_000;

    #[test]
    fn missed_intervals_are_skipped() {
        let mut looks = Looks::new(10 * S, 3 * S);
        assert_eq!(looks.due_in_ns(3 * S), 10 * S);
        assert!(!looks.is_due(13 * S - 1));
        assert!(looks.is_due(13 * S));
        assert!(!looks.is_due(13 * S));
        // A host that slept through three of them.
        assert!(looks.is_due(57 * S));
        assert!(!looks.is_due(62 * S));
        assert_eq!(looks.due_in_ns(62 * S), S);
        // Somebody asks for nothing at all.
        assert!(Looks::new(0, 0).is_due(1));
    }

    /// Any cutting of a run into intervals: their counts are the run's, and their percentiles are of their own samples.
    #[test]
    fn intervals_add_up_to_the_run() {
        let mut random = 7_u64;
        let mut number = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let (mut s, mut before, mut now) = (Statistics::default(), Before::new(5), 5);
        let mut sum = Counts::default();
        let mut own: Vec<i64> = Vec::new();
        for turn in 0..5_000_u64 {
            let rtt_ns = 1_000 + number(1 << 20) as i64;
            let lost = number(10) == 0;
            let flags = if lost && number(2) == 0 { Flags::CORRUPTED } else { Flags::default() };
            s.sample(&Sample { rtt_ns: (!lost).then_some(rtt_ns), flags, size: 64, ..Sample::default() });
            if !lost {
                own.push(rtt_ns);
            }
            if number(500) == 0 || turn == 4_999 {
                now += number(20) * S;
                let one = before.look(now, &s);
                assert_eq!(one.counts.answered, own.len() as u64);
                let mut alone = Histogram::default();
                own.drain(..).for_each(|ns| alone.record(ns));
                // Extremes of a difference are known to a bucket's width.
                for (got, expected) in [
                    (one.p50_ns, alone.supported_quantile(0.5)),
                    (one.p99_ns, alone.supported_quantile(0.99)),
                ] {
                    let near = |(a, b): (u64, u64)| a.abs_diff(b) * 1_000 <= b;
                    assert!(
                        got.is_some() == expected.is_some() && got.zip(expected).is_none_or(near),
                        "{got:?} {expected:?}"
                    );
                }
                let c = one.counts;
                sum = Counts {
                    samples: sum.samples + c.samples,
                    answered: sum.answered + c.answered,
                    late: sum.late + c.late,
                    unanswered: sum.unanswered + c.unanswered,
                    corrupt: sum.corrupt + c.corrupt,
                    not_sent: sum.not_sent + c.not_sent,
                };
            }
        }
        assert_eq!(sum, Counts::of(&s));
        assert_eq!(before.look(now, &s).counts, Counts::default());
    }

    #[test]
    fn one_loss_prevents_full_availability() {
        let mut s = Statistics::default();
        for n in 0..1_000_000 {
            s.sample(&Sample { rtt_ns: (n > 0).then_some(5_000), size: 64, ..Sample::default() });
        }
        let text = Before::new(0).look(10 * S, &s).text(Timestamp::UNIX_EPOCH, "a");
        assert!(text.contains("1000000 samples in 10s") && text.contains("1 unanswered"), "{text}");
        assert!(text.contains("99.999 % available"), "{text}");
    }
}
