//! One canary connection: what it asks, what came back, and how long it may take.

use crate::clock::ClockMap;
use crate::peer_report::{Asked, Inquiry, PeerReport, Span};
use crate::probe::context::Context;
use crate::probe::io::{Piece, Progress};
use crate::probe::protocol::stamp;
use crate::probe::settings::{Request, Transport};
use crate::sample::Flags;
use crate::stream::{Arrival, Receipt, Stream};
use crate::verdict::Fresh;
use fathom_wire::{Announced, HEADER_LEN, Key};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// How long a canary may take, its echo included: two retransmitted SYNs (1 s and 3 s). Every whole answer gives it as
/// long again; a part of one does not.
const PATIENCE_NS: u64 = 4_000_000_000;
/// Datagrams get lost: the canary's are sent again every so often.
const RESEND_NS: u64 = 1_000_000_000;
/// The sample of the missing one's size is waited for so long: a loss is repaired twice by then...
const LARGE_PATIENCE_NS: u64 = 2_000_000_000;
/// ...what takes longer than this was lost at first...
const LARGE_LATE_NS: u64 = 1_000_000_000;
/// ...and is of so many bytes at the most: more than any network's packet.
const LARGE_MOST: u32 = 16 << 10;
/// The connection number of canaries: no recording has as many.
const CONNECTION: u32 = u32::MAX;

/// What a canary is about to send.
#[derive(Debug)]
enum Message {
    Sample,
    Large,
    Question([u8; HEADER_LEN]),
}

/// The sample of the missing one's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Large {
    /// The small one is as large.
    NotNeeded,
    /// It is sent when all else has come back.
    Wanted(u32),
    /// It is being handed to the kernel, since this time.
    Begun(u64),
    /// The kernel has all of it.
    Sent(u64),
    /// It came back, later than it would have if nothing of it had been lost.
    EchoedLate,
    Echoed,
}

/// A peer report, and what was asked; `None`: it was echoed, not answered.
pub(in crate::probe) type Reply = (Asked, Option<PeerReport>);

/// See the module.
#[derive(Debug)]
pub(super) struct Canary {
    pub(super) remote: SocketAddr,
    pub(super) asked_ns: u64,
    /// Its samples; `None`: it only connects.
    stream: Option<Stream>,
    inquiry: Inquiry,
    to_send: VecDeque<Message>,
    /// How much of the first of those the kernel has.
    begun: usize,
    /// The driver was asked to send the first of those.
    sending: bool,
    /// The kernel takes no more until the connection is writable again.
    blocked: bool,
    established: bool,
    /// The kernel has all of its small sample.
    asked: bool,
    echoed: bool,
    large: Large,
    /// The first sample that is large.
    large_seq: u64,
    until_ns: u64,
    /// UDP: when to send again.
    resend_ns: Option<u64>,
    /// True if the attempt only asks for notices: its outcome says nothing about a silence.
    pub(super) for_notices: bool,
}

impl Canary {
    /// One to an address of a path; a missing sample is of `size` bytes. `None`: nothing can be learned from one, because
    /// nothing can be asked where a connection alone says nothing (UDP).
    pub(super) fn new(now: u64, path: usize, remote: SocketAddr, size: u32, cx: &Context) -> Option<Self> {
        let key = Key { session: cx.settings.session_of(path), connection: CONNECTION };
        let udp = cx.settings.transport == Transport::Udp;
        let stream = samples(key, cx);
        if udp && stream.is_none() {
            return None;
        }
        let large = match (&stream, size.min(LARGE_MOST)) {
            (Some(stream), size) if size > stream.size() && cx.asks_reflectors() => Large::Wanted(size),
            _ => Large::NotNeeded,
        };
        Some(Self {
            remote,
            asked_ns: now,
            stream,
            inquiry: Inquiry::new(key.session).sealed(cx.settings.secret.clone()),
            to_send: VecDeque::new(),
            begun: 0,
            sending: false,
            blocked: false,
            established: false,
            asked: false,
            echoed: false,
            large,
            large_seq: u64::MAX,
            until_ns: now + PATIENCE_NS,
            resend_ns: udp.then_some(now + RESEND_NS),
            for_notices: false,
        })
    }

    /// When it is to be looked at.
    pub(super) fn next_ns(&self) -> u64 {
        self.resend_ns.map_or(self.until_ns, |at| at.min(self.until_ns))
    }

    /// Whether its time is up.
    pub(super) fn is_late(&self, now: u64) -> bool {
        now >= self.until_ns
    }

    pub(super) fn is_established(&self) -> bool {
        self.established
    }

