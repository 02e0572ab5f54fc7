//! Settings that are asked in turn, each once in a round: what each came to, and against the first of them.
//!
//! A setting is held against the first by the ratio of their times in the same round, which takes out whatever drifts; of the
//! median of these ratios the order statistics give an interval that assumes nothing but independent rounds (Hoefler & Belli
//! 2015; David & Nagaraja 2003, Order Statistics, 7.1). It is `median_of_runs` of the report
//! (`python/src/fathometer/stats/runs.py`), and both have the same table in their tests. The settings of a run are one family: with k of
//! them each interval has the level 1 - 0.05 / (k - 1), so that in 95 % of runs without any difference none is shown (Bonferroni).

use super::figures::{Warm, median};
use super::{Confidence, Query};
use crate::histogram::{Histogram, bucket_range};
use crate::text::count;
use crate::units::narrow::time_or_dash;
use serde_json::{Value, json};
use std::fmt::Write;

/// The level of a family.
const ALPHA: f64 = 0.05;
/// A ratio of 1 in the unit that the histogram counts in: its buckets are narrower than 0.05 %.
const ONE: f64 = 1e9;

/// One of the settings that are asked in turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting {
    /// Rows of a round trip; `None`: all of them.
    pub fetch_size: Option<u32>,
    /// The size of packets that was asked for, and that the server granted; `None`: the protocol has none.
    pub packet_size: Option<(u64, u64)>,
    /// As [`super::Asked::tds`], of its own session.
    pub tds: Value,
}

impl Setting {
    /// As a manifest has it; `None`: it is none.
    pub fn of(value: &Value) -> Option<Self> {
        let fetch_size = value.get("fetch_size")?.as_u64();
        let packet_size =
            value["packet_size"]["asked"].as_u64().zip(value["packet_size"]["granted"].as_u64());
        Some(Self {
            fetch_size: fetch_size.and_then(|rows| u32::try_from(rows).ok()),
            packet_size,
            tds: Value::Null,
        })
    }

    /// The same for a manifest.
    pub fn json(&self) -> Value {
        let packet = self.packet_size.map(|(asked, granted)| json!({ "asked": asked, "granted": granted }));
        json!({ "fetch_size": self.fetch_size, "packet_size": packet })
    }

    /// As a person reads it.
    pub fn words(&self) -> String {
        match (self.packet_size, self.fetch_size) {
            (Some((asked, granted)), _) if asked == granted => count(granted, "byte"),
            (Some((asked, granted)), _) => format!("{granted} of {}", count(asked, "byte")),
            (None, None) => "all rows".to_owned(),
            (None, Some(rows)) => count(rows.into(), "row"),
        }
    }
}

/// Of each setting.
#[derive(Debug, Clone, Default)]
struct One {
    queries: u64,
    warm: Warm,
    /// Its time by that of the first setting in the same round.
    ratio: Histogram,
}

/// What they came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Sweep {
    each: Vec<One>,
    round: u64,
    /// Wall times of the round that is under way.
    walls: Vec<Option<u64>>,
}

