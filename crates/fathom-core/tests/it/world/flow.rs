//! One connection, as the network and the two kernels have it.

use super::{MS, S};
use fathom_core::event::TcpInfo;
use fathom_core::probe::Purpose;
use fathom_wire::Stamper;
use std::collections::VecDeque;

/// Bytes that a connection's buffers take while nothing gets through.
pub(crate) const BUFFER: usize = 64 << 10;
/// How long a kernel tries to connect (Linux: `tcp_syn_retries` of 6).
const SYN_TIMEOUT_NS: u64 = 127 * S;
/// A kernel's first retransmission (Linux: `TCP_RTO_MIN`); each further one takes twice as long.
const RTO_NS: u64 = 200 * MS;

/// How far a connection is. Where something is `ready_ns`, it happens then, or when the silence is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stage {
    Connecting {
        ready_ns: u64,
        refused: bool,
        began_ns: u64,
    },
    /// A handshake of TLS.
    Securing {
        ready_ns: u64,
        refused: bool,
    },
    Open,
    /// Closed by the probe; the peer closes its side then.
    Closing {
        ready_ns: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) stage: Stage,
    pub(crate) purpose: Purpose,
    pub(crate) stamper: Stamper,
    /// A request of the toy protocol that has come in part.
    pub(crate) kept: Vec<u8>,
    /// STAMP: answers sent.
    pub(crate) answers: u32,
    /// On the way there and back: when they arrive.
    pub(crate) packets: VecDeque<(u64, bool, Vec<u8>)>,
    pub(crate) in_buffers: usize,
    /// The kernel took less than it was given.
    pub(crate) blocked: bool,
    /// The kernel takes more at this time though nothing got through.
    pub(crate) room_at: Option<u64>,
    /// The next write fails.
    pub(crate) fails: bool,
    pub(crate) forgotten: bool,
    /// When the way is free for the next message.
    pub(crate) free_ns: u64,
    /// Since when data waits for the peer's acknowledgement.
    pub(crate) unacked_since: Option<u64>,
    pub(crate) sent_bytes: u64,
    pub(crate) acked_bytes: u64,
    retransmitted: u32,
    /// For the truth: what is out (when it was sent, and where in what comes back its answer ends), how much came back, and
    /// when something last came.
    owed: VecDeque<(u64, u64)>,
    answers_end: u64,
    received: u64,
    last_received: u64,
    /// A silence began the stall that goes on.
    stalled: bool,
    /// Messages that the kernel was given, the beginning of one included.
    pub(crate) handed_over: u64,
}

impl Flow {
    pub(crate) fn new(stage: Stage, purpose: Purpose, now: u64) -> Self {
        Self {
            stage,
            purpose,
            stamper: Stamper::default(),
            kept: Vec::new(),
            answers: 0,
            packets: VecDeque::new(),
            in_buffers: 0,
            blocked: false,
            room_at: None,
            fails: false,
            forgotten: false,
            free_ns: 0,
            unacked_since: None,
            sent_bytes: 0,
            acked_bytes: 0,
            retransmitted: 0,
            owed: VecDeque::new(),
            answers_end: 0,
            received: 0,
            last_received: now,
            stalled: false,
            handed_over: 0,
        }
    }

    /// It is established.
    pub(crate) fn opened(&mut self, now: u64) {
        (self.stage, self.last_received) = (Stage::Open, now);
    }

    /// When it has something for somebody.
    pub(crate) fn next_ns(&self, silent_until: u64, user_timeout_ns: u64) -> Option<u64> {
        let gives_up = self.unacked_since.map(|since| since + user_timeout_ns);
        let event = match self.stage {
            Stage::Connecting { ready_ns, began_ns, .. } => {
                Some(ready_ns.max(silent_until).min(began_ns + SYN_TIMEOUT_NS))
            }
            Stage::Securing { ready_ns, .. } | Stage::Closing { ready_ns } => {
                Some(ready_ns.max(silent_until))
            }
            Stage::Open if self.forgotten => self.writable_at(),
            Stage::Open => {
                let packet = self.packets.front().map(|(at, ..)| (*at).max(silent_until).max(self.free_ns));
                [packet, self.writable_at()].into_iter().flatten().min()
            }
        };
        [gives_up, event].into_iter().flatten().min()
    }

