//! What this side did since it last waited, and whether its kernel had room meanwhile for more.

use super::attribute::{Doing, Inflow, Seen};
use super::stood::Shut;
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
    /// This side did not run.
    is_stood: bool,
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
    /// What had been read when this side first did not run since it last waited.
    stood_at: Option<u64>,
    /// Times in which it did not, and nothing could come.
    shut: Shut,
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
    /// A usual round trip of the path.
    pub(super) fn round_trip(&mut self, ns: u64) {
        self.rtt_ns = Some(ns);
    }

    /// This side did something else than to wait, or did not run.
    pub(super) fn go_on(&mut self, ns: u64, now_ns: u64, is_stood: bool) {
        if ns == 0 {
            return;
        }
        if is_stood {
            self.stood_at.get_or_insert(self.bytes);
        }
        if self.pieces.is_empty() {
            self.began_ns = now_ns - ns;
        }
        match self.pieces.back_mut() {
            Some(piece) if piece.inflow.is_none() && piece.seen.is_none() && piece.is_stood == is_stood => {
                piece.until_ns = now_ns;
            }
            _ => self.pieces.push_back(Piece { until_ns: now_ns, inflow: None, seen: None, is_stood }),
        }
        if self.pieces.len() > KEPT {
            self.join_oldest();
        }
    }

    /// Of the oldest two in which this side ran makes one.
    fn join_oldest(&mut self) {
        let ran = |at: &usize| !self.pieces[*at].is_stood && !self.pieces[at + 1].is_stood;
        let at = (0..self.pieces.len() - 1).find(ran).unwrap_or(0);
        if let Some(older) = self.pieces.remove(at) {
            let joined = &mut self.pieces[at];
            joined.inflow = if joined.inflow == older.inflow { joined.inflow } else { Some(Inflow::Unknown) };
            joined.seen = if joined.seen == older.seen { joined.seen } else { Some(Seen::Changed) };
            joined.is_stood &= older.is_stood;
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
    ///
    /// `quiet_ns`: since then nothing came, at the latest. Where there is no room now there was none all the while.
    pub(super) fn room(&mut self, now_ns: u64, room: Room, quiet_ns: Option<u64>) {
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
        let is_open = least.is_some_and(|allowed| filled < allowed);
        for piece in self.pieces.iter_mut().rev().take_while(|piece| piece.inflow.is_none()) {
            // Nobody read meanwhile: there was room all the while where some is left.
            piece.inflow = Some(if piece.is_stood && is_open { Inflow::Free } else { inflow });
        }
        if let Some(quiet_ns) = quiet_ns.filter(|_| is_shut) {
            self.shut_since(quiet_ns);
        }
        (self.told, self.was_read) =
            (Some(Told { received: room.received, window: room.window, is_shut }), false);
    }

    /// Of the latest time in which this side did not run nothing could come from then on.
    fn shut_since(&mut self, quiet_ns: u64) {
        let Some(at) = self.pieces.iter().rposition(|piece| piece.is_stood) else { return };
        let from_ns = at.checked_sub(1).map_or(self.began_ns, |before| self.pieces[before].until_ns);
        let piece = &mut self.pieces[at];
        if piece.until_ns <= quiet_ns {
            return;
        }
        let before = Piece { until_ns: quiet_ns, inflow: Some(Inflow::Held), ..*piece };
        piece.inflow = Some(Inflow::Shut);
        if quiet_ns > from_ns {
            self.pieces.insert(at, before);
        }
    }

    /// Takes the pieces: how each flowed, what looks saw, from when to when.
    fn take(&mut self) -> Vec<(Inflow, Option<Seen>, bool, u64, u64)> {
        let bytes = std::mem::take(&mut self.bytes);
        let (is_little, stood_at) = (bytes < WINDOW_BYTES, self.stood_at.take());
        let mut shut_ns = 0;
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
                taken.push((Inflow::Held, piece.seen, piece.is_stood, from_ns, from_ns + doubted_ns));
                from_ns += doubted_ns;
            }
            if piece.is_stood && inflow == Inflow::Shut {
                shut_ns += piece.until_ns - from_ns;
            }
            taken.push((inflow, piece.seen, piece.is_stood, from_ns, piece.until_ns));
        }
        if let Some(read) = stood_at.filter(|_| shut_ns > 0) {
            self.shut.add(shut_ns, bytes - read);
        }
        taken
    }

    /// How much of the times in which this side did not run, and nothing could come, may have been the others' all the same.
    pub(super) fn doubted_ns(&self, bytes: u64, rest_ns: u64) -> u64 {
        self.shut.doubted_ns(bytes, rest_ns)
    }

    /// A wait follows. What is seen of a piece without `Seen`, the next look says.
    pub(super) fn end_by_wait(&mut self) -> impl Iterator<Item = (Doing, Option<Seen>, u64)> + use<> {
        // What was read before the wait says nothing of what comes after it.
        (self.contested_ns, self.read_ns) = (0, 0);
        let taken = self.take().into_iter();
        taken.map(|(inflow, seen, is_stood, since_ns, until_ns)| {
            let (doing, seen) = match inflow {
                _ if !is_stood => (Doing::Hidden(inflow), seen),
                // There was room, and it had time enough to wait for more.
                Inflow::Free => (Doing::Hidden(inflow), Some(seen.unwrap_or(Seen::Changed).unlooked())),
                Inflow::Shut => (Doing::StoodShut, Some(Seen::Changed)),
                Inflow::Unknown | Inflow::Held => (Doing::Stood, Some(Seen::Changed)),
            };
            (doing, seen, until_ns - since_ns)
        })
    }

    /// Nothing more is waited for in this turn: what lies before the last bytes came, and how long it went on afterwards. A piece that
    /// no look followed was seen so.
    pub(super) fn end_turn(&mut self, seen_last: Seen) -> (Vec<(Doing, Seen, u64)>, u64) {
        self.contest();
        let contested_ns = std::mem::take(&mut self.contested_ns).min(self.arrived_ns);
        let (mut tied, mut alone_ns) = (vec![], 0);
        for (inflow, seen, is_stood, since_ns, until_ns) in self.take() {
            let before_ns = contested_ns.clamp(since_ns, until_ns) - since_ns;
            let doing = match inflow {
                _ if !is_stood => Doing::Tied(inflow),
                Inflow::Shut => Doing::StoodShut,
                _ => Doing::Stood,
            };
            tied.push((doing, seen.unwrap_or(seen_last), before_ns));
            alone_ns += until_ns - since_ns - before_ns;
        }
        (tied, alone_ns)
    }
}
