//! Events that belong together, joined: a stall's beginning, end and explanation; a closing, the silence before it,
//! its explanation and the connection that took its place; attempts that failed in a row; a notice and its states.

use super::moment::Moment;
use super::tries::{AllTries, Failed};
use super::words::changed;
use crate::cause::ClosingCause;
use crate::event::{CarriedStallOver, Event, EventKind, Evidence};
use crate::peer_report::PeerReport;
use crate::statistics::LOCAL;
use crate::verdict::{Confidence, Explanation, Fresh, Verdict};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// What is of one kind (failed attempts, samples left out, delays) is told together when no longer than this lies between two.
pub(super) const SAME_SPELL_NS: u64 = 10_000_000_000;
/// The path may suffer a little before a notice's time, and settle for some minutes after it is gone.
const NOTICE_BEFORE: SignedDuration = SignedDuration::from_secs(60);
const NOTICE_AFTER: SignedDuration = SignedDuration::from_secs(300);

/// A verdict as the probe recorded it, and what it rests on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explained<'a> {
    pub(super) explanation: &'a Explanation,
    pub(super) fresh: Fresh,
    pub(super) report: Option<&'a PeerReport>,
}

/// How a stall lies to the seams of a rotation (`--rotate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seam {
    /// All of it is in this recording.
    None,
    /// It goes on in the recording that follows.
    GoesOn,
    /// It was over, and the recording that follows has more of it: the echoes of so many samples, or why it came.
    MoreFollows(u64),
    /// It was over before this recording began, with so many samples out, and this is what was said there about why.
    OverBefore { waiting: u64, said: Option<(Verdict, Confidence)> },
}

#[derive(Debug)]
pub(super) struct Stall<'a> {
    pub(super) connection: Option<u32>,
    /// When the missing echo was sent for.
    pub(super) start: Moment,
    /// When the echo came, or the connection ended; `None`: not before the recording's end.
    pub(super) end: Option<Moment>,
    pub(super) duration_ns: u64,
    /// It went on when we closed the connection, as was planned.
    pub(super) cut_short: bool,
    pub(super) seam: Seam,
    pub(super) outstanding: u64,
    pub(super) samples: u64,
    pub(super) recovered: bool,
    pub(super) retransmits: Option<u32>,
    pub(super) explained: Option<Explained<'a>>,
}

#[derive(Debug)]
pub(super) struct Closing<'a> {
    pub(super) connection: Option<u32>,
    pub(super) at: Moment,
    pub(super) cause: ClosingCause,
    pub(super) errno: Option<i32>,
    pub(super) age_ns: u64,
    pub(super) evidence: &'a Evidence,
    /// The silence it ended in.
    pub(super) stall: Option<Stall<'a>>,
    pub(super) explained: Option<Explained<'a>>,
    /// The connection that took its place.
    pub(super) again: Option<(Moment, u32)>,
    /// Samples that were due in between.
    pub(super) unsent: u64,
}

/// What deserves an explanation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Incident<'a> {
    Stall(&'a Stall<'a>),
    Closing(&'a Closing<'a>),
}

impl<'a> Incident<'a> {
    /// When things began to go wrong.
    pub(super) fn start(self) -> Moment {
        match self {
            Self::Stall(stall) => stall.start,
            Self::Closing(closing) => closing.stall.as_ref().map_or(closing.at, |stall| stall.start),
        }
    }

    /// When it is told: a stall from its beginning, a closing at its end.
    pub(super) fn told_at(self) -> Moment {
        match self {
            Self::Stall(stall) => stall.start,
            Self::Closing(closing) => closing.at,
        }
    }

    /// When it was over, as far as the recording knows.
    pub(super) fn end_mono_ns(self) -> u64 {
        match self {
            Self::Stall(stall) => stall.end.map_or(u64::MAX, |end| end.mono_ns),
            Self::Closing(closing) => closing.at.mono_ns,
        }
    }

    pub(super) fn connection(self) -> Option<u32> {
        match self {
            Self::Stall(stall) => stall.connection,
            Self::Closing(closing) => closing.connection,
        }
    }

    pub(super) fn explained(self) -> Option<Explained<'a>> {
        match self {
            Self::Stall(stall) => stall.explained,
            Self::Closing(closing) => closing.explained,
        }
    }

    /// What was said about why, here or in the recording before.
    pub(super) fn verdict(self) -> Option<Verdict> {
        let here = self.explained().map(|explained| explained.explanation.verdict);
        here.or_else(|| self.said_before().map(|(verdict, _)| verdict))
    }

    /// What the recording before said about why, and how sure that is.
    pub(super) fn said_before(self) -> Option<(Verdict, Confidence)> {
        match self {
            Self::Stall(&Stall { seam: Seam::OverBefore { said, .. }, .. }) => said,
            _ => None,
        }
    }

    /// Whether the recording that follows says why.
    pub(super) fn is_explained_later(self) -> bool {
        let follows = |stall: &Stall<'_>| matches!(stall.seam, Seam::GoesOn | Seam::MoreFollows(_));
        self.verdict().is_none() && matches!(self, Self::Stall(stall) if follows(stall))
    }

    pub(super) fn cause(self) -> Option<ClosingCause> {
        match self {
            Self::Stall(_) => None,
            Self::Closing(closing) => Some(closing.cause),
        }
    }
}

