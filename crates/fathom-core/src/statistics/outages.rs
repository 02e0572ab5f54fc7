//! When a path had no connection, or one on which nothing came back until the end: from when, for how long, and how it
//! ended. Made from the events alone, so that a run and its recording read back say the same.
//!
//! A lane has one connection at a time. Its outage begins when the last byte came on a connection that was then lost, or
//! with its first attempt to connect, or where each sample is a connection with the first that failed or hangs, none
//! having been made since; and it ends with the connection on which something is answered again. A connection
//! that is established and lost without an answer (a proxy before a dead server) ends nothing; but one that was asked
//! nothing and stood for half a second does, and its own loss begins another. A datagram socket is established whatever is
//! there: only its first answer ends an outage.

use crate::cause::ClosingCause;
use crate::event::{Carried, CarriedOutage, Event, EventKind};
use jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};

/// Outages that are over and keep their own line.
pub const OUTAGES_KEPT: usize = 1_000;

/// A connection that nothing was sent on was there if it lived for so long, in ns. What accepts connections for a dead server
/// (a proxy, a balancer) closes them sooner.
const STOOD_NS: u64 = 500_000_000;

/// One outage of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// The connection that was lost or fell silent; `None`: there had not been one, or a sample that is a connection failed.
    pub connection: Option<u32>,
    /// What ended that connection; `None`: nothing did, it was silent until the run ended, or there was none.
    pub cause: Option<ClosingCause>,
    /// True if this host failed, not the target: it had no port, no descriptor, no address or no route, or it did not
    /// run.
    pub local: bool,
    /// Address and port of the first failed attempt, if any.
    pub remote: Option<String>,
    /// When it began, UTC.
    pub began_at: Timestamp,
    /// The same by the monotonic clock of the run, in ns.
    pub began_ns: u64,
    /// How it ended; `None`: it has not.
    pub end: Option<OutageEnd>,
    /// It goes on in the recording that follows.
    pub goes_on: bool,
}

/// The end of an outage: a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutageEnd {
    /// The connection.
    pub connection: Option<u32>,
    /// When it was established, by the monotonic clock of the run, in ns.
    pub at_ns: u64,
    /// The peer may have been back so much earlier, in ns: since the latest attempt that failed was begun.
    pub uncertain_ns: u64,
}

impl Outage {
    /// An ongoing outage, of which only the beginning is known.
    fn since(began_at: Timestamp, began_ns: u64) -> Self {
        let (connection, cause, local, remote) = (None, None, false, None);
        Self { connection, cause, local, remote, began_at, began_ns, end: None, goes_on: false }
    }

    /// The same of a connection that was lost, or fell silent.
    fn of(
        (connection, cause, local): (Option<u32>, Option<ClosingCause>, bool),
        began_at: Timestamp,
        began_ns: u64,
    ) -> Self {
        Self { connection, cause, local, ..Self::since(began_at, began_ns) }
    }

    /// How long it lasted, in ns; one that is not over, until `now_ns`.
    pub fn lasted_ns(&self, now_ns: u64) -> u64 {
        self.end.map_or(now_ns, |end| end.at_ns).saturating_sub(self.began_ns)
    }
}

/// A lane, as far as its connections come and go.
#[derive(Debug, Clone, Default)]
struct Lane {
    /// When the attempt under way was begun.
    attempt_ns: Option<u64>,
    /// An attempt was begun after the latest loss.
    tried: bool,
    /// Attempts that failed since the latest outage began.
    failed: u64,
    /// The peer was surely not there at this moment of the outage.
    down_ns: u64,
    /// Time when a connection was last established. An attempt begun before it says nothing about the time since.
    reached_ns: u64,
    /// The latest outage, until the connection that ends it has proved itself.
    outage: Option<Outage>,
}

