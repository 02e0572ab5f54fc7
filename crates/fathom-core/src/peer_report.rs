//! The peer report: inquiry the reflector what it last received on a connection, and what it answered.
//!
//! A question is a frame that any echo server sends back; only a reflector of ours writes an answer into it
//! (`fathom_wire::question`). So "it was echoed and not answered" is known too, and is no report.

use fathom_wire::{Answer, HEADER_LEN, Question, Standing as Wire};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How a connection stands with the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The reflector that answers has no memory of it.
    NotKnown,
    /// It is open there.
    Open,
    /// There it was closed in order from this side: by this host, or by something in its name.
    ClosedByProbe,
    /// The reflector closed it because nothing had moved on it for too long.
    ClosedIdle,
    /// There it broke: by a RST, or because that kernel gave up.
    Failed,
}

/// What the reflector said of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    /// How the connection stands there.
    pub standing: Standing,
    /// The latest sample whose request it received; `None`: the connection is not known there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<u64>,
    /// When it last read bytes from it: ns since the Unix epoch by the reflector's clock. `None` as `last_seq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_ns: Option<i64>,
    /// Bytes it has read whose echo its kernel has not taken yet. `None` as `last_seq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_bytes: Option<u32>,
    /// Segments of its echoes that this host has not acknowledged; 65,534 and more are one. `None`: its kernel does not
    /// tell, the connection is no longer open there, or it is not TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unacked: Option<u16>,
    /// When the reflector that does not know it began to run: ns since the Unix epoch by its clock. `None`: it knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<i64>,
}

impl PeerReport {
    /// Whether the reflector had the connection, and did not end it by a wish of its own.
    pub fn is_not_its_doing(&self) -> bool {
        matches!(self.standing, Standing::Open | Standing::ClosedByProbe | Standing::Failed)
    }
}

impl From<Answer> for PeerReport {
    fn from(answer: Answer) -> Self {
        let standing = match answer.standing {
            Wire::NotKnown => Standing::NotKnown,
            Wire::Open => Standing::Open,
            Wire::ClosedByProbe => Standing::ClosedByProbe,
            Wire::ClosedIdle => Standing::ClosedIdle,
            Wire::Failed => Standing::Failed,
        };
        let known = standing != Standing::NotKnown;
        Self {
            standing,
            last_seq: known.then_some(answer.last_seq),
            received_ns: known.then_some(answer.received_ns),
            unsent_bytes: known.then_some(answer.unsent),
            unacked: answer.unacked,
            began_ns: (!known).then_some(answer.received_ns),
        }
    }
}

/// Questions on their way at one time: 4 KiB, which any empty send buffer takes.
const ON_THE_WAY: usize = 64;

/// Asks one reflector about connections of one session.
#[derive(Debug)]
pub struct Inquiry {
    session: u32,
    next_number: u64,
    to_ask: VecDeque<u32>,
    on_the_way: VecDeque<Question>,
    /// An echo that has come in part (TCP).
    part: Vec<u8>,
}

/// What came back is no question of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnEcho;

impl Inquiry {
    /// About nothing yet.
    pub fn new(session: u32) -> Self {
        let (to_ask, on_the_way) = (VecDeque::new(), VecDeque::new());
        Self { session, next_number: 0, to_ask, on_the_way, part: Vec::with_capacity(HEADER_LEN) }
    }

    /// Asks about a connection too, unless that is under way.
    pub fn about(&mut self, connection: u32) {
        let asked = self.on_the_way.iter().any(|question| question.connection == connection);
        if !asked && !self.to_ask.contains(&connection) {
            self.to_ask.push_back(connection);
        }
    }

    /// The next question to send, if there is one and few enough are on the way.
    pub fn next_question(&mut self) -> Option<[u8; HEADER_LEN]> {
        if self.on_the_way.len() >= ON_THE_WAY {
            return None;
        }
        let connection = self.to_ask.pop_front()?;
        let question = Question { session: self.session, connection, number: self.next_number };
        self.next_number += 1;
        self.on_the_way.push_back(question);
        Some(question.encode())
    }

    /// The questions on the way, to be sent again: datagrams get lost.
    pub fn again(&self) -> impl Iterator<Item = [u8; HEADER_LEN]> {
        self.on_the_way.iter().map(Question::encode)
    }

    /// Whether nothing is to be asked or waited for.
    pub fn is_done(&self) -> bool {
        self.to_ask.is_empty() && self.on_the_way.is_empty()
    }

    /// TCP: takes the bytes of one read. `sink` gets each connection whose question came back, and the report in it, if
    /// there is one.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(u32, Option<PeerReport>),
    ) -> Result<(), NotAnEcho> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let question = *self.on_the_way.front().ok_or(NotAnEcho)?;
            let taken = rest.len().min(HEADER_LEN - self.part.len());
            self.part.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            if self.part.len() == HEADER_LEN {
                let report = read(&self.part, question.number).ok_or(NotAnEcho)?;
                self.part.clear();
                self.on_the_way.pop_front();
                sink(question.connection, report);
            }
        }
        Ok(())
    }

    /// UDP: takes one datagram: the connection it was about, if it is a question of ours that waits, and the report.
    pub fn receive_datagram(&mut self, bytes: &[u8]) -> Option<(u32, Option<PeerReport>)> {
        let at = self.on_the_way.iter().position(|question| read(bytes, question.number).is_some())?;
        let question = self.on_the_way.remove(at)?;
        Some((question.connection, read(bytes, question.number)?))
    }
}

