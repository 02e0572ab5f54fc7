//! What was seen of a silence and of its end.

use super::server::{Server, server};
use super::{Direction, Fresh, Reported, SaidBy};
use crate::cause::ClosingCause;

/// A pause explains a silence where what is left of it would not have been one...
const UNREMARKABLE_NS: u64 = 250_000_000;
/// ...or is at most so small a part.
const REST_PART: u64 = 5;
/// Of a reflector's pauses whose time is known, so much of a silence must lie in them: 9 of 10.
const COVERED: (u64, u64) = (9, 10);
/// A later echo is waited for so long at the least: beyond that a verdict tells more than what it still could.
const LATER_ECHO_NS: u64 = 2_000_000_000;
/// An idle limit is not suspected below this: no device in the documentation of the clouds forgets a flow sooner than
/// in minutes, and a firewall under test may be set to seconds.
const IDLE_FLOOR_NS: u64 = 1_000_000_000;

/// What ended the silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The echo came after all.
    Recovered,
    /// The connection ended.
    Closed(ClosingCause),
    /// Neither: it goes on at the end of the run.
    GoesOn,
}

/// Whether the request whose echo is missed was acknowledged before its echo came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acknowledged {
    /// Nobody looked, or it is no TCP.
    #[default]
    NotKnown,
    /// Not when last looked at.
    No,
    /// It was, when the peer's kernel could already have been sending its lost echo again: an acknowledgement of its own
    /// may have passed where the echo was lost.
    Late,
    /// It was, before that: so the acknowledgement came alone, and the one who acknowledged had nothing to send. An
    /// echo would have carried it (Linux delays an acknowledgement for 40 ms at the least, and sends lost data again
    /// after 200 ms and a round trip at the earliest: `TCP_DELACK_MIN`, `TCP_RTO_MIN`).
    Alone,
}

/// Whether the peer's kernel could have sent the echo as soon as the service wrote it, and would have acknowledged with it. One
/// that holds it back (by Nagle's algorithm, or because its window is full) until earlier echoes are acknowledged, which were
/// lost, acknowledges what comes alone, as it does for a service that does not answer; and so it does for a while when a
/// connection is new or a segment has come twice, whoever answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Room {
    /// That is not known.
    #[default]
    NotKnown,
    /// Later requests were out too, but no echo of the connection had been so late that it may have been sent again, and
    /// others came with the missing one.
    Likely,
    /// The missing request alone was out, and the last echoes had come in time.
    Sure,
}

/// What the reflector says of its own pauses in the silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemotePause {
    /// For how long it did not run between the last echo and this one.
    pub ns: u64,
    /// Whether the request was the first thing that it read after that. `None`: it does not say.
    pub waited: Option<bool>,
}

/// The stamps of the first late echo: how much later than usual the request reached the reflector, and how much later
/// than usual its echo came back. Both ends' clocks were not set in between, and neither is longer than the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// On the way there, ns.
    pub forward_ns: u64,
    /// On the way back, ns.
    pub back_ns: u64,
    /// The sample before it had come in time, so that neither end's kernel still waited for acknowledgements of what went
    /// before: such a wait looks as the way does.
    pub calm: bool,
}

/// UDP: what the reflector counted of the datagrams that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagrams {
    /// Sent between the last echo and this one, and not echoed.
    pub missing: u64,
    /// Of these, those that the reflector received.
    pub received: u64,
}

/// How long nothing had passed before the first sample that was lost, or before the end, and what is known of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Idle {
    /// That quiet.
    pub before_ns: u64,
    /// The longest one that a connection of this path survived. 0: none had one.
    pub survived_ns: u64,
    /// Before the end of an earlier connection of this path.
    pub earlier_ns: Option<u64>,
}

