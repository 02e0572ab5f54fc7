//! What this side did since it last waited, and whether its kernel had room meanwhile for more.

use super::attribute::{Doing, Inflow, Seen};
use std::collections::VecDeque;

/// A client that reads so much between two waits may have had its receive window shut; with less it cannot have: Linux
/// announces 64 KiB at first, and later more (`tcp_rmem`, tcp(7)).
const WINDOW_BYTES: u64 = 32 << 10;
/// A client that is faster by this share is a little faster: who would not have waited then either was not held up.
const LITTLE: u64 = 20;
/// Pieces that are kept apart, and announcements: beyond them the oldest are taken together.
const KEPT: usize = 2_048;

/// What this side's kernel says of what it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that came over the connection's life.
    pub received: u64,
    /// It has announced room for so many more.
    pub window: u64,
    /// What the largest segment holds.
    pub segment: u64,
}

/// From the end of the piece before until then.
#[derive(Debug, Clone, Copy)]
struct Piece {
    until_ns: u64,
    inflow: Option<Inflow>,
    seen: Option<Seen>,
}

/// What the kernel said last.
#[derive(Debug, Clone, Copy)]
struct Told {
    received: u64,
    window: u64,
    is_shut: bool,
}

/// Busy time since this side last waited, one piece after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Busy {
    began_ns: u64,
    pieces: VecDeque<Piece>,
    bytes: u64,
    /// The newest bytes that were read came then, and were read.
    arrived_ns: u64,
    read_ns: u64,
    /// Until then a client that is a little faster would have waited for what it read.
    contested_ns: u64,
    rtt_ns: Option<u64>,
    told: Option<Told>,
    was_read: bool,
    /// Up to which byte there was room at most and at least, and since when.
    most: Edges,
    least: Edges,
}

/// Bounds of the byte up to which there was room, each since when; they only rise.
#[derive(Debug, Clone, Default)]
struct Edges(VecDeque<(u64, u64)>);

impl Edges {
    /// No edge so far was beyond this one, which lowers them.
    fn at_most(&mut self, edge: u64, now_ns: u64) {
        let mut since_ns = now_ns;
        while let Some((_, at_ns)) = self.0.pop_back_if(|&mut (last, _)| last >= edge) {
            since_ns = at_ns;
        }
        self.0.push_back((edge, since_ns));
    }

    fn at_least(&mut self, edge: u64, now_ns: u64) {
        if self.0.back().is_none_or(|&(last, _)| last < edge) {
            self.0.push_back((edge, now_ns));
        }
    }

    /// What was announced since has not been answered yet; and when that was announced.
    fn before(&mut self, since_ns: u64) -> Option<(u64, u64)> {
        while self.0.get(1).is_some_and(|&(_, at_ns)| at_ns <= since_ns) || self.0.len() > KEPT {
            self.0.pop_front();
        }
        self.0.front().copied()
    }
}

impl Busy {
    /// The least round trip of the path.
    pub(super) fn round_trip(&mut self, least_ns: u64) {
        self.rtt_ns = Some(least_ns);
    }

    pub(super) fn go_on(&mut self, ns: u64, now_ns: u64) {
        if ns == 0 {
            return;
        }
        if self.pieces.is_empty() {
            self.began_ns = now_ns - ns;
        }
        match self.pieces.back_mut() {
            Some(piece) if piece.inflow.is_none() && piece.seen.is_none() => piece.until_ns = now_ns,
            _ => self.pieces.push_back(Piece { until_ns: now_ns, inflow: None, seen: None }),
        }
        if self.pieces.len() > KEPT
            && let Some(oldest) = self.pieces.pop_front()
            && let Some(next) = self.pieces.front_mut()
        {
            next.inflow = if next.inflow == oldest.inflow { next.inflow } else { Some(Inflow::Unknown) };
            next.seen = if next.seen == oldest.seen { next.seen } else { Some(Seen::Changed) };
        }
    }

    /// A read gave bytes, which came then unless [`Busy::arrived`] says otherwise.
    pub(super) fn read(&mut self, bytes: u64, now_ns: u64) {
        self.contest();
        self.bytes += bytes;
        (self.arrived_ns, self.read_ns) = (now_ns, now_ns);
        self.was_read = true;
    }

    /// What lay here for so long, when it was read, was not waited for by one who had come to it earlier by less. Who works a twentieth
    /// faster comes to it earlier by a twentieth of what was done since the last wait: so of twenty times as long nobody else can have
    /// held it up.
    fn contest(&mut self) {
        let lay_ns = self.read_ns.saturating_sub(self.arrived_ns);
        self.contested_ns = self.contested_ns.max(self.read_ns.saturating_sub(lay_ns.saturating_mul(LITTLE)));
    }

    pub(super) fn arrived(&mut self, came_ns: u64) {
        self.arrived_ns = came_ns;
    }

    pub(super) fn looked(&mut self, seen: Seen) {
        for piece in self.pieces.iter_mut().rev().take_while(|piece| piece.seen.is_none()) {
            piece.seen = Some(seen);
        }
    }