    /// When a blocked connection takes data again; `None`: not before something gets through.
    pub(crate) fn writable_at(&self) -> Option<u64> {
        let drained = (self.in_buffers <= BUFFER / 2).then_some(0);
        self.room_at.or(drained).filter(|_| self.blocked)
    }

    /// Whether the kernel gave up connecting.
    pub(crate) fn gave_up_connecting(&self, now: u64) -> bool {
        matches!(self.stage, Stage::Connecting { began_ns, .. } if now >= began_ns + SYN_TIMEOUT_NS)
    }

    /// Puts a packet on its way: in order of arrival, and, where order is kept, not before those sent earlier.
    pub(crate) fn put(&mut self, at: u64, back: bool, bytes: Vec<u8>, keeps_order: bool) {
        let before = self.packets.iter().filter(|packet| packet.1 == back).map(|packet| packet.0).max();
        let at = if keeps_order { at.max(before.unwrap_or(0)) } else { at };
        let place = self.packets.iter().position(|packet| packet.0 > at).unwrap_or(self.packets.len());
        self.packets.insert(place, (at, back, bytes));
    }

    /// The peer does not run for so long: what comes there in that time waits for its end, and what it has stamped is sent
    /// when it runs again.
    pub(crate) fn wait_for_peer(&mut self, now: u64, duration: u64) {
        for (at, back, _) in &mut self.packets {
            *at = if *back { *at + duration } else { (*at).max(now + duration) };
        }
        self.packets.make_contiguous().sort_by_key(|packet| packet.0);
    }

    /// A message's beginning was handed to the kernel; its answer is of so many bytes.
    pub(crate) fn owes(&mut self, now: u64, answer: usize) {
        self.answers_end += answer as u64;
        self.owed.push_back((now, self.answers_end));
    }

    /// Bytes reach the peer, whose kernel acknowledges them.
    pub(crate) fn arrived(&mut self, now: u64, bytes: usize) {
        self.retransmitted += self.timeouts(now);
        self.unacked_since = None;
        self.acked_bytes += bytes as u64;
        self.in_buffers = self.in_buffers.saturating_sub(bytes);
        if self.acked_bytes < self.sent_bytes {
            self.unacked_since = Some(now);
        }
    }

    /// Retransmission timeouts in a row.
    fn timeouts(&self, now: u64) -> u32 {
        let waited = self.unacked_since.map_or(0, |since| now.saturating_sub(since));
        (waited / RTO_NS + 1).ilog2()
    }

    /// What the kernel tells.
    pub(crate) fn view(&self, now: u64, rtt_ns: u64) -> TcpInfo {
        let waiting = self.sent_bytes - self.acked_bytes;
        TcpInfo {
            srtt_us: (rtt_ns / 1_000) as u32,
            retransmits: self.timeouts(now) as u8,
            total_retrans: self.retransmitted + self.timeouts(now),
            unacked: waiting.div_ceil(1_448) as u32,
            // As Linux counts them, the SYN is one.
            bytes_acked: self.acked_bytes + 1,
            ..TcpInfo::default()
        }
    }

    /// The truth: bytes come, or it ends (`None`). The silence that is over, if it was as long as this threshold: from, to, and
    /// whether it was the first since an echo.
    pub(crate) fn comes(
        &mut self,
        now: u64,
        bytes: Option<usize>,
        threshold: u64,
    ) -> Option<(u64, u64, bool)> {
        let from = self.owed.front().map(|(sent, _)| (*sent).max(self.last_received));
        let long = from.filter(|from| now - from >= threshold);
        let is_first = !self.stalled;
        self.stalled |= long.is_some_and(|from| now - from > threshold);
        self.last_received = now;
        self.received += bytes.unwrap_or(0) as u64;
        while self.owed.pop_front_if(|(_, end)| *end <= self.received).is_some() {
            self.stalled = false;
        }
        long.map(|from| (from, now, is_first))
    }
}