#[derive(Debug)]
pub(super) struct Pause<'a> {
    pub(super) host: &'a str,
    pub(super) start: Moment,
    pub(super) end_mono_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) reason: Option<&'a str>,
}

/// Samples that were due and not sent.
#[derive(Debug)]
pub(super) struct Overrun<'a> {
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) connection: Option<u32>,
    pub(super) skipped: u64,
    pub(super) reason: &'a str,
}

/// A cloud's notice through its states.
#[derive(Debug)]
pub(super) struct Notice<'a> {
    /// Host of the notice: `local`, `remote` or `other`.
    pub(super) host: &'a str,
    pub(super) cloud: &'a str,
    pub(super) what: &'a str,
    key: &'a str,
    not_before: Option<Timestamp>,
    started: Option<Timestamp>,
    gone: Option<Timestamp>,
}

impl Notice<'_> {
    /// Whether a time span touches the notice's window.
    pub(super) fn covers(&self, from: Timestamp, to: Timestamp) -> bool {
        // The cloud may start early or say nothing before it starts: the earlier of what is known counts.
        let begins = match (self.not_before, self.started) {
            (Some(a), Some(b)) => a.min(b),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return false,
        };
        let begins = begins.checked_sub(NOTICE_BEFORE).unwrap_or(begins);
        let ends = self.gone.and_then(|gone| gone.checked_add(NOTICE_AFTER).ok());
        to >= begins && ends.is_none_or(|ends| from <= ends)
    }
}

/// A recording's events, joined.
#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    /// Where each connection led.
    pub(super) remotes: BTreeMap<u32, &'a str>,
    pub(super) opened: u64,
    /// When each connection was established, by the monotonic clock.
    pub(super) opened_ns: BTreeMap<u32, u64>,
    /// Stalls that their connection survived, or that go on.
    pub(super) stalls: Vec<Stall<'a>>,
    pub(super) closings: Vec<Closing<'a>>,
    pub(super) tries: AllTries<'a>,
    pub(super) pauses: Vec<Pause<'a>>,
    pub(super) overruns: Vec<Overrun<'a>>,
    pub(super) notices: Vec<Notice<'a>>,
    /// What was different on connections, beginning with this one, and no longer as before: its sentences.
    pub(super) changes: BTreeMap<u32, Vec<String>>,
    /// The lane of each connection, where the recording names it.
    lanes: BTreeMap<Option<u32>, u32>,
    /// Closings whose place no connection has taken yet.
    vacant: VecDeque<usize>,
    /// Stalls that go on, by connection.
    going_on: BTreeMap<u32, usize>,
}

impl Joined<'_> {
    /// Everything that deserves an explanation: stalls, and ends that were not of our choosing.
    pub(super) fn incidents(&self) -> impl Iterator<Item = Incident<'_>> {
        let closings = self.closings.iter().filter(|c| c.cause.is_loss()).map(Incident::Closing);
        self.stalls.iter().map(Incident::Stall).chain(closings)
    }
}

/// Joins events in the order of the recording.
pub(super) fn join(events: &[Event]) -> Joined<'_> {
    let mut joined = Joined::default();
    for event in events {
        joined.add(event);
    }
    joined
}

