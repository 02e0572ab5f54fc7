//! The parts of a round trip, by the stamps of this host's kernel and of the reflector.

use super::{InFlight, Receipt};
use fathom_wire::ReflectorStamps;

/// A reflector's pause counter that jumps by more than this was another reflector's (behind a load balancer, or
/// started anew): ten minutes, in µs.
const REMOTE_PAUSE_LIMIT_US: u32 = 600_000_000;

/// What a reflector's pause counter gained from one echo to a later one, in ns; 0 where it was another's.
pub fn pause_gained_ns(before_us: u32, pause_us: u32) -> u64 {
    let gained_us = pause_us.wrapping_sub(before_us);
    if gained_us > REMOTE_PAUSE_LIMIT_US { 0 } else { u64::from(gained_us) * 1_000 }
}

/// What of a round trip was spent in this host's stacks: sending, receiving. The rest is the reflector's and the
/// network's. Stamps that do not fit into the round trip (the wall clock was set in between, or a stamp is missing)
/// give nothing: the parts always add up.
pub(super) fn split(
    receipt: &Receipt<'_>,
    sent: &InFlight,
    rtt_ns: u64,
    reflector: Option<ReflectorStamps>,
) -> Option<(i64, i64)> {
    let (arrived_utc_ns, read_utc_ns) = receipt.stamps?;
    let send = sent.transmitted_utc_ns? - sent.sent_utc_ns?;
    let recv = read_utc_ns - arrived_utc_ns;
    let stay = reflector.map_or(0, |s| s.residence_ns());
    let inside = send.saturating_add(recv).saturating_add(stay);
    (send >= 0 && recv >= 0 && inside <= rtt_ns as i64).then_some((send, recv))
}
