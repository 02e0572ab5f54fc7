//! Which step is next, and when enough is known.

use super::compare::{Worse, worse};
use super::outcome::{Bound, Ceiling, Row};
use super::step::Step;
use super::tally::{Seen, Window};
use crate::limits::Verdict;

const S: u64 = 1_000_000_000;
/// A step lasts so long: twenty windows.
const LASTS_NS: u64 = 2 * S;
/// From one step to the next the rate rises by this.
const RISES: f64 = 1.25;
/// The lowest rate: five packets in a window.
pub(super) const LOWEST_PER_S: u32 = 50;
/// A step that this host could not keep is tried so often.
const TRIES: u32 = 4;
/// So many moments are no moments any more.
const MOST_MOMENTS: u32 = 6;
/// At the lowest rate no more than this is lost, where there is a path to look for a ceiling on.
const LOST_AT_LOWEST: f64 = 0.1;
/// A step is held against the windows of so many steps below it.
const HELD_AGAINST: usize = 2;

/// What a search is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The highest rate that is tried, in packets a second over all connections.
    pub up_to_per_s: u32,
    /// Over so many connections.
    pub connections: u32,
}

/// Why a step is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// For the first time.
    Rising,
    /// The one above it was worse.
    Below,
    /// It was worse, and the one below it is as good as before.
    Again,
    Over,
}

/// Searches for the rate ceiling of a path. Use: as long as `step` gives one, try it, and tell what was `seen` of it; then
/// `outcome`.
#[derive(Debug)]
pub struct CeilingSearch {
    asked: Asked,
    rates: Vec<u32>,
    /// The step that is in doubt, or the next.
    level: usize,
    phase: Phase,
    /// Of each level below, what was seen when it was as good as those below it.
    good: Vec<Seen>,
    tries: u32,
    rows: Vec<Row>,
    moments: u32,
    bad: Option<(Worse, Bound)>,
    verdict: Verdict,
    why: Option<String>,
}

impl CeilingSearch {
    /// Begins at the lowest rate.
    pub fn new(asked: Asked) -> Self {
        let mut rates: Vec<u32> =
            std::iter::successors(Some(f64::from(asked.up_to_per_s)), |rate| Some(rate / RISES))
                .map(|rate| rate.round() as u32)
                .take_while(|rate| *rate >= LOWEST_PER_S)
                .collect();
        rates.reverse();
        Self {
            asked,
            rates,
            level: 0,
            phase: Phase::Rising,
            good: Vec::new(),
            tries: 0,
            rows: Vec::new(),
            moments: 0,
            bad: None,
            verdict: Verdict::NotFound,
            why: None,
        }
    }

    /// Steps that it takes where nothing begins.
    pub fn steps(&self) -> usize {
        self.rates.len()
    }

    /// The next step. `None`: it is over.
    pub fn step(&self) -> Option<Step> {
        let level = match self.phase {
            Phase::Over => return None,
            Phase::Rising | Phase::Again => self.level,
            Phase::Below => self.level - 1,
        };
        self.rates.get(level).map(|&rate_per_s| Step { rate_per_s, lasts_ns: LASTS_NS })
    }

    /// What became of the step; how it went.
    pub fn seen(&mut self, seen: Seen) -> Option<Row> {
        let step = self.step()?;
        let level = if self.phase == Phase::Below { self.level - 1 } else { self.level };
        let found = if seen.kept { self.worse_than_below(level, &seen) } else { None };
        let bound = Bound::of(step.rate_per_s, &seen);
        let (sent, answered) = (seen.sent, seen.answered);
        let row = Row { bound, sent, answered, kept: seen.kept, worse: found.map(|worse| worse.began) };
        self.rows.push(row);
        if !seen.kept {
            self.tries += 1;
            if self.tries >= TRIES {
                let why =
                    "this host: it did not keep its schedule, so nothing can be said of the path above that";
                self.unclear(why.to_owned());
            }
            return Some(row);
        }
        self.tries = 0;
        match (self.phase, found) {
            (Phase::Rising, None) => self.is_good(seen),
            (Phase::Rising, Some(_)) => self.phase = Phase::Below,
            (Phase::Below, None) => {
                self.good[level] = seen;
                self.phase = Phase::Again;
            }
            // It began further below, or has nothing to do with the rate.
            (Phase::Below, Some(_)) => {
                self.level = level;
                self.good.truncate(level);
            }
            (Phase::Again, None) => {
                self.moments += 1;
                if self.moments > MOST_MOMENTS {
                    self.unclear(
                        "the path: it was worse again and again for a moment, whatever the rate".to_owned(),
                    );
                } else {
                    self.is_good(seen);
                }
            }
            (Phase::Again, Some(worse)) => {
                self.bad = Some((worse, bound));
                self.over(Verdict::Found);
            }
            (Phase::Over, _) => {}
        }
        if self.phase == Phase::Below && self.level == 0 {
            self.unclear("the path: loss or delay came at every rate, and did not go with it".to_owned());
        }
        Some(row)
    }

    fn worse_than_below(&mut self, level: usize, seen: &Seen) -> Option<Worse> {
        if level == 0 {
            let lost = seen.lost as f64 / seen.due.max(1) as f64;
            if lost > LOST_AT_LOWEST {
                self.unclear(format!(
                    "the path: at {}/s, the lowest rate, {:.0} % are lost",
                    self.rates[0],
                    lost * 100.0
                ));
            }
            return None;
        }
        let below = &self.good[level.saturating_sub(HELD_AGAINST)..level];
        let windows: Vec<Window> = below.iter().flat_map(|seen| seen.windows.iter().copied()).collect();
        worse(&windows, &seen.windows)
    }

    fn is_good(&mut self, seen: Seen) {
        if self.phase == Phase::Over {
            return;
        }
        self.good.truncate(self.level);
        self.good.push(seen);
        self.level += 1;
        self.phase = Phase::Rising;
        if self.level == self.rates.len() {
            self.over(Verdict::NotFound);
        }
    }

    fn over(&mut self, verdict: Verdict) {
        (self.phase, self.verdict) = (Phase::Over, verdict);
    }

    fn unclear(&mut self, why: String) {
        self.why = Some(why);
        self.over(Verdict::Unclear);
    }

    /// Ends it: with what is known so far, or because something stands in the way (`why`).
    pub fn stop(&mut self, why: Option<String>) {
        match why {
            Some(why) => self.unclear(why),
            None => self.over(Verdict::Stopped),
        }
    }

    /// What it found.
    pub fn outcome(&self, took_ns: u64) -> Ceiling {
        let below = self.level.min(self.good.len());
        let good = below.checked_sub(1).map(|level| Bound::of(self.rates[level], &self.good[level]));
        Ceiling {
            limit: "rate".to_owned(),
            verdict: self.verdict,
            why: self.why.clone(),
            good,
            bad: self.bad.map(|(_, bound)| bound),
            began: self.bad.map(|(worse, _)| worse.began),
            up_to_per_s: self.asked.up_to_per_s,
            connections: self.asked.connections,
            moments: self.moments,
            took_ns,
            steps: self.rows.clone(),
        }
    }
}
