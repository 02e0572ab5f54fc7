//! Idle and loaded by turns. What lies between (the load is coming up to its rate, or on its way out of the queues)
//! belongs to neither.
//!
//! A phase is as long as it was asked for, however long the load takes to come and to go: so every loaded phase has as
//! many samples as every idle one.

use crate::sample::Flags;

/// After its first echo, and after its last, a load is given this part of a phase to settle...
const SETTLING_PART: u64 = 10;
/// ...and a second at the most.
const SETTLING_MOST_NS: u64 = 1_000_000_000;
/// A load whose echoes do not come by then does not come: two SYNs sent again after 1 s and 3 s, and a margin.
const COMING_MOST_NS: u64 = 10_000_000_000;
/// A load whose echoes have not all come back by then is cut off: the longest queues known to stand in modems and
/// mobile networks hold some seconds (Gettys and Nichols, "Bufferbloat", ACM Queue 9(11), 2011).
const GOING_MOST_NS: u64 = 30_000_000_000;

/// What is to be done at a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Have the load run. Samples in flight are idle ones no more.
    Run,
    /// The load has settled: samples sent from now on are loaded ones.
    Loaded,
    /// Have the load stop. Samples in flight are loaded ones no more.
    Stop,
    /// It did not come up; have it stop.
    NeverCame,
    /// It does not go away; cut its connections.
    CutOff,
    /// All is quiet: samples sent from now on are idle ones.
    Idle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Coming,
    /// Its echoes have begun to come.
    Rising,
    Loaded,
    Going,
    /// Its last echo has come.
    Calming,
}

/// Where a run stands between idle and loaded.
#[derive(Debug, Clone)]
pub struct Phases {
    phase_ns: u64,
    settling_ns: u64,
    state: State,
    until_ns: u64,
}

impl Phases {
    /// Phases of this length, an idle one first, from now on.
    pub fn new(phase_ns: u64, now_ns: u64) -> Self {
        let settling_ns = Self::settling_ns(phase_ns);
        Self { phase_ns, settling_ns, state: State::Idle, until_ns: now_ns + phase_ns }
    }

    /// How long a load of such phases is given to settle, both when it comes and when it has gone.
    pub fn settling_ns(phase_ns: u64) -> u64 {
        (phase_ns / SETTLING_PART).min(SETTLING_MOST_NS)
    }

    /// What a sample sent now is. Those between the phases carry both flags: kept, and in no figure.
    pub fn flags(&self) -> Flags {
        match self.state {
            State::Idle => Flags::default(),
            State::Loaded => Flags::UNDER_LOAD,
            State::Coming | State::Rising | State::Going | State::Calming => {
                Flags::UNDER_LOAD | Flags::WARM_UP
            }
        }
    }

    /// Whether a loaded phase is going on.
    pub fn is_loaded(&self) -> bool {
        self.state == State::Loaded
    }

    /// When [`Phases::look`] has something to say at the latest.
    pub fn next_ns(&self) -> u64 {
        self.until_ns
    }

    /// What time has brought.
    pub fn look(&mut self, now_ns: u64) -> Option<Turn> {
        if now_ns < self.until_ns {
            return None;
        }
        Some(match self.state {
            State::Idle => self.to(State::Coming, now_ns + COMING_MOST_NS, Turn::Run),
            State::Coming => self.to(State::Going, now_ns + GOING_MOST_NS, Turn::NeverCame),
            State::Rising => self.to(State::Loaded, now_ns + self.phase_ns, Turn::Loaded),
            State::Loaded => self.to(State::Going, now_ns + GOING_MOST_NS, Turn::Stop),
            State::Going => self.to(State::Calming, now_ns + self.settling_ns, Turn::CutOff),
            State::Calming => self.to(State::Idle, now_ns + self.phase_ns, Turn::Idle),
        })
    }

    /// The load's first echoes have come, on every connection of it.
    pub fn flows(&mut self, now_ns: u64) {
        if self.state == State::Coming {
            (self.state, self.until_ns) = (State::Rising, now_ns + self.settling_ns);
        }
    }

    /// The load's last echo has come.
    pub fn drained(&mut self, now_ns: u64) {
        if self.state == State::Going {
            (self.state, self.until_ns) = (State::Calming, now_ns + self.settling_ns);
        }
    }