/// Everything the table looks at. A span is by this host's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// How it ended.
    pub outcome: Outcome,
    /// When: the echo came, or the connection ended.
    pub ended_ns: u64,
    /// When the connection was established.
    pub opened_ns: u64,
    /// The silence until then: since the last echo, or since the missing sample was sent if that was later.
    pub silent_ns: u64,
    /// A round trip, as the kernel had smoothed it before; 0: it is not known.
    pub round_trip_ns: u64,
    /// How long this host did not run in that time, in ns.
    pub local_pause_ns: u64,
    /// Its own kernel destroyed the socket (`ECONNABORTED`).
    pub destroyed_here: bool,
    /// True if this host lacked the connection's own address in the silence, or at the end.
    pub address_gone: bool,
    /// What came was no echo of what had been sent, and the probe ended the connection for that.
    pub not_an_echo: bool,
    /// A datagram was answered by "port unreachable".
    pub port_unreachable: bool,
    /// What the echo that ended it says of pauses; `None`: nothing, or there was none.
    pub remote_pause: Option<RemotePause>,
    /// For how long the reflector did not run after it had stamped the echo that ended the silence, as a later echo told.
    /// `None`: none has come since.
    pub paused_after_ns: Option<u64>,
    /// Whether that reflector would have said so.
    pub tells_pauses: bool,
    /// Whether anything had been echoed on the connection before the silence.
    pub ever_answered: bool,
    /// Whether the missing request was acknowledged.
    pub acknowledged: Acknowledged,
    /// Where it was, alone: whether its echo could have been sent.
    pub room: Room,
    /// The most retransmission timeouts in a row that the kernel told of during the silence.
    pub timeouts: u8,
    /// Segments sent again during the silence.
    pub retransmits: Option<u32>,
    /// Segments of later data came in it while earlier ones were missing.
    pub out_of_order: bool,
    /// Segments that came in it and had come before: the peer's kernel had no acknowledgement of them. `None`: this
    /// host's kernel does not tell.
    pub came_again: Option<u32>,
    /// The quiet before it.
    pub idle: Idle,
    /// What a fresh connection met, begun within the silence or at the end.
    pub fresh: Fresh,
    /// Who said so.
    pub fresh_said_by: SaidBy,
    /// What the latest one met that was over before the end.
    pub meanwhile: Fresh,
    /// Something was sent on this one after a fresh one had been echoed during the silence.
    pub sent_since: bool,
    /// Whether a fresh connection tried during the silence had no answer either, for a second or more.
    pub others_lost: bool,
    /// The stamps of the first late echo.
    pub late: Option<Late>,
    /// UDP: what the reflector counted.
    pub datagrams: Option<Datagrams>,
    /// The reflector that served the connection: its identity, where its echoes told it.
    pub served_by: Option<u32>,
    /// The reflector whose echo ended the silence, where it tells, and one had answered on this connection before.
    pub answered_by: Option<u32>,
    /// This end's port.
    pub port: Option<u16>,
    /// What the reflector said of the connection.
    pub reported: Option<Reported>,
}

