//! UDP: one datagram in, at most one of the same length out.
//!
//! Why this cannot amplify: an answer is never longer than the datagram it answers, there is never more than one,
//! and nothing is sent unasked. What a forger can still do with any echo server is to bounce a datagram off it
//! (byte for byte, no gain), or to name a second echo server as the sender, so that the two answer each other for
//! ever. Against the second:
//! * well-known ports, the port of other reflectors and the ports listened on here get no answer
//!   (unless `--udp-any-port`);
//! * a frame that a reflector has stamped is an echo, not a request, and gets no answer whatever its port;
//! * addresses that stand for many hosts or none get no answer;
//! * all answers together stay below `--udp-max-rate`.
//!
//! Multicast does not reach the sockets (see `listen`). What was sent to a broadcast address of this host's own link
//! does reach a socket that listens on every address, and looks there like any other datagram: neither the standard
//! library nor mio tells where a datagram was sent to. It gets one answer from this host, of no greater length. To
//! rule that out, listen on one address.

use super::address::DEFAULT_PORT;
use super::allow::Allow;
use super::connection::Shared;
use super::tally::Tally;
use fathom_os::clock::mono_ns;
use fathom_wire::frame::{IDENTITY_LEN, Identity};
use fathom_wire::{HEADER_LEN, Stamper};
use mio::net::UdpSocket;
use std::collections::HashMap;
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
    peers: Peers,
    /// When the last datagram came, by the monotonic clock.
    pub(super) active_ns: Option<u64>,
}

impl Datagrams {
    pub(super) fn new(allow: Allow, any_port: bool, own_ports: Vec<u16>, max_rate: Option<u32>) -> Self {
        Self {
            allow,
            any_port,
            own_ports,
            rate: max_rate.map(Rate::new),
            peers: Peers::default(),
            active_ns: None,
        }
    }

    /// Answers what there is, up to the socket's share; whether more may be there.
    pub(super) fn turn(&mut self, socket: &UdpSocket, shared: &mut Shared, tally: &mut Tally) -> bool {
        for _ in 0..DATAGRAMS_A_TURN {
            let (len, peer) = match socket.recv_from(&mut shared.scratch) {
                Ok(received) => received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                // What an ICMP message said of an earlier answer, on systems that tell. The socket goes on.
                Err(_) => continue,
            };
            let received_ns = mono_ns();
            self.active_ns = Some(received_ns);
            self.answer(socket, shared, tally, len, peer, received_ns);
        }
        true
    }

    fn answer(
        &mut self,
        socket: &UdpSocket,
        shared: &mut Shared,
        tally: &mut Tally,
        len: usize,
        peer: SocketAddr,
        received_ns: u64,
    ) {
        let refused = &mut tally.datagrams_refused;
        let bytes = &mut shared.scratch[..len];
        let identity = bytes.first_chunk::<IDENTITY_LEN>().and_then(Identity::decode);
        let is_frame = identity.is_some() && len >= HEADER_LEN;
        if !self.allow.permits(peer.ip()) {
            refused.not_allowed += 1;
        } else if !is_one_host(peer.ip()) {
            refused.address += 1;
        } else if self.may_be_an_echo_server(peer.port()) {
            refused.port += 1;
        } else if is_frame && bytes[IDENTITY_LEN..HEADER_LEN].iter().any(|&b| b != 0) {
            refused.echo += 1;
        } else if self.rate.as_mut().is_some_and(|rate| !rate.takes_one(received_ns)) {
            refused.rate += 1;
        } else {
            if is_frame {
                let frames = self.peers.frames_of(peer);
                let mut stamper = Stamper::after(*frames);
                stamper.pass(shared.clock.view(received_ns), bytes);
                shared.frames += u64::from(stamper.frames().wrapping_sub(*frames));
                *frames = stamper.frames();
            }
            match socket.send_to(bytes, peer) {
                Ok(sent) => {
                    tally.datagrams += 1;
                    shared.bytes += sent as u64;
                }
                // No room in the socket's buffer, or no route back: a datagram may be lost, as UDP is.
                Err(_) => refused.unsent += 1,
            }
        }
    }

    fn may_be_an_echo_server(&self, port: u16) -> bool {
        // Port 0 cannot be answered at all.
        port == 0
            || !self.any_port
                && (port < FIRST_USER_PORT || port == DEFAULT_PORT || self.own_ports.contains(&port))
    }
}

/// Whether the address is that of one host. The broadcast address of a subnet cannot be told from a host's without
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

/// Frames per peer, for the peers heard of lately: two generations, so that the table is bounded and a peer that
/// keeps sending is never forgotten.
#[derive(Debug, Default)]
struct Peers {
    young: HashMap<SocketAddr, u32>,
    old: HashMap<SocketAddr, u32>,
}

impl Peers {
    /// Peers in a generation: forged senders cannot take more than about 1 MB here.
    const GENERATION: usize = 8_192;

    fn frames_of(&mut self, peer: SocketAddr) -> &mut u32 {
        if self.young.len() >= Self::GENERATION && !self.young.contains_key(&peer) {
            self.old = std::mem::take(&mut self.young);
        }
        let old = &mut self.old;
        self.young.entry(peer).or_insert_with(|| old.remove(&peer).unwrap_or(0))
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

    #[test]
    fn a_flood_of_peers_is_bounded_and_forgets_no_faithful_one() {
        let mut peers = Peers::default();
        let faithful: SocketAddr = "10.0.0.1:5000".parse().expect("an address");
        for n in 0..100_000_u32 {
            *peers.frames_of((Ipv4Addr::from(0x0B00_0000 + n), 5_000).into()) += 1;
            if n % 1_000 == 0 {
                *peers.frames_of(faithful) += 1;
            }
            assert!(peers.young.len() + peers.old.len() <= 2 * Peers::GENERATION);
        }
        assert_eq!(*peers.frames_of(faithful), 100);
    }
}
