//! STAMP's Session-Reflector (RFC 8762, section 4.3), beside the echo service and on a port of its own.
//!
//! An answer is as long as its packet, extensions included; what is shorter than a packet gets none, so that a TWAMP
//! Light sender must pad its packets to 44 bytes: 14 would have to be answered by three times as much.

use crate::flows::Lately;
use fathom_os::clock::wall_clock_error_ns;
use fathom_wire::ConnectionView;
use fathom_wire::rfc8762::{ErrorEstimate, Reflection, Sent};
use std::net::SocketAddr;

/// How often the host is asked how far its clock may be from the truth.
const ASK_EVERY_NS: u64 = 1_000_000_000;

/// What to write as an answer's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// How many answers of its session went before.
    Stateful,
    /// The packet's own.
    Stateless,
}

/// The sessions that are served.
#[derive(Debug)]
pub(crate) struct Sessions {
    kind: Kind,
    /// Answers by sender and session identifier, of those heard of lately.
    answers: Lately<(SocketAddr, u16), u32>,
    error: ErrorEstimate,
    asked_ns: Option<u64>,
}

impl Sessions {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, answers: Lately::default(), error: ErrorEstimate::of(None), asked_ns: None }
    }

    /// Makes a packet its own answer; false: it is none.
    pub(crate) fn answer(
        &mut self,
        packet: &mut [u8],
        peer: SocketAddr,
        ttl: Option<u8>,
        view: ConnectionView,
        now_ns: u64,
    ) -> bool {
        let Some(sent) = Sent::decode(packet) else { return false };
        if self.asked_ns.is_none_or(|asked| now_ns >= asked + ASK_EVERY_NS) {
            (self.asked_ns, self.error) = (Some(now_ns), ErrorEstimate::of(wall_clock_error_ns()));
        }
        let sequence = (self.kind == Kind::Stateful).then(|| {
            let answers = self.answers.entry((peer, sent.session));
            let before = *answers;
            *answers = before.wrapping_add(1);
            before
        });
        let ConnectionView { received_ns, sent_ns, .. } = view;
        let (error, ttl) = (self.error, ttl.unwrap_or(0));
        Reflection { sequence, received_ns, sent_ns, error, ttl }.write(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reflected(sessions: &mut Sessions, port: u16, session: u16, sequence: u32) -> u32 {
        let mut packet = [0; 44];
        Sent { sequence, timestamp: 9, error: ErrorEstimate::of(None), session }.encode(&mut packet);
        let peer = SocketAddr::from(([10, 0, 0, 1], port));
        assert!(sessions.answer(&mut packet, peer, Some(64), ConnectionView::default(), 0));
        assert_eq!(packet[40], 64);
        u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]])
    }

    #[test]
    fn answers_are_counted_by_sender_and_session() {
        let mut sessions = Sessions::new(Kind::Stateful);
        let numbers = [(5_000, 1, 7), (5_000, 1, 9), (5_000, 2, 7), (5_001, 1, 7), (5_000, 1, 8)]
            .map(|(port, session, sequence)| reflected(&mut sessions, port, session, sequence));
        assert_eq!(numbers, [0, 1, 0, 0, 2]);
        let mut sessions = Sessions::new(Kind::Stateless);
        assert_eq!([7, 9, 8].map(|sequence| reflected(&mut sessions, 5_000, 1, sequence)), [7, 9, 8]);
    }

    #[test]
    fn what_is_too_short_stays_as_it_came() {
        let mut sessions = Sessions::new(Kind::Stateful);
        let (peer, view) = (SocketAddr::from(([10, 0, 0, 1], 5_000)), ConnectionView::default());
        let mut packet = [3; 43];
        assert!(!sessions.answer(&mut packet, peer, None, view, 0));
        assert_eq!(packet, [3; 43]);
    }
}
