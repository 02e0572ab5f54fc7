//! Which datagrams get an answer.
//!
//! Why answering cannot amplify: an answer is never longer than the datagram it answers, there is never more than one,
//! and nothing is sent unasked. What a forger can still do with any echo server is to bounce a datagram off it
//! (byte for byte, no gain), or to name a second echo server as the sender, so that the two answer each other for
//! ever. Against the second:
//! * well-known ports, the port of other reflectors and the ports listened on here get no answer
//!   (unless `--udp-any-port`);
//! * a frame that a reflector has stamped is an echo, not a request, and gets no answer whatever its port;
//! * so is a STAMP packet in which a reflector has written when it received it;
//! * other bytes that come back as they were sent to the same peer a moment ago are an echo too, and messages too short
//!   to tell that are answered a few times a second: what goes round comes back sooner, and ends when one is left out;
//! * where there is a key, only what somebody wrote who knows it gets an answer, and no answer is of that kind;
//! * addresses that stand for many hosts or none get no answer;
//! * all answers together stay below `--udp-max-rate`, and no peer takes the others' share of it ([`crate::rate`]).
//!
//! Time and bytes are arguments here; the sockets are in [`crate::datagram`].

use crate::address::DEFAULT_PORT;
use crate::allow::Allow;
use crate::flows::Lately;
use crate::frame::frame_of;
use crate::rate::{Bound, Rate, Shares};
use crate::tally::DatagramsRefused;
use fathom_wire::HEADER_LEN;
use fathom_wire::frame::IDENTITY_LEN;
use fathom_wire::{Secret, rfc8762};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Ports below are well known (RFC 6335, section 6: "the System Ports, also known as the Well Known Ports, from
/// 0-1023"); echo, chargen, DNS and others that answer live there.
const FIRST_USER_PORT: u16 = 1024;
/// Bytes that come back to us within this are taken for an echo of our answer: longer than a round trip around the earth.
const COMES_BACK_NS: u64 = 300_000_000;
/// Below this many bytes a probe's messages repeat themselves, so that an echo cannot be told from the next request...
const TELLING_LEN: usize = 8;
/// ...and so few are answered a second, and at once.
const TOO_SHORT: Bound = Bound::new(10, 1_000_000_000);

/// Decides who gets an answer.
#[derive(Debug)]
pub(crate) struct Guard {
    allow: Allow,
    any_port: bool,
    own_ports: Vec<u16>,
    shares: Option<Shares>,
    /// When bytes without a frame were last sent to a peer; by its address and a digest of the bytes.
    sent: Lately<(SocketAddr, u64), u64>,
    short: Lately<SocketAddr, Rate>,
    digest: RandomState,
    secret: Option<Secret>,
}

impl Guard {
    pub(crate) fn new(allow: Allow, any_port: bool, own_ports: Vec<u16>, max_rate: Option<u32>) -> Self {
        Self {
            allow,
            any_port,
            own_ports,
            shares: max_rate.map(Shares::new),
            sent: Lately::default(),
            short: Lately::default(),
            digest: RandomState::new(),
            secret: None,
        }
    }

    /// The same, where only who knows the secret gets an answer; none: everybody.
    pub(crate) fn of_those_who_know(self, secret: Option<Secret>) -> Self {
        Self { secret, ..self }
    }

    /// Whether requests that get an answer bear a code.
    pub(crate) fn is_keyed(&self) -> bool {
        self.secret.is_some()
    }

    /// Whether somebody who knows the secret wrote this, as far as that is asked for.
    fn knows(&self, bytes: &[u8]) -> bool {
        self.secret.as_ref().is_none_or(|secret| {
            bytes.first_chunk().is_some_and(|head| frame_of(bytes).is_some() && secret.has_sealed(head))
        })
    }

    /// The count of the reason for which a datagram gets no answer, if there is one. `is_stamp`: it came to a port
    /// for STAMP.
    pub(crate) fn refusal<'a>(
        &mut self,
        bytes: &[u8],
        is_stamp: bool,
        peer: SocketAddr,
        now_ns: u64,
        refused: &'a mut DatagramsRefused,
    ) -> Option<&'a mut u64> {
        if !self.allow.permits(peer.ip()) {
            Some(&mut refused.not_allowed)
        } else if !is_one_host(peer.ip()) {
            Some(&mut refused.address)
        } else if self.may_be_an_echo_server(peer.port()) {
            Some(&mut refused.port)
        } else if !self.knows(bytes) {
            Some(&mut refused.key)
        } else if !self.is_keyed() && self.is_an_echo(bytes, is_stamp, peer, now_ns) {
            Some(&mut refused.echo)
        } else if self.shares.as_mut().is_some_and(|shares| !shares.takes_one(peer.ip(), now_ns)) {
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

    fn is_an_echo(&mut self, bytes: &[u8], is_stamp: bool, peer: SocketAddr, now_ns: u64) -> bool {
        if is_stamp {
            return rfc8762::is_reflected(bytes);
        }
        if frame_of(bytes).is_some() {
            return bytes[IDENTITY_LEN..HEADER_LEN].iter().any(|&b| b != 0);
        }
        if bytes.len() < TELLING_LEN {
            return !self.short.entry(peer).takes_one(TOO_SHORT, now_ns);
        }
        let sent = self.sent.entry((peer, self.digest.hash_one(bytes)));
        // 0: never, since no host's clock is younger than that.
        let comes_back = *sent != 0 && now_ns.saturating_sub(*sent) < COMES_BACK_NS;
        *sent = now_ns;
        comes_back
    }
}

/// Whether the sender's address is that of one host. The broadcast address of a subnet cannot be told from a host's without
/// its mask, but the kernel does not send to one from a socket without `SO_BROADCAST`.
fn is_one_host(peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    !peer.is_multicast() && !peer.is_unspecified() && peer != IpAddr::V4(Ipv4Addr::BROADCAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn guard(max_rate: Option<u32>) -> Guard {
        Guard::new(Allow::default(), false, vec![40_000], max_rate)
    }

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn ports_where_an_echo_server_may_listen() {
        let guard = |any_port| Guard::new(Allow::default(), any_port, vec![40_000], None);
        for (port, may) in
            [(0, true), (7, true), (1_023, true), (1_024, false), (7_007, true), (40_000, true)]
        {
            assert_eq!(guard(false).may_be_an_echo_server(port), may, "{port}");
            assert_eq!(guard(true).may_be_an_echo_server(port), port == 0, "{port}");
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

    /// Two guards that answer each other: how many answers a forger's datagrams draw from both.
    fn loops(bytes: &[&[u8]], round_trip_ns: u64) -> u32 {
        let (mut guards, mut refused) = ([guard(None), guard(None)], DatagramsRefused::default());
        let mut under_way: Vec<_> = bytes.iter().map(|bytes| (*bytes, 0)).collect();
        let mut answers = 0;
        for half in 1..10_000_u64 {
            under_way.retain_mut(|(bytes, at)| {
                let from = peer(50_000 + *at as u16);
                *at = 1 - *at;
                let now = 1_000_000 + half * round_trip_ns / 2;
                guards[*at].refusal(bytes, false, from, now, &mut refused).is_none()
            });
            answers += under_way.len() as u32;
        }
        assert!(under_way.is_empty(), "{} go on", under_way.len());
        answers
    }

    #[test]
    fn loop_between_two_reflectors_ends() {
        for round_trip_ns in [20_000, MS, 80 * MS, 250 * MS] {
            assert_eq!(loops(&[b"for ever?"], round_trip_ns), 2, "{round_trip_ns}");
            let many: Vec<Vec<u8>> = (0..100_u8).map(|n| vec![n; 100]).collect();
            let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
            assert_eq!(loops(&many, round_trip_ns), 200, "{round_trip_ns}");
        }
        for round_trip_ns in [20_000, MS, 80 * MS] {
            let answers = loops(&[b"", b"x"], round_trip_ns);
            assert!(answers < 100, "{answers} at {round_trip_ns}");
        }
    }

    #[test]
    fn slow_repeats_and_new_messages_are_answered() {
        let (mut guard, mut refused) = (guard(None), DatagramsRefused::default());
        for n in 1..100 {
            // One a second by hand, as `nc -u` and `nping` send; and different messages as fast as one likes.
            assert!(
                guard.refusal(b"hello echo", false, peer(50_000), n * 1_000 * MS, &mut refused).is_none()
            );
            let next = n.to_be_bytes();
            assert!(guard.refusal(&next, false, peer(50_000), n * 20_000, &mut refused).is_none());
        }
    }
}