/// The report in an echo of question `number`, if it is one; the inner `None` is an echo without an answer.
#[expect(clippy::option_option, reason = "no echo of it, an echo without a report, an echo with one")]
fn read(bytes: &[u8], number: u64) -> Option<Option<PeerReport>> {
    let bytes: &[u8; HEADER_LEN] = bytes.try_into().ok()?;
    let (head, part) = (bytes.first_chunk()?, bytes.last_chunk()?);
    Question::decode(head).filter(|question| question.number == number)?;
    Answer::decode(part).ok().map(|answer| answer.map(PeerReport::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_wire::{ConnectionView, Stamper};

    fn ask(connections: impl IntoIterator<Item = u32>) -> (Inquiry, Vec<u8>) {
        let mut inquiry = Inquiry::new(7);
        connections.into_iter().for_each(|connection| inquiry.about(connection));
        let mut sent = Vec::new();
        while let Some(question) = inquiry.next_question() {
            sent.extend_from_slice(&question);
        }
        (inquiry, sent)
    }

    fn answered(mut bytes: Vec<u8>) -> Vec<u8> {
        Stamper::default().pass_answering(ConnectionView::default(), &mut bytes, |question| {
            let standing = if question.connection == 2 { Wire::NotKnown } else { Wire::Open };
            let last_seq = u64::from(question.connection) * 10;
            Some(Answer { standing, last_seq, received_ns: 99, ..Answer::default() })
        });
        bytes
    }

    #[test]
    fn reports_belong_to_their_connections_however_they_arrive() {
        for chunk in [1, 31, 64, 100, 192] {
            let (mut inquiry, sent) = ask([3, 1, 2]);
            let mut reports = Vec::new();
            for piece in answered(sent).chunks(chunk) {
                inquiry
                    .receive(piece, |connection, report| reports.push((connection, report)))
                    .expect("echoes");
            }
            let [(3, Some(three)), (1, Some(one)), (2, Some(two))] = reports[..] else {
                panic!("{reports:?}")
            };
            assert_eq!((three.last_seq, one.last_seq), (Some(30), Some(10)));
            assert_eq!((two.standing, two.last_seq, two.began_ns), (Standing::NotKnown, None, Some(99)));
            assert!(inquiry.is_done());
        }
    }

    #[test]
    fn a_plain_echo_is_no_report() {
        let (mut inquiry, sent) = ask([3]);
        let mut reports = Vec::new();
        inquiry.receive(&sent, |connection, report| reports.push((connection, report))).expect("an echo");
        assert_eq!(reports, [(3, None)]);
    }

    #[test]
    fn other_bytes_are_no_echo() {
        for damage in [0, 30, 33, 63] {
            let (mut inquiry, sent) = ask([3]);
            let mut bytes = answered(sent);
            bytes[damage] ^= 1;
            assert_eq!(inquiry.receive(&bytes, |_, _| panic!("reports")), Err(NotAnEcho), "byte {damage}");
        }
        let (mut inquiry, sent) = ask([3]);
        inquiry.receive(&sent, |_, _| {}).expect("an echo");
        assert_eq!(inquiry.receive(&sent, |_, _| panic!("reports")), Err(NotAnEcho), "once is enough");
    }

    #[test]
    fn datagrams_come_in_any_order_and_twice() {
        let (mut inquiry, sent) = ask([3, 1]);
        let bytes = answered([&sent[64..], &sent[..64], &sent[..64]].concat());
        let reports: Vec<_> = bytes.chunks(64).map(|echo| inquiry.receive_datagram(echo)).collect();
        let connections: Vec<_> =
            reports.iter().map(|reports| reports.map(|(connection, _)| connection)).collect();
        assert_eq!(connections, [Some(1), Some(3), None]);
        assert_eq!(inquiry.receive_datagram(b"hello"), None);
    }

    #[test]
    fn no_more_are_on_the_way_than_a_buffer_takes_and_none_is_asked_twice() {
        let (mut inquiry, sent) = ask((0..100).chain(0..100));
        assert_eq!(sent.len(), ON_THE_WAY * HEADER_LEN);
        assert_eq!(inquiry.again().count(), ON_THE_WAY);
        let mut reports = 0;
        inquiry.receive(&sent, |_, _| reports += 1).expect("echoes");
        while let Some(question) = inquiry.next_question() {
            inquiry.receive(&question, |_, _| reports += 1).expect("an echo");
        }
        assert_eq!((reports, inquiry.is_done()), (100, true));
    }
}