impl Sweep {
    /// Takes a query that was answered, of so many settings.
    pub(super) fn add(&mut self, query: &Query, settings: usize) {
        let Some(at) = query.setting.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < settings)
        else {
            return;
        };
        self.each.resize_with(settings, One::default);
        self.each[at].queries += 1;
        self.each[at].warm.add(query);
        // Each round has every setting once.
        let round = query.query / settings as u64;
        if self.walls.is_empty() || round != self.round {
            self.round = round;
            self.walls = vec![None; settings];
        }
        let wall_ns = query.split.wall_ns.max(1);
        if query.is_first || self.walls[at].replace(wall_ns).is_some() {
            return;
        }
        let Some(first_ns) = self.walls[0] else { return };
        for (other, one) in self.each.iter_mut().enumerate().skip(1) {
            if let Some(ns) = self.walls[other].filter(|_| at == 0 || at == other) {
                one.ratio.record((ns as f64 / first_ns as f64 * ONE).round() as i64);
            }
        }
    }

    /// Of each setting but the first, its ratio to that.
    fn against(&self, at: usize) -> Option<Ratio> {
        let others = self.each.len().checked_sub(1)?;
        (at > 0 && at < self.each.len())
            .then(|| Ratio::of(&self.each[at].ratio, 1.0 - ALPHA / others.max(1) as f64))
    }

    /// As a person reads it.
    pub(super) fn text(&self, settings: &[Setting]) -> String {
        let mut out = String::new();
        let head = ["wall p50", "server", "path", "client"].map(|name| format!("{name:>10}")).concat();
        _ = writeln!(out, "{:<20}{head}  {:<14}against the first", "", "most of it");
        for (at, setting) in settings.iter().enumerate() {
            let Some(one) = self.each.get(at) else { continue };
            let of = &one.warm.figures;
            // A median of a few that have estimates is none of all.
            let enough = |part: &&Histogram| 2 * part.count() >= of.wall.count();
            let figures = [&of.wall, &of.parts[0], &of.parts[1], &of.parts[2]];
            let figures = figures.map(|of| Some(of).filter(enough).and_then(median));
            let figures = figures.map(|ns| format!("{:>10}", time_or_dash(ns, 3))).concat();
            let most = match of.verdict.most() {
                (Some(party), Confidence::High) => party.to_string(),
                (Some(party), _) => format!("seems {party}"),
                (None, _) => "-".to_owned(),
            };
            let against = self.against(at).map_or_else(String::new, |ratio| ratio.words());
            let line = format!("{:<20}{figures}  {most:<14}{against}", setting.words());
            _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }

    /// As a program reads it; null: there is no sweep.
    pub(super) fn json(&self, settings: &[Setting]) -> Value {
        let one = |(at, setting): (usize, &Setting)| {
            let mut value = setting.json();
            let ratio = self.against(at).map(|ratio| ratio.json());
            if let (Some(object), Some(one)) = (value.as_object_mut(), self.each.get(at)) {
                object.extend(one.warm.figures.json());
                object.insert("queries".to_owned(), one.queries.into());
            }
            value["ratio"] = ratio.into();
            value["tds"] = setting.tds.clone();
            value
        };
        if settings.is_empty() {
            return Value::Null;
        }
        settings.iter().enumerate().map(one).collect::<Vec<_>>().into()
    }
}

/// A setting's time by that of the first, in the median.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ratio {
    median: Option<f64>,
    /// Its interval, of that level; `None`: there are too few rounds.
    within: Option<(f64, f64)>,
    level: f64,
    rounds: u64,
}

impl Ratio {
    fn of(ratios: &Histogram, level: f64) -> Self {
        let rounds = ratios.count();
        let (rank, covered) = ranks(rounds, level);
        // A ratio is known no better than its bucket.
        let low = ends(ratios, rank).map(|(low, _)| low);
        let high = ends(ratios, (rounds + 1).saturating_sub(rank)).map(|(_, high)| high);
        let within = low.zip(high).filter(|_| rank > 0);
        Self { median: median(ratios).map(|at| at as f64 / ONE), within, level: covered, rounds }
    }

    fn verdict(&self) -> &'static str {
        match self.within {
            None => "cannot be decided",
            Some((low, _)) if low > 1.0 => "slower",
            Some((_, high)) if high < 1.0 => "faster",
            Some(_) => "no difference shown",
        }
    }

    fn words(&self) -> String {
        let share = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
        match (self.median, self.within) {
            (Some(at), Some((low, high))) => {
                let verdict =
                    if self.verdict() == "no difference shown" { "; no difference shown" } else { "" };
                let level = format!("{:.1}", self.level * 100.0);
                let level = level.trim_end_matches(".0");
                format!("{} % ({level} %: {} to {} %){verdict}", share(at), share(low), share(high))
            }
            (Some(at), None) => format!("{} %, of too few rounds to say more", share(at)),
            (None, _) => "-".to_owned(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "value": self.median,
            "low": self.within.map(|(low, _)| low),
            "high": self.within.map(|(_, high)| high),
            "level": self.within.map(|_| self.level),
            "rounds": self.rounds,
            "verdict": self.verdict(),
        })
    }
}

