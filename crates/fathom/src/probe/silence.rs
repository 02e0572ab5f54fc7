//! Silences, as the probing thread watches them: where they begin, what is known at their end, and when to give up.

use super::driver::Driver;
use super::lane::{Kind, Silence};
use super::opinion::ASK_AFTER_NS;
use fathom_core::cause::ClosingCause;
use fathom_core::event::{EventKind, TcpInfo};
use fathom_core::stall::Change;
use fathom_core::verdict::{Facts, Fresh, Outcome};

/// While a connection stalls, the kernel's view of it is taken this often: after an error it reads zero.
const STALL_LOOK_NS: u64 = 250_000_000;
/// A word that came so shortly before the echo may have crossed it on the way: what was lost is sent again after 200 ms
/// at the earliest (Linux, `TCP_RTO_MIN`).
const CAUGHT_UP_NS: u64 = 200_000_000;

impl Driver<'_> {
    /// Looks whether a connection stalls, and whether we have waited long enough to give it up.
    pub(super) fn watch(&mut self, i: usize, now: u64) {
        let p = self.lanes[i].path;
        let threshold_ns = self.stall_threshold_ns(p);
        let give_up_ns = self.config.give_up.map(|d| d.as_nanos() as u64);
        let Some(open) = self.lanes[i].open() else { return };
        let Some((_, sent_ns)) = open.missing() else { return };
        let silent_ns = now.saturating_sub(sent_ns);
        if give_up_ns.is_some_and(|limit| silent_ns >= limit) {
            let error =
                format!("no echo for {:.1} s, and --give-up says not to wait longer", silent_ns as f64 / 1e9);
            return self.close(i, now, ClosingCause::Abandoned, None, Some(error));
        }
        if silent_ns >= threshold_ns {
            open.info = open.socket.tcp_info().or(open.info);
            open.silence.info = open.info;
            let timeouts = open.info.map_or(0, |info| info.retransmits);
            open.silence.timeouts = open.silence.timeouts.max(timeouts);
        }
        let retransmits = open.info.map(|info| info.total_retrans);
        let change = open.watch.look(now, threshold_ns, open.missing(), retransmits);
        let connection = open.stream.key().connection;
        let outstanding = open.stream.outstanding() as u64;
        let next = match change {
            Change::LookAt(at) => at,
            _ => now + STALL_LOOK_NS,
        };
        let next = give_up_ns.map_or(next, |limit| next.min(sent_ns + limit));
        if let Change::Began(stall) = change {
            let kind = EventKind::StallBegan { seq: stall.seq, outstanding, threshold_ns };
            self.event(now, Some(p), Some(connection), kind);
        }
        if silent_ns >= threshold_ns.max(ASK_AFTER_NS) {
            self.doubt(i, connection, sent_ns, now);
        }
        self.arm(i, Kind::Watch, next);
    }

    /// A silence has lasted for so long that others are asked about it.
    fn doubt(&mut self, i: usize, connection: u32, sent_ns: u64, now: u64) {
        let p = self.lanes[i].path;
        let can_be_asked_about = self.can_be_asked_about();
        let Some(open) = self.lanes[i].open() else { return };
        let first = !std::mem::replace(&mut open.silence.asked, true);
        let opinions = &mut self.paths[p].opinions;
        if first && can_be_asked_about {
            opinions.want(connection);
        }
        if (opinions.since(sent_ns) == Fresh::NotTried || opinions.wants(connection))
            && let Some(remote) = self.remote_of(i)
        {
            self.ask_opinion(p, remote, now);
        }
    }

    /// The echo came again: the stall, if there was one, is over. `delays_ns`: how much later than usual the first
    /// missing request arrived there, and its echo here.
    pub(super) fn stall_over(&mut self, i: usize, now: u64, delays_ns: Option<(i64, i64)>) {
        let Some(open) = self.lanes[i].open() else { return };
        if open.watch.current().is_none() {
            open.silence = Silence::default();
            return;
        }
        open.info = open.socket.tcp_info().or(open.info);
        let from_ns = now.saturating_sub(open.watch.current().map_or(now, |stall| stall.sent_mono_ns));
        let facts = self.facts(i, now, Outcome::Recovered, from_ns, delays_ns);
        self.stall_ended(i, now, true);
        let p = self.lanes[i].path;
        let Some(open) = self.lanes[i].open() else { return };
        let connection = open.stream.key().connection;
        open.silence = Silence::default();
        self.explained(now, p, connection, "stall", &facts);
    }

    pub(super) fn stall_ended(&mut self, i: usize, now: u64, recovered: bool) {
        let p = self.lanes[i].path;
        let Some(open) = self.lanes[i].open() else { return };
        let Some(stall) = open.watch.ended() else { return };
        let retransmits = retransmits_since(open.info, stall.retransmits_before);
        let duration_ns = now.saturating_sub(stall.sent_mono_ns);
        let samples = open.stream.next_seq() - stall.seq;
        let connection = open.stream.key().connection;
        self.event(
            now,
            Some(p),
            Some(connection),
            EventKind::StallEnded { duration_ns, samples, recovered, retransmits },
        );
    }

    /// What is known of a silence at its end.
    pub(super) fn facts(
        &mut self,
        i: usize,
        now: u64,
        outcome: Outcome,
        silent_ns: u64,
        delays_ns: Option<(i64, i64)>,
    ) -> Facts {
        let local_pause_ns = self.pauses.as_mut().map_or(0, |pauses| pauses.within(now - silent_ns, now));
        let p = self.lanes[i].path;
        let opinions = &self.paths[p].opinions;
        let (fresh, others_lost) =
            (opinions.since(now - silent_ns), opinions.lost_between(now - silent_ns, now));
        let mut facts = Facts {
            outcome,
            silent_ns,
            local_pause_ns,
            remote_pause_ns: None,
            unacked: None,
            retransmits: None,
            idle_ns: 0,
            idle_survived_ns: 0,
            fresh,
            others_lost,
            delays_ns,
            heard: None,
            timeouts: 0,
        };
        if let Some(open) = self.lanes[i].open() {
            let before = open.watch.current().and_then(|stall| stall.retransmits_before);
            facts.remote_pause_ns =
                (open.silence.remote_pause_ns > 0).then_some(open.silence.remote_pause_ns);
            // What could not even be sent is not with the peer either.
            facts.unacked = open.silence.info.map(|info| info.unacked + u32::from(info.notsent_bytes > 0));
            facts.timeouts = open.silence.timeouts;
            facts.retransmits = retransmits_since(open.info, before);
            let caught_up = |at: u64| outcome == Outcome::Recovered && now.saturating_sub(at) < CAUGHT_UP_NS;
            facts.heard = open.silence.heard.filter(|(_, at)| !caught_up(*at)).map(|(heard, _)| heard);
            facts.idle_ns = open.stream.oldest_quiet_ns().unwrap_or(0);
            facts.idle_survived_ns = open.stream.idle_survived_ns();
        }
        facts
    }
}

fn retransmits_since(now: Option<TcpInfo>, before: Option<u32>) -> Option<u32> {
    Some(now?.total_retrans.saturating_sub(before?))
}
