//! Mapping the monotonic clock to UTC, and noticing when somebody sets the wall clock.
//!
//! Round trips never touch the wall clock. It is read only as an anchor, once a second to look for steps and once a
//! minute to follow drift, so that `sent_ns` stays close to UTC for weeks.

/// One simultaneous reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// Monotonic clock, ns.
    pub mono_ns: u64,
    /// Wall clock, ns since the Unix epoch.
    pub utc_ns: i64,
}

impl Anchor {
    /// The UTC of a monotonic stamp, by this anchor.
    pub fn utc_of(&self, mono_ns: u64) -> i64 {
        self.utc_ns + mono_ns.wrapping_sub(self.mono_ns) as i64
    }
}

/// How often the anchor in force is replaced.
pub const ANCHOR_EVERY_NS: u64 = 60_000_000_000;
/// A disagreement within this is none: 1 ms of reading noise...
const STEP_FLOOR_NS: u64 = 1_000_000;
/// ...plus the rate by which a disciplined clock may differ from an undisciplined one. adjtimex(2) limits the
/// kernel's frequency correction to 500 ppm; a raw oscillator is good to 100 ppm.
const STEADY_PPM: u64 = 600;
/// A clock that is being slewed differs by up to this rate: adjtimex(2) lets a tick of 10 ms be 9 to 11 ms, and chrony
/// uses 83,333 ppm of that (chrony.conf(5), `maxslewrate`). A larger disagreement is a step for certain.
const SLEW_PPM: u64 = 100_000;

/// What an observation of the clocks told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// The clocks agree; the anchor in force stays.
    Steady,
    /// The clocks agree, and it was time for a new anchor; or the wall clock is being slewed, and is followed.
    Anchored,
    /// The wall clock was set by this many ns, now or (a small step, which could have been the beginning of a slew) at
    /// the reading before; the new anchor is in force.
    Stepped(i64),
}

/// The anchor in force, and the reading before, against which a step shows.
#[derive(Debug, Clone)]
pub struct ClockMap {
    anchor: Anchor,
    last: Anchor,
    /// The disagreement of the last reading, where it was a small step or the beginning of a slew: the next one tells.
    undecided_ns: Option<i64>,
    /// The wall clock is being slewed.
    slewed: bool,
}

impl ClockMap {
    /// Starts with a first reading.
    pub fn new(anchor: Anchor) -> Self {
        Self { anchor, last: anchor, undecided_ns: None, slewed: false }
    }

    /// The anchor in force.
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// The UTC of a monotonic stamp, by the anchor in force.
    pub fn utc_of(&self, mono_ns: u64) -> i64 {
        self.anchor.utc_of(mono_ns)
    }

    /// Takes a new reading of both clocks. About one a second is needed to tell a small step from a slew.
    pub fn observe(&mut self, reading: Anchor) -> Observation {
        let elapsed = reading.mono_ns.saturating_sub(self.last.mono_ns);
        let apart = reading.utc_ns - self.last.utc_of(reading.mono_ns);
        self.last = reading;
        let within = |ppm: u64| apart.unsigned_abs() <= STEP_FLOOR_NS + elapsed / 1_000_000 * ppm;
        let before = self.undecided_ns.take();
        if within(STEADY_PPM) {
            self.slewed = false;
            if let Some(step) = before {
                return self.stepped(reading, step);
            }
        } else if !within(SLEW_PPM) {
            self.slewed = false;
            return self.stepped(reading, apart + before.unwrap_or(0));
        } else if self.slewed || before.is_some_and(|before| before.signum() == apart.signum()) {
            // A step does not go on.
            self.slewed = true;
            self.anchor = reading;
            return Observation::Anchored;
        } else {
            self.undecided_ns = Some(apart);
            return before.map_or(Observation::Steady, |step| self.stepped(reading, step));
        }
        if reading.mono_ns.saturating_sub(self.anchor.mono_ns) >= ANCHOR_EVERY_NS {
            self.anchor = reading;
            return Observation::Anchored;
        }
        Observation::Steady
    }

    fn stepped(&mut self, reading: Anchor, step_ns: i64) -> Observation {
        self.anchor = reading;
        Observation::Stepped(step_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const START: Anchor = Anchor { mono_ns: 5 * SECOND, utc_ns: 1_700_000_000_000_000_000 };

    fn reading(after_s: u64, error_ns: i64) -> Anchor {
        let mono_ns = START.mono_ns + after_s * SECOND;
        Anchor { mono_ns, utc_ns: START.utc_of(mono_ns) + error_ns }
    }

    #[test]
    fn drift_is_followed_and_is_no_step() {
        let mut map = ClockMap::new(START);
        let mut anchored = 0;
        for s in 1..=3_600 {
            // 100 µs a second: 100 ppm, the worst of common oscillators.
            match map.observe(reading(s, s as i64 * 100_000)) {
                Observation::Stepped(step) => panic!("step of {step} ns after {s} s"),
                Observation::Anchored => anchored += 1,
                Observation::Steady => {}
            }
        }
        assert_eq!(anchored, 60);
        let now = reading(3_600, 360_000_000);
        assert!((map.utc_of(now.mono_ns) - now.utc_ns).abs() < 10_000_000);
    }

    /// Reads once a second; gives the steps that were told, and how far the mapping was off at the most.
    fn steps(seconds: u64, error_ns: impl Fn(u64) -> i64) -> (Vec<i64>, i64) {
        let (mut map, mut off) = (ClockMap::new(START), 0);
        let steps = (1..=seconds).filter_map(|s| {
            let now = reading(s, error_ns(s));
            let observation = map.observe(now);
            off = off.max((map.utc_of(now.mono_ns) - now.utc_ns).abs());
            if let Observation::Stepped(step) = observation { Some(step) } else { None }
        });
        (steps.collect(), off)
    }

    #[test]
    fn each_clock_step_is_reported_once() {
        for step in [3_600 * SECOND as i64, -2_000_000, 50_000_000, -(SECOND as i64)] {
            assert_eq!(steps(10, |s| if s < 4 { 0 } else { step }).0, [step], "{step}");
        }
        let (big, small) = (2 * SECOND as i64, 30_000_000);
        assert_eq!(
            steps(20, |s| if s < 4 {
                0
            } else if s < 9 {
                big
            } else {
                big - small
            })
            .0,
            [big, -small]
        );
    }

    #[test]
    fn a_slew_is_followed_and_is_no_step() {
        // chrony makes up for 5 s at 83,333 ppm: a minute, after which the clocks agree again.
        for ppm in [83_333, -83_333, 20_000, -2_000] {
            let rate = ppm * 1_000;
            let (told, off) = steps(180, |s| rate * (s as i64 - 30).clamp(0, 60));
            assert!(told.is_empty(), "{ppm} ppm: {told:?}");
            assert!(off <= rate.abs() + 1_000_000, "{ppm} ppm: off by {off} ns");
        }
    }

    #[test]
    fn a_stamp_before_the_anchor_maps_back() {
        assert_eq!(START.utc_of(START.mono_ns - 7), START.utc_ns - 7);
    }
}