    /// The load's connections are gone; whether it was running or about to.
    pub fn lost(&mut self, now_ns: u64) -> bool {
        let ran = matches!(self.state, State::Coming | State::Rising | State::Loaded);
        if ran {
            (self.state, self.until_ns) = (State::Calming, now_ns + self.settling_ns);
        }
        ran
    }

    fn to(&mut self, state: State, until_ns: u64, turn: Turn) -> Turn {
        (self.state, self.until_ns) = (state, until_ns);
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;
    const BETWEEN: Flags = Flags(Flags::UNDER_LOAD.0 | Flags::WARM_UP.0);

    #[test]
    fn a_load_that_comes_and_goes() {
        let mut phases = Phases::new(5 * S, 0);
        assert_eq!((phases.look(5 * S - 1), phases.flags()), (None, Flags::default()));
        assert_eq!((phases.look(5 * S), phases.flags()), (Some(Turn::Run), BETWEEN));
        phases.drained(5 * S);
        phases.flows(6 * S);
        assert_eq!((phases.next_ns(), phases.look(6 * S), phases.flags()), (6 * S + S / 2, None, BETWEEN));
        assert_eq!(phases.look(7 * S), Some(Turn::Loaded));
        assert!(phases.flags() == Flags::UNDER_LOAD && phases.is_loaded());
        // A full phase, though it began late.
        assert_eq!((phases.look(12 * S - 1), phases.look(12 * S)), (None, Some(Turn::Stop)));
        phases.flows(12 * S);
        phases.drained(15 * S);
        assert_eq!((phases.look(15 * S), phases.flags()), (None, BETWEEN));
        assert_eq!((phases.look(16 * S), phases.flags()), (Some(Turn::Idle), Flags::default()));
        assert_eq!(phases.next_ns(), 21 * S);
    }

    #[test]
    fn stuck_load_phases_time_out() {
        let mut phases = Phases::new(100 * S, 0);
        assert_eq!(phases.look(100 * S), Some(Turn::Run));
        assert_eq!((phases.look(109 * S), phases.look(110 * S)), (None, Some(Turn::NeverCame)));
        assert_eq!((phases.look(139 * S), phases.look(140 * S)), (None, Some(Turn::CutOff)));
        assert_eq!(phases.look(141 * S), Some(Turn::Idle));
    }

    #[test]
    fn a_load_that_is_lost_ends_its_phase() {
        let mut phases = Phases::new(10 * S, 0);
        assert!(!phases.lost(S), "there was none");
        phases.look(10 * S);
        phases.flows(10 * S);
        phases.look(11 * S);
        assert!(phases.is_loaded() && phases.lost(12 * S) && phases.flags() == BETWEEN);
        assert_eq!(phases.look(13 * S), Some(Turn::Idle));
    }

    proptest! {
        /// Whatever the load does and whenever somebody looks, its orders alternate, and between idle and loaded there
        /// is always a sample's chance to be neither.
        #[test]
        fn idle_and_loaded_never_touch(
            phase_ms in 1u64..20_000, steps in prop::collection::vec((0u64..30_000, 0u8..4), 1..200),
        ) {
            let mut phases = Phases::new(phase_ms * 1_000_000, 0);
            let (mut now, mut runs, mut before) = (0, false, phases.flags());
            for (ms, what) in steps {
                now += ms * 1_000_000;
                match what {
                    0 => phases.flows(now),
                    1 => phases.drained(now),
                    2 => runs &= !phases.lost(now),
                    _ => {}
                }
                let between = phases.flags();
                prop_assert!(between == before || between == BETWEEN);
                match phases.look(now) {
                    Some(Turn::Run) => {
                        prop_assert!(!std::mem::replace(&mut runs, true));
                    }
                    Some(Turn::Stop | Turn::NeverCame) => {
                        prop_assert!(std::mem::replace(&mut runs, false));
                    }
                    Some(Turn::Loaded) => prop_assert!(runs && between == BETWEEN),
                    Some(Turn::Idle) => prop_assert!(!runs && between == BETWEEN),
                    Some(Turn::CutOff) | None => {}
                }
                prop_assert!(phases.next_ns() > now);
                before = phases.flags();
            }
        }
    }
}