/// An open connection.
#[derive(Debug, Clone, Copy)]
struct Open {
    lane: u32,
    /// Since when it is silent, where it is.
    silent: Option<(Timestamp, u64)>,
    /// True if the cause is in this host.
    silent_here: bool,
    /// Nobody has accepted it: a datagram socket.
    datagram: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Outages {
    lanes: BTreeMap<u32, Lane>,
    /// The open connections.
    open: BTreeMap<u32, Open>,
    over: VecDeque<Outage>,
    omitted: u64,
}

impl Outages {
    /// Those that are known, oldest first: the latest [`OUTAGES_KEPT`] that are over, and all that are not.
    pub fn all(&self) -> Vec<Outage> {
        let of_lanes = self.lanes.values().filter_map(|lane| lane.outage.clone());
        let mut all: Vec<Outage> = self.over.iter().cloned().chain(of_lanes).collect();
        all.sort_by_key(|outage| outage.began_ns);
        all
    }

    /// Outages that are over and have no line any more.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// The oldest that is not over.
    pub fn current(&self) -> Option<&Outage> {
        let open = self.lanes.values().filter_map(|lane| lane.outage.as_ref());
        open.filter(|outage| outage.end.is_none()).min_by_key(|outage| outage.began_ns)
    }

    /// A connection that was lost and did not come back, though that was tried.
    pub fn lost_for_good(&self) -> Option<&Outage> {
        let tried = self.lanes.values().filter(|lane| lane.tried);
        tried.filter_map(|lane| lane.outage.as_ref()).find(|o| o.end.is_none() && o.cause.is_some())
    }

    /// Where each sample is a connection: the outage that was not over at the end. One attempt alone may fail for any
    /// reason; so it is one only from the second on.
    pub fn refused_to_the_end(&self) -> Option<&Outage> {
        let refused = self.lanes.values().filter(|lane| lane.failed > 1);
        refused.filter_map(|lane| lane.outage.as_ref()).find(|outage| outage.end.is_none())
    }

