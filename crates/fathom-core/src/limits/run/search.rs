//! Which lengths are tried next, and when enough is known.

use super::super::band;
use super::super::cohort::Cohort;
use super::super::doubt::{doubt, has_strays};
use super::super::outcome::claimed;
use super::super::plan::{self, BEGUN_ANEW_NS};
use super::{Bracket, Limits, MOST_BEGINNINGS, Phase, Role, Stage, Verdict, Wanted, What};
use std::collections::BTreeMap;

/// A bracket that is narrower than this is narrow enough, whatever its share of the limit.
const NARROW_NS: u64 = plan::S / 4;
/// Lengths nearer to each other than this cannot be told apart.
const APART_NS: u64 = plan::S / 20;
/// So many rounds at the most between the two ends of a bracket, where a round is short.
pub(super) const MOST_ROUNDS: u32 = 3;
/// Lengths of a round with connections that are begun for it, at the most, beside the longer end.
pub(super) const MOST_PARTS_ANEW: u64 = 10;
/// Maximum number of rounds at the ends of a band.
pub(super) const MOST_BAND_ROUNDS: u32 = 6;
/// A round after the first begins no later than this and a tenth of the limit after the search did.
pub(super) const IN_TIME_NS: u64 = plan::S * 60 - plan::JUDGED_AFTER_NS;

impl Limits {
    /// The control connections are open: all lengths begin of which nothing is known.
    pub(super) fn begin(&mut self, now: u64) {
        self.phase = Phase::Searching;
        self.beginnings += 1;
        self.given_up = false;
        (self.rounds, self.rounds_from) = (0, usize::MAX);
        let bracket = Bracket::of(&self.cohorts);
        let died_ns = bracket.died.map_or(u64::MAX, |(_, ns)| ns);
        let mut lengths = plan::ladder(&self.settings);
        lengths.retain(|&length| length > bracket.survived_ns() && length < died_ns);
        for &length in &lengths {
            self.want_length(now, length);
        }
        self.reserves = plan::reserves(&self.settings, lengths.len());
        let times = plan::reserve_lengths(&self.settings) * self.settings.per_length;
        for (at, reserve) in self.reserves.clone().into_iter().enumerate() {
            if reserve.serves_ns > bracket.survived_ns() && bracket.died.is_none() {
                for nth in 0..u64::from(times) {
                    let over_ns = reserve.over_ns * nth / u64::from(times);
                    self.want(Role::Reserve(at), 1, now + reserve.after_ns + over_ns);
                }
            }
        }
    }

    fn want_length(&mut self, now: u64, length_ns: u64) {
        self.want_over(now, length_ns, self.settings.per_length, 0);
    }

    /// Wants `times` connections of one length, which begin evenly over `over_ns`.
    fn want_over(&mut self, now: u64, length_ns: u64, times: u32, over_ns: u64) {
        self.cohorts.push(Cohort::new(length_ns, times));
        let role = Role::Test(self.cohorts.len() - 1);
        for nth in 0..u64::from(times) {
            self.want(role, 1, now + over_ns * nth / u64::from(times));
        }
    }

    /// Decides what is to be tried next.
    pub(super) fn search(&mut self, now: u64) {
        if self.phase != Phase::Searching {
            return;
        }
        let bracket = Bracket::of(&self.cohorts);
        self.drop_reserves(|reserve| reserve.serves_ns <= bracket.survived_ns());
        // The upper end of a band may lie above what most died of.
        if let Some((_, died_ns)) = bracket.died.filter(|_| self.band_rounds == 0) {
            self.give_up_above(died_ns);
        }
        if self.cohorts.iter().any(|cohort| cohort.open > 0) {
            return;
        }
        if self.band_rounds > 0 {
            return self.look_at_band(now);
        }
        let Some(gap_ns) = bracket.gap_ns(&self.cohorts) else { return self.nothing_died(now, bracket) };
        let died_ns = bracket.died.map_or(0, |(_, ns)| ns);
        let narrow_ns = NARROW_NS.max((died_ns as f64 * self.settings.resolution) as u64);
        // A round with connections that are begun for it takes as long as the limit.
        let in_time = now - self.links.began_ns <= died_ns / 10 + IN_TIME_NS;
        let repeated = self.is_repeated();
        let another = self.rounds < MOST_ROUNDS && died_ns <= BEGUN_ANEW_NS && (in_time || !repeated);
        let enough = self.rounds > 0 && (gap_ns <= narrow_ns && repeated || !another);
        if !enough && self.look_between(now, bracket.survived_ns(), gap_ns, died_ns) {
            return;
        }
        if doubt(&self.cohorts, bracket).is_some() {
            return self.look_at_band(now);
        }
        // Connections that died of less may have met a periodic scan: the shorter end is tried at other moments.
        let low_ns = bracket.survived.map(|(at, _)| self.cohorts[at].length_ns);
        match low_ns.filter(|low_ns| self.tried_low_ns != Some(*low_ns)) {
            Some(low_ns) if has_strays(&self.cohorts, bracket) => {
                self.tried_low_ns = Some(low_ns);
                self.want_over(now, low_ns, band::LOW_TRIES, low_ns);
            }
            _ => self.finish(now, Verdict::Found, None),
        }
    }

