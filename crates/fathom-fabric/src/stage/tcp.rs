//! A TCP connection as a middlebox sees it: enough to know how long to remember it, and what a RST must bear.

use crate::packet::{Flags, Protocol, Segment};

/// Which end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end whose packet opened the flow.
    Originator,
    /// The other.
    Responder,
}

impl Side {
    /// The other end.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Originator => Self::Responder,
            Self::Responder => Self::Originator,
        }
    }

    pub(super) fn index(self) -> usize {
        usize::from(self == Self::Responder)
    }
}

/// How far a flow has come. The names follow the limits of [`super::limits::IdleLimits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A SYN has been seen, and perhaps its answer.
    Opening,
    /// The handshake is complete, or the flow was taken up in its middle.
    Established,
    /// One end has sent a FIN.
    HalfClosed,
    /// Both have.
    Closed,
    /// One end has sent a RST.
    Reset,
    /// UDP.
    Datagram,
    /// ICMP and all else.
    Other,
}

impl State {
    /// Whether the connection is over, so that a new SYN begins another.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Closed | Self::Reset)
    }
}

/// A flow's state and the sequence numbers that a RST needs.
#[derive(Debug, Clone)]
pub struct Track {
    state: State,
    /// The responder has answered the SYN.
    answered: bool,
    fin: [bool; 2],
    /// The sequence number after the last that each end has sent, as far as it passed here.
    next: [Option<u32>; 2],
}

impl Track {
    /// A flow that this packet opens. A TCP packet other than a SYN takes the flow up in its middle, and may then be of the
    /// end that a middlebox calls the responder.
    pub fn new(protocol: Protocol, from: Side, segment: Option<&Segment>) -> Self {
        let state = match (protocol, segment) {
            (Protocol::Tcp, Some(tcp)) if tcp.flags.opens() => State::Opening,
            (Protocol::Tcp, _) => State::Established,
            (Protocol::Udp, _) => State::Datagram,
            _ => State::Other,
        };
        let mut track = Self { state, answered: state != State::Opening, fin: [false; 2], next: [None; 2] };
        track.observe(from, segment);
        if let (State::Established, Some(tcp)) = (track.state, segment) {
            // What the other end has sent so far, for a RST in its name.
            track.next[from.other().index()] = tcp.flags.has(Flags::ACK).then_some(tcp.ack);
        }
        track
    }

    /// Where the flow is.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether this segment begins a new connection with the ports of one that is over.
    pub fn is_reopened_by(&self, segment: Option<&Segment>) -> bool {
        self.state.is_over() && segment.is_some_and(|tcp| tcp.flags.opens())
    }

    /// A packet of the flow passes.
    pub fn observe(&mut self, from: Side, segment: Option<&Segment>) {
        let Some(tcp) = segment else { return };
        let end = tcp.next_seq();
        let next = &mut self.next[from.index()];
        // RFC 9293, 3.4: sequence numbers are compared modulo 2^32. A keepalive probe lies before what was sent.
        let rst = tcp.flags.has(Flags::RST);
        if !rst && next.is_none_or(|seen| end.wrapping_sub(seen) < 1 << 31) {
            *next = Some(end);
        }
        if rst {
            self.state = State::Reset;
            return;
        }
        self.fin[from.index()] |= tcp.flags.has(Flags::FIN);
        self.state = match self.state {
            State::Opening => {
                self.answered |= from == Side::Responder && tcp.flags.has(Flags::SYN | Flags::ACK);
                match from {
                    Side::Originator
                        if self.answered && tcp.flags.has(Flags::ACK) && !tcp.flags.has(Flags::SYN) =>
                    {
                        State::Established
                    }
                    _ => State::Opening,
                }
            }
            state => state,
        };
        if !self.state.is_over() {
            match self.fin {
                [true, true] => self.state = State::Closed,
                [true, false] | [false, true] => self.state = State::HalfClosed,
                [false, false] => {}
            }
        }
    }

    /// Sequence and acknowledgement number of a RST to this end in the other's name; `None` where nothing is known that
    /// the end would accept. RFC 5961, 3.2: a RST is obeyed where its sequence number is exactly the next expected; the
    /// best that a middlebox knows of that is what it has let pass.
    pub fn reset_to(&self, to: Side) -> Option<(u32, Option<u32>)> {
        let theirs = self.next[to.other().index()]?;
        Some((theirs, self.next[to.index()]))
    }
}
