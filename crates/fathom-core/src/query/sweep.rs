//! Settings that are asked in turn, each once in a round: what each came to, and against the first of them.
//!
//! A setting is held against the first by the ratio of their times in the same round, which takes out whatever drifts. Where they
//! share a session each round is a unit; where each has connections of its own, of which one is not like another, a unit is what
//! lies between two logins ([`super::Logins`]), and its ratio the median of those of its rounds, on the scale of logarithms. Of the median
//! of the units' ratios there is an interval ([`super::ratio`]). Because the order of a round and of the logins is of chance, a unit
//! of equal settings is as likely above 1 as below it, whatever connections and position do.

use super::counted::All;
use super::figures::{COUNT, FOR_P95, Warm, median, p95};
use super::ratio::{Ratio, Unit, record};
use super::{Confidence, Counted, Logins, Query};
use crate::histogram::Histogram;
use crate::text::count;
use crate::units::narrow::time_or_dash;
use serde_json::{Value, json};
use std::fmt::Write;

/// One of the settings that are asked in turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting {
    /// Rows of a round trip; `None`: all of them.
    pub fetch_size: Option<u32>,
    /// The size of packets that was asked for, and that the server granted; `None`: the protocol has none.
    pub packet_size: Option<(u64, u64)>,
    /// As [`super::Asked::tds`], of its own session.
    pub tds: Value,
    /// As [`super::Asked::counted`], of its own sessions; `None` also where the settings share one.
    pub counted: Option<Counted>,
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
            ..Self::default()
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
    all: All,
    warm: Warm,
    /// Its time by that of the first setting, of each unit.
    ratio: Histogram,
    /// The same of each round since the latest login, as logarithms: a thousand at most.
    rounds: Vec<f64>,
    /// Rounds in all.
    all_rounds: u64,
}

impl One {
    /// The units' ratios, with what came since the latest login, which is one too.
    fn units(&self) -> Histogram {
        let mut units = self.ratio.clone();
        if let Some(ratio) = middle(self.rounds.clone()) {
            record(&mut units, ratio.exp());
        }
        units
    }

    /// What came since the latest login is one.
    fn end_login(&mut self) {
        self.ratio = self.units();
        self.rounds.clear();
    }
}

/// The median.
fn middle(mut of: Vec<f64>) -> Option<f64> {
    of.sort_unstable_by(f64::total_cmp);
    let half = of.len() / 2;
    let at = *of.get(half)?;
    Some(if of.len().is_multiple_of(2) { f64::midpoint(of[half - 1], at) } else { at })
}

/// What they came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Sweep {
    each: Vec<One>,
    round: u64,
    login: u64,
    /// Wall times of the round that is under way.
    walls: Vec<Option<u64>>,
}

/// Sizes of packets have a connection each, because the login agrees on them.
fn unit(settings: &[Setting]) -> Unit {
    if settings.iter().any(|setting| setting.packet_size.is_some()) { Unit::Login } else { Unit::Round }
}

/// Which of these it was asked with.
fn place(query: &Query, settings: &[Setting]) -> Option<usize> {
    query.setting.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < settings.len())
}

impl Sweep {
    /// Takes a query of one of these settings, answered or not: what the server counted is of both.
    pub(super) fn asked(&mut self, query: &Query, settings: &[Setting]) {
        if let Some(at) = place(query, settings) {
            self.each.resize_with(settings.len(), One::default);
            self.each[at].all.add(query);
        }
    }

    /// The same of one that was answered.
    pub(super) fn add(&mut self, query: &Query, settings: &[Setting]) {
        let Some(at) = place(query, settings) else { return };
        self.each.resize_with(settings.len(), One::default);
        self.each[at].queries += 1;
        self.each[at].warm.add(query);
        // Recordings of earlier versions have one login.
        let login = query.login.unwrap_or(0);
        if std::mem::replace(&mut self.login, login) != login {
            self.each.iter_mut().for_each(One::end_login);
        }
        // Each round has every setting once.
        let round = query.query / settings.len() as u64;
        if self.walls.is_empty() || round != self.round {
            self.round = round;
            self.walls = vec![None; settings.len()];
        }
        let wall_ns = query.split.wall_ns.max(1);
        if query.is_first || self.walls[at].replace(wall_ns).is_some() {
            return;
        }
        let Some(first_ns) = self.walls[0] else { return };
        for (other, one) in self.each.iter_mut().enumerate().skip(1) {
            if let Some(ns) = self.walls[other].filter(|_| at == 0 || at == other) {
                let ratio = ns as f64 / first_ns as f64;
                one.all_rounds += 1;
                match unit(settings) {
                    Unit::Round => record(&mut one.ratio, ratio),
                    Unit::Login => one.rounds.push(ratio.ln()),
                }
            }
        }
    }

