//! One open connection: what is out on it, what came back, and what is known of it when it is silent or ends.

mod facts;

use super::anomalies::RateLimit;
use super::context::Context;
use super::diagnosis::canary::LocalView;
use super::diagnosis::delay::Delay;
use super::diagnosis::peer_window::PeerWindow;
use super::diagnosis::silence::{Missing, Silence};
use super::diagnosis::ways::Ways;
use super::hold_up::HoldUp;
use super::io::{Piece, Progress};
use super::path::Path;
use super::protocol::stamp;
use super::settings::Transport;
use super::usual::LastSilence;
use crate::cause::ClosingCause;
use crate::event::{EventKind, Evidence, TcpInfo};
use crate::loss::Losses;
use crate::sample::Flags;
use crate::schedule::Pace;
use crate::stream::{Arrival, KernelView, Receipt, Stamped, Stream};
use crate::verdict::Facts;

use fathom_wire::Key;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// The kernel's view of a connection is asked for with every sample of a schedule this slow...
const VIEW_EVERY_SAMPLE_NS: u64 = 10_000_000;
/// ...and otherwise this often: a call costs about 0.6 µs, which a back-to-back round trip would feel.
const VIEW_GAP_NS: u64 = 100_000_000;
/// Echoes in a row that are not what was sent, after which the peer is taken not to be an echo server.
const CORRUPTED_LIMIT: u32 = 8;

/// What one read was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// No sample is whole yet.
    Part,
    /// Samples were resolved. `awaited`: the one that was sent last is among them.
    Echoes { awaited: bool },
    /// What comes back is not what was sent: this is no echo server, or the stream has lost its step.
    NoEcho,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    remote: SocketAddr,
    pub(super) stream: Stream,
    opened_ns: u64,
    /// A message that the kernel has only the beginning of: how far.
    begun: Option<usize>,
    /// The driver was asked to send, and has not answered.
    sending: bool,
    /// The kernel takes no more until the connection is writable again.
    blocked: bool,
    /// The kernel's view when it was last asked: after an error it is too late to ask.
    info: Option<TcpInfo>,
    next_view_ns: u64,
    pub(super) silence: Silence,
    /// What the last stall held up.
    hold_up: HoldUp,
    last_silence: LastSilence,
    /// UDP: what is known of losses and has not been told.
    losses: Losses,
    losses_told: RateLimit,
    /// What the reflector's stamps are compared with.
    ways: Ways,
    peer_window: PeerWindow,
    /// The latest read brought what had been held up.
    held_up_read: bool,
    delay: Delay,
    /// A stall that is over and waits for a later echo to tell more of it, with the echo that ended it.
    pub(super) unexplained: Option<Box<(Facts, Stamped)>>,
    /// What came on it was no echo, for which it is ended.
    pub(super) not_an_echo: bool,
    /// The error that it broke by.
    broken_by: Option<ErrorKind>,
    /// The port here.
    port: Option<u16>,
    /// It is to be closed in order, once the kernel has been asked about it for the last time.
    pub(super) finishing: bool,
}

impl Connection {
    pub(super) fn new(key: Key, remote: SocketAddr, now: u64, cx: &Context) -> Self {
        let (size, timeout_ns) = (cx.settings.size, cx.settings.timeout_ns);
        let stream = match cx.speak {
            Some(make) => Stream::speaking(make(key), key, size, timeout_ns),
            None => Stream::sealed(cx.settings.secret.clone(), key, size, timeout_ns),
        };
        let mut stream = stamp::of_kind(stream, cx.settings.request);
        stream.opened(now);
        Self {
            remote,
            stream,
            opened_ns: now,
            begun: None,
            sending: false,
            blocked: false,
            info: None,
            next_view_ns: 0,
            silence: Silence::default(),
            hold_up: HoldUp::default(),
            last_silence: LastSilence::default(),
            losses: Losses::default(),
            losses_told: RateLimit::default(),
            ways: Ways::default(),
            peer_window: PeerWindow::default(),
            held_up_read: false,
            delay: Delay::default(),
            unexplained: None,
            not_an_echo: false,
            broken_by: None,
            port: None,
            finishing: false,
        }
    }

    /// Its number in the recording.
    pub(super) fn ordinal(&self) -> u32 {
        self.stream.key().connection
    }

