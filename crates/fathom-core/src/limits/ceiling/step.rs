//! One step: packets at one rate.

use crate::event::CeilingStepped;

const S: u64 = 1_000_000_000;

/// A step: packets at one rate, evenly apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Packets a second, over all connections together.
    pub rate_per_s: u32,
    /// How long it lasts, in ns.
    pub lasts_ns: u64,
}

impl Step {
    /// Which it was.
    pub(super) fn of(stepped: &CeilingStepped) -> Self {
        Self { rate_per_s: stepped.rate_per_s, lasts_ns: stepped.lasts_ns }
    }

    /// When a packet is due, in ns from the step's beginning.
    pub fn due_ns(&self, packet: u64) -> u64 {
        (u128::from(packet) * u128::from(S) / u128::from(self.rate_per_s)) as u64
    }

    /// Packets that are due before this moment.
    pub fn due_before(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.rate_per_s)).div_ceil(u128::from(S)) as u64
    }
}
