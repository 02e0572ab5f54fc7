//! The wall clock of the probe's host.

use super::START;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wall {
    offset_ns: i64,
    slew_ppm: i64,
    slew_from: u64,
    slew_until: u64,
}

impl Wall {
    pub(crate) fn utc(&self, now: u64) -> i64 {
        let slewed = now.min(self.slew_until).saturating_sub(self.slew_from) as i64;
        START.utc_of(now) + self.offset_ns + slewed / 1_000 * self.slew_ppm / 1_000
    }

    fn settle(&mut self, now: u64) {
        self.offset_ns = self.utc(now) - START.utc_of(now);
        (self.slew_ppm, self.slew_from, self.slew_until) = (0, now, now);
    }

    /// It is set.
    pub(crate) fn step(&mut self, now: u64, ns: i64) {
        self.settle(now);
        self.offset_ns += ns;
    }

    /// It runs faster for a while.
    pub(crate) fn slew(&mut self, now: u64, ppm: i64, duration: u64) {
        self.settle(now);
        (self.slew_ppm, self.slew_until) = (ppm, now + duration);
    }
}