    /// Of each setting but the first, its ratio to that.
    fn against(&self, at: usize, settings: &[Setting]) -> Option<Ratio> {
        let one = self.each.get(at).filter(|_| at > 0)?;
        Some(Ratio::of(&one.units(), settings.len(), unit(settings), one.all_rounds))
    }

    /// As a person reads it.
    pub(super) fn text(&self, settings: &[Setting]) -> String {
        let mut out = String::new();
        let head = ["wall p50", "p95", "server", "path", "client"].map(|name| format!("{name:>10}")).concat();
        _ = writeln!(out, "{:<20}{head}  {:<14}against the first", "", "most of it");
        for (at, setting) in settings.iter().enumerate() {
            let Some(one) = self.each.get(at) else { continue };
            let of = &one.warm.figures;
            // A median of a few that have estimates is none of all.
            let enough = |part: &&Histogram| 2 * part.count() >= of.wall.count();
            let parts = of.parts.each_ref().map(|of| Some(of).filter(enough).and_then(median));
            let figures = [median(&of.wall), p95(&of.wall), parts[0], parts[1], parts[2]];
            let figures = figures.map(|ns| format!("{:>10}", time_or_dash(ns, 3))).concat();
            let most = match of.verdict.most() {
                (Some(party), Confidence::High) => party.to_string(),
                (Some(party), _) => format!("seems {party}"),
                (None, _) => "-".to_owned(),
            };
            let against = self.against(at, settings).map_or_else(String::new, |ratio| ratio.words());
            let line = format!("{:<20}{figures}  {most:<14}{against}", setting.words());
            _ = writeln!(out, "{}", line.trim_end());
        }
        out.extend(self.no_p95(settings));
        for (setting, one) in settings.iter().zip(&self.each) {
            if let Some(counted) = &setting.counted {
                _ = writeln!(out, "{}: {}", setting.words(), one.all.words(counted));
            }
        }
        out
    }

    /// Why a setting has no p95, where one has none.
    fn no_p95(&self, settings: &[Setting]) -> Option<String> {
        let counted = self.each.iter().map(|one| one.warm.figures.wall.count()).min()?;
        let (first, enough) = match unit(settings) {
            Unit::Round => ("the first", COUNT),
            Unit::Login => ("the first of each login", Logins::usual_count(settings.len())),
        };
        (counted < FOR_P95).then(|| {
            format!(
                "no p95: it needs {FOR_P95} queries of a setting besides {first}, and {counted} counted; --count {enough} asks enough\n"
            )
        })
    }

