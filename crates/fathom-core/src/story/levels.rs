//! How long round trips took at each time of a run. A queue that fills over minutes makes no echo late against those just
//! before it: what counts as late grows with it, and neither a stall nor a delay is told. Seen from the end of the run it shows.

use super::delays;
use super::join::{Incident, Joined};
use super::words::clock;
use super::{Confidence, Line};
use crate::event::Event;
use crate::histogram::bucket_of;
use crate::stall::{FLOOR_NS, TIMES_P99};
use crate::units::duration_text as duration;
use crate::verdict::Verdict;
use jiff::Timestamp;

/// A run has at most so many spans; when it lasts longer, each becomes twice as long.
const SPANS: usize = 32;
const SHORTEST_NS: i64 = 1_000_000_000;
/// Minimum number of round trips in a span for a median. Three of five decide it; fewer are a spike and no level, as
/// for the change points of a report (`LEAST_SAMPLES` of `fathometer.stats.changes`).
const FEW: u64 = 5;
/// Of the recording's buckets so many are one here: 128 an octave, below 1 % of the value.
const COARSE: u16 = 16;

/// The round trips of one span of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// When it begins, in ns since the Unix epoch.
    pub from_ns: i64,
    /// How long it is, ns.
    pub lasts_ns: i64,
    /// The median of its round trips, ns.
    pub median_ns: u64,
}

impl Level {
    fn end_ns(&self) -> i64 {
        self.from_ns.saturating_add(self.lasts_ns)
    }
}

/// Gathers them, whatever the length of the run.
#[derive(Debug, Default)]
pub(super) struct Levels {
    start_ns: Option<i64>,
    lasts_ns: i64,
    spans: Vec<Span>,
}

/// Counts by bucket.
#[derive(Debug, Clone, Default)]
struct Span {
    counts: std::collections::BTreeMap<u16, u64>,
    longest_ns: u64,
    count: u64,
}

impl Span {
    fn add(&mut self, other: Self) {
        other.counts.into_iter().for_each(|(bucket, n)| *self.counts.entry(bucket).or_default() += n);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.count += other.count;
    }

    fn median_ns(&self) -> Option<u64> {
        let half = self.count.div_ceil(2);
        let mut seen = 0;
        let (bucket, _) = self.counts.iter().find(|(_, n)| {
            seen += **n;
            seen >= half
        })?;
        let (from_ns, _) = crate::histogram::bucket_range(bucket * COARSE);
        (self.count >= FEW).then_some(from_ns.min(self.longest_ns))
    }
}

impl Levels {
    pub(super) fn add(&mut self, sent_ns: i64, rtt_ns: i64) {
        let start_ns = *self.start_ns.get_or_insert(sent_ns);
        self.lasts_ns = self.lasts_ns.max(SHORTEST_NS);
        // What a wall clock that was set back sends earlier than the first belongs to the first.
        let after_ns = sent_ns.saturating_sub(start_ns).max(0);
        while after_ns / self.lasts_ns >= SPANS as i64 {
            self.lasts_ns = self.lasts_ns.saturating_mul(2);
            let mut spans = std::mem::take(&mut self.spans).into_iter();
            while let Some(mut span) = spans.next() {
                spans.next().into_iter().for_each(|second| span.add(second));
                self.spans.push(span);
            }
        }
        let at = (after_ns / self.lasts_ns) as usize;
        if self.spans.len() <= at {
            self.spans.resize_with(at + 1, Span::default);
        }
        let span = &mut self.spans[at];
        *span.counts.entry(bucket_of(rtt_ns) / COARSE).or_default() += 1;
        span.longest_ns = span.longest_ns.max(rtt_ns.max(0) as u64);
        span.count += 1;
    }

    /// Of each span that has enough round trips, in order of time.
    pub(super) fn finish(&self) -> Vec<Level> {
        let start_ns = self.start_ns.unwrap_or(0);
        let from = |at: usize| start_ns.saturating_add((at as i64).saturating_mul(self.lasts_ns));
        let level = |(at, span): (usize, &Span)| {
            Some(Level { from_ns: from(at), lasts_ns: self.lasts_ns, median_ns: span.median_ns()? })
        };
        self.spans.iter().enumerate().filter_map(level).collect()
    }
}

