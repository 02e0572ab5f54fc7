//! The peer report: asks the reflector what it last received on a connection, and who it is that answers.
//!
//! A question is a frame that any echo server sends back; only a reflector of ours writes an answer into it
//! (`fathom_wire::question`). So "it was echoed and not answered" is known too, and is no report.

use fathom_wire::{
    About, Announced, Answer, HEADER_LEN, Introduction, Question, Reply, Secret, Silence, Standing as Wire,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

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
    /// Who it is that answered. `None`: an older reflector, which does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responder: Option<Responder>,
}

/// The reflector that answered, by its own account. Times are durations before its answer, so that no clock of its is
/// compared with one of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responder {
    /// Its place and its process: the same in the stamps of every echo that it sends.
    pub identity: u32,
    /// For how long it has run, in ns.
    pub age_ns: u64,
    /// How long ago it last read bytes from the connection, in ns; `None`: it does not know the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_ago_ns: Option<u64>,
    /// How long ago its pause of 200 ms or more ended that covers most of the silence asked about (older versions: its
    /// latest one), in ns; `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_ago_ns: Option<u64>,
    /// How long that pause lasted, in ns. `None` as `paused_ago_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_ns: Option<u64>,
    /// The port of this end of the connection, as it arrives there; `None`: it does not know the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How the connection failed there; `None`: it did not, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// How a connection failed at the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// A RST came.
    Reset,
    /// Its kernel gave up retransmitting.
    TimedOut,
    /// Its own host destroyed the socket.
    Aborted,
}

impl From<Introduction> for Responder {
    fn from(introduction: Introduction) -> Self {
        const MS: u64 = 1_000_000;
        let Introduction { age_ns, identity, received_ago_ms, pause_ms, port, failure } = introduction;
        Self {
            identity,
            age_ns,
            received_ago_ns: received_ago_ms.map(|ms| u64::from(ms) * MS),
            paused_ago_ns: pause_ms.map(|(ago, _)| u64::from(ago) * MS),
            paused_ns: pause_ms.map(|(_, lasted)| u64::from(lasted) * MS),
            port,
            failure: match failure {
                fathom_wire::Failure::NotTold => None,
                fathom_wire::Failure::Reset => Some(Failure::Reset),
                fathom_wire::Failure::TimedOut => Some(Failure::TimedOut),
                fathom_wire::Failure::Aborted => Some(Failure::Aborted),
            },
        }
    }
}

impl PeerReport {
    /// Whether it has given all its echoes to its kernel, and that cannot get them through.
    pub fn has_answered_in_vain(&self) -> bool {
        let timed_out = self.responder.is_some_and(|who| who.failure == Some(Failure::TimedOut));
        match self.standing {
            Standing::Open => {
                self.unsent_bytes == Some(0) && self.unacked.is_some_and(|segments| segments > 0)
            }
            Standing::Failed => timed_out,
            Standing::NotKnown | Standing::ClosedByProbe | Standing::ClosedIdle => false,
        }
    }

    /// Whether the reflector had the connection, and it ended there, if it did, by nobody's wish there: the probe's side
    /// closed it, or a RST came, or nothing was acknowledged any more.
    pub fn is_not_its_doing(&self) -> bool {
        let by_its_host = self.responder.is_some_and(|who| who.failure == Some(Failure::Aborted));
        let not_its = matches!(self.standing, Standing::Open | Standing::ClosedByProbe | Standing::Failed);
        not_its && !by_its_host
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
            responder: None,
        }
    }
}

/// Questions on their way at one time: 4 KiB, which any empty send buffer takes.
const ON_THE_WAY: usize = 64;

/// From and to, by this host's monotonic clock.
pub type Span = (u64, u64);

/// What was asked: about which connection and which silence, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The connection.
    pub connection: u32,
    /// The silence that it was asked about, as it was told to [`Inquiry::about`]: an answer says nothing of a later one.
    pub silence: Option<Span>,
    /// When the first question was to be sent: ns by this host's monotonic clock. It was answered then or later.
    pub at_ns: u64,
}

/// The questions about a connection that are still to come back.
#[derive(Debug)]
struct UnderWay {
    silence: Option<Span>,
    /// When the first of them was to be sent.
    at_ns: Option<u64>,
    /// The other silence that is to be asked about when they are back.
    next: Option<Span>,
}