    /// Takes an event into account.
    pub fn event(&mut self, event: &Event) {
        let now = event.mono_ns;
        match &event.kind {
            EventKind::ConnectionOpening { lane, .. } => {
                let lane = self.lanes.entry(lane.unwrap_or(0)).or_default();
                (lane.attempt_ns, lane.tried) = (Some(now), true);
            }
            EventKind::ConnectionRefused { lane, waited_ns, local, remote, .. } => {
                let number = lane.unwrap_or(0);
                let lane = self.lanes.entry(number).or_default();
                let began_ns = lane.attempt_ns.take().unwrap_or(now);
                let began_ns = waited_ns.map_or(began_ns, |waited| now.saturating_sub(waited));
                self.failed(event, number, (began_ns, began_ns), *local, remote.as_deref());
            }
            EventKind::ConnectionUnanswered { remote, waited_ns, latest_waited_ns, .. } => {
                let ago = |ns: &u64| now.saturating_sub(*ns);
                self.failed(event, 0, (ago(waited_ns), ago(latest_waited_ns)), false, Some(remote));
            }
            EventKind::ConnectionExplained { about, explanation, .. } if about != "closing" => {
                if let Some(open) = event.connection.and_then(|id| self.open.get_mut(&id)) {
                    open.silent_here = open.silent.is_some() && explanation.verdict.is_local();
                }
            }
            EventKind::ConnectionExplained { explanation, .. } if explanation.verdict.is_local() => {
                let outages = self.lanes.values_mut().filter_map(|lane| lane.outage.as_mut());
                let of_it = |o: &&mut Outage| o.connection.is_some() && o.connection == event.connection;
                outages.filter(of_it).for_each(|outage| outage.local = true);
            }
            EventKind::ConnectionOpened { lane, connect_ns, .. } => {
                let number = lane.unwrap_or(0);
                if let Some(connection) = event.connection {
                    let datagram = *connect_ns == 0;
                    let open = Open { lane: number, silent: None, silent_here: false, datagram };
                    self.open.insert(connection, open);
                }
                let lane = self.lanes.entry(number).or_default();
                (lane.attempt_ns, lane.reached_ns) = (None, now);
                let uncertain_ns = now.saturating_sub(lane.down_ns);
                if let Some(outage) = lane.outage.as_mut().filter(|outage| outage.end.is_none()) {
                    outage.end = Some(OutageEnd { connection: event.connection, at_ns: now, uncertain_ns });
                }
            }
            EventKind::RecordingContinues { carried, .. } => self.go_on(carried, event),
            EventKind::RecordingRotated { carried, .. } => {
                for one in &carried.outages {
                    let lane = self.lanes.entry(one.lane).or_default();
                    if let Some(outage) = &mut lane.outage {
                        // Whether the connection that would end it answers is seen in the next recording.
                        (outage.end, outage.goes_on) = (None, true);
                    }
                }
            }
            EventKind::StallBegan { threshold_ns, .. } => {
                if let Some(open) = event.connection.and_then(|id| self.open.get_mut(&id)) {
                    let since_ns = now.saturating_sub(*threshold_ns);
                    open.silent = Some((earlier(event, since_ns), since_ns));
                    open.silent_here = false;
                }
            }
            EventKind::StallEnded { .. } => {
                if let Some(open) = event.connection.and_then(|id| self.open.get_mut(&id)) {
                    open.silent = None;
                }
            }
            EventKind::ConnectionClosed { cause, errno, evidence, age_ns, .. } => {
                let Some(open) = event.connection.and_then(|id| self.open.remove(&id)) else { return };
                let Open { lane: number, silent, silent_here, datagram } = open;
                let lane = self.lanes.entry(number).or_default();
                if cause.is_loss() {
                    lane.down_ns = now;
                }
                let lane_goes_on = lane.outage.as_ref().is_some_and(|outage| outage.end.is_none());
                // One that stood for a while and was asked nothing was there: what came before it is over.
                if cause.is_loss() && evidence.sent == 0 && *age_ns >= STOOD_NS && !lane_goes_on {
                    lane.tried = false;
                    let lost = (event.connection, Some(*cause), cause.is_of_this_host(*errno));
                    self.begins(number, Outage::of(lost, event.at, now));
                    return;
                }
                // One that we closed may have been too young for an answer, unless it had been silent for too long; but if
                // nobody accepted it, its age says nothing.
                let unproved = evidence.answered == 0 && (silent.is_some() || cause.is_loss() || datagram);
                if lane.goes_on(event.connection, unproved) {
                    return;
                }
                let silent = silent.filter(|_| evidence.outstanding > 0);
                if cause.is_loss() {
                    lane.tried = false;
                    let since_ns = now.saturating_sub(evidence.silent_ns.unwrap_or(*age_ns));
                    let began_at = earlier(event, since_ns);
                    let lost = (event.connection, Some(*cause), cause.is_of_this_host(*errno));
                    self.begins(number, Outage::of(lost, began_at, since_ns));
                } else if let Some((began_at, since_ns)) = silent {
                    self.begins(
                        number,
                        Outage::of((event.connection, None, silent_here), began_at, since_ns),
                    );
                }
            }
            _ => {}
        }
    }

    /// Those that go on over a seam; `answered`: which open connections have answered anything.
    pub fn carried(&self, answered: impl Fn(u32) -> bool) -> Vec<CarriedOutage> {
        let one = |(&number, lane): (&u32, &Lane)| {
            let outage = lane.outage.as_ref()?;
            let unproved = |id: &u32| self.open.contains_key(id) && !answered(*id);
            let end = match &outage.end {
                Some(end) => Some(end).filter(|end| end.connection.as_ref().is_some_and(unproved))?.into(),
                None => None,
            };
            Some(CarriedOutage {
                lane: number,
                began_at: outage.began_at,
                began_ns: outage.began_ns,
                connection: outage.connection,
                cause: outage.cause,
                local: outage.local,
                attempt_ns: lane.attempt_ns,
                tried: lane.tried,
                down_ns: lane.down_ns,
                opened_ns: end.map(|end: &OutageEnd| end.at_ns),
                opened: end.and_then(|end| end.connection),
            })
        };
        self.lanes.iter().filter_map(one).collect()
    }