    pub(super) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The sample that is missed: the oldest without its echo, its number and when it was sent.
    pub(super) fn missing(&self, transport: Transport) -> Option<(u64, u64)> {
        match transport {
            Transport::Tcp => self.stream.oldest(),
            Transport::Udp => self.stream.oldest_of_silence(),
        }
    }

    /// The same, with the moment since which nothing came although it was out.
    pub(super) fn silent_since(&self, transport: Transport) -> Option<(u64, u64)> {
        let (seq, sent_ns) = self.missing(transport)?;
        Some((seq, sent_ns.max(self.stream.last_received_ns().unwrap_or(0))))
    }

    /// When a stall that is over is explained at the latest, if one waits for that.
    pub(super) fn explained_by(&self) -> Option<u64> {
        self.unexplained.as_ref().map(|left| left.0.ended_ns + left.0.waits_for_a_later_echo_ns())
    }

    /// Whether nothing can be begun on it now.
    pub(super) fn is_taken(&self) -> bool {
        self.blocked || self.sending || self.finishing || self.stream.is_full()
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked || self.stream.is_full()
    }

    /// Whether the kernel has only a part of the message that was begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// The bytes that the driver was asked to send.
    pub(super) fn write(&self, out: &mut [u8]) -> Option<Piece> {
        if !self.sending {
            return None;
        }
        // A message counts as sent when the kernel has its beginning.
        let seq = self.stream.next_seq() - u64::from(self.begun.is_some());
        let (offset, size) = (self.begun.unwrap_or(0), self.stream.request_len());
        let len = out.len().min(size.checked_sub(offset)?);
        self.stream.fill(seq, offset, &mut out[..len]);
        Some(Piece { seq, offset, len, size })
    }

    /// Nothing new is to be begun: a message that the driver was asked for and has not begun is not sent.
    pub(super) fn withdraw(&mut self) {
        self.sending &= self.begun.is_some();
    }

    pub(super) fn asked_to_send(&mut self) {
        self.sending = true;
    }

    /// The driver has sent: whether a new message was begun.
    pub(super) fn sent(&mut self, progress: Progress) -> bool {
        self.sending = false;
        let new = self.begun.is_none();
        match progress {
            Progress::Whole => self.begun = None,
            Progress::UpTo(offset) => (self.begun, self.blocked) = (Some(offset), true),
            Progress::Nothing => self.blocked = true,
        }
        new && progress != Progress::Nothing
    }

    pub(super) fn writable(&mut self) {
        self.blocked = false;
    }

    /// Whether the kernel's view belongs to what is read now.
    pub(super) fn wants_view(&self, now: u64) -> bool {
        now >= self.next_view_ns || self.silence.stall().is_some()
    }

    /// The kernel was asked.
    pub(super) fn saw(&mut self, info: Option<TcpInfo>) {
        self.info = info.or(self.info);
    }

    /// Where it leads from.
    pub(super) fn opened_from(&mut self, local: &str) {
        self.port = local.parse().ok().map(|local: SocketAddr| local.port());
    }

    /// It broke by this error.
    pub(super) fn broke(&mut self, kind: ErrorKind) {
        self.broken_by = Some(kind);
    }

    /// The size of the sample that is missed.
    pub(super) fn missing_size(&self) -> u32 {
        self.stream.oldest_size().unwrap_or_else(|| self.stream.size())
    }

    /// How long a silence lasts before the kernel is asked about it.
    pub(super) fn asks_after_ns(&self, threshold_ns: u64) -> u64 {
        self.silence.asks_after_ns(threshold_ns, self.info)
    }

    /// The kernel was asked in a silence.
    pub(super) fn saw_in_silence(&mut self, now: u64, info: Option<TcpInfo>) {
        let missing = self.stream.oldest().zip(self.stream.oldest_end());
        if let Some(((_, sent_ns), end)) = missing {
            let missing = Missing {
                sent_ns,
                end,
                room: self.peer_window.room(self.stream.outstanding(), self.missing_size()),
            };
            self.silence.saw(now, missing, self.info, info);
        }
        self.saw(info);
    }

    pub(super) fn retransmits(&self) -> Option<u32> {
        self.info.map(|info| info.total_retrans)
    }

    /// How often anything was sent in a silence: over TCP the kernel sends what is missing again, over UDP the probe sends
    /// the next sample.
    pub(super) fn transmissions(&self, transport: Transport) -> u64 {
        match transport {
            Transport::Tcp => self.retransmits().map_or(0, u64::from),
            Transport::Udp => self.stream.next_seq(),
        }
    }