    pub(super) fn has_echoed(&self) -> bool {
        self.echoed
    }

    /// It is established: its sample is to be sent. False: that was all, it asks nothing.
    pub(super) fn connected(&mut self) -> bool {
        self.established = true;
        if self.stream.is_some() {
            self.to_send.push_back(Message::Sample);
        }
        self.stream.is_some()
    }

    /// The reflector is to be asked about this connection, which was silent between these times.
    pub(super) fn ask_about(&mut self, (connection, from_ns, to_ns): (u32, u64, u64)) {
        self.inquiry.about(connection, Some((from_ns, to_ns)));
        self.ask_for_notices((from_ns, to_ns));
    }

    /// Asks the reflector, once, which maintenance is announced to its host.
    pub(super) fn ask_for_notices(&mut self, silence: Span) {
        self.inquiry.about_notices(silence);
    }

    /// The reflector's answer to that question, returned once.
    #[expect(clippy::option_option, reason = "as `Inquiry::take_notice`")]
    pub(super) fn take_notice(&mut self) -> Option<Option<Announced>> {
        self.inquiry.take_notice()
    }

    /// Whether something waits that the driver is to be asked to send. It is taken as asked then.
    pub(super) fn begins_to_send(&mut self, now: u64) -> bool {
        if !self.established || self.sending || self.blocked {
            return false;
        }
        while let Some(question) = self.inquiry.next_question(now) {
            self.to_send.push_back(Message::Question(question));
        }
        self.sending = !self.to_send.is_empty();
        self.sending
    }

    /// UDP: what was lost is sent again, where it is time. What still waits for room is not doubled. A datagram is lost now
    /// and then; that three are says something.
    pub(super) fn resend(&mut self, now: u64) {
        if self.resend_ns.is_none_or(|at| now < at) {
            return;
        }
        (self.resend_ns, self.blocked) = (Some(now + RESEND_NS), false);
        if !self.established || !self.to_send.is_empty() {
            return;
        }
        if !self.echoed {
            self.to_send.push_back(Message::Sample);
        } else if matches!(self.large, Large::Sent(_)) {
            self.to_send.push_back(Message::Large);
        }
        self.to_send.extend(self.inquiry.again().map(Message::Question));
    }

    /// The bytes to be sent now.
    pub(super) fn write(&self, out: &mut [u8]) -> Option<Piece> {
        if !self.sending {
            return None;
        }
        let offset = self.begun;
        if let Message::Question(question) = self.to_send.front()? {
            let rest = &question[offset..];
            out[..rest.len()].copy_from_slice(rest);
            return Some(Piece { seq: 0, offset, len: rest.len(), size: HEADER_LEN });
        }
        let stream = self.stream.as_ref()?;
        let (seq, size) = (stream.next_seq() - u64::from(offset > 0), stream.request_len());
        let len = out.len().min(size.checked_sub(offset)?);
        stream.fill(seq, offset, &mut out[..len]);
        Some(Piece { seq, offset, len, size })
    }

    /// A later part of a sample.
    pub(super) fn fill(&self, seq: u64, offset: usize, out: &mut [u8]) {
        if let Some(stream) = &self.stream {
            stream.fill(seq, offset, out);
        }
    }

    /// STAMP: writes the clock into the sample, just before it is sent.
    pub(super) fn stamp(&mut self, utc_ns: i64, error_ns: Option<u64>, packet: &mut [u8]) {
        if let (Some(stream), Some(Message::Sample)) = (&mut self.stream, self.to_send.front()) {
            stream.stamp_at(utc_ns, error_ns, packet);
        }
    }

    /// The driver has sent, as far as the kernel took it.
    pub(super) fn sent(&mut self, now: u64, progress: Progress) {
        if !std::mem::replace(&mut self.sending, false) {
            return;
        }
        let is_sample = matches!(self.to_send.front(), Some(Message::Sample | Message::Large));
        if let Some(stream) = self.stream.as_mut().filter(|_| is_sample)
            && self.begun == 0
            && progress != Progress::Nothing
        {
            stream.sent(now, now, Flags::default());
        }
        match progress {
            Progress::Nothing => self.blocked = true,
            Progress::UpTo(offset) => (self.begun, self.blocked) = (offset, true),
            Progress::Whole => {
                self.begun = 0;
                match self.to_send.pop_front() {
                    Some(Message::Sample) => self.asked = true,
                    Some(Message::Large) => {
                        if let Large::Begun(since_ns) = self.large {
                            self.large = Large::Sent(since_ns);
                        }
                    }
                    Some(Message::Question(_)) | None => {}
                }
            }
        }
    }

