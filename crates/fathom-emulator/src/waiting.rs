//! How long before a packet is due to stop sleeping.

/// How the loop waits for the moment at which a packet is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Sleep until shortly before, then spin: on time, at a part of a core.
    #[default]
    Hybrid,
    /// Never sleep: on time and quick to take packets in, at a whole core.
    Spin,
    /// Only sleep: late by what the machine takes to wake up, at the least cost.
    Sleep,
}

impl Wait {
    /// What it means for whoever uses the fabric.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::Hybrid => "packets wait by sleeping, then spinning",
            Self::Spin => "packets wait by spinning: one CPU is busy as long as the fabric is up",
            Self::Sleep => "packets wait by sleeping: they are late by what the machine takes to wake up",
        }
    }
}

/// How long a hybrid wait spins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spinning {
    /// As long as this machine's sleeps have been late.
    Adaptive,
    /// So many ns.
    Fixed(u64),
}

/// What is aimed at: of 100 sleeps one may end after the packet was due.
const SHARE_LATE: f64 = 0.01;
/// The step of the estimate, as a share of it: about 5 sleeps to double after a change for the worse.
const STEP: f64 = 0.2;
const LEAST_NS: f64 = 10_000.0;
/// A sleep that is late by more was not slow to wake up: others had the processor, and would take it from a spin too.
const MOST_NS: f64 = 300_000.0;
/// The first sleeps are given this much.
const START_NS: f64 = 100_000.0;

/// The span before a due time during which the loop spins.
///
/// Adaptive, it is an estimate of the 99th percentile of how late a sleep ends, by stochastic approximation (Robbins and
/// Monro, "A Stochastic Approximation Method", 1951): up by a step times 0.99 when a sleep was later than the estimate,
/// down by the step times 0.01 when not; at rest one sleep in 100 is later.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    spinning: Spinning,
    estimate_ns: f64,
}

impl Window {
    pub(crate) fn new(spinning: Spinning) -> Self {
        Self { spinning, estimate_ns: START_NS }
    }

    /// How long before the due time to wake, ns.
    pub(crate) fn ns(&self) -> u64 {
        match self.spinning {
            Spinning::Adaptive => self.estimate_ns as u64,
            Spinning::Fixed(ns) => ns,
        }
    }

    /// A sleep ended so many ns after the moment it was to end.
    pub(crate) fn slept(&mut self, late_ns: u64) {
        let step = if late_ns as f64 > self.estimate_ns { 1.0 - SHARE_LATE } else { -SHARE_LATE };
        self.estimate_ns = (self.estimate_ns * (1.0 + STEP * step)).clamp(LEAST_NS, MOST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_converges_to_one_percent_late_sleeps() {
        // Lateness evenly spread over 0 to 200 µs by a golden-ratio sequence: its 99th percentile is 198 µs.
        let mut window = Window::new(Spinning::Adaptive);
        let lateness = (1..=60_000_u64).map(|i| (i as f64 * 0.618_033_988_75).fract() * 200_000.0);
        let mut late = 0;
        for (i, lateness) in lateness.enumerate() {
            if i >= 10_000 && lateness > window.ns() as f64 {
                late += 1;
            }
            window.slept(lateness as u64);
        }
        // 500 expected of 50,000.
        assert!((350..=650).contains(&late), "{late}");
    }

    #[test]
    fn window_adapts_within_bounds_and_fixed_stays() {
        let mut window = Window::new(Spinning::Adaptive);
        for _ in 0..100_000 {
            window.slept(0);
        }
        assert_eq!(window.ns(), LEAST_NS as u64);
        for _ in 0..40 {
            window.slept(u64::MAX);
        }
        assert_eq!(window.ns(), MOST_NS as u64);
        let mut fixed = Window::new(Spinning::Fixed(50_000));
        fixed.slept(u64::MAX);
        assert_eq!(fixed.ns(), 50_000);
    }
}