impl Facts {
    /// When the silence began.
    pub fn from_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.silent_ns)
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.outcome, Outcome::Closed(cause) if cause.is_loss())
    }

    pub(super) fn is_closed_by(&self, causes: &[ClosingCause]) -> bool {
        matches!(self.outcome, Outcome::Closed(cause) if causes.contains(&cause))
    }

    /// Whether the silence was one: an end that came at once had none, and a pause explains none.
    pub(super) fn was_silent(&self) -> bool {
        !matches!(self.outcome, Outcome::Closed(_)) || self.silent_ns >= crate::stall::FLOOR_NS
    }

    /// Whether without a pause of so long the silence would be nothing to speak of.
    fn explains(&self, pause_ns: u64) -> bool {
        let rest_ns = self.silent_ns.saturating_sub(pause_ns);
        pause_ns > 0
            && self.was_silent()
            && pause_ns >= self.silent_ns / 2
            && rest_ns <= UNREMARKABLE_NS.max(self.silent_ns / REST_PART)
    }

    /// Where both stood still, the one that stood longer held the echo up.
    pub(super) fn local_pause_explains(&self) -> bool {
        let remote_ns = self.remote_pause.map_or(0, |pause| pause.ns).max(self.echo_waited_ns());
        let both = self.waited() && self.local_pause_ns + remote_ns >= self.silent_ns;
        let most_of_it = self.local_pause_ns >= self.silent_ns / 2;
        self.local_pause_ns >= remote_ns
            && (self.explains(self.local_pause_ns) || both && most_of_it && self.was_silent())
    }

    fn waited(&self) -> bool {
        self.remote_pause.is_some_and(|pause| pause.waited == Some(true))
    }

    /// How long the reflector did not run in the silence, where the missing request had to wait for that to end: by the
    /// echo itself, or by the time that the peer report places the pause at.
    pub(super) fn remote_pause_explains(&self) -> Option<u64> {
        if let Some(RemotePause { ns, waited: Some(true) }) = self.remote_pause
            && ns >= self.silent_ns / 2
            && ns > self.local_pause_ns
            && ns >= self.late.map_or(0, |late| late.back_ns)
            && self.was_silent()
        {
            return Some(ns);
        }
        let waited_ns = self.echo_waited_ns();
        if self.explains(waited_ns) && waited_ns > self.local_pause_ns {
            return Some(waited_ns);
        }
        // A busy host may take its time to read what waited; where it was acknowledged, it was there.
        let there =
            matches!(self.acknowledged, Acknowledged::Alone | Acknowledged::Late) && !self.tried_in_vain();
        if let Some(RemotePause { ns, waited: Some(false) }) = self.remote_pause
            && there
            && self.explains(ns)
            && ns > self.local_pause_ns
        {
            return Some(ns);
        }
        let inside_ns = self.reported_pause_ns()?;
        let covers = inside_ns * COVERED.1 >= self.silent_ns * COVERED.0;
        (covers && self.was_silent() && self.is_lost() && inside_ns > self.local_pause_ns)
            .then_some(inside_ns)
    }

    /// How long the echo, stamped already, waited for the reflector to run again: by no more than it was late on the way back.
    pub(super) fn echo_waited_ns(&self) -> u64 {
        self.paused_after_ns.unwrap_or(0).min(self.late.map_or(0, |late| late.back_ns))
    }

    /// Whether it waited so for a part of the silence.
    pub(super) fn echo_waited(&self) -> bool {
        self.echo_waited_ns() > self.silent_ns / REST_PART
    }

    /// Whether a later echo may tell more: this one had been stamped in time, and the reflector may have stood still
    /// before it sent it, which only one that it stamps afterwards can say.
    pub(crate) fn awaits_a_later_echo(&self) -> bool {
        let late_back = self.late.is_some_and(|late| late.back_ns >= self.silent_ns / 2);
        self.outcome == Outcome::Recovered
            && self.tells_pauses
            && late_back
            && self.paused_after_ns.is_none()
            && !self.local_pause_explains()
            && self.remote_pause_explains().is_none()
    }

    /// A later echo tells how long the reflector did not run between its stamps of both, which are `apart_ns` apart. True:
    /// nothing later can tell more.
    pub(crate) fn later_echo(&mut self, paused_ns: u64, apart_ns: u64) -> bool {
        let back_ns = self.late.map_or(0, |late| late.back_ns);
        let told = paused_after(self.silent_ns, back_ns, (paused_ns, apart_ns));
        self.paused_after_ns = told.and_then(Told::paused_ns).or(self.paused_after_ns);
        told.is_some()
    }

    /// How long a later echo is waited for, from the end of the silence on.
    pub(crate) fn waits_for_a_later_echo_ns(&self) -> u64 {
        LATER_ECHO_NS.max(self.late.map_or(0, |late| late.back_ns))
    }

    /// How much of the silence lies in the pause that the reflector told when it was asked.
    fn reported_pause_ns(&self) -> Option<u64> {
        let (from, to) = self.reported?.pause()?;
        Some(to.min(self.ended_ns).saturating_sub(from.max(self.from_ns()))).filter(|&ns| ns > 0)
    }

    /// A reflector that does not say whether the request waited: its pause as it stands.
    pub(super) fn remote_pause_would_explain(&self) -> Option<u64> {
        let pause = self.remote_pause.filter(|pause| pause.waited.is_none())?;
        (self.explains(pause.ns) && pause.ns > self.local_pause_ns).then_some(pause.ns)
    }

    /// The reflector said of a part of the silence that it did not run.
    pub(super) fn has_remote_pause(&self) -> bool {
        let part = self.silent_ns / REST_PART;
        self.remote_pause.is_some_and(|pause| pause.ns > part)
            || self.echo_waited()
            || self.reported_pause_ns().is_some_and(|ns| ns > part)
    }

    /// The missing request waited for a pause of the reflector to end that was a part of the silence.
    pub(super) fn request_waited(&self) -> bool {
        self.has_remote_pause() && self.waited()
    }

    /// This host did not run for a part of the silence.
    pub(super) fn has_local_pause(&self) -> bool {
        self.local_pause_ns > self.silent_ns / REST_PART
    }

    /// By the stamps the time was spent on the ways, and neither end stood still for a part of it.
    pub(super) fn ways_were_late(&self) -> bool {
        let spent = self.late.is_some_and(|late| late.forward_ns + late.back_ns >= self.silent_ns / 2);
        spent && self.tells_pauses && !self.has_remote_pause() && !self.has_local_pause()
    }

    /// The peer sent again what had come: its echoes may have waited there for acknowledgements that were lost.
    pub(super) fn has_come_again(&self) -> bool {
        self.came_again.is_some_and(|n| n > 0)
    }

    /// Which way was lost, by what the reflector says that it received. What waited for a host to run was not lost.
    pub(super) fn told_direction(&self) -> Option<Direction> {
        let direction = self.reported?.direction(self.ended_ns, self.round_trip_ns)?;
        let otherwise = match direction {
            Direction::Forward => self.has_remote_pause(),
            Direction::Return => self.has_local_pause() || self.has_come_again() || self.echo_waited(),
        };
        (!otherwise).then_some(direction)
    }

    /// Who answers now, compared with who served the connection.
    pub(super) fn server(&self) -> Server {
        server(self.served_by, self.reported, (self.opened_ns, self.ended_ns))
    }

    /// Nothing acknowledged what was sent again and again.
    pub(super) fn tried_in_vain(&self) -> bool {
        self.timeouts >= 2
    }

    /// The quiet before the end was longer than any that a connection of this path survived: it survived a far shorter
    /// one, or another connection ended after such a quiet too.
    pub(super) fn idled_too_long(&self) -> bool {
        let Idle { before_ns, survived_ns, earlier_ns } = self.idle;
        let again = earlier_ns.is_some_and(|earlier| earlier > IDLE_FLOOR_NS.max(survived_ns));
        before_ns > IDLE_FLOOR_NS
            && before_ns > survived_ns
            && (again || survived_ns > 0 && before_ns / 2 > survived_ns)
    }

    /// What was acknowledged was so by something before the reflector, which speaks in its name.
    pub(super) fn is_relayed(&self) -> bool {
        let there = self.reported.and_then(|reported| reported.report.responder?.port);
        self.port.zip(there).is_some_and(|(here, there)| here != there)
    }
}

