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
/// A disagreement larger than this is a step: 1 ms of reading noise...
const STEP_FLOOR_NS: u64 = 1_000_000;
/// ...plus the rate by which a disciplined clock may differ from an undisciplined one. adjtimex(2) limits the
/// kernel's frequency correction to 500 ppm; a raw oscillator is good to 100 ppm.
const STEP_PPM: u64 = 600;

/// What an observation of the clocks told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// The clocks agree; the anchor in force stays.
    Steady,
    /// The clocks agree; it was time for a new anchor.
    Anchored,
    /// The wall clock was set by this many ns; the new anchor is in force.
    Stepped(i64),
}

/// The anchor in force, and the reading before, against which a step shows.
#[derive(Debug, Clone)]
pub struct ClockMap {
    anchor: Anchor,
    last: Anchor,
}

impl ClockMap {
    /// Starts with a first reading.
    pub fn new(anchor: Anchor) -> Self {
        Self { anchor, last: anchor }
    }

    /// The anchor in force.
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// The UTC of a monotonic stamp, by the anchor in force.
    pub fn utc_of(&self, mono_ns: u64) -> i64 {
        self.anchor.utc_of(mono_ns)
    }

    /// Takes a new reading of both clocks.
    pub fn observe(&mut self, reading: Anchor) -> Observation {
        let elapsed = reading.mono_ns.saturating_sub(self.last.mono_ns);
        let step = reading.utc_ns - self.last.utc_of(reading.mono_ns);
        self.last = reading;
        if step.unsigned_abs() > STEP_FLOOR_NS + elapsed / 1_000_000 * STEP_PPM {
            self.anchor = reading;
            Observation::Stepped(step)
        } else if reading.mono_ns.saturating_sub(self.anchor.mono_ns) >= ANCHOR_EVERY_NS {
            self.anchor = reading;
            Observation::Anchored
        } else {
            Observation::Steady
        }
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

    #[test]
    fn a_step_either_way_is_seen_at_once_and_only_once() {
        for step in [3_600 * SECOND as i64, -2_000_000] {
            let mut map = ClockMap::new(START);
            assert_eq!(map.observe(reading(1, 0)), Observation::Steady);
            assert_eq!(map.observe(reading(2, step)), Observation::Stepped(step));
            assert_eq!(map.observe(reading(3, step)), Observation::Steady);
            assert_eq!(map.utc_of(reading(3, step).mono_ns), reading(3, step).utc_ns);
        }
    }

    #[test]
    fn a_stamp_before_the_anchor_maps_back() {
        assert_eq!(START.utc_of(START.mono_ns - 7), START.utc_ns - 7);
    }
}
