//! A probe in virtual time: its schedule, its connection, and what it says of them. The rules are those of
//! `fathom probe`: open loop, a timeout is not a death, stalls by four times the usual tail, a fresh connection as a second
//! opinion, the verdict by the table of fathom-core.

mod end;
mod opinion;

use std::collections::VecDeque;
use std::net::SocketAddr;

use fathom_core::backoff::Backoff;
use fathom_core::cause::ClosingCause;
use fathom_core::event::EventKind;
use fathom_core::histogram::Histogram;
use fathom_core::sample::{Flags, Sample};
use fathom_core::schedule::{Pace, Schedule, Skipped};
use fathom_core::stall::{Change, Watch, threshold_ns};
use fathom_core::verdict::{Facts, Fresh, Outcome, explain};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;

use super::host::Host;
use crate::scenario::ProbeSpec;

/// `ECONNREFUSED`, `ECONNRESET` and `ETIMEDOUT` of Linux, for the recording.
const REFUSED: i32 = 111;
const RESET: i32 = 104;
const TIMED_OUT: i32 = 110;
/// How long a second opinion may take.
const OPINION_NS: u64 = 2_000_000_000;
/// A silence this long deserves a second opinion.
const ASK_AFTER_NS: u64 = 1_000_000_000;

/// What a probe has to say, at a time.
#[derive(Debug)]
pub(super) enum Said {
    Sample(Sample),
    Event(Option<u32>, EventKind),
}

/// The moments at which a host did not run, oldest first: from, to (none while it goes on).
pub(super) type Pauses = [(u64, Option<u64>)];

/// How long of a span of time lies in pauses.
pub(super) fn paused_ns(pauses: &Pauses, from_ns: u64, to_ns: u64) -> u64 {
    pauses
        .iter()
        .map(|&(start, end)| end.unwrap_or(to_ns).min(to_ns).saturating_sub(start.max(from_ns)))
        .sum()
}

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    seq: u64,
    due_ns: u64,
    sent_ns: u64,
    /// Since anything had passed on the connection.
    quiet_ns: u64,
    retransmits: u32,
}

#[derive(Debug)]
struct Open {
    handle: SocketHandle,
    port: u16,
    opened_ns: u64,
    outstanding: VecDeque<Outstanding>,
    next_seq: u64,
    answered: u64,
    last_answered_seq: Option<u64>,
    last_received_ns: Option<u64>,
    last_activity_ns: u64,
    idle_survived_ns: u64,
    /// Bytes of an echo that is not yet whole.
    partial: usize,
    watch: Watch,
    /// Retransmissions that samples have been told of.
    told: u32,
}

#[derive(Debug)]
enum Life {
    /// Connects then.
    Waiting(u64),
    Connecting {
        handle: SocketHandle,
        port: u16,
        since_ns: u64,
    },
    Open(Box<Open>),
    Over,
}

/// A second opinion: a fresh connection with one sample.
#[derive(Debug)]
struct Opinion {
    handle: SocketHandle,
    port: u16,
    since_ns: u64,
    connected: bool,
    /// Facts of a death that wait for it.
    death: Option<(u32, Facts)>,
}

/// A probe of the simulation.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) spec: ProbeSpec,
    /// Which host it runs at, by index.
    pub(super) at: usize,
    target: SocketAddr,
    state: Life,
    schedule: Option<Schedule>,
    until_ns: u64,
    connections: u32,
    backoff: Backoff,
    opinion: Option<Opinion>,
    /// When the last opinion was begun, and what it met.
    formed: Option<(u64, Fresh)>,
    rtt: Histogram,
    look_ns: Option<u64>,
    /// When the oldest data that the peer has not acknowledged becomes too old.
    give_up_ns: Option<u64>,
    /// The stall threshold, and the count of round trips at which it is computed anew: a percentile is not free.
    threshold: (u64, u64),
}

