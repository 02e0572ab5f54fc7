//! What a leg does to packets in one direction: delay and jitter, loss, duplication, reordering, rate and queue, MTU.
//!
//! A [`PathModel`] is a plain description, as the scenario writes it; [`Delay`] is its delay made ready to draw from, and
//! [`Lane`] one direction of a leg at work, with its state and its own streams of random numbers.
//!
//! Every delay can be stated beforehand: [`PathModel::mean_ns`] and [`PathModel::quantile_ns`] say what packets that meet
//! no load will show, so that what the fabric did can be held against what was asked.

mod delay;
mod jitter;
mod lane;
mod loss;
mod random;
pub(crate) mod spiked;
mod table;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use delay::{Correlation, Delay};
pub use jitter::{Jitter, Part};
pub use lane::{Crossing, Lane};
pub use loss::Loss;
pub use random::stream;

/// One direction of a leg.
///
/// A packet that enters waits for those before it and takes its time on the wire (where there is a rate), then may be
/// lost, then takes `delay_ns` plus jitter. Packets leave in the order in which they came, unless `reorder` says otherwise:
/// one that drew a shorter delay waits for the one before it, so at high packet rates the mean lies above the model's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathModel {
    /// Propagation, ns: the least that any packet takes.
    pub delay_ns: u64,
    /// Added to the propagation, packet by packet.
    pub jitter: Jitter,
    /// How alike the jitter of successive packets is.
    pub correlation: Correlation,
    /// Packets that do not arrive.
    pub loss: Loss,
    /// Share of packets that arrive twice, 0 to 1. The copy has its own delay and follows the first.
    pub duplicate: f64,
    /// Packets that others may overtake; none by default.
    pub reorder: Option<Reorder>,
    /// Bits (of IP packets, without framing) per second; absent is without limit.
    pub rate_bits_per_s: Option<u64>,
    /// Most bytes that may wait for the wire, the packet on it included; absent is without limit of its own.
    pub queue_bytes: Option<u64>,
    /// Most bytes of one IP packet; absent is without limit.
    pub mtu: Option<u16>,
}

/// A share of packets takes so much longer and does not keep the order: those behind it overtake.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Share of packets, 0 to 1.
    pub share: f64,
    /// Added to their delay, ns.
    pub late_ns: u64,
}

impl Default for PathModel {
    fn default() -> Self {
        Self {
            delay_ns: 0,
            jitter: Jitter::None,
            correlation: Correlation::None,
            loss: Loss::None,
            duplicate: 0.0,
            reorder: None,
            rate_bits_per_s: None,
            queue_bytes: None,
            mtu: None,
        }
    }
}

/// A share must be one.
fn share(what: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(format!("{what} is {value}; a share lies between 0 and 1"))
    }
}

impl PathModel {
    /// A constant delay and nothing else.
    pub fn constant(delay_ns: u64) -> Self {
        Self { delay_ns, ..Self::default() }
    }

    /// What is wrong with it, if anything.
    pub fn validate(&self) -> Result<(), String> {
        self.jitter.validate()?;
        self.correlation.validate()?;
        self.loss.validate()?;
        share("duplicate", self.duplicate)?;
        if let Some(reorder) = &self.reorder {
            share("reorder", reorder.share)?;
        }
        if self.rate_bits_per_s == Some(0) {
            return Err("rate is 0; leave it out for no limit, or cut the link by an event".to_owned());
        }
        if self.queue_bytes.is_some() && self.rate_bits_per_s.is_none() {
            return Err("a queue without a rate never fills; state the rate too".to_owned());
        }
        // RFC 791, section 3.2: "every internet module must be able to forward a datagram of 68 octets without further
        // fragmentation".
        if self.mtu.is_some_and(|mtu| mtu < 68) {
            return Err("mtu is below 68 bytes, the least that IPv4 allows (RFC 791)".to_owned());
        }
        Ok(())
    }

    /// The delay, ready to draw from. Making it takes about a millisecond: keep it where it is needed often.
    pub fn delay(&self) -> Result<Delay, String> {
        self.validate()?;
        Ok(Delay::new(self))
    }

    /// Mean delay of packets that meet no load, without their time on the wire; ns. Not a number where the model is invalid.
    pub fn mean_ns(&self) -> f64 {
        self.delay().map_or(f64::NAN, |delay| delay.mean_ns())
    }

    /// The delay that a share `p` (0 to 1) of packets do not exceed, as [`PathModel::mean_ns`]; ns.
    pub fn quantile_ns(&self, p: f64) -> f64 {
        self.delay().map_or(f64::NAN, |delay| delay.quantile_ns(p))
    }

    /// How long a packet of so many bytes is on the wire, ns, rounded up; 0 without a rate.
    pub fn serialisation_ns(&self, bytes: usize) -> u64 {
        self.rate_bits_per_s.map_or(0, |rate| {
            (bytes as u128 * 8 * 1_000_000_000).div_ceil(u128::from(rate)).try_into().unwrap_or(u64::MAX)
        })
    }
}