/// What is told of round trips that were far longer at one time than at another, where nothing else that is told says so.
pub(super) fn line<'a>(levels: &'a [Level], events: &[Event], joined: &Joined<'_>) -> Option<(u64, Line)> {
    let told = told(events, joined);
    let is_told = |level: &&Level| {
        let of_it = |&(from, to, most_ns): &(i64, i64, u64)| {
            from < level.end_ns() && to > level.from_ns && most_ns.saturating_mul(2) >= level.median_ns
        };
        told.iter().any(of_it)
    };
    let high = levels.iter().filter(|level| !is_told(level)).max_by_key(|level| level.median_ns)?;
    let is_short = |low: &&Level| {
        high.median_ns >= TIMES_P99 * low.median_ns && high.median_ns - low.median_ns >= FLOOR_NS
    };
    let (before, after) = levels.split_at(levels.partition_point(|level| level.from_ns < high.from_ns));
    let lowest = |of: &'a [Level]| of.iter().min_by_key(|level| level.median_ns).filter(is_short);
    let (how, first, second) = match (lowest(before), lowest(after)) {
        (Some(low), _) => ("rose", low, high),
        (None, Some(low)) => ("fell", high, low),
        (None, None) => return None,
    };
    let last = levels.last()?;
    let at = |ns: i64| Timestamp::from_nanosecond(ns.into()).unwrap_or_default();
    let of = |level: &Level| {
        let span = duration(level.lasts_ns.max(0) as u64);
        format!("{} in the {span} from {}", duration(level.median_ns), clock(at(level.from_ns)))
    };
    let then = if last.from_ns > second.from_ns {
        format!(", and was {} at the end", duration(last.median_ns))
    } else {
        String::new()
    };
    let because = delays::WAY_NOT_KNOWN;
    let mut evidence = vec![
        "it came so slowly that no echo was far later than those before it, which is what a delay is measured by".to_owned(),
    ];
    if !joined.pauses.is_empty() {
        evidence.push("what waited for a host to run is left out of these medians".to_owned());
    }
    let line = Line {
        at: at(high.from_ns),
        connection: None,
        statement: format!(
            "round trips {how} without a silence: their median was {}, then {}{then}. Verdict: delayed, because {because}",
            of(first),
            of(second),
        ),
        evidence,
        cause: None,
        verdict: Some(Verdict::Delayed),
        confidence: Confidence::Medium,
    };
    let mono_ns = events.first().map_or(0, |event| {
        let after_ns = i128::from(high.from_ns) - event.at.as_nanosecond();
        event.mono_ns.saturating_add(u64::try_from(after_ns).unwrap_or(0))
    });
    Some((mono_ns, line))
}

/// When something was told that made round trips longer, from and to in ns since the Unix epoch, and how much longer.
fn told(events: &[Event], joined: &Joined<'_>) -> Vec<(i64, i64, u64)> {
    let after = |from: i64, ns: u64| from.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX));
    let incidents = joined.incidents().map(|incident| {
        let start = incident.start();
        let lasted_ns = incident.end_mono_ns().saturating_sub(start.mono_ns);
        // What queues behind a silence that is over is its doing for as long again: no delay is told of it either.
        let queued_ns = match incident {
            Incident::Stall(stall) if stall.recovered => lasted_ns,
            _ => 0,
        };
        (start.utc_ns(), after(start.utc_ns(), lasted_ns.saturating_add(queued_ns)), u64::MAX)
    });
    let pauses = joined.pauses.iter().map(|pause| {
        let from = pause.start.utc_ns();
        (from, after(from, pause.duration_ns), pause.duration_ns)
    });
    incidents.chain(pauses).chain(delays::spans(events)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn runs_of_any_length_have_span_medians() {
        for seconds in [10, 31, 32, 33, 600, 100_000] {
            let mut levels = Levels::default();
            (0..seconds * 10).for_each(|n| levels.add(7 * S + n * S / 10, 1_000_000 + n));
            let levels = levels.finish();
            assert!((10..=SPANS).contains(&levels.len()), "{seconds} s: {}", levels.len());
            assert_eq!(levels[0].from_ns, 7 * S);
            let whole = levels.iter().map(|level| level.lasts_ns).sum::<i64>();
            assert!(whole >= seconds * S && whole - levels[0].lasts_ns < seconds * S, "{seconds} s");
            for level in levels.iter().filter(|level| level.end_ns() <= (7 + seconds) * S) {
                let middle = 1_000_000 + (level.from_ns + level.lasts_ns / 2 - 7 * S) / (S / 10);
                let off = level.median_ns as f64 / middle as f64;
                assert!((0.98..=1.001).contains(&off), "{seconds} s: {level:?}, {middle}");
            }
        }
    }

    /// Something on the way opened its own connection, so the first echo took twice as long, and the story said "the
    /// level fell".
    #[test]
    fn two_odd_round_trips_are_no_level() {
        let joined = super::super::join::join(&[]);
        for interval_ns in [S / 100, S / 5, S, 10 * S] {
            for odd in [vec![0], vec![0, 1], vec![30, 31], vec![58, 59], vec![59]] {
                let mut levels = Levels::default();
                for n in 0..60 {
                    let rtt_ns = if odd.contains(&n) { 40 * S } else { 21_000_000 };
                    levels.add(n * interval_ns, rtt_ns);
                }
                let told = line(&levels.finish(), &[], &joined);
                assert!(told.is_none(), "every {interval_ns} ns, {odd:?}: {told:?}");
            }
        }
    }

    #[test]
    fn median_needs_five_round_trips() {
        let mut levels = Levels::default();
        (0..4).for_each(|n| levels.add(n * S / 10, 5));
        assert_eq!(levels.finish(), []);
        levels.add(-900 * S, 5);
        assert_eq!(levels.finish().len(), 1);
    }
}