impl<'a> Joined<'a> {
    fn add(&mut self, event: &'a Event) {
        let at = Moment::of(event);
        let connection = event.connection;
        match &event.kind {
            EventKind::ConnectionOpened { remote, lane, .. } => self.opened(at, connection, remote, *lane),
            EventKind::ConnectionRefused {
                target,
                errno,
                error,
                retry_in_ns,
                waited_ns,
                local,
                lane,
                ..
            } => {
                let (errno, lane, local, last) = (*errno, *lane, *local, retry_in_ns.is_none());
                let began = at.earlier(waited_ns.unwrap_or(0));
                self.tries.failed(began, at, Failed { target, error, errno, lane, local, last });
            }
            EventKind::ConnectionUnanswered { target, remote, attempts, waited_ns, .. } => {
                self.tries.hang(at.earlier(*waited_ns), at, target, (*attempts, remote));
            }
            EventKind::StallBegan { outstanding, threshold_ns, .. } => {
                self.stalled(connection, at.earlier(*threshold_ns), *threshold_ns, *outstanding);
            }
            EventKind::RecordingContinues { carried, .. } => {
                for one in &carried.connections {
                    self.opened += 1;
                    if let Some(remote) = &one.remote {
                        self.remotes.insert(one.connection, remote);
                    }
                    if let Some(lane) = one.lane {
                        self.lanes.insert(Some(one.connection), lane);
                    }
                    if let Some(over) = one.stall_over {
                        self.stalled_before(at, one.connection, over);
                    }
                    if let Some(stall) = one.stall {
                        let lasted_ns = at.mono_ns.saturating_sub(stall.since_ns);
                        self.stalled(
                            Some(one.connection),
                            at.earlier(lasted_ns),
                            lasted_ns,
                            stall.outstanding,
                        );
                    }
                }
            }
            EventKind::RecordingRotated { carried, .. } => {
                for one in carried.connections.iter().filter(|one| one.stall.is_some()) {
                    let stall = self.going_on.get(&one.connection).and_then(|&i| self.stalls.get_mut(i));
                    if let Some(stall) = stall {
                        stall.duration_ns = at.mono_ns.saturating_sub(stall.start.mono_ns);
                        stall.seam = Seam::GoesOn;
                    }
                }
                for (id, over) in
                    carried.connections.iter().filter_map(|c| Some((c.connection, c.stall_over?)))
                {
                    let it = |s: &&mut Stall<'_>| {
                        s.connection == Some(id) && s.end.is_some() && s.start.mono_ns == over.since_ns
                    };
                    if let Some(stall) = self.stalls.iter_mut().rev().find(it)
                        && stall.seam == Seam::None
                    {
                        stall.seam = Seam::MoreFollows(over.waiting);
                    }
                }
            }
            EventKind::StallEnded { duration_ns, samples, recovered, retransmits, .. } => {
                let stall = connection.and_then(|id| self.going_on.remove(&id));
                let Some(stall) = stall.and_then(|i| self.stalls.get_mut(i)) else { return };
                stall.start = at.earlier(*duration_ns);
                stall.end = Some(at);
                (stall.duration_ns, stall.samples) = (*duration_ns, *samples);
                (stall.recovered, stall.retransmits) = (*recovered, *retransmits);
            }
            EventKind::ConnectionClosed { cause, errno, age_ns, evidence, .. } => {
                if cause.is_loss() {
                    self.vacant.push_back(self.closings.len());
                }
                let stall = if cause.is_loss() {
                    self.take_fatal_stall(connection)
                } else {
                    self.cut_short(at, connection);
                    None
                };
                let closing = Closing {
                    connection,
                    at,
                    cause: *cause,
                    errno: *errno,
                    age_ns: *age_ns,
                    evidence,
                    stall,
                    explained: None,
                    again: None,
                    unsent: 0,
                };
                self.closings.push(closing);
            }
            EventKind::ConnectionExplained { about, explanation, fresh, reflector } => {
                let explained = Some(Explained { explanation, fresh: *fresh, report: reflector.as_deref() });
                if about == "closing" {
                    let closing = self.closings.iter_mut().rev().find(|c| c.connection == connection);
                    if let Some(closing) = closing {
                        closing.explained = explained;
                    }
                } else if let Some(stall) = self.stalls.iter_mut().rev().find(|s| s.connection == connection)
                {
                    stall.explained = explained;
                } else if let Some(stall) = self.fatal_stall(connection) {
                    stall.explained = explained;
                }
            }
            EventKind::Pause { host, duration_ns, reason, .. } => self.pauses.push(Pause {
                host,
                start: at.earlier(*duration_ns),
                end_mono_ns: at.mono_ns,
                duration_ns: *duration_ns,
                reason: reason.as_deref(),
            }),
            EventKind::ScheduleOverrun { skipped, reason, .. } => {
                self.overrun(at, connection, *skipped, reason);
            }
            EventKind::AddressChanged { what, from, to } => {
                if let Some(id) = connection {
                    self.changes.entry(id).or_default().push(changed(what, from, to));
                }
            }
            EventKind::Maintenance { host, cloud, id, what, state, not_before, .. } => {
                let key = id.as_deref().unwrap_or(what);
                let same = |n: &&mut Notice<'_>| {
                    n.host == host && n.cloud == cloud && n.key == key && n.gone.is_none()
                };
                let notice = match self.notices.iter_mut().rev().find(same) {
                    Some(notice) => notice,
                    None => self.notices.push_mut(Notice {
                        host,
                        cloud,
                        what,
                        key,
                        not_before: None,
                        started: None,
                        gone: None,
                    }),
                };
                notice.not_before = notice.not_before.or(*not_before);
                match state.as_str() {
                    "started" => notice.started = notice.started.or(Some(at.utc)),
                    "gone" => notice.gone = Some(at.utc),
                    _ => notice.not_before = not_before.or(notice.not_before),
                }
            }
            _ => {}
        }
    }

    fn stalled(&mut self, connection: Option<u32>, start: Moment, lasted_ns: u64, outstanding: u64) {
        if let Some(id) = connection {
            self.going_on.insert(id, self.stalls.len());
        }
        self.stalls.push(Stall {
            connection,
            start,
            end: None,
            duration_ns: lasted_ns,
            cut_short: false,
            seam: Seam::None,
            outstanding,
            samples: outstanding,
            recovered: false,
            retransmits: None,
            explained: None,
        });
    }

    /// A stall that was over before this recording began, at this moment, and of which this one has the rest.
    fn stalled_before(&mut self, at: Moment, connection: u32, over: CarriedStallOver) {
        let CarriedStallOver { since_ns, over_ns, waiting, verdict, confidence } = over;
        let earlier = |mono_ns: u64| at.earlier(at.mono_ns.saturating_sub(mono_ns));
        let said = verdict.map(|verdict| (verdict, confidence.unwrap_or(Confidence::None)));
        self.stalls.push(Stall {
            connection: Some(connection),
            start: earlier(since_ns),
            end: Some(earlier(over_ns)),
            duration_ns: over_ns.saturating_sub(since_ns),
            cut_short: false,
            seam: Seam::OverBefore { waiting, said },
            outstanding: waiting,
            samples: waiting,
            recovered: true,
            retransmits: None,
            explained: None,
        });
    }

    fn opened(&mut self, at: Moment, connection: Option<u32>, remote: &'a str, lane: Option<u32>) {
        self.opened += 1;
        let Some(id) = connection else { return };
        self.remotes.insert(id, remote);
        self.opened_ns.insert(id, at.mono_ns);
        self.tries.connected(at, lane, id);
        // Recordings that name no lanes do so throughout; there the first to end is taken to be the first replaced.
        let lane_of = |closing: &usize| self.lanes.get(&self.closings[*closing].connection).copied();
        let place = self.vacant.iter().position(|closing| lane_of(closing) == lane);
        if let Some(closing) = place.and_then(|place| self.vacant.remove(place)) {
            self.closings[closing].again = Some((at, id));
        }
        if let Some(lane) = lane {
            self.lanes.insert(Some(id), lane);
        }
    }

    /// We close the connection, whatever it waits for: a stall that goes on is one that nobody saw the end of.
    fn cut_short(&mut self, at: Moment, connection: Option<u32>) {
        let stall = connection.and_then(|id| self.going_on.remove(&id));
        if let Some(stall) = stall.and_then(|i| self.stalls.get_mut(i)) {
            stall.duration_ns = at.mono_ns.saturating_sub(stall.start.mono_ns);
            stall.cut_short = true;
        }
    }

    /// The stall of this connection that it did not survive.
    fn take_fatal_stall(&mut self, connection: Option<u32>) -> Option<Stall<'a>> {
        let last = self.stalls.iter().rposition(|s| s.connection == connection)?;
        if self.stalls[last].recovered {
            return None;
        }
        // Positions of later stalls move down by one.
        for position in self.going_on.values_mut().filter(|position| **position > last) {
            *position -= 1;
        }
        if let Some(id) = connection {
            self.going_on.remove(&id);
        }
        Some(self.stalls.remove(last))
    }

    fn fatal_stall(&mut self, connection: Option<u32>) -> Option<&mut Stall<'a>> {
        self.closings.iter_mut().rev().find(|c| c.connection == connection)?.stall.as_mut()
    }

    fn overrun(&mut self, at: Moment, connection: Option<u32>, skipped: u64, reason: &'a str) {
        if ["unconnected", LOCAL].contains(&reason)
            && let Some(id) = connection
            && let Some(closing) = self
                .closings
                .iter_mut()
                .rev()
                .find(|c| c.connection == connection || c.again.is_some_and(|(_, a)| a == id))
        {
            closing.unsent += skipped;
            return;
        }
        let near = |o: &&mut Overrun<'_>| {
            o.reason == reason && at.mono_ns.saturating_sub(o.last.mono_ns) <= SAME_SPELL_NS
        };
        match self.overruns.last_mut().filter(near) {
            Some(overrun) => {
                overrun.last = at;
                overrun.skipped += skipped;
                overrun.connection = overrun.connection.filter(|_| overrun.connection == connection);
            }
            None => self.overruns.push(Overrun { first: at, last: at, connection, skipped, reason }),
        }
    }
}