    /// No single limit explains the deaths: both ends of a band are tried, until neither moves any more.
    fn look_at_band(&mut self, now: u64) {
        let ends = band::ends(&self.cohorts, self.settings.up_to_ns).filter(|ends| self.band != Some(*ends));
        let Some(ends) = ends.filter(|_| self.band_rounds < MOST_BAND_ROUNDS) else {
            return self.finish(now, Verdict::Found, None);
        };
        self.band = Some(ends);
        self.band_rounds += 1;
        self.drop_reserves(|_| true);
        // The interval of a periodic scan may be as long as the idle time that it allows.
        let (low_ns, wide_ns) = (ends.low_ns, ends.high_ns.saturating_sub(ends.low_ns));
        let lengths = [
            (low_ns, band::LOW_TRIES),
            (low_ns.saturating_sub(wide_ns / 4), band::LOW_TRIES / 2),
            (low_ns.saturating_sub(wide_ns / 2), band::LOW_TRIES / 2),
            (ends.high_ns, band::HIGH_TRIES),
        ];
        let over_ns = low_ns.max(wide_ns);
        for (length_ns, times) in lengths.into_iter().filter(|(length_ns, _)| *length_ns >= plan::SHORTEST_NS)
        {
            self.want_over(now, length_ns, times, over_ns);
        }
    }

    /// Whether connections of a round died as those did that gave cause for it. What was refuted meanwhile may leave a longer end
    /// that was never tried again.
    pub(super) fn is_repeated(&self) -> bool {
        let survived_ns = Bracket::of(&self.cohorts).survived_ns();
        self.cohorts.iter().skip(self.rounds_from).any(|cohort| cohort.limit_ns() > Some(survived_ns))
    }

    fn nothing_died(&mut self, now: u64, bracket: Bracket) {
        let survived_length_ns = bracket.survived.map_or(0, |(at, _)| self.cohorts[at].length_ns);
        if survived_length_ns >= self.settings.up_to_ns {
            return self.finish(now, Verdict::NotFound, None);
        }
        // What did not repeat twice, beside deaths, may be a band.
        if self.beginnings > 1 && doubt(&self.cohorts, bracket).is_some() {
            return self.look_at_band(now);
        }
        if self.beginnings < MOST_BEGINNINGS {
            // What died of a shorter idleness did not when it was tried again: what lies above it is open again. Or it was
            // asked while the path was down.
            if self.given_up {
                self.links.happened(now, What::NotRepeated { idle_ns: bracket.survived_ns() });
            }
            return self.begin(now);
        }
        self.finish(now, Verdict::Unclear, Some("too few connections could be judged".to_owned()));
    }

    /// Longer idleness than what is died of tells nothing more.
    fn give_up_above(&mut self, died_ns: u64) {
        let above = |role: Role, cohorts: &[Cohort]| match role {
            Role::Test(cohort) if cohorts[cohort].length_ns > died_ns => Some(cohort),
            _ => None,
        };
        let mut dropped: BTreeMap<usize, u32> = BTreeMap::new();
        self.queue.retain(|wanted| match above(wanted.role, &self.cohorts) {
            Some(cohort) => {
                *dropped.entry(cohort).or_default() += 1;
                false
            }
            None => true,
        });
        let early = |stage: Stage| matches!(stage, Stage::Opening | Stage::Hello | Stage::Idle);
        let flows = self.links.flows.iter().filter(|(_, flow)| early(flow.stage));
        let flows: Vec<_> =
            flows.filter_map(|(&id, flow)| Some((id, above(flow.role, &self.cohorts)?))).collect();
        for (id, cohort) in flows {
            *dropped.entry(cohort).or_default() += 1;
            self.links.close(id);
        }
        self.given_up |= !dropped.is_empty();
        for (cohort, times) in dropped {
            self.cohorts[cohort].open -= times;
        }
    }