    /// The run goes on here: what was open before the seam is.
    fn go_on(&mut self, carried: &Carried, event: &Event) {
        for one in &carried.connections {
            let silent = one.stall.map(|stall| (earlier(event, stall.since_ns), stall.since_ns));
            // Whether it was accepted stands in the recording before.
            let (lane, silent_here) = (one.lane.unwrap_or(0), false);
            let open = Open { lane, silent, silent_here, datagram: false };
            self.open.insert(one.connection, open);
        }
        for one in &carried.outages {
            let end = one.opened_ns.map(|at_ns| OutageEnd {
                connection: one.opened,
                at_ns,
                uncertain_ns: at_ns.saturating_sub(one.down_ns),
            });
            let CarriedOutage { began_at, began_ns, connection, cause, local, .. } = *one;
            let outage = Outage { connection, cause, local, end, ..Outage::since(began_at, began_ns) };
            let lane = Lane {
                attempt_ns: one.attempt_ns,
                tried: one.tried,
                failed: 0,
                down_ns: one.down_ns,
                reached_ns: 0,
                outage: Some(outage),
            };
            self.lanes.insert(one.lane, lane);
        }
    }

    /// Notes failed attempts of a lane, in this host or not; the first and the latest began at these times. They begin
    /// an outage, unless one goes on. An outage of this host ends when the target's begins, and the other way round.
    fn failed(
        &mut self,
        event: &Event,
        number: u32,
        (first_ns, latest_ns): (u64, u64),
        local: bool,
        remote: Option<&str>,
    ) {
        let lane = self.lanes.entry(number).or_default();
        if first_ns < lane.reached_ns {
            return;
        }
        lane.down_ns = lane.down_ns.max(latest_ns);
        let remote = remote.map(str::to_owned);
        let mut outage = Outage { local, remote, ..Outage::since(earlier(event, first_ns), first_ns) };
        if let Some(before) = lane.outage.as_mut().filter(|before| before.end.is_none()) {
            if before.local != local {
                // The lost connection is still missing.
                (outage.connection, outage.cause) = (before.connection, before.cause);
                outage.began_ns = first_ns.max(before.began_ns);
                outage.began_at = earlier(event, outage.began_ns);
                let (connection, at_ns) = (None, outage.began_ns);
                before.end = Some(OutageEnd { connection, at_ns, uncertain_ns: 0 });
            } else if before.remote.is_none() {
                before.remote = outage.remote.take();
            }
        }
        self.begins(number, outage);
        self.lanes.entry(number).or_default().failed += 1;
    }

    /// Begins an outage of this lane, unless one goes on.
    fn begins(&mut self, lane: u32, outage: Outage) {
        let lane = self.lanes.entry(lane).or_default();
        if lane.outage.as_ref().is_some_and(|outage| outage.end.is_none()) {
            return;
        }
        lane.failed = 0;
        if let Some(before) = lane.outage.replace(outage) {
            self.over.push_back(before);
            if self.over.len() > OUTAGES_KEPT {
                self.over.pop_front();
                self.omitted += 1;
            }
        }
    }
}

impl Lane {
    /// Where its latest outage was to end with this connection, which answered nothing: it goes on.
    fn goes_on(&mut self, connection: Option<u32>, unproved: bool) -> bool {
        let Some(outage) = &mut self.outage else { return false };
        if unproved && outage.end.is_some_and(|end| end.connection == connection) {
            outage.end = None;
        }
        outage.end.is_none()
    }
}

/// The UTC of an earlier moment, by the clock of this event.
fn earlier(event: &Event, mono_ns: u64) -> Timestamp {
    let before = i64::try_from(event.mono_ns.saturating_sub(mono_ns)).unwrap_or(i64::MAX);
    event.at.checked_sub(jiff::SignedDuration::from_nanos(before)).unwrap_or(event.at)
}

#[cfg(test)]
mod tests;
