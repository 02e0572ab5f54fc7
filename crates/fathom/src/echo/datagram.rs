//! UDP: one datagram in, at most one of the same length out.
//!
//! Why this cannot amplify: an answer is never longer than the datagram it answers, there is never more than one,
//! and nothing is sent unasked. What a forger can still do with any echo server is to bounce a datagram off it
//! (byte for byte, no gain), or to name a second echo server as the sender, so that the two answer each other for
//! ever. Against the second:
//! * well-known ports, the port of other reflectors and the ports listened on here get no answer
//!   (unless `--udp-any-port`);
//! * a frame that a reflector has stamped is an echo, not a request, and gets no answer whatever its port;
//! * a STAMP reflector's answers cannot be told from requests (RFC 8762), so that only the rule of ports protects it;
//! * addresses that stand for many hosts or none get no answer;
//! * all answers together stay below `--udp-max-rate`.
//!
//! The kernel is asked where a datagram was sent to (Linux), so that one datagram to a broadcast address or a group is
//! not answered by every reflector there. Elsewhere groups do not reach the sockets either (see `listen`), but a
//! broadcast does, where a socket listens on every address: there, listen on one.

use super::address::DEFAULT_PORT;
use super::allow::Allow;
use super::connection::{Connection, Shared};
use super::flows::Flows;
use super::stamp::Sessions;
use super::tally::{DatagramsRefused, Tally};
use fathom_os::clock::mono_ns;
use fathom_os::socket::{Datagram, recv_datagram};
use fathom_wire::frame::{IDENTITY_LEN, Identity};
use fathom_wire::{HEADER_LEN, Key, Question, Stamper};
use mio::net::UdpSocket;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Datagrams of one socket before the others get their turn.
const DATAGRAMS_A_TURN: usize = 64;
/// Ports below are well known (RFC 6335, section 6: "the System Ports, also known as the Well Known Ports, from
/// 0-1023"); echo, chargen, DNS and others that answer live there.
const FIRST_USER_PORT: u16 = 1024;

/// What serving datagrams needs besides the sockets.
#[derive(Debug)]
pub(super) struct Datagrams {
    allow: Allow,
    any_port: bool,
    own_ports: Vec<u16>,
    rate: Option<Rate>,
    /// When the last datagram came, by the monotonic clock.
    pub(super) active_ns: Option<u64>,
}

impl Datagrams {
    pub(super) fn new(allow: Allow, any_port: bool, own_ports: Vec<u16>, max_rate: Option<u32>) -> Self {
        Self { allow, any_port, own_ports, rate: max_rate.map(Rate::new), active_ns: None }
    }

    /// Answers what there is, up to the socket's share; whether more may be there.
    pub(super) fn turn(
        &mut self,
        socket: &UdpSocket,
        mut stamp: Option<&mut Sessions>,
        shared: &mut Shared,
        flows: &mut Flows,
        slots: &[Option<Connection>],
        tally: &mut Tally,
    ) -> bool {
        for _ in 0..DATAGRAMS_A_TURN {
            let Datagram { length: len, peer, to_many, ttl } =
                match recv_datagram(socket, &mut shared.scratch) {
                    Ok(received) => received,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                    // What an ICMP message said of an earlier answer, on systems that tell. The socket goes on.
                    Err(_) => continue,
                };
            let received_ns = mono_ns();
            self.active_ns = Some(received_ns);
            if to_many == Some(true) {
                tally.datagrams_refused.address += 1;
                continue;
            }
            let bytes = &mut shared.scratch[..len];
            if let Some(count) = self.refusal(bytes, peer, received_ns, &mut tally.datagrams_refused) {
                *count += 1;
                continue;
            }
            if let Some(sessions) = &mut stamp {
                let view = shared.clock.view(received_ns);
                if !sessions.answer(&mut shared.scratch[..len], peer, ttl, view, received_ns) {
                    tally.datagrams_refused.short += 1;
                    continue;
                }
                tally.stamp_packets += 1;
            } else {
                prepare(shared, flows, slots, len, received_ns);
            }
            match socket.send_to(&shared.scratch[..len], peer) {
                Ok(sent) => {
                    tally.datagrams += 1;
                    shared.bytes += sent as u64;
                }
                // No room in the socket's buffer, or no route back: a datagram may be lost, as UDP is.
                Err(_) => tally.datagrams_refused.unsent += 1,
            }
        }
        true
    }

