//! How a connection ends, and what is known of it then.

use fathom_core::cause::ClosingCause;
use fathom_core::event::{EventKind, Evidence};
use fathom_core::sample::Flags;
use fathom_core::verdict::{Facts, Fresh, Outcome};
use smoltcp::socket::tcp::State;

use super::{Life, Pauses, Probe, RESET, Said, TIMED_OUT, paused_ns, row};
use crate::simulate::host::Host;

impl Probe {
    /// Whether the connection is gone; then it has been said.
    pub(super) fn lost(
        &mut self,
        now: u64,
        host: &mut Host,
        pauses: (&Pauses, &Pauses),
        say: &mut impl FnMut(Said),
    ) -> bool {
        let Life::Open(open) = &self.state else { return false };
        // TCP_USER_TIMEOUT, RFC 5482: "the maximum amount of time in milliseconds that transmitted data may remain
        // unacknowledged" (tcp(7)). smoltcp's own counts from the peer's last segment, an idle time included.
        let waiting = host.unacknowledged(open.handle).div_ceil(self.spec.size as usize);
        let first = open.outstanding.len().saturating_sub(waiting);
        let oldest = open.outstanding.get(first).filter(|_| waiting > 0);
        self.give_up_ns = oldest.map(|sample| sample.sent_ns + self.spec.user_timeout_ns);
        let (cause, errno, error) = match host.state(open.handle) {
            State::Established if self.give_up_ns.is_none_or(|at| now < at) => return false,
            State::Established => (ClosingCause::TimedOut, Some(TIMED_OUT), Some("Connection timed out")),
            State::Closed if host.observed(open.port).reset => {
                (ClosingCause::Reset, Some(RESET), Some("Connection reset by peer"))
            }
            _ => (ClosingCause::PeerClosed, None, None),
        };
        self.close(now, host, pauses, (cause, errno, error), say);
        true
    }

    pub(super) fn close(
        &mut self,
        now: u64,
        host: &mut Host,
        (local, _): (&Pauses, &Pauses),
        (cause, errno, error): (ClosingCause, Option<i32>, Option<&str>),
        say: &mut impl FnMut(Said),
    ) {
        let Life::Open(open) = std::mem::replace(&mut self.state, Life::Over) else { return };
        let mut open = *open;
        let id = self.connections - 1;
        let retransmits = host.observed(open.port).retransmits;
        let oldest = open.outstanding.front().copied();
        if let Some(stall) = open.watch.ended() {
            say(Said::Event(
                Some(id),
                EventKind::StallEnded {
                    duration_ns: now - stall.sent_mono_ns,
                    samples: open.next_seq - stall.seq,
                    recovered: false,
                    retransmits: Some(retransmits - stall.retransmits_before.unwrap_or(0)),
                },
            ));
        }
        let outstanding = open.outstanding.len() as u64;
        for sample in &open.outstanding {
            say(Said::Sample(row(id, sample, self.spec.size, Flags::UNANSWERED)));
        }
        say(Said::Event(
            Some(id),
            EventKind::ConnectionClosed {
                cause,
                verdict: None,
                errno,
                age_ns: now - open.opened_ns,
                evidence: Evidence {
                    sent: open.next_seq,
                    answered: open.answered,
                    last_answered_seq: open.last_answered_seq,
                    outstanding,
                    silent_ns: open.last_received_ns.map(|at| now - at),
                    error: error.map(str::to_owned),
                    tcp: None,
                },
            },
        ));
        self.look_ns = None;
        self.give_up_ns = None;
        host.forget(open.handle, open.port);
        if cause == ClosingCause::Finished {
            return;
        }
        let since = oldest.map_or(now, |sample| sample.sent_ns);
        let facts = Facts {
            outcome: Outcome::Closed(cause),
            silent_ns: now - since,
            local_pause_ns: paused_ns(local, since, now),
            remote_pause_ns: None,
            unacked: Some(u32::from(outstanding > 0)),
            retransmits: oldest.map(|sample| retransmits - sample.retransmits),
            idle_ns: oldest.map_or(now - open.last_activity_ns, |sample| sample.quiet_ns),
            idle_survived_ns: open.idle_survived_ns,
            fresh: Fresh::NotTried,
            others_lost: self.formed.is_some_and(|(at, fresh)| at >= since && fresh == Fresh::NoAnswer),
            timeouts: oldest.map_or(0, |sample| (retransmits - sample.retransmits).min(255) as u8),
            delays_ns: None,
            reported: None,
        };
        // Whether or not the probe goes on, it asks once more: that is what the verdict rests on.
        self.drop_opinion(host);
        self.ask(now, host, Some((id, facts)));
        self.state = if self.spec.reconnect { Life::Waiting(now) } else { Life::Over };
    }
}