/// Asks one reflector about connections of one session.
#[derive(Debug)]
pub struct Inquiry {
    session: u32,
    next_number: u64,
    to_ask: VecDeque<(u32, Option<Span>, About)>,
    on_the_way: VecDeque<Question>,
    /// The connections of both.
    under_way: BTreeMap<u32, UnderWay>,
    /// Questions that have come back.
    came_back: u64,
    /// What was said about connections of which only one question has come back.
    half: Vec<(u32, Option<Reply>)>,
    /// An echo that has come in part (TCP).
    part: Vec<u8>,
    /// What its questions bear the code of.
    secret: Option<Secret>,
    /// The reflector was asked which maintenance is announced to its host.
    asked_notices: bool,
    /// The reflector's answer: the announced maintenance, if any.
    #[expect(
        clippy::option_option,
        reason = "no answer, an answer that nothing is announced, one with a notice"
    )]
    notice: Option<Option<Announced>>,
}

/// What came back is no question of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnEcho;

impl Inquiry {
    /// About nothing yet.
    pub fn new(session: u32) -> Self {
        Self {
            session,
            next_number: 0,
            to_ask: VecDeque::new(),
            on_the_way: VecDeque::new(),
            under_way: BTreeMap::new(),
            came_back: 0,
            half: Vec::new(),
            part: Vec::with_capacity(HEADER_LEN),
            secret: None,
            asked_notices: false,
            notice: None,
        }
    }

    /// The same, whose questions bear the code of a secret; none: they bear none.
    #[must_use]
    pub fn sealed(self, secret: Option<Secret>) -> Self {
        Self { secret, ..self }
    }

    fn written(&self, question: &Question) -> [u8; HEADER_LEN] {
        let mut bytes = question.encode();
        if let Some(secret) = &self.secret {
            secret.seal(&mut bytes);
        }
        bytes
    }

    /// Asks about a connection too. `silence`: when it was silent, from and to. While questions about another silence of it
    /// are under way, it waits until they are back.
    pub fn about(&mut self, connection: u32, silence: Option<Span>) {
        match self.under_way.entry(connection) {
            Entry::Vacant(vacant) => {
                vacant.insert(UnderWay { silence, at_ns: None, next: None });
                self.to_ask
                    .extend([About::Connection, About::Reflector].map(|about| (connection, silence, about)));
            }
            Entry::Occupied(mut occupied) if occupied.get().silence != silence => {
                occupied.get_mut().next = silence;
            }
            Entry::Occupied(_) => {}
        }
    }

    /// Asks once which maintenance is announced to the reflector's host, above all during this silence.
    pub fn about_notices(&mut self, silence: Span) {
        if !std::mem::replace(&mut self.asked_notices, true) {
            self.to_ask.push_back((u32::MAX, Some(silence), About::Notices));
        }
    }

    /// Takes the reflector's answer, once: the announced maintenance, if any. `None`: it has not answered, or does not
    /// know the question.
    pub fn take_notice(&mut self) -> Option<Option<Announced>> {
        self.notice.take()
    }

    /// The next question to send, if there is one and few enough are on the way.
    pub fn next_question(&mut self, now_ns: u64) -> Option<[u8; HEADER_LEN]> {
        if self.on_the_way.len() >= ON_THE_WAY {
            return None;
        }
        let (connection, silence, about) = self.to_ask.pop_front()?;
        if let Some(under_way) = self.under_way.get_mut(&connection) {
            under_way.at_ns.get_or_insert(now_ns);
        }
        let silence = silence.and_then(|(from, to)| Silence::between(from, to, now_ns));
        let number = silence.map_or(self.next_number, |silence| silence.number(self.next_number));
        let question = Question { session: self.session, connection, number, about };
        self.next_number += 1;
        self.on_the_way.push_back(question);
        Some(self.written(&question))
    }

    /// The questions on the way, to be sent again: datagrams get lost.
    pub fn again(&self) -> impl Iterator<Item = [u8; HEADER_LEN]> {
        self.on_the_way.iter().map(|question| self.written(question))
    }

    /// Whether nothing is to be asked or waited for.
    pub fn is_done(&self) -> bool {
        self.to_ask.is_empty() && self.on_the_way.is_empty()
    }

    /// How many questions have come back, answered or not.
    pub fn came_back(&self) -> u64 {
        self.came_back
    }

