//! A background load beside the samples: how much of it is due, and when it runs.

mod pacer;
mod phases;

pub use pacer::Pacer;
pub use phases::{Phases, Turn};

/// So many bytes in so many ns as bits a second; `None`: in no time.
pub fn bits_per_s(bytes: u64, duration_ns: u64) -> Option<u64> {
    let bits = u128::from(bytes) * 8_000_000_000;
    let rate = bits.checked_div(u128::from(duration_ns))?;
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}