    /// As a program reads it; null: there is no sweep.
    pub(super) fn json(&self, settings: &[Setting]) -> Value {
        let one = |(at, setting): (usize, &Setting)| {
            let mut value = setting.json();
            let ratio = self.against(at, settings).map(|ratio| ratio.json());
            if let (Some(object), Some(one)) = (value.as_object_mut(), self.each.get(at)) {
                object.extend(one.warm.figures.json());
                object.insert("queries".to_owned(), one.queries.into());
                object.insert("server_counted".to_owned(), one.all.json(setting.counted.as_ref()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Part, Split};

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

    /// So many that share a session, or have one each.
    fn settings(n: usize, unit: Unit) -> Vec<Setting> {
        let packet_size = (unit == Unit::Login).then_some((4_096, 4_096));
        vec![Setting { packet_size, ..Setting::default() }; n]
    }

    /// A path that becomes a hundred times slower meanwhile, and settings that differ by a tenth, in an order of chance.
    #[test]
    fn drift_is_removed_and_difference_remains() {
        let (mut sweep, settings) = (Sweep::default(), settings(3, Unit::Round));
        let mut order = crate::interleave::Interleave::new(&[0, 1, 2], 5);
        for number in 0..90 {
            let setting = order.current().unwrap();
            order.advance();
            let base = 1_000_000 + number / 3 * 4_000_000;
            let wall = base * [100, 100, 90][setting as usize] / 100;
            sweep.add(&query(number, setting.into(), wall, 3), &settings);
        }
        let [same, faster] = [1, 2].map(|at| sweep.against(at, &settings).unwrap());
        assert_eq!((same.verdict(), faster.verdict()), ("no difference shown", "faster"));
        let (low, high) = faster.within.unwrap();
        assert!((0.8995..=0.9).contains(&low) && (0.9..=0.9005).contains(&high), "{faster:?}");
        // The first round finds nothing warm.
        assert_eq!((same.rounds, faster.rounds, faster.units), (29, 29, 29));
        assert!(sweep.against(0, &settings).is_none() && sweep.against(3, &settings).is_none());
    }

    /// Of rounds that lack the first setting, or have a query twice, nothing is compared.
    #[test]
    fn only_rounds_with_both_settings_are_compared() {
        let (mut sweep, settings) = (Sweep::default(), settings(2, Unit::Round));
        for (number, setting) in [(4, 1), (5, 1), (6, 0), (7, 1), (8, 1), (10, 7), (11, 0)] {
            sweep.add(&query(number, setting, 5, 2), &settings);
        }
        assert_eq!(sweep.against(1, &settings).unwrap().rounds, 1);
        assert_eq!(sweep.against(1, &settings).unwrap().verdict(), "cannot be decided");
    }

    /// Two settings, of which the second has a connection each login that is by so much slower; three rounds a login.
    fn by_login(ratios: &[f64]) -> Ratio {
        let (mut sweep, settings) = (Sweep::default(), settings(2, Unit::Login));
        for (login, ratio) in ratios.iter().enumerate() {
            for round in 0..3 {
                for setting in 0..2 {
                    let number = (3 * login as u64 + round) * 2 + setting;
                    // Whole numbers of so many ns that the quotient is the ratio; the cold ones are far off.
                    let wall = [10_000_000.0, 10_000_000.0 * ratio][setting as usize] as u64;
                    let wall = if round == 0 { wall * (9 - 8 * setting) } else { wall };
                    let is_first = round == 0;
                    let query =
                        Query { login: Some(login as u64), is_first, ..query(number, setting, wall, 2) };
                    sweep.add(&query, &settings);
                }
            }
        }
        sweep.against(1, &settings).unwrap()
    }

    /// Sixty rounds of one connection that is by chance a tenth faster are one of seven.
    #[test]
    fn a_connection_is_one_unit() {
        let chance = by_login(&[0.9, 1.02, 0.98, 1.01, 0.97, 1.03, 1.05]);
        assert_eq!((chance.rounds, chance.units, chance.verdict()), (14, 7, "no difference shown"));
        let (low, high) = chance.within.unwrap();
        // The widest of seven: 1 - 2 / 2^7.
        assert!((low - 0.9).abs() < 0.001 && (high - 1.05).abs() < 0.001, "{chance:?}");
        let faster = by_login(&[0.9, 0.92, 0.88, 0.91, 0.87, 0.93, 0.95]);
        assert_eq!(faster.verdict(), "faster");
        let few = by_login(&[0.9, 0.92, 0.88, 0.91, 0.87]);
        assert_eq!((few.units, few.verdict()), (5, "cannot be decided"));
        assert_eq!(few.words(), "-10.0 %; 5 logins are too few to say more: --count 12");
    }

    /// A recording of an earlier version: each size had one connection, and nobody knows what of it was the connection's.
    #[test]
    fn one_connection_decides_nothing() {
        let (mut sweep, settings) = (Sweep::default(), settings(2, Unit::Login));
        for number in 0..200 {
            sweep.add(&query(number, number % 2, 10 - 5 * (number % 2), 2), &settings);
        }
        let ratio = sweep.against(1, &settings).unwrap();
        assert_eq!((ratio.rounds, ratio.units, ratio.verdict()), (99, 1, "cannot be decided"));
        assert_eq!(ratio.words(), "-50.0 %; 1 login is too few to say more: --count 12");
    }
}