    /// TCP: takes the bytes of one read. `sink` gets what was asked of each connection whose questions came back, and the
    /// report in them, if there is one.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(Asked, Option<PeerReport>),
    ) -> Result<(), NotAnEcho> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let question = *self.on_the_way.front().ok_or(NotAnEcho)?;
            let taken = rest.len().min(HEADER_LEN - self.part.len());
            self.part.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            if self.part.len() == HEADER_LEN {
                let reply = read(&self.part, question.number).ok_or(NotAnEcho)?;
                self.part.clear();
                self.on_the_way.pop_front();
                if let Some((asked, report)) = self.joined(&question, reply) {
                    sink(asked, report);
                }
            }
        }
        Ok(())
    }

    /// UDP: takes one datagram, if it is a question of ours that waits: what was asked and the report, once both questions
    /// about a connection have come back.
    pub fn receive_datagram(&mut self, bytes: &[u8]) -> Option<Option<(Asked, Option<PeerReport>)>> {
        let at = self.on_the_way.iter().position(|question| read(bytes, question.number).is_some())?;
        let question = self.on_the_way.remove(at)?;
        let reply = read(bytes, question.number)?;
        Some(self.joined(&question, reply))
    }

    /// One question about a connection has come back: what was asked, and the report, if it is the second.
    fn joined(&mut self, question: &Question, reply: Option<Reply>) -> Option<(Asked, Option<PeerReport>)> {
        self.came_back += 1;
        if question.about == About::Notices {
            // An older reflector answers with its identity.
            if let Some(Reply::Notice(announced)) = reply {
                self.notice = Some(announced);
            }
            return None;
        }
        let connection = question.connection;
        let Some(at) = self.half.iter().position(|(half, _)| *half == connection) else {
            self.half.push((connection, reply));
            return None;
        };
        let (_, other) = self.half.swap_remove(at);
        let UnderWay { silence, at_ns, next } = self.under_way.remove(&connection)?;
        let asked = Asked { connection, silence, at_ns: at_ns? };
        if next.is_some() {
            self.about(connection, next);
        }
        let replies = [reply, other].into_iter().flatten();
        let responder = replies.clone().find_map(|reply| match reply {
            Reply::Reflector(introduction) => Some(Responder::from(introduction)),
            Reply::Connection(_) | Reply::Notice(_) => None,
        });
        // An older reflector answers both alike.
        let report = replies.rev().find_map(|reply| match reply {
            Reply::Connection(answer) => Some(PeerReport::from(answer)),
            Reply::Reflector(_) | Reply::Notice(_) => None,
        });
        Some((asked, report.map(|report| PeerReport { responder, ..report })))
    }
}