    /// The window counts from what had come at the last acknowledgement, which may be 40 ms ago: with what has come by now it
    /// makes an edge that is too far, and never one that is too near.
    pub(super) fn room(&mut self, now_ns: u64, room: Room) {
        let Some(rtt_ns) = self.rtt_ns else { return };
        let edge = room.received.saturating_add(room.window);
        self.most.at_most(edge, now_ns);
        // A window that is another one was announced since, and counts from no less than what had come before.
        if let Some(told) = self.told.filter(|told| told.window != room.window) {
            self.least.at_least(told.received.saturating_add(room.window), now_ns);
        }
        let answered_ns = now_ns.checked_sub(rtt_ns);
        let most = self.most.before(answered_ns.unwrap_or(0)).map(|(edge, _)| edge);
        let least = answered_ns.and_then(|since_ns| {
            let (edge, at_ns) = self.least.before(since_ns)?;
            (at_ns <= since_ns).then_some(edge)
        });
        // A sender does not fill the last segments of a window (RFC 9293, 3.8.6.2.1).
        let filled = room.received.saturating_add(2 * room.segment);
        let is_shut = filled >= edge;
        let inflow = match self.told {
            Some(told) if told.is_shut && is_shut && told.received == room.received && !self.was_read => {
                Inflow::Shut
            }
            // All that was allowed a round trip ago has come.
            _ if most.is_none_or(|allowed| filled >= allowed) => Inflow::Held,
            // More came, and there was room left.
            Some(told) if told.received < room.received && least.is_some_and(|allowed| filled < allowed) => {
                Inflow::Free
            }
            _ => Inflow::Unknown,
        };
        for piece in self.pieces.iter_mut().rev().take_while(|piece| piece.inflow.is_none()) {
            piece.inflow = Some(inflow);
        }
        (self.told, self.was_read) =
            (Some(Told { received: room.received, window: room.window, is_shut }), false);
    }

    /// Takes the pieces: how each flowed, what looks saw, from when to when.
    fn take(&mut self) -> Vec<(Inflow, Option<Seen>, u64, u64)> {
        let is_little = std::mem::take(&mut self.bytes) < WINDOW_BYTES;
        let mut since_ns = self.began_ns;
        // Room that this side makes is answered a round trip later: what was shut for less may have been on its way.
        let mut on_its_way_ns = self.rtt_ns.unwrap_or(0);
        let mut taken = vec![];
        // Whoever fills the room in the end was ahead before, too.
        let full = |piece: &Piece| matches!(piece.inflow, Some(Inflow::Held | Inflow::Shut));
        let ahead = self.pieces.iter().rposition(full).unwrap_or(0);
        for piece in self.pieces.iter_mut().take(ahead).filter(|piece| piece.inflow != Some(Inflow::Shut)) {
            piece.inflow = Some(Inflow::Held);
        }
        for piece in std::mem::take(&mut self.pieces) {
            let inflow = match piece.inflow.unwrap_or(Inflow::Unknown) {
                Inflow::Unknown if is_little => Inflow::Free,
                inflow => inflow,
            };
            let mut from_ns = std::mem::replace(&mut since_ns, piece.until_ns);
            if inflow == Inflow::Shut && on_its_way_ns > 0 {
                let doubted_ns = on_its_way_ns.min(piece.until_ns - from_ns);
                on_its_way_ns -= doubted_ns;
                taken.push((Inflow::Held, piece.seen, from_ns, from_ns + doubted_ns));
                from_ns += doubted_ns;
            }
            taken.push((inflow, piece.seen, from_ns, piece.until_ns));
        }
        taken
    }

    /// A wait follows. What is seen of a piece without `Seen`, the next look says.
    pub(super) fn end_by_wait(&mut self) -> impl Iterator<Item = (Doing, Option<Seen>, u64)> + use<> {
        // What was read before the wait says nothing of what comes after it.
        (self.contested_ns, self.read_ns) = (0, 0);
        let taken = self.take().into_iter();
        taken.map(|(inflow, seen, since_ns, until_ns)| (Doing::Hidden(inflow), seen, until_ns - since_ns))
    }

    /// Nothing more is waited for in this turn: what lies before the last bytes came, and how long it went on afterwards. A piece that
    /// no look followed was seen so.
    pub(super) fn end_turn(&mut self, seen_last: Seen) -> (Vec<(Doing, Seen, u64)>, u64) {
        self.contest();
        let contested_ns = std::mem::take(&mut self.contested_ns).min(self.arrived_ns);
        let (mut tied, mut alone_ns) = (vec![], 0);
        for (inflow, seen, since_ns, until_ns) in self.take() {
            let before_ns = contested_ns.clamp(since_ns, until_ns) - since_ns;
            tied.push((Doing::Tied(inflow), seen.unwrap_or(seen_last), before_ns));
            alone_ns += until_ns - since_ns - before_ns;
        }
        (tied, alone_ns)
    }
}