/// The ends of the bucket of the value of this rank, from 1.
fn ends(ratios: &Histogram, rank: u64) -> Option<(f64, f64)> {
    let mut seen = 0;
    ratios.buckets().find_map(|(bucket, count)| {
        seen += count;
        (seen >= rank).then(|| {
            let (low, width) = bucket_range(bucket);
            (low as f64 / ONE, (low + width - 1) as f64 / ONE)
        })
    })
}

/// The rank from below (and from above) between whose values the median of so many lies with at least this confidence, and with which;
/// 0: there are too few.
fn ranks(n: u64, level: f64) -> (u64, f64) {
    // ln P(X = k) of the binomial distribution of n and a half, from its beginning.
    let (mut ln, mut below) = (-(n as f64) * std::f64::consts::LN_2, 0.0);
    let mut covered = 0.0;
    for k in 0..n / 2 {
        below += f64::exp(ln);
        if 1.0 - 2.0 * below < level {
            return (k, covered);
        }
        covered = 1.0 - 2.0 * below;
        ln += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    (n / 2, covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Part, Split};

    /// What the report's `median_of_runs` is held against, too (`python/tests/findings/test_sweeps.py`): ranks and coverage by
    /// the binomial distribution (n, 1/2), reckoned by hand for 6 (1 - 2/64) and by scipy.stats.binom for the others.
    #[test]
    fn the_ranks_are_those_of_the_binomial() {
        for (n, level, rank, covered) in [
            (5, 0.95, 0, 0.0),
            (6, 0.95, 1, 0.968_75),
            (20, 0.95, 6, 0.958_610_534_667_968_7),
            (20, 1.0 - 0.05 / 3.0, 5, 0.988_182_067_871_093_8),
            (1_000, 0.95, 469, 0.953_708_802_639_501_9),
        ] {
            let (got, with) = ranks(n, level);
            assert_eq!(got, rank, "{n}");
            assert!((with - covered).abs() < 1e-9, "{n}: {with}");
        }
    }

    fn query(number: u64, setting: u64, wall_ns: u64, settings: u64) -> Query {
        let split = Split::of_recording(wall_ns, [Part::default(); 3], None);
        Query {
            query: number,
            setting: Some(setting),
            split,
            is_first: number < settings,
            ..Query::default()
        }
    }

    /// A path that becomes a hundred times slower meanwhile, and settings that differ by a tenth, in an order of chance.
    #[test]
    fn what_drifts_is_taken_out_and_what_differs_is_shown() {
        let mut sweep = Sweep::default();
        let mut order = crate::interleave::Interleave::new(&[0, 1, 2], 5);
        for number in 0..90 {
            let setting = order.current().unwrap();
            order.advance();
            let base = 1_000_000 + number / 3 * 4_000_000;
            let wall = base * [100, 100, 90][setting as usize] / 100;
            sweep.add(&query(number, setting.into(), wall, 3), 3);
        }
        let [same, faster] = [1, 2].map(|at| sweep.against(at).unwrap());
        assert_eq!((same.verdict(), faster.verdict()), ("no difference shown", "faster"));
        let (low, high) = faster.within.unwrap();
        assert!((0.8995..=0.9).contains(&low) && (0.9..=0.9005).contains(&high), "{faster:?}");
        // The first round finds nothing warm.
        assert_eq!((same.rounds, faster.rounds), (29, 29));
        assert!(sweep.against(0).is_none() && sweep.against(3).is_none());
    }

    /// Of rounds that lack the first setting, or have a query twice, nothing is compared.
    #[test]
    fn a_round_that_is_not_whole_compares_what_it_has() {
        let mut sweep = Sweep::default();
        for (number, setting) in [(4, 1), (5, 1), (6, 0), (7, 1), (8, 1), (10, 7), (11, 0)] {
            sweep.add(&query(number, setting, 5, 2), 2);
        }
        assert_eq!(sweep.against(1).unwrap().rounds, 1);
        assert_eq!(sweep.against(1).unwrap().verdict(), "cannot be decided");
    }
}