/// For how long the reflector did not run after it had stamped an echo that was late by `back_ns` on the way back, and before it
/// sent it, as a later echo tells: for how long it did not run between its stamps of both, and how far they are apart. A pause as
/// long as the echo was late by is the one that made it late, and of another only what cannot lie after the echo had left; but of
/// one in a long time afterwards nobody knows when it was ([`Told::Nothing`]). `None`: a still later one can tell more.
pub(crate) fn paused_after(waited_ns: u64, back_ns: u64, (paused_ns, apart_ns): (u64, u64)) -> Option<Told> {
    let nearly = |part: u64, whole: u64| part.saturating_mul(COVERED.1) >= whole.saturating_mul(COVERED.0);
    if !nearly(apart_ns, back_ns) {
        return None;
    }
    let since_ns = apart_ns.saturating_sub(back_ns);
    let soon = since_ns <= back_ns;
    if soon && nearly(paused_ns, back_ns) && nearly(back_ns, paused_ns) {
        return Some(Told::PausedNs(paused_ns));
    }
    Some(if soon || paused_ns <= waited_ns / REST_PART {
        Told::PausedNs(paused_ns.saturating_sub(since_ns))
    } else {
        Told::Nothing
    })
}

/// What a later echo tells of the reflector between the stamp of an echo and its sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It did not run for so long.
    PausedNs(u64),
    /// It cannot be known.
    Nothing,
}

impl Told {
    /// For how long the reflector did not run, where that is known.
    pub(crate) fn paused_ns(self) -> Option<u64> {
        match self {
            Self::PausedNs(ns) => Some(ns),
            Self::Nothing => None,
        }
    }
}

/// Whether a part is so much of a wait that it counts as a part of it at all.
pub(crate) fn is_a_part(part_ns: u64, waited_ns: u64) -> bool {
    part_ns > waited_ns / REST_PART
}
