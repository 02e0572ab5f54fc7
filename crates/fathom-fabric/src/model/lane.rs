//! One direction of a leg at work.

use rand::Rng as _;
use rand_pcg::Pcg64;

use super::{Delay, PathModel, stream};
use crate::truth::DropReason;

/// What becomes of a packet that enters a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// It comes out.
    Due {
        /// When, ns.
        due_ns: u64,
        /// When a second copy does, if there is one.
        copy_ns: Option<u64>,
    },
    /// It does not.
    Lost(DropReason),
}

/// One direction of a leg: its model, what waits, and its random numbers.
#[derive(Debug, Clone)]
pub struct Lane {
    model: PathModel,
    delay: Delay,
    /// Separate streams: what one model draws does not shift what another will.
    delays: Pcg64,
    losses: Pcg64,
    orders: Pcg64,
    in_bad_state: bool,
    busy_until_ns: u64,
    last_due_ns: u64,
    /// By events: added to each delay, and how many cuts are in force.
    pub(crate) added_ns: i64,
    pub(crate) cuts: u32,
}

impl Lane {
    /// A direction at rest. The name tells its random numbers from others'.
    pub fn new(model: PathModel, seed: u64, name: &str) -> Result<Self, String> {
        let delay = model.delay()?;
        Ok(Self::with_delay(model, delay, seed, name))
    }

    /// As [`Lane::new`], for a delay that is ready.
    pub(crate) fn with_delay(model: PathModel, delay: Delay, seed: u64, name: &str) -> Self {
        let of = |what: &str| stream(seed, &format!("{name} {what}"));
        Self {
            delays: of("delay"),
            losses: of("loss"),
            orders: of("order"),
            model,
            delay,
            in_bad_state: false,
            busy_until_ns: 0,
            last_due_ns: 0,
            added_ns: 0,
            cuts: 0,
        }
    }

    /// As the scenario describes it.
    pub fn model(&self) -> &PathModel {
        &self.model
    }

    /// Its delay, without what events added.
    pub fn delay(&self) -> &Delay {
        &self.delay
    }

    /// A packet of so many bytes enters at `now_ns` (never before the one before it).
    pub fn enter(&mut self, now_ns: u64, bytes: usize) -> Crossing {
        if self.cuts > 0 {
            return Crossing::Lost(DropReason::Cut);
        }
        if self.model.mtu.is_some_and(|mtu| bytes > usize::from(mtu)) {
            return Crossing::Lost(DropReason::TooBig);
        }
        let mut on_far_side_ns = now_ns;
        if let Some(rate) = self.model.rate_bits_per_s {
            let wait_ns = self.busy_until_ns.saturating_sub(now_ns);
            if let Some(limit) = self.model.queue_bytes
                && wait_ns > 0
            {
                let waiting = u128::from(wait_ns) * u128::from(rate) / 8_000_000_000;
                if waiting + bytes as u128 > u128::from(limit) {
                    return Crossing::Lost(DropReason::QueueFull);
                }
            }
            self.busy_until_ns =
                self.busy_until_ns.max(now_ns).saturating_add(self.model.serialisation_ns(bytes));
            on_far_side_ns = self.busy_until_ns;
        }
        // Lost on the wire: its place in the queue and its time on the wire were used all the same.
        if self.model.loss.loses(&mut self.in_bad_state, &mut self.losses) {
            return Crossing::Lost(DropReason::Loss);
        }
        let due_ns = self.due(on_far_side_ns);
        let twice = self.model.duplicate > 0.0 && self.orders.random::<f64>() < self.model.duplicate;
        Crossing::Due { due_ns, copy_ns: twice.then(|| self.due(on_far_side_ns)) }
    }

    fn due(&mut self, from_ns: u64) -> u64 {
        let delay_ns = self.delay.draw(from_ns, &mut self.delays);
        let due_ns = from_ns.saturating_add(delay_ns.saturating_add_signed(self.added_ns));
        if let Some(reorder) = self.model.reorder
            && self.orders.random::<f64>() < reorder.share
        {
            // Late ones neither wait for the order nor hold others up.
            return due_ns.saturating_add(reorder.late_ns);
        }
        self.last_due_ns = self.last_due_ns.max(due_ns);
        self.last_due_ns
    }
}
