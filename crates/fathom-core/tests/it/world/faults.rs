//! What is done to a world.

use super::flow::Stage;
use super::{LinkId, World};
use fathom_core::probe::{ErrorSource, Input, NetError};
use std::io::ErrorKind;

/// What is done to the world, at a time after its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// Nothing gets through for so long, and everything then: TCP sends again what was lost.
    Silence(u64),
    /// Messages of more than a header get lost for so long, and on TCP what follows them: a path that swallows large packets.
    LargeLost(u64),
    /// The connections that are open get nothing through any more; new ones work.
    ForgetFlows,
    /// Every open connection is reset.
    Reset,
    /// Every open connection is closed by the peer.
    Fin,
    /// New connections are refused for so long, and open ones reset.
    PeerDown(u64),
    /// Round trips take so many times as long from here on.
    Slower(u64),
    /// Round trips take so many times less from here on.
    Faster(u64),
    /// The wall clock is set by so many ns.
    Step(i64),
    /// The wall clock runs faster by so many ppm for so long.
    Slew(i64, u64),
    /// The probe's host does not run for so long.
    LocalPause(u64),
    /// The reflector's host does not run for so long: what comes there waits, and so does what it had stamped and not sent.
    PeerPause(u64),
    /// The next write on every open connection fails.
    WritesFail,
    /// The targets' names do not resolve for so long.
    NameGone(u64),
    /// The targets' names lead elsewhere from here on, and nobody is left where they led before.
    NameMoves,
    /// Handshakes of TLS fail for so long.
    TlsBad(u64),
    /// The probe's host has no port for new connections for this long.
    NoPorts(u64),
}

/// The error of `connect` from a kernel without a free port.
pub(super) fn no_port() -> NetError {
    NetError { source: ErrorSource::ThisHost, ..NetError::of_kind(ErrorKind::AddrNotAvailable) }
}

impl World {
    pub(super) fn apply(&mut self, fault: Fault) {
        let now = self.now;
        let reset = |link| Input::Broken { link, error: NetError::of_kind(ErrorKind::ConnectionReset) };
        match fault {
            Fault::Silence(duration) => self.silent_until = self.silent_until.max(now + duration),
            Fault::LargeLost(duration) => self.large_lost_until = now + duration,
            Fault::ForgetFlows => {
                for flow in self.flows.values_mut().filter(|flow| flow.stage == Stage::Open) {
                    flow.forgotten = true;
                    flow.packets.clear();
                }
            }
            Fault::Reset => self.end_all(reset),
            Fault::Fin => self.end_all(|link| Input::Closed { link }),
            Fault::PeerDown(duration) => {
                self.refuse_until = now + duration;
                self.known.clear();
                self.end_all(reset);
            }
            Fault::Slower(times) => self.rtt_ns *= times,
            Fault::Faster(times) => self.rtt_ns /= times,
            Fault::Step(ns) => {
                self.outcome.clock_was_set = true;
                self.wall.step(now, ns);
            }
            Fault::Slew(ppm, duration) => {
                self.outcome.clock_was_set = true;
                self.wall.slew(now, ppm, duration);
            }
            Fault::LocalPause(duration) => {
                self.outcome.local_stops.push((now, now + duration));
                self.reflect_until(now + duration);
                self.now = now + duration;
                self.paused_until = self.now;
                self.outcome.held_up = true;
                self.tell(Input::Paused { began_ns: now, ended_ns: self.now, reason: None });
            }
            Fault::PeerPause(duration) => {
                self.outcome.peer_stops.push((now, now + duration));
                self.peer_runs_ns = now + duration;
                self.peer_paused_us +=
                    u32::try_from(duration / 1_000).expect("a pause of minutes at the most");
                for flow in self.flows.values_mut() {
                    flow.wait_for_peer(now, duration);
                }
            }
            Fault::WritesFail => {
                for flow in self.flows.values_mut().filter(|flow| flow.stage == Stage::Open) {
                    flow.fails = true;
                }
            }
            Fault::NameGone(duration) => self.name_gone_until = now + duration,
            Fault::NameMoves => {
                self.dead.append(&mut self.addresses.clone());
                self.moves += 1;
                for address in &mut self.addresses {
                    address.set_ip([10, 0, self.moves, 1].into());
                }
            }
            Fault::TlsBad(duration) => self.tls_bad_until = now + duration,
            Fault::NoPorts(duration) => self.no_ports_until = now + duration,
        }
    }

    /// Ends every connection that is open. Of the others nothing has come yet.
    fn end_all(&mut self, input: impl Fn(LinkId) -> Input<'static>) {
        let links: Vec<LinkId> = self.flows.keys().copied().collect();
        for link in links {
            let Some(flow) = self.flows.get(&link) else { continue };
            let input = match flow.stage {
                Stage::Connecting { .. } => continue,
                Stage::Open if flow.forgotten => continue,
                Stage::Open | Stage::Closing { .. } => input(link),
                Stage::Securing { .. } => Input::ConnectFailed { link, error: of_tls() },
            };
            self.tell_end(link, input);
        }
    }

    /// Tells the end of a connection, which the probe lets go of then.
    pub(super) fn tell_end(&mut self, link: LinkId, input: Input<'_>) {
        self.tell(input);
        assert!(!self.flows.contains_key(&link), "{link:?} is over, and the probe keeps it");
    }
}

/// A handshake of TLS that failed.
pub(super) fn of_tls() -> NetError {
    let text = "host-0:7007 does not speak TLS".to_owned();
    NetError { kind: ErrorKind::Other, errno: None, text, source: ErrorSource::Tls }
}
