//! What one end's counters of a stream come to, reading by reading.

use crate::codec::{Range, StreamResult, stream_id};
use fathom_core::event::TcpInfo;

/// One reading of a stream's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// When, in ns of a monotonic clock.
    pub at_ns: u64,
    /// Bytes written or read so far.
    pub bytes: u64,
    /// The kernel's view, where there is one.
    pub tcp: Option<TcpInfo>,
}

/// What happened on a stream between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// From the reading before to this one.
    pub length_ns: u64,
    /// Bytes written or read in it.
    pub bytes: u64,
    /// Segments sent again in it. None: this end receives, or its system does not tell.
    pub retransmits: Option<u32>,
    /// The congestion window at its end, bytes. None as `retransmits`.
    pub cwnd_bytes: Option<u64>,
    /// The smoothed round-trip time at its end, µs. None as `retransmits`.
    pub srtt_us: Option<u32>,
}

/// The account of one stream. The kernel's figures are kept where this end sends: on a connection that only receives, the
/// kernel measures no round trips and sends nothing again.
#[derive(Debug, Clone)]
pub struct Account {
    sends: bool,
    counted_from: Reading,
    last: Reading,
    srtt_us: RangeBuilder,
    cwnd_bytes: RangeBuilder,
}

impl Account {
    /// An account that begins with this reading.
    pub fn new(sends: bool, first: Reading) -> Self {
        Self {
            sends,
            counted_from: first,
            last: first,
            srtt_us: RangeBuilder::default(),
            cwnd_bytes: RangeBuilder::default(),
        }
    }

    /// Whether this end sends on it.
    pub fn sends(&self) -> bool {
        self.sends
    }

    /// The latest reading.
    pub fn last(&self) -> Reading {
        self.last
    }

    /// Notes the kernel's view between two intervals.
    pub fn look(&mut self, tcp: Option<TcpInfo>) {
        let Some(tcp) = tcp.filter(|_| self.sends) else { return };
        self.srtt_us.add(u64::from(tcp.srtt_us));
        if let Some(cwnd) = cwnd_bytes(&tcp) {
            self.cwnd_bytes.add(cwnd);
        }
    }

    /// Ends an interval with this reading.
    pub fn interval(&mut self, now: Reading) -> Interval {
        self.look(now.tcp);
        let before = std::mem::replace(&mut self.last, now);
        let tcp = now.tcp.filter(|_| self.sends);
        Interval {
            length_ns: now.at_ns.saturating_sub(before.at_ns),
            bytes: now.bytes.saturating_sub(before.bytes),
            retransmits: if self.sends { resent(&before, &now) } else { None },
            cwnd_bytes: tcp.as_ref().and_then(cwnd_bytes),
            srtt_us: tcp.map(|tcp| tcp.srtt_us),
        }
    }

    /// What came before this reading was warm-up and does not count.
    pub fn omit(&mut self, until: Reading) {
        self.counted_from = until;
        self.srtt_us = RangeBuilder::default();
        self.cwnd_bytes = RangeBuilder::default();
    }

    /// What it comes to with this last reading, as results name it; `ordinal` counts the test's streams from 0.
    pub fn result(&self, ordinal: u32, last: Reading) -> StreamResult {
        StreamResult {
            id: stream_id(ordinal),
            bytes: last.bytes.saturating_sub(self.counted_from.bytes),
            retransmits: if self.sends { resent(&self.counted_from, &last).map(u64::from) } else { None },
            duration_ns: last.at_ns.saturating_sub(self.counted_from.at_ns),
            srtt_us: self.srtt_us.range(),
            cwnd_bytes: self.cwnd_bytes.range(),
        }
    }
}

fn resent(before: &Reading, now: &Reading) -> Option<u32> {
    Some(now.tcp?.total_retrans.saturating_sub(before.tcp?.total_retrans))
}

/// The congestion window in bytes; none: the segment size is not known.
fn cwnd_bytes(tcp: &TcpInfo) -> Option<u64> {
    (tcp.snd_mss > 0).then(|| u64::from(tcp.snd_cwnd) * u64::from(tcp.snd_mss))
}

/// The range of one quantity, built reading by reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct RangeBuilder {
    sum: u64,
    range: Range,
}

impl RangeBuilder {
    /// Adds a reading.
    pub fn add(&mut self, value: u64) {
        let Range { count, min, max, .. } = &mut self.range;
        *min = if *count == 0 { value } else { value.min(*min) };
        *max = value.max(*max);
        *count += 1;
        self.sum = self.sum.saturating_add(value);
        self.range.mean = self.sum / self.range.count;
    }

    /// What the readings came to; none: there were none.
    pub fn range(&self) -> Option<Range> {
        (self.range.count > 0).then_some(self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ns: u64, bytes: u64, resent: u32, srtt_us: u32) -> Reading {
        let tcp =
            TcpInfo { srtt_us, total_retrans: resent, snd_cwnd: 10, snd_mss: 1_448, ..TcpInfo::default() };
        Reading { at_ns, bytes, tcp: Some(tcp) }
    }

    #[test]
    fn intervals_add_up_without_omitted_time() {
        let mut account = Account::new(true, reading(1_000, 0, 1, 0));
        let warm = account.interval(reading(2_000, 500, 4, 900));
        assert_eq!((warm.length_ns, warm.bytes, warm.retransmits), (1_000, 500, Some(3)));
        account.omit(reading(2_000, 500, 4, 900));
        account.look(reading(0, 0, 0, 100).tcp);
        let counted = account.interval(reading(3_000, 800, 9, 301));
        assert_eq!((counted.bytes, counted.retransmits, counted.srtt_us), (300, Some(5), Some(301)));
        assert_eq!(counted.cwnd_bytes, Some(14_480));
        let result = account.result(1, reading(3_500, 810, 9, 0));
        assert_eq!(
            (result.id, result.bytes, result.retransmits, result.duration_ns),
            (3, 310, Some(5), 1_500)
        );
        let srtt = result.srtt_us.expect("two readings");
        assert_eq!((srtt.count, srtt.min, srtt.mean, srtt.max), (2, 100, 200, 301));
    }

    #[test]
    fn receiver_claims_no_sender_figures() {
        let mut account = Account::new(false, reading(0, 0, 0, 0));
        let interval = account.interval(reading(10, 5, 2, 70));
        assert_eq!((interval.bytes, interval.retransmits, interval.srtt_us), (5, None, None));
        let result = account.result(0, reading(20, 9, 2, 70));
        assert_eq!((result.retransmits, result.srtt_us, result.cwnd_bytes), (None, None, None));
    }
}
