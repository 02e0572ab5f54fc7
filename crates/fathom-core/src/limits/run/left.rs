//! How much longer a search takes at the most.
//!
//! Three things take time: the connections that are open or wanted; the rounds between the two ends of a bracket, which need
//! connections that begin then; and, at the end, the question to the reflector. Where the limit is nobody knows yet, so the
//! longest of all that may come counts.

use super::super::band;
use super::super::links::AGAIN_NS;
use super::super::plan::{self, BEGUN_ANEW_NS, S};
use super::super::settings::OPENINGS_A_SECOND;
use super::search::{IN_TIME_NS, MOST_BAND_ROUNDS, MOST_PARTS_ANEW, MOST_ROUNDS};
use super::{ACK_DELAY_NS, Bracket, Limits, Phase, Role, Stage, TICK_NS};

/// From one opening to the next, where every other one is of a connection that is to tell a silence from an outage.
const OPENING_NS: u64 = 2 * S / OPENINGS_A_SECOND as u64;
/// The ladder's steps are no longer than this beside their length.
const STEP_NS: u64 = plan::SHORTEST_NS;

impl Limits {
    /// See the module.
    pub(super) fn left_ns(&self) -> u64 {
        let ends_ns = match self.phase {
            Phase::Over => return 0,
            Phase::Reporting => self.links.now_ns,
            Phase::Starting(_) => self.after_beginning_ns(),
            Phase::Searching => self.searched_ns(),
        };
        ends_ns.saturating_sub(self.links.now_ns) + self.links.hello_ns() + OPENING_NS
    }

    /// The control connections are to be opened, and then all lengths begin.
    fn after_beginning_ns(&self) -> u64 {
        let lengths = plan::ladder(&self.settings).len() as u64;
        let opened_ns = lengths * u64::from(self.settings.per_length) * OPENING_NS + 2 * AGAIN_NS;
        let ladder_ns = opened_ns + self.links.hello_ns() + self.asked_after_ns(self.settings.up_to_ns);
        let ends_ns = self.links.now_ns.saturating_add(ladder_ns);
        self.after_rounds_ns(ends_ns, self.settings.up_to_ns).max(ends_ns)
    }

    fn searched_ns(&self) -> u64 {
        let bracket = Bracket::of(&self.cohorts);
        let all_ns = self.judged_ns(u64::MAX, bracket.died.map_or(self.settings.up_to_ns, |(_, ns)| ns));
        match bracket.died {
            _ if self.band_rounds > 0 => self.after_band_ns(all_ns),
            Some((_, died_ns)) => self.after_rounds_ns(all_ns, died_ns),
            // A search that goes on has no reserve.
            None if self.earlier > 0 => self.after_rounds_ns(all_ns, self.settings.up_to_ns),
            None => {
                let most_ns = BEGUN_ANEW_NS.min(self.settings.up_to_ns) + STEP_NS;
                let most_ns = most_ns + most_ns / 20;
                let short_ns = self.judged_ns(most_ns, most_ns);
                let may_be_short = bracket.survived_ns() < BEGUN_ANEW_NS;
                if may_be_short { self.after_rounds_ns(short_ns, most_ns).max(all_ns) } else { all_ns }
            }
        }
    }

    /// When all has been judged that is to be idle for so long at the most; a reserve is for lengths up to `died_ns`.
    fn judged_ns(&self, length_ns: u64, died_ns: u64) -> u64 {
        let after = |role: Role| match role {
            Role::Test(cohort) => Some(self.cohorts[cohort].length_ns).filter(|length| *length <= length_ns),
            Role::Reserve(_) => Some(died_ns).filter(|_| length_ns == u64::MAX),
            _ => None,
        };
        let (now, hello_ns) = (self.links.now_ns, self.links.hello_ns());
        let open = self.links.flows.values().filter_map(|flow| {
            let length_ns = after(flow.role)?;
            Some(match flow.stage {
                Stage::Opening | Stage::Hello => flow.since_ns + hello_ns + self.asked_after_ns(length_ns),
                Stage::Idle => flow.since_ns + self.asked_after_ns(length_ns),
                Stage::Looking => now + self.links.judged_within_ns(),
                Stage::Asked(_) | Stage::Dead => flow.since_ns + self.links.judged_within_ns(),
            })
        });
        let pending = self.pending.iter().map(|pending| pending.at_ns + self.links.judged_within_ns());
        let mut wanted: Vec<_> =
            self.queue.iter().map(|wanted| (wanted.not_before_ns, wanted.role)).collect();
        wanted.sort_by_key(|(not_before_ns, _)| *not_before_ns);
        let mut opening_ns = self.next_opening_ns.max(now);
        let to_open = wanted.into_iter().filter_map(|(not_before_ns, role)| {
            opening_ns = opening_ns.max(not_before_ns) + OPENING_NS;
            Some(opening_ns + hello_ns + self.asked_after_ns(after(role)?))
        });
        open.chain(pending).chain(to_open).fold(now, u64::max)
    }

    /// From when a connection is idle until it has been judged after so long.
    fn asked_after_ns(&self, length_ns: u64) -> u64 {
        length_ns.saturating_add(ACK_DELAY_NS + TICK_NS + self.links.judged_within_ns())
    }

    /// Latest end of the rounds at the ends of a band, if the current ones end at `ends_ns`. The upper end may rise.
    fn after_band_ns(&self, ends_ns: u64) -> u64 {
        let connections = u64::from(2 * band::LOW_TRIES + band::HIGH_TRIES);
        let (low_ns, up_to_ns) = (self.band.map_or(0, |ends| ends.low_ns), self.settings.up_to_ns);
        let round_ns = low_ns.max(up_to_ns) + connections * OPENING_NS + self.links.hello_ns();
        let round_ns = round_ns + self.asked_after_ns(up_to_ns);
        ends_ns.saturating_add(u64::from(MOST_BAND_ROUNDS - self.band_rounds).saturating_mul(round_ns))
    }

    /// When the rounds are over that may follow what ends then, of a limit up to `died_ns`.
    fn after_rounds_ns(&self, mut ends_ns: u64, died_ns: u64) -> u64 {
        let most = if died_ns <= BEGUN_ANEW_NS || Bracket::of(&self.cohorts).died.is_none() {
            MOST_ROUNDS
        } else {
            // One round, and with connections that begin then only where there is no reserve.
            u32::from(self.earlier > 0)
        };
        let connections = (MOST_PARTS_ANEW + 1) * u64::from(self.settings.per_length);
        let round_ns = connections * OPENING_NS + self.links.hello_ns() + self.asked_after_ns(died_ns);
        // The ends of the first bracket are tried at several moments.
        let round_ns = round_ns + died_ns / 2;
        for round in self.rounds..most {
            let latest_ns = self.links.began_ns.saturating_add(died_ns / 10 + IN_TIME_NS);
            let begins_ns = if round == 0 || !self.is_repeated() { ends_ns } else { ends_ns.min(latest_ns) };
            ends_ns = ends_ns.max(begins_ns.saturating_add(round_ns));
        }
        ends_ns
    }
}
