//! How fast the path is seen to carry bytes: at least so fast, so that what came can have taken it so long at most.

/// Payload of a segment on Ethernet.
const SEGMENT_BYTES: u64 = 1_460;
/// What one call of the receive path takes together has one stamp.
const STAMP_NS: u64 = 10_000;
/// The fastest that was seen of many is faster than they all are.
const MARGIN: f64 = 1.1;
/// Of a small round trip, both ways.
const SMALL_BYTES: f64 = 128.0;

/// How much of the waits for later bytes the path took at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    /// Of all waits so much was no longer than a round trip, which is what room takes that was made late.
    pub(super) share_of_waits: f64,
    /// And so long it carried the bytes.
    pub(super) ns: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Rate {
    /// Later bytes, the waits for them, and what of each of these is no longer than a round trip.
    bytes: u64,
    waits_ns: u64,
    short_ns: u64,
    last_ns: Option<u64>,
    best_bytes_per_ns: f64,
}

impl Rate {
    /// Bytes that are not the first of an answer, and how long they were waited for.
    pub(super) fn waited(&mut self, ns: u64, rtt_ns: u64, bytes: u64) {
        self.waits_ns += ns;
        self.short_ns += ns.min(rtt_ns);
        self.bytes += bytes;
    }

    /// Bytes of which the first came then, and the last. `None`: they were there when they were read, and nobody knows since when.
    pub(super) fn arrived(&mut self, first_ns: Option<u64>, last_ns: u64, bytes: u64) {
        let Some(first_ns) = first_ns else {
            self.last_ns = Some(last_ns);
            return;
        };
        // The first segment is of the time before.
        let burst = bytes.saturating_sub(SEGMENT_BYTES) as f64
            / last_ns.saturating_sub(first_ns).max(STAMP_NS) as f64;
        let gap_ns = self.last_ns.map_or(0, |last_ns| first_ns.saturating_sub(last_ns));
        // Of several segments it is not known what the first one held.
        let is_one = gap_ns > 0 && bytes <= SEGMENT_BYTES;
        let spaced = if is_one { bytes as f64 / gap_ns.max(STAMP_NS) as f64 } else { 0.0 };
        self.best_bytes_per_ns = self.best_bytes_per_ns.max(burst).max(spaced);
        self.last_ns = Some(last_ns);
    }

    /// The same of bytes of which the first came then at the earliest: so they came no slower.
    pub(super) fn arrived_since(&mut self, earliest_ns: u64, last_ns: u64, bytes: u64) {
        let rate =
            |bytes: u64, since_ns: u64| bytes as f64 / last_ns.saturating_sub(since_ns).max(STAMP_NS) as f64;
        let burst = rate(bytes.saturating_sub(SEGMENT_BYTES), earliest_ns);
        // What fills one segment at most came since the last one before.
        let before_ns = self.last_ns.filter(|before_ns| *before_ns < last_ns && bytes <= SEGMENT_BYTES);
        let spaced = before_ns.map_or(0.0, |before_ns| rate(bytes, before_ns));
        self.best_bytes_per_ns = self.best_bytes_per_ns.max(burst).max(spaced);
        self.last_ns = Some(last_ns);
    }

    /// What the path took of all this at most, by a round trip of it. Of the waits so much may have been this side's lateness.
    pub(super) fn carried(&self, rtt_ns: u64, late_ns: u64) -> Carried {
        let best = self.best_bytes_per_ns.max(SMALL_BYTES / rtt_ns.max(1) as f64);
        Carried {
            share_of_waits: self.short_ns as f64 / self.waits_ns.saturating_sub(late_ns).max(1) as f64,
            ns: (MARGIN * self.bytes as f64 / best) as u64,
        }
    }
}
