//! What is known of a silence of a connection, for the table of verdicts.

use super::Connection;
use crate::probe::context::Context;
use crate::probe::diagnosis::ways::between;
use crate::probe::path::Path;
use crate::probe::settings::Transport;
use crate::stream::{Stamped, pause_gained_ns};
use crate::verdict::{Facts, Idle, Outcome, RemotePause, Room};
use std::io::ErrorKind;

impl Connection {
    /// What is known of a silence at its end. `from_ns`: since when nothing came.
    pub(in crate::probe) fn facts(
        &self,
        now: u64,
        outcome: Outcome,
        from_ns: u64,
        path: &Path,
        cx: &Context,
    ) -> Facts {
        let recovered = outcome == Outcome::Recovered;
        let before = self.silence.stall().and_then(|stall| stall.retransmits_before);
        let first = path.read.map(|(first, _)| first).filter(|_| recovered);
        let identity = self.ways.identity();
        // Who answers a connection first may have taken the place of another before the connection was made.
        let told = first.filter(|first| first.stamps.identity != 0);
        let answered_by = told.filter(|_| identity.is_some()).map(|first| first.stamps.identity);
        let udp = cx.settings.transport == Transport::Udp;
        let (quiet_to, quiet_ns) = match self.stream.oldest().zip(self.stream.oldest_quiet_ns()) {
            Some(((_, sent_ns), quiet_ns)) => (sent_ns, quiet_ns),
            None => (now, self.stream.quiet_ns(now)),
        };
        let (fresh, fresh_said_by) = path.canaries.since(from_ns);
        let late = first.and_then(|first| self.ways.late(&first));
        // What its counter gained after the stamp of the echo that ended the silence is no pause before that.
        let after = path.read.filter(|_| late.is_some()).and_then(|(first, last)| between(&first, &last));
        let mut facts = Facts {
            outcome,
            ended_ns: now,
            opened_ns: self.opened_ns,
            silent_ns: now.saturating_sub(from_ns),
            round_trip_ns: self.info.map_or(0, |info| u64::from(info.srtt_us) * 1_000),
            local_pause_ns: cx.pauses.within(from_ns, now),
            destroyed_here: self.broken_by == Some(ErrorKind::ConnectionAborted),
            address_gone: self.silence.is_without_address(),
            not_an_echo: self.not_an_echo,
            port_unreachable: udp && self.broken_by == Some(ErrorKind::ConnectionRefused),
            remote_pause: self
                .silence
                .remote_pause_ns()
                .map(|ns| ns.saturating_sub(after.map_or(0, |(paused_ns, _)| paused_ns)))
                .or_else(|| self.pause_by_others(&first?, from_ns, path))
                .filter(|&ns| ns > 0)
                .map(|ns| RemotePause { ns, waited: told.map(|first| first.stamps.waited) }),
            paused_after_ns: None,
            // Its counter tells of a pause by what it gained: of the first echo on a connection nothing is known.
            tells_pauses: self.ways.tells_pauses() || path.tells_pauses && !recovered,
            // An echo that ends the first silence had none before it.
            ever_answered: self.stream.answered() > 0
                && self.silence.stall().is_none_or(|stall| stall.seq > 0),
            acknowledged: self.silence.acknowledged(),
            room: self.room(now, recovered),
            timeouts: self.silence.timeouts(),
            retransmits: self.retransmits_since(before),
            out_of_order: self.silence.out_of_order(self.info),
            came_again: self.silence.came_again(),
            idle: Idle {
                // Where this host did not run, that it sent nothing is no sign of an idle limit: whatever else befell the
                // path in that time comes to light after it too.
                before_ns: quiet_ns
                    .saturating_sub(cx.pauses.within(quiet_to.saturating_sub(quiet_ns), quiet_to)),
                survived_ns: self.stream.idle_survived_ns().max(path.idle.survived_ns),
                earlier_ns: path.idle.earlier_ns,
            },
            fresh,
            fresh_said_by,
            meanwhile: fresh,
            sent_since: self.silence.sent_since_others_passed(),
            others_lost: path.canaries.lost_between(from_ns, now),
            late,
            datagrams: first
                .filter(|_| udp)
                .and_then(|first| self.ways.counted(&first, self.stream.is_counted())),
            served_by: identity.or(path.served_by),
            answered_by,
            port: self.port,
            reported: self.silence.reported(now, recovered),
        };
        if let Some((paused_ns, apart_ns)) = after {
            facts.later_echo(paused_ns, apart_ns);
        }
        facts
    }

    /// Whether the missing echo could have been sent. A server that did not run answers at once what waited meanwhile; an echo
    /// that was lost is sent again alone.
    fn room(&self, now: u64, recovered: bool) -> Room {
        let missing = self.silence.stall().filter(|_| recovered).map(|stall| stall.seq);
        let alone = |missing| self.peer_window.came_alone(now, missing, self.stream.oldest());
        match self.silence.room() {
            Room::Likely if missing.is_none_or(alone) => Room::NotKnown,
            room => room,
        }
    }

    /// For how long the reflector did not run in a silence that the first echo on this connection ended: what its counter
    /// gained since an echo on another one of the path. Where the request was read just after a pause, that pause lasted to
    /// the end; else as much of it may lie before the silence as there was time.
    fn pause_by_others(&self, first: &Stamped, from_ns: u64, path: &Path) -> Option<u64> {
        let same = |last: &Stamped| last.stamps.identity == first.stamps.identity;
        let last = path.stamped.filter(same).filter(|_| self.ways.identity().is_none())?;
        let gained_ns = pause_gained_ns(last.stamps.pause_us, first.stamps.pause_us);
        let before_ns = if first.stamps.waited { 0 } else { from_ns.saturating_sub(last.read_ns) };
        let in_it_ns = gained_ns.saturating_sub(before_ns).min(first.read_ns.saturating_sub(from_ns));
        Some(in_it_ns).filter(|&ns| ns > 0)
    }
}