    /// The connection takes data again.
    pub(super) fn writable(&mut self) {
        self.blocked = false;
    }

    /// Takes what one read gave. False: what came is no echo.
    pub(super) fn take(
        &mut self,
        now: u64,
        clock: &ClockMap,
        transport: Transport,
        bytes: &[u8],
        replies: &mut Vec<Reply>,
    ) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        let receipt = Receipt { mono_ns: now, clock, kernel: None, local_pause: None, stamps: None };
        let (mut small, mut large, mut rest) = (false, false, None);
        let large_seq = self.large_seq;
        let sink = |arrival: Arrival<'_>| match arrival {
            Arrival::Resolved(sample) if sample.rtt_ns.is_none() => {}
            Arrival::Resolved(sample) if sample.seq >= large_seq => large = true,
            Arrival::Resolved(_) => small = true,
            // Behind the sample's echo come those of the questions.
            Arrival::Foreign(bytes) => rest = Some(bytes.to_vec()),
            Arrival::Duplicate(_) => {}
        };
        let answered_before = self.inquiry.came_back();
        let sane = match transport {
            Transport::Tcp => {
                stream.receive(&receipt, bytes, sink);
                let rest = rest.unwrap_or_default();
                self.inquiry.receive(&rest, |asked, report| replies.push((asked, report))).is_ok()
            }
            Transport::Udp => {
                match self.inquiry.receive_datagram(bytes) {
                    Some(reply) => replies.extend(reply),
                    None => _ = stream.receive_datagram(&receipt, bytes, sink),
                }
                true
            }
        };
        if let Large::Begun(since_ns) | Large::Sent(since_ns) = self.large
            && large
        {
            let late = now.saturating_sub(since_ns) > LARGE_LATE_NS;
            self.large = if late { Large::EchoedLate } else { Large::Echoed };
        }
        if large || (small && !self.echoed) || self.inquiry.came_back() > answered_before {
            self.until_ns = now + PATIENCE_NS;
        }
        self.echoed |= small;
        sane
    }

    /// Begins the sample of the missing one's size, where all else has come back and it is wanted; whether it does.
    pub(super) fn begins_large(&mut self, now: u64) -> bool {
        let (Large::Wanted(size), Some(stream)) = (self.large, &mut self.stream) else { return false };
        if !self.echoed || !self.inquiry.is_done() || !self.to_send.is_empty() {
            return false;
        }
        stream.set_size(size);
        self.large_seq = stream.next_seq();
        self.large = Large::Begun(now);
        self.to_send.push_back(Message::Large);
        self.until_ns = now + LARGE_PATIENCE_NS;
        true
    }

    /// Whether everything has come back that is to.
    pub(super) fn is_done(&self) -> bool {
        let large = matches!(self.large, Large::NotNeeded | Large::Echoed | Large::EchoedLate);
        self.echoed && self.inquiry.is_done() && large
    }

    /// Whether a part of it had to be sent again, by how long it took.
    pub(super) fn was_late(&self) -> bool {
        self.large == Large::EchoedLate
    }

    /// What is to be concluded if nothing more comes.
    pub(super) fn so_far(&self, transport: Transport) -> Fresh {
        match transport {
            _ if self.echoed && matches!(self.large, Large::Sent(_)) => Fresh::SmallOnly,
            _ if self.echoed => Fresh::Echoed,
            _ if !self.established => Fresh::NoAnswer,
            Transport::Tcp if self.asked => Fresh::Connected,
            Transport::Tcp => Fresh::OnlyConnected,
            Transport::Udp if self.asked => Fresh::NoAnswer,
            Transport::Udp => Fresh::NotTried,
        }
    }
}

/// What a canary asks besides questions; `None`: nothing, because the protocol cannot ask a fresh connection.
fn samples(key: Key, cx: &Context) -> Option<Stream> {
    let (size, timeout_ns) = (cx.settings.size, cx.settings.timeout_ns);
    match (cx.speak, cx.settings.request) {
        (_, Request::Connect { .. }) => None,
        (Some(make), _) => {
            let protocol = make(key);
            protocol.canary_may_ask().then(|| Stream::speaking(protocol, key, size, timeout_ns))
        }
        (None, Request::Echo) => {
            Some(Stream::sealed(cx.settings.secret.clone(), key, HEADER_LEN as u32, timeout_ns))
        }
        (None, request @ Request::Stamp(_)) => {
            Some(stamp::of_kind(Stream::new(key, size.min(HEADER_LEN as u32), timeout_ns), request))
        }
    }
}