/// The reply in an echo of question `number`, if it is one; the inner `None` is an echo that nobody answered.
#[expect(clippy::option_option, reason = "no echo of it, an echo without a reply, an echo with one")]
fn read(bytes: &[u8], number: u64) -> Option<Option<Reply>> {
    let bytes: &[u8; HEADER_LEN] = bytes.try_into().ok()?;
    let (head, part) = (bytes.first_chunk()?, bytes.last_chunk()?);
    Question::decode(head).filter(|question| question.number == number)?;
    Reply::decode(part).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_wire::{ConnectionView, Stamper};

    fn ask(connections: impl IntoIterator<Item = u32>) -> (Inquiry, Vec<u8>) {
        let mut inquiry = Inquiry::new(7);
        connections.into_iter().for_each(|connection| inquiry.about(connection, None));
        let mut sent = Vec::new();
        while let Some(question) = inquiry.next_question(0) {
            sent.extend_from_slice(&question);
        }
        (inquiry, sent)
    }

    fn answered(bytes: Vec<u8>) -> Vec<u8> {
        answered_by(true, bytes)
    }

    fn answered_by(introduces: bool, mut bytes: Vec<u8>) -> Vec<u8> {
        Stamper::default().pass_answering(ConnectionView::default(), &mut bytes, |question| {
            let standing = if question.connection == 2 { Wire::NotKnown } else { Wire::Open };
            let last_seq = u64::from(question.connection) * 10;
            let answer = Answer { standing, last_seq, received_ns: 99, ..Answer::default() };
            let introduction =
                Introduction { identity: 5, port: Some(question.connection as u16), ..Default::default() };
            Some(match question.about {
                About::Reflector if introduces => Reply::Reflector(introduction),
                _ => Reply::Connection(answer),
            })
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
                    .receive(piece, |asked, report| reports.push((asked.connection, report)))
                    .expect("echoes");
            }
            let [(3, Some(three)), (1, Some(one)), (2, Some(two))] = reports[..] else {
                panic!("{reports:?}")
            };
            assert_eq!((three.last_seq, one.last_seq), (Some(30), Some(10)));
            assert_eq!((two.standing, two.last_seq, two.began_ns), (Standing::NotKnown, None, Some(99)));
            let who = |report: PeerReport| report.responder.map(|who| (who.identity, who.port));
            assert_eq!(
                (who(three), who(one), who(two)),
                (Some((5, Some(3))), Some((5, Some(1))), Some((5, Some(2))))
            );
            assert!(inquiry.is_done());
        }
    }

    /// This adds one question, whose answer says nothing about the connections.
    #[test]
    fn notice_of_the_peer_comes_with_its_report() {
        for knows in [true, false] {
            let mut inquiry = Inquiry::new(7);
            inquiry.about(3, None);
            inquiry.about_notices((0, 1));
            inquiry.about_notices((0, 2));
            let questions: Vec<_> = std::iter::from_fn(|| inquiry.next_question(5)).collect();
            assert_eq!(questions.len(), 3);
            let announced = Announced {
                cloud: 1,
                what: 1,
                key: 9,
                begins_in_ms: None,
                started_ago_ms: Some(4),
                gone_ago_ms: None,
                lasts_ms: None,
            };
            let mut bytes = questions.concat();
            Stamper::default().pass_answering(ConnectionView::default(), &mut bytes, |question| {
                Some(match question.about {
                    About::Notices if knows => Reply::Notice(Some(announced)),
                    About::Notices | About::Reflector => Reply::Reflector(Introduction::default()),
                    About::Connection => Reply::Connection(Answer::default()),
                })
            });
            let mut reports = 0;
            inquiry.receive(&bytes, |_, report| reports += usize::from(report.is_some())).expect("echoes");
            assert_eq!((reports, inquiry.take_notice()), (1, knows.then_some(Some(announced))));
            assert!(inquiry.is_done() && inquiry.take_notice().is_none());
        }
    }

    #[test]
    fn older_reflector_reports_without_identity() {
        let (mut inquiry, sent) = ask([3]);
        let mut reports = Vec::new();
        let echo = answered_by(false, sent);
        inquiry.receive(&echo, |_, report| reports.extend(report)).expect("an echo");
        let [report] = reports[..] else { panic!("{reports:?}") };
        assert_eq!((report.last_seq, report.responder), (Some(30), None));
    }

    /// A question about a silence was still out when the next one was to be asked about: that was dropped, and the reply to
    /// the first taken for it.
    #[test]
    fn replies_match_queued_questions() {
        let mut inquiry = Inquiry::new(7);
        let asked = |silence, at_ns| Asked { connection: 3, silence: Some(silence), at_ns };
        let mut replies = Vec::new();
        inquiry.about(3, Some((10, 20)));
        inquiry.about(3, Some((10, 20)));
        for (silence, at_ns) in [((10, 20), 25), ((40, 50), 70)] {
            let questions: Vec<u8> = std::iter::from_fn(|| inquiry.next_question(at_ns)).flatten().collect();
            assert_eq!(questions.len(), 2 * HEADER_LEN, "one question of each kind");
            inquiry.about(3, Some((40, 50)));
            inquiry.receive(&answered(questions), |asked, _| replies.push(asked)).expect("echoes");
            assert_eq!(replies.pop(), Some(asked(silence, at_ns)));
        }
        assert!(inquiry.is_done());
    }

    #[test]
    fn a_plain_echo_is_no_report() {
        let (mut inquiry, sent) = ask([3]);
        let mut reports = Vec::new();
        inquiry.receive(&sent, |asked, report| reports.push((asked.connection, report))).expect("an echo");
        assert_eq!(reports, [(3, None)]);
    }

    #[test]
    fn other_bytes_are_no_echo() {
        for damage in [0, 30, 33, 63, 64, 100, 127] {
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
        let bytes = answered(sent);
        let echoes: Vec<&[u8]> = bytes.chunks(64).collect();
        let mut told = |i: usize| {
            inquiry.receive_datagram(echoes[i]).map(|told| told.map(|(asked, _)| asked.connection))
        };
        assert_eq!(
            [3, 0, 3, 1, 2].map(&mut told),
            [Some(None), Some(None), None, Some(Some(3)), Some(Some(1))]
        );
        assert_eq!(inquiry.receive_datagram(b"hello"), None);
        assert!(inquiry.is_done());
    }

    #[test]
    fn questions_in_flight_are_bounded_and_unique() {
        let (mut inquiry, sent) = ask((0..100).chain(0..100));
        assert_eq!(sent.len(), ON_THE_WAY * HEADER_LEN);
        assert_eq!(inquiry.again().count(), ON_THE_WAY);
        let mut reports = 0;
        inquiry.receive(&sent, |_, _| reports += 1).expect("echoes");
        while let Some(question) = inquiry.next_question(0) {
            inquiry.receive(&question, |_, _| reports += 1).expect("an echo");
        }
        assert_eq!((reports, inquiry.is_done()), (100, true));
    }
}