    /// The count of the reason for which a datagram gets no answer, if there is one.
    fn refusal<'a>(
        &mut self,
        bytes: &[u8],
        peer: SocketAddr,
        received_ns: u64,
        refused: &'a mut DatagramsRefused,
    ) -> Option<&'a mut u64> {
        if !self.allow.permits(peer.ip()) {
            Some(&mut refused.not_allowed)
        } else if !is_one_host(peer.ip()) {
            Some(&mut refused.address)
        } else if self.may_be_an_echo_server(peer.port()) {
            Some(&mut refused.port)
        } else if frame_of(bytes).is_some() && bytes[IDENTITY_LEN..HEADER_LEN].iter().any(|&b| b != 0) {
            Some(&mut refused.echo)
        } else if self.rate.as_mut().is_some_and(|rate| !rate.takes_one(received_ns)) {
            Some(&mut refused.rate)
        } else {
            None
        }
    }

    fn may_be_an_echo_server(&self, port: u16) -> bool {
        // Port 0 cannot be answered at all.
        port == 0
            || !self.any_port
                && (port < FIRST_USER_PORT || port == DEFAULT_PORT || self.own_ports.contains(&port))
    }
}

/// Makes the datagram in the scratch buffer its own echo: stamps a frame, with the number of those of its connection
/// that came before it, and answers a question.
fn prepare(
    shared: &mut Shared,
    flows: &mut Flows,
    slots: &[Option<Connection>],
    len: usize,
    received_ns: u64,
) {
    let bytes = &mut shared.scratch[..len];
    let Some(frame) = frame_of(bytes) else { return };
    let view = shared.clock.view(received_ns);
    let mut stamper = Stamper::default();
    if let Frame::Echo(Identity { session, connection, sequence, .. }) = frame {
        stamper = Stamper::after(flows.datagram(Key { session, connection }, sequence, view.received_ns));
        shared.frames += 1;
    } else {
        shared.questions += 1;
    }
    stamper.pass_answering(view, bytes, |question| flows.reply(question, slots, &shared.clock));
}

/// What a datagram holds, if it is ours.
enum Frame {
    Echo(Identity),
    Question,
}

fn frame_of(bytes: &[u8]) -> Option<Frame> {
    let head = bytes.first_chunk::<IDENTITY_LEN>().filter(|_| bytes.len() >= HEADER_LEN)?;
    let echo = Identity::decode(head).map(Frame::Echo);
    echo.or_else(|| Question::decode(head).map(|_| Frame::Question))
}

/// Whether the sender's address is that of one host. The broadcast address of a subnet cannot be told from a host's without
/// its mask, but the kernel does not send to one from a socket without `SO_BROADCAST`.
fn is_one_host(peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    !peer.is_multicast() && !peer.is_unspecified() && peer != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// A bound on datagrams a second, with a burst of a tenth of a second.
#[derive(Debug)]
struct Rate {
    interval_ns: u64,
    /// When the datagrams answered so far would be through at the even rate.
    through_ns: u64,
}

impl Rate {
    const BURST_NS: u64 = 100_000_000;

    fn new(a_second: u32) -> Self {
        Self { interval_ns: 1_000_000_000 / u64::from(a_second.max(1)), through_ns: 0 }
    }

    fn takes_one(&mut self, now_ns: u64) -> bool {
        let takes = self.through_ns.saturating_sub(now_ns) <= Self::BURST_NS;
        if takes {
            self.through_ns = self.through_ns.max(now_ns) + self.interval_ns;
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_where_an_echo_server_may_listen() {
        let datagrams = |any_port| Datagrams::new(Allow::default(), any_port, vec![40_000], None);
        for (port, may) in
            [(0, true), (7, true), (1_023, true), (1_024, false), (7_007, true), (40_000, true)]
        {
            assert_eq!(datagrams(false).may_be_an_echo_server(port), may, "{port}");
            assert_eq!(datagrams(true).may_be_an_echo_server(port), port == 0, "{port}");
        }
    }

    #[test]
    fn addresses_that_are_no_single_host() {
        for (address, one) in [
            ("10.0.0.1", true),
            ("::1", true),
            ("255.255.255.255", false),
            ("::ffff:255.255.255.255", false),
            ("224.0.0.1", false),
            ("::ffff:224.0.0.1", false),
            ("ff02::1", false),
            ("0.0.0.0", false),
            ("::", false),
        ] {
            assert_eq!(is_one_host(address.parse().expect("an address")), one, "{address}");
        }
    }

    #[test]
    fn the_rate_holds_over_any_second() {
        let mut rate = Rate::new(100);
        // Ten times too many, for ten seconds from an arbitrary origin.
        let taken = (0..10_000_u64).filter(|n| rate.takes_one(5_000_000_000 + n * 1_000_000)).count();
        assert!((1_000..=1_011).contains(&taken), "{taken} in 10 s at 100 a second and a burst of 0.1 s");
        let mut slow = Rate::new(1);
        assert!(slow.takes_one(0));
        assert!(!slow.takes_one(500_000_000));
        assert!(slow.takes_one(1_000_000_000));
    }
}