    pub(super) fn flag_outstanding(&mut self, flags: Flags) {
        self.stream.flag_outstanding(flags);
    }

    /// Takes what one read gave.
    pub(super) fn received(
        &mut self,
        now: u64,
        bytes: &[u8],
        stamps: Option<(i64, i64)>,
        kernel: Option<TcpInfo>,
        path: &mut Path,
        cx: &mut Context,
    ) -> Came {
        let view = (now >= self.next_view_ns).then_some(kernel).flatten();
        if now >= self.next_view_ns {
            self.next_view_ns = now
                + match cx.settings.pace {
                    Pace::Every(every) if every >= VIEW_EVERY_SAMPLE_NS => 0,
                    _ => VIEW_GAP_NS,
                };
        }
        self.saw(kernel);
        // 0: nothing has been measured yet.
        let srtt_us = |us: u32| Some(us).filter(|&us| us > 0);
        let kernel =
            view.map(|info| KernelView { srtt_us: srtt_us(info.srtt_us), total_retrans: info.total_retrans });
        let clock = cx.clock.clone();
        let receipt =
            Receipt { mono_ns: now, clock: &clock, kernel, local_pause: cx.pauses.latest(), stamps };
        let (connection, transport) = (self.ordinal(), cx.settings.transport);
        // What is out while a stall lasts waited in it, and what is sent after it waits for that: no longer than the stall.
        let (next_seq, mut last_silence) = (self.stream.next_seq(), self.last_silence);
        let stall = self.silence.stall();
        let mut hold_up = stall.map_or(self.hold_up, |stall| {
            HoldUp::ended(now, now.saturating_sub(stall.sent_mono_ns), next_seq)
        });
        let usual_ns = path.usual.p99_ns().unwrap_or_else(|| path.usual.threshold_ns());
        let last = next_seq.checked_sub(1);
        let (mut resolved, mut foreign, mut awaited, mut held_up_read) = (0, false, false, false);
        let index = path.index();
        let threshold_ns = path.stall_threshold_ns(cx);
        let (delay, peer_window, read) = (&mut self.delay, &mut self.peer_window, bytes);
        let sink = |arrival: Arrival<'_>| match arrival {
            Arrival::Resolved(sample) => {
                if sample.rtt_ns.is_none() && !path.ever_answered() {
                    path.greeted(read);
                }
                resolved += 1;
                awaited |= Some(sample.seq) == last;
                let rtt_ns = sample.rtt_ns.map(|rtt_ns| rtt_ns.max(0) as u64);
                if let Some(rtt_ns) = rtt_ns {
                    peer_window.came(rtt_ns);
                }
                let held_up = hold_up.held_up(now, sample.seq, rtt_ns, usual_ns);
                held_up_read |= held_up;
                if let Some(rtt_ns) = rtt_ns.filter(|_| !held_up)
                    && let Some(kind) = delay
                        .came(sample.seq, rtt_ns, now, threshold_ns, |from, to| cx.pauses.within(from, to))
                {
                    cx.event(now, Some(index), Some(connection), kind);
                }
                let waited =
                    rtt_ns.map(|rtt_ns| last_silence.came(now, sample.seq, rtt_ns, next_seq, usual_ns));
                let unusual_ns = delay.unusual_ns(now);
                let waited = waited.map(|waited| waited.at_least(unusual_ns.unwrap_or(0)));
                path.resolved_sample(now, &sample, waited, held_up || unusual_ns.is_some());
                cx.sample(index, sample);
            }
            Arrival::Foreign(bytes) => {
                foreign = true;
                if !path.ever_answered() {
                    path.greeted(read);
                }
                path.foreign(connection, bytes, transport);
            }
            Arrival::Duplicate(seq) => path.duplicated(connection, seq),
        };
        let stamped = match transport {
            Transport::Tcp => self.stream.receive(&receipt, bytes, sink),
            Transport::Udp => self.stream.receive_datagram(&receipt, bytes, sink),
        };
        // A server that speaks first may never say enough to be a whole echo.
        let greeted = transport == Transport::Tcp && self.stream.begins_otherwise();
        if greeted {
            path.greeted(bytes);
        }
        let corrupted = self.stream.corrupted_in_a_row() >= CORRUPTED_LIMIT;
        if transport == Transport::Tcp && (foreign || greeted || corrupted) {
            return Came::NoEcho;
        }
        if resolved == 0 {
            return Came::Part;
        }
        (self.hold_up, self.last_silence) = (hold_up, last_silence);
        (path.read, self.held_up_read) = (stamped, held_up_read);
        self.delay.look(stamped, &self.ways);
        self.remote_pause(now, path.index(), cx);
        if let Some(bound) = self.stream.clock_bound() {
            path.clock_bound(now, connection, bound, cx);
        }
        Came::Echoes { awaited }
    }

    /// What the read told of the ways is taken as what came last, once a silence that it ended has been explained.
    pub(super) fn read_is_over(&mut self, path: &mut Path) {
        if let Some((_, last)) = path.read.take() {
            self.ways.came(last, !self.held_up_read && !self.delay.goes_on());
            path.served_by = self.ways.identity().or(path.served_by);
            path.stamped = Some(last).filter(|last| last.stamps.identity != 0);
            path.tells_pauses = self.ways.tells_pauses();
        }
    }

    /// Tells a pause that the reflector reports, once, however many connections lead to it.
    fn remote_pause(&mut self, now: u64, path: usize, cx: &mut Context) {
        let Some((gained_ns, counter)) = self.stream.take_remote_pause().filter(|(gained, _)| *gained > 0)
        else {
            return;
        };
        self.silence.remote_paused(gained_ns);
        if cx.worker.is_new_pause(path, counter) {
            let kind = EventKind::Pause { host: "remote".to_owned(), duration_ns: gained_ns, reason: None };
            cx.event(now, Some(path), None, kind);
        }
    }

    /// UDP: datagrams that will not come back are unanswered; whether none is out any more because of that.
    pub(super) fn expire(&mut self, now: u64, path: usize, cx: &mut Context) -> bool {
        let before = self.stream.is_idle();
        let clock = cx.clock.clone();
        self.stream.expire(now, &clock, |sample| cx.sample(path, sample));
        let emptied = !before && self.stream.is_idle();
        if let Some(losses) = self.take_losses(now, false) {
            cx.event(now, Some(path), Some(self.ordinal()), losses);
        }
        emptied
    }

    /// UDP: what is to be told of losses now.
    pub(super) fn take_losses(&mut self, now: u64, last_chance: bool) -> Option<EventKind> {
        self.losses.add(self.stream.take_losses());
        let tells = !self.losses.is_empty() && self.losses_told.is_time(now, last_chance);
        tells.then(|| EventKind::LossAttributed { losses: std::mem::take(&mut self.losses) })
    }

    /// What is known when the reflector is asked about it.
    pub(super) fn local_view(&self) -> LocalView {
        LocalView {
            first_missing: self.stream.last_answered_seq().map_or(0, |seq| seq + 1),
            sent: self.stream.next_seq(),
        }
    }

    pub(super) fn retransmits_since(&self, before: Option<u32>) -> Option<u32> {
        Some(self.retransmits()?.saturating_sub(before?))
    }

    /// The connection is over: its last event, and the rows of every sample still out that is not in flight.
    pub(super) fn close(
        mut self,
        now: u64,
        path: usize,
        cause: ClosingCause,
        errno: Option<i32>,
        error: Option<String>,
        cx: &mut Context,
    ) {
        let evidence = Evidence {
            sent: self.stream.next_seq(),
            answered: self.stream.answered(),
            last_answered_seq: self.stream.last_answered_seq(),
            outstanding: self.stream.outstanding() as u64,
            silent_ns: self.stream.last_received_ns().map(|at| now.saturating_sub(at)),
            error,
            tcp: self.info.map(Box::new),
        };
        let (clock, connection) = (cx.clock.clone(), self.ordinal());
        let in_flight = if cause == ClosingCause::Finished { self.stream.let_go(now) } else { 0 };
        self.stream.close(&clock, |sample| cx.sample(path, sample));
        if in_flight > 0 {
            let kind = EventKind::SamplesInFlight { samples: in_flight };
            cx.event(now, Some(path), Some(connection), kind);
        }
        if cx.settings.transport == Transport::Udp
            && let Some(losses) = self.take_losses(now, true)
        {
            cx.event(now, Some(path), Some(connection), losses);
        }
        if let Some(kind) = self.delay.ends(|from, to| cx.pauses.within(from, to)) {
            cx.event(now, Some(path), Some(connection), kind);
        }
        let age_ns = now.saturating_sub(self.opened_ns);
        let kind = EventKind::ConnectionClosed { cause, verdict: None, errno, age_ns, evidence };
        cx.event(now, Some(path), Some(connection), kind);
    }
}