impl Probe {
    pub(super) fn new(spec: ProbeSpec, at: usize, target: SocketAddr, until_ns: u64, seed: u64) -> Self {
        Self {
            state: Life::Waiting(spec.begin_ns),
            spec,
            at,
            target,
            schedule: None,
            until_ns,
            connections: 0,
            backoff: Backoff::new(seed),
            opinion: None,
            formed: None,
            rtt: Histogram::default(),
            look_ns: None,
            give_up_ns: None,
            threshold: (threshold_ns(None), 0),
        }
    }

    /// When something is to be done without a packet, ns.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let own = match &self.state {
            Life::Waiting(at) => Some(*at),
            Life::Connecting { since_ns, .. } => Some(since_ns + self.spec.user_timeout_ns),
            Life::Open(_) => {
                let due = self.schedule.as_ref().and_then(Schedule::next_due_ns);
                [due, self.look_ns, self.give_up_ns].into_iter().flatten().min()
            }
            Life::Over => None,
        };
        let opinion = self.opinion.as_ref().map(|opinion| opinion.since_ns + OPINION_NS);
        [own, opinion].into_iter().flatten().min()
    }

    /// Does what is due, and what the host's TCP made possible. `local` and `remote` are the pauses of the two hosts.
    pub(super) fn run(
        &mut self,
        now: u64,
        host: &mut Host,
        pauses: (&Pauses, &Pauses),
        say: &mut impl FnMut(Said),
    ) {
        self.judge_opinion(now, host, say);
        loop {
            match &mut self.state {
                Life::Waiting(at) if *at <= now => self.connect(now, host, say),
                Life::Connecting { handle, port, since_ns } => {
                    let (handle, port, since_ns) = (*handle, *port, *since_ns);
                    match host.state(handle) {
                        State::SynSent | State::SynReceived if now < since_ns + self.spec.user_timeout_ns => {
                            break;
                        }
                        State::Established => self.opened(now, host, (handle, port), since_ns, say),
                        _ => self.refused(now, host, (handle, port), say),
                    }
                }
                Life::Open(_) => {
                    self.receive(now, host, pauses, say);
                    if self.lost(now, host, pauses, say) {
                        continue;
                    }
                    self.send(now, host, say);
                    self.look(now, host, say);
                    // What was just sent has its own end.
                    if self.lost(now, host, pauses, say) {
                        continue;
                    }
                    break;
                }
                Life::Waiting(_) | Life::Over => break,
            }
        }
    }

    fn connect(&mut self, now: u64, host: &mut Host, say: &mut impl FnMut(Said)) {
        let (handle, port) = host.connect(now, self.target);
        say(Said::Event(
            None,
            EventKind::ConnectionOpening {
                target: self.target.to_string(),
                remote: self.target.to_string(),
                attempt: self.backoff.attempts() + 1,
                lane: Some(0),
            },
        ));
        self.state = Life::Connecting { handle, port, since_ns: now };
    }

    fn opened(
        &mut self,
        now: u64,
        host: &Host,
        (handle, port): (SocketHandle, u16),
        since_ns: u64,
        say: &mut impl FnMut(Said),
    ) {
        let id = self.connections;
        self.connections += 1;
        self.backoff.succeeded();
        say(Said::Event(
            Some(id),
            EventKind::ConnectionOpened {
                target: self.target.to_string(),
                local: SocketAddr::new(host.address, port).to_string(),
                remote: self.target.to_string(),
                connect_ns: (now - since_ns) as i64,
                tls_ns: None,
                interface: None,
                lane: Some(0),
            },
        ));
        let every = self.spec.every_ns;
        let until = self.until_ns;
        let schedule =
            self.schedule.get_or_insert_with(|| Schedule::new(Pace::Every(every), now, None, Some(until)));
        if let Some(skipped) = schedule.skip_unconnected(now) {
            overrun(None, skipped, "unconnected", say);
        }
        self.state = Life::Open(Box::new(Open {
            handle,
            port,
            opened_ns: now,
            outstanding: VecDeque::new(),
            next_seq: 0,
            answered: 0,
            last_answered_seq: None,
            last_received_ns: None,
            last_activity_ns: now,
            idle_survived_ns: 0,
            partial: 0,
            watch: Watch::default(),
            told: 0,
        }));
    }

    fn refused(
        &mut self,
        now: u64,
        host: &mut Host,
        (handle, port): (SocketHandle, u16),
        say: &mut impl FnMut(Said),
    ) {
        let reset = host.observed(port).reset;
        host.forget(handle, port);
        let wait_ns = self.backoff.next_wait_ns(30_000_000_000);
        let (errno, error) =
            if reset { (REFUSED, "connection refused") } else { (TIMED_OUT, "connection timed out") };
        say(Said::Event(
            None,
            EventKind::ConnectionRefused {
                target: self.target.to_string(),
                remote: Some(self.target.to_string()),
                errno: Some(errno),
                error: error.to_owned(),
                retry_in_ns: Some(wait_ns),
                lane: Some(0),
            },
        ));
        self.state = Life::Waiting(now + wait_ns);
    }

    fn send(&mut self, now: u64, host: &mut Host, say: &mut impl FnMut(Said)) {
        let (Life::Open(open), Some(schedule)) = (&mut self.state, &mut self.schedule) else { return };
        let id = self.connections - 1;
        if let Some(skipped) = schedule.skip_overdue(now) {
            overrun(Some(id), skipped, "late", say);
        }
        while let Some(due_ns) = schedule.next_due_ns().filter(|&due| due <= now) {
            if !host.send(now, open.handle, self.spec.size as usize) {
                if let Some(skipped) = schedule.skip_unconnected(now + 1) {
                    overrun(Some(id), skipped, "blocked", say);
                }
                break;
            }
            schedule.take(now);
            open.outstanding.push_back(Outstanding {
                seq: open.next_seq,
                due_ns,
                sent_ns: now,
                quiet_ns: now - open.last_activity_ns,
                retransmits: host.observed(open.port).retransmits,
            });
            open.next_seq += 1;
            open.last_activity_ns = now;
        }
    }

    fn receive(
        &mut self,
        now: u64,
        host: &mut Host,
        (local, remote): (&Pauses, &Pauses),
        say: &mut impl FnMut(Said),
    ) {
        let Life::Open(open) = &mut self.state else { return };
        let id = self.connections - 1;
        let count = host.receive(now, open.handle);
        if count == 0 {
            return;
        }
        open.last_received_ns = Some(now);
        open.last_activity_ns = now;
        open.partial += count;
        let retransmits = host.observed(open.port).retransmits;
        if let Some(stall) = open.watch.ended() {
            let duration_ns = now - stall.sent_mono_ns;
            let resent = retransmits - stall.retransmits_before.unwrap_or(0);
            let pause_ns = paused_ns(remote, stall.sent_mono_ns, now);
            if pause_ns > 0 {
                // A reflector reports its host's pauses with the next echo.
                say(Said::Event(
                    Some(id),
                    EventKind::Pause { host: "remote".to_owned(), duration_ns: pause_ns, reason: None },
                ));
            }
            let samples = open.next_seq - stall.seq;
            let retransmits = Some(resent);
            say(Said::Event(
                Some(id),
                EventKind::StallEnded { duration_ns, samples, recovered: true, retransmits },
            ));
            let fresh = self
                .formed
                .filter(|&(since, _)| since >= stall.sent_mono_ns)
                .map_or(Fresh::NotTried, |f| f.1);
            let facts = Facts {
                outcome: Outcome::Recovered,
                silent_ns: duration_ns,
                local_pause_ns: paused_ns(local, stall.sent_mono_ns, now),
                remote_pause_ns: (pause_ns > 0).then_some(pause_ns),
                unacked: None,
                retransmits,
                idle_ns: 0,
                idle_survived_ns: open.idle_survived_ns,
                fresh,
                others_lost: fresh == Fresh::NoAnswer,
                // Each retransmission here is a timeout: nothing comes back that could ask for one earlier.
                timeouts: resent.min(255) as u8,
                delays_ns: None,
                reported: None,
            };
            let explanation = explain(&facts);
            say(Said::Event(
                Some(id),
                EventKind::ConnectionExplained {
                    about: "stall".to_owned(),
                    explanation,
                    fresh,
                    reflector: None,
                },
            ));
        }
        let size = self.spec.size as usize;
        while open.partial >= size
            && let Some(sample) = open.outstanding.pop_front()
        {
            open.partial -= size;
            let rtt_ns = now - sample.sent_ns;
            self.rtt.record(rtt_ns as i64);
            open.answered += 1;
            open.last_answered_seq = Some(sample.seq);
            open.idle_survived_ns = open.idle_survived_ns.max(sample.quiet_ns);
            let mut flags = Flags::default();
            if rtt_ns > self.spec.timeout_ns {
                flags |= Flags::ANSWERED_LATE;
            }
            for (pauses, flag) in
                [(local, Flags::OVERLAPS_LOCAL_PAUSE), (remote, Flags::OVERLAPS_REMOTE_PAUSE)]
            {
                if paused_ns(pauses, sample.sent_ns, now) > 0 {
                    flags |= flag;
                }
            }
            let resent = retransmits - open.told;
            open.told = retransmits;
            let mut row = row(id, &sample, self.spec.size, flags);
            row.rtt_ns = Some(rtt_ns as i64);
            row.retransmits = Some(resent.min(u32::from(u16::MAX)) as u16);
            say(Said::Sample(row));
        }
        self.look_ns = None;
    }

    /// Looks whether the connection stalls.
    fn look(&mut self, now: u64, host: &mut Host, say: &mut impl FnMut(Said)) {
        let Life::Open(open) = &mut self.state else { return };
        if self.rtt.count() >= self.threshold.1 {
            let next = self.rtt.count() + (self.rtt.count() / 8).max(100);
            self.threshold = (threshold_ns(self.rtt.supported_quantile(0.99)), next);
        }
        let threshold_ns = self.threshold.0;
        let oldest = open.outstanding.front().map(|sample| (sample.seq, sample.sent_ns));
        let retransmits = Some(host.observed(open.port).retransmits);
        let ask_at = |sent_ns: u64| sent_ns + threshold_ns.max(ASK_AFTER_NS);
        self.look_ns = match open.watch.look(now, threshold_ns, oldest, retransmits) {
            Change::LookAt(at) => Some(at),
            Change::Began(stall) => {
                let outstanding = open.outstanding.len() as u64;
                let kind = EventKind::StallBegan { seq: stall.seq, outstanding, threshold_ns };
                say(Said::Event(Some(self.connections - 1), kind));
                Some(ask_at(stall.sent_mono_ns)).filter(|&at| at > now)
            }
            Change::Quiet => None,
        };
        if let Some((_, sent_ns)) = oldest
            && now >= ask_at(sent_ns)
            && self.opinion.is_none()
            && self.formed.is_none_or(|(at, _)| at < sent_ns)
        {
            self.ask(now, host, None);
        }
    }

    /// The simulation is over.
    pub(super) fn finish(
        &mut self,
        now: u64,
        host: &mut Host,
        pauses: (&Pauses, &Pauses),
        say: &mut impl FnMut(Said),
    ) {
        self.close(now, host, pauses, (ClosingCause::Finished, None, None), say);
        self.state = Life::Over;
        self.drop_opinion(host);
    }
}

fn overrun(connection: Option<u32>, skipped: Skipped, reason: &str, say: &mut impl FnMut(Said)) {
    say(Said::Event(
        connection,
        EventKind::ScheduleOverrun {
            skipped: skipped.count,
            behind_ns: skipped.behind_ns,
            reason: reason.to_owned(),
        },
    ));
}

/// A sample without its round trip. `sent_ns` is monotonic here; who writes it down maps it to UTC.
fn row(connection: u32, sample: &Outstanding, size: u32, flags: Flags) -> Sample {
    let first = if sample.seq == 0 { Flags::FIRST_ON_CONNECTION } else { Flags::default() };
    Sample {
        connection,
        seq: sample.seq,
        size,
        sent_ns: sample.sent_ns as i64,
        lateness_ns: sample.sent_ns as i64 - sample.due_ns as i64,
        flags: flags | first,
        ..Sample::default()
    }
}
