//! Which step is next, and when enough is known.

use super::compare::{CHOSEN, DOUBT, SURE, held_back, is_not_reached, matters, worse, worse_than_any};
use super::outcome::{Bound, Ceiling, Row};
use super::step::Step;
use super::tally::{Measured, Seen};
use crate::event::{Began, CeilingBegan, CeilingStepped, Judged};
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
/// A step is held against the windows of so many steps below it; and against as many at the lowest rates, and all below it: where
/// each is a little worse than those just below it, all are worse than the first in the end.
const HELD_AGAINST: usize = 2;

/// What a search is asked for.
pub type Asked = CeilingBegan;

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
#[derive(Debug, Clone)]
pub struct CeilingSearch {
    asked: Asked,
    rates: Vec<u32>,
    /// The step that is in doubt, or the next.
    level: usize,
    phase: Phase,
    /// Of each level below, what was seen when it was as good as those below it.
    good: Vec<Seen>,
    /// What was seen at the level that is in doubt, when it was worse.
    doubtful: Option<Seen>,
    tries: u32,
    steps: Vec<CeilingStepped>,
    moments: u32,
    bad: Option<(Began, Bound)>,
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
            doubtful: None,
            tries: 0,
            steps: Vec::new(),
            moments: 0,
            bad: None,
            verdict: Verdict::NotFound,
            why: None,
        }
    }

    /// Goes on after the steps of an earlier search. Those at its end that its host did not keep are tried again: another time it
    /// may keep them.
    pub fn resumed(asked: Asked, steps: &[CeilingStepped]) -> Self {
        let mut search = Self::new(asked);
        let kept = |step: &CeilingStepped| !matches!(step.judged, Judged::HostLate | Judged::NotReached);
        let last = steps.iter().rposition(kept);
        for step in &steps[..last.map_or(0, |last| last + 1)] {
            if search.step() != Some(Step::of(step)) {
                break;
            }
            search.seen(Seen::of(step));
        }
        for step in &mut search.steps {
            step.earlier = true;
        }
        search
    }

    /// What is asked for.
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// The rates, from the lowest: as many steps as it takes where nothing begins.
    pub fn rates(&self) -> &[u32] {
        &self.rates
    }

    /// The steps so far.
    pub fn steps(&self) -> &[CeilingStepped] {
        &self.steps
    }

    /// Whether the steps decide it.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
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

    /// What became of the step; how it was judged.
    pub fn seen(&mut self, seen: Seen) -> Option<&CeilingStepped> {
        let step = self.step()?;
        let bound = Bound::of(step, &seen);
        let mut stepped = seen.stepped(step);
        (stepped.judged, stepped.worse) = self.judge(seen, bound);
        self.steps.push(stepped);
        self.steps.last()
    }

    fn judge(&mut self, seen: Seen, bound: Bound) -> (Judged, Option<Began>) {
        let level = if self.phase == Phase::Below { self.level - 1 } else { self.level };
        if !seen.kept() {
            self.tries += 1;
            if self.tries >= TRIES {
                let why =
                    "this host: it did not keep its schedule, so nothing can be said of the path above that";
                self.unclear(why.to_owned());
            }
            return (Judged::HostLate, None);
        }
        if level == 0 && self.is_lossy(&seen) {
            return (Judged::Lossy, None);
        }
        let first = self.doubtful.take_if(|_| self.phase == Phase::Again);
        let found = self.worse_than_below(level, &seen, first.as_ref());
        if found.is_none() && is_not_reached(&seen.measured()) {
            self.doubtful = first.or(self.doubtful.take());
            self.tries += 1;
            if self.tries >= TRIES {
                let why = "this host: its TCP joined packets before they left, so that fewer were sent than were to be, and nothing can be said of the path above that; --connections spreads them";
                self.unclear(why.to_owned());
            }
            return (Judged::NotReached, None);
        }
        self.tries = 0;
        let judged = match (self.phase, found) {
            (Phase::Rising, Some(_)) => {
                self.phase = Phase::Below;
                self.doubtful = Some(seen);
                Judged::Doubtful
            }
            (Phase::Below, None) => {
                self.good[level] = seen;
                self.phase = Phase::Again;
                Judged::Good
            }
            // It began further below, or has nothing to do with the rate.
            (Phase::Below, Some(_)) => {
                self.level = level;
                self.good.truncate(level);
                self.doubtful = Some(seen);
                Judged::Doubtful
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
                Judged::Moment
            }
            (Phase::Again, Some(began)) => {
                self.bad = Some((began, bound));
                self.over(Verdict::Found);
                Judged::Beyond
            }
            (Phase::Rising | Phase::Over, _) => {
                self.is_good(seen);
                Judged::Good
            }
        };
        (judged, found)
    }

    /// Whether so much is lost at the lowest rate that there is nothing to look for.
    fn is_lossy(&mut self, seen: &Seen) -> bool {
        let lost = seen.lost() as f64 / seen.due().max(1) as f64;
        let is = lost > LOST_AT_LOWEST;
        if is {
            let (rate, percent) = (self.rates[0], lost * 100.0);
            self.unclear(format!("the path: at {rate}/s, the lowest rate, {percent:.0} % are lost"));
        }
        is
    }

    /// `first`: what was seen at this level before, and was worse. Both together are as many windows again, so that what is worse
    /// in a part of them shows, and a moment in one of them is in a quarter of all at the most.
    fn worse_than_below(&self, level: usize, seen: &Seen, first: Option<&Seen>) -> Option<Began> {
        let of = |steps: &[Seen]| steps.iter().flat_map(Seen::measured).collect::<Vec<Measured>>();
        let good = &self.good[..level];
        let next = of(&good[level.saturating_sub(HELD_AGAINST)..]);
        let (lowest, all) = (of(&good[..level.min(HELD_AGAINST)]), of(good));
        let alone = seen.measured();
        let of_both = first.map(|first| [first.measured(), alone.clone()].concat());
        let than = |step: &[Measured], sure| {
            worse(&next, step, sure)
                .or_else(|| worse_than_any(&lowest, &all, step, sure))
                .or_else(|| held_back(&all, step, sure))
        };
        if all.is_empty() {
            return None;
        }
        if self.phase != Phase::Again {
            return than(&alone, DOUBT);
        }
        than(&alone, SURE).or_else(|| {
            let again = matters(&next, &alone) || matters(&lowest, &alone);
            than(of_both.as_ref()?, CHOSEN).filter(|_| again)
        })
    }

    fn is_good(&mut self, seen: Seen) {
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

    /// Ends it: with what is known so far, or because something stands in the way (`why`). What the steps decide stands.
    pub fn stop(&mut self, why: Option<String>) {
        match why {
            _ if self.is_over() => {}
            Some(why) => self.unclear(why),
            None => self.over(Verdict::Stopped),
        }
    }

    /// The highest rate so far that was as good as those below it. `None`: none.
    pub(super) fn carried(&self) -> Option<Bound> {
        let level = self.level.min(self.good.len()).checked_sub(1)?;
        Some(Bound::of(Step { rate_per_s: self.rates[level], lasts_ns: LASTS_NS }, &self.good[level]))
    }

    /// Rates that are still to be tried where nothing begins.
    pub fn left(&self) -> usize {
        if self.is_over() { 0 } else { self.rates.len() - self.level }
    }

    /// What it found.
    pub fn outcome(&self, took_ns: u64) -> Ceiling {
        Ceiling {
            limit: "rate".to_owned(),
            verdict: self.verdict,
            why: self.why.clone(),
            good: self.carried(),
            bad: self.bad.map(|(_, bound)| bound),
            began: self.bad.map(|(began, _)| began),
            up_to_per_s: self.asked.up_to_per_s,
            connections: self.asked.connections,
            moments: self.moments,
            took_ns,
            earlier: self.steps.iter().filter(|step| step.earlier).count() as u64,
            steps: self.steps.iter().map(Row::of).collect(),
        }
    }
}