    /// Tries lengths between the two ends, and the longer end once more (a reserve both). Whether that can be done in time.
    fn look_between(&mut self, now: u64, survived_ns: u64, gap_ns: u64, died_ns: u64) -> bool {
        let narrow_ns = NARROW_NS.max((died_ns as f64 * self.settings.resolution) as u64);
        // A search that goes on has no reserve from before.
        let anew = died_ns <= BEGUN_ANEW_NS || self.earlier > 0;
        let parts = if anew {
            // A little more of them: what is not known exactly of each widens a part.
            gap_ns.div_ceil(narrow_ns * 3 / 4).clamp(2, MOST_PARTS_ANEW)
        } else {
            u64::from(plan::parts(&self.settings))
        };
        let parts = parts.min(gap_ns / APART_NS).max(1);
        let between = (1..parts).map(|part| survived_ns + gap_ns * part / parts);
        // A periodic scan may have spared the shorter end: see `plan`.
        let again = Bracket::of(&self.cohorts).survived;
        let again = again.map(|(at, _)| self.cohorts[at].length_ns);
        if self.rounds == 0 {
            self.rounds_from = self.cohorts.len();
        }
        let lengths: Vec<u64> = again.into_iter().chain(between).chain([died_ns]).collect();
        if anew {
            self.drop_reserves(|_| true);
            for (nth, &length) in lengths.iter().enumerate() {
                // A periodic scan may have come at the right moment: both ends are tried at other moments too.
                let is_end = length == died_ns || (nth == 0 && again.is_some());
                let over_ns = if is_end && self.rounds == 0 { died_ns / 2 } else { 0 };
                self.want_over(now, length, self.settings.per_length, over_ns);
            }
        } else if !self.take_reserve(now, &lengths) {
            return false;
        }
        self.rounds += 1;
        true
    }

    /// Makes the reserve that has been idle for longest, and not too long, the connections of these lengths.
    fn take_reserve(&mut self, now: u64, lengths: &[u64]) -> bool {
        let mut waiting: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (&id, flow) in &self.links.flows {
            if let (Role::Reserve(at), Stage::Idle) = (flow.role, flow.stage) {
                waiting.entry(at).or_default().push(id);
            }
        }
        let idle_ns = |ids: &[u32]| {
            ids.iter().filter_map(|id| self.links.flows.get(id)).map(|f| now - f.since_ns).max()
        };
        // The earliest reserves come first.
        let usable = waiting
            .into_values()
            .find(|ids| ids.len() >= lengths.len() && idle_ns(ids).is_some_and(|idle| idle < lengths[0]));
        let Some(ids) = usable else { return false };
        let first = self.cohorts.len();
        self.cohorts.extend(lengths.iter().map(|&length| Cohort::new(length, 0)));
        for (n, id) in ids.iter().enumerate().take(lengths.len() * self.settings.per_length as usize) {
            let cohort = first + n % lengths.len();
            self.cohorts[cohort].open += 1;
            if let Some(flow) = self.links.flows.get_mut(id) {
                flow.role = Role::Test(cohort);
            }
        }
        self.drop_reserves(|_| true);
        true
    }

    fn drop_reserves(&mut self, of: impl Fn(&plan::Reserve) -> bool) {
        let dropped =
            |role: Role, reserves: &[plan::Reserve]| matches!(role, Role::Reserve(at) if of(&reserves[at]));
        self.queue.retain(|wanted| !dropped(wanted.role, &self.reserves));
        for id in self.links.ids(|flow| dropped(flow.role, &self.reserves)) {
            self.links.close(id);
        }
    }

    /// Enough is known. The reflector is asked about those that died.
    pub(super) fn finish(&mut self, now: u64, verdict: Verdict, why: Option<String>) {
        (self.verdict, self.why) = (verdict, why.clone());
        let died = claimed(&self.cohorts).died.filter(|_| verdict == Verdict::Found);
        // Of an earlier search's connections it knows nothing by this one's number.
        let died = died.filter(|(at, _)| *at >= self.earlier);
        let Some((at, _)) = died else { return self.over(verdict, why) };
        self.phase = Phase::Reporting;
        self.queue.clear();
        self.urgent.clear();
        for id in self.links.ids(|flow| flow.stage != Stage::Dead) {
            self.links.close(id);
        }
        self.links.inquire(self.cohorts[at].died.iter().map(|death| death.id));
        self.urgent.push_back(Wanted::first(Role::Report, now));
    }
}
