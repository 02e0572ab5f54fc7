//! How many datagrams are answered a second: bounds over all peers and for each, so that no peer takes the others' share.

use crate::flows::Lately;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

const S: u64 = 1_000_000_000;

/// A bound on datagrams a second, with a burst that is worth some time at that rate.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rate {
    /// When the datagrams taken so far would be through at the even rate.
    through_ns: u64,
}

/// At most so many a second...
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    interval_ns: u64,
    /// ...and so long a burst, in ns.
    burst_ns: u64,
}

impl Bound {
    pub(crate) const fn new(a_second: u32, burst_ns: u64) -> Self {
        let a_second = if a_second == 0 { 1 } else { a_second };
        Self { interval_ns: S / a_second as u64, burst_ns }
    }
}

impl Rate {
    /// Whether one more is within the bound; if so it is counted.
    pub(crate) fn takes_one(&mut self, bound: Bound, now_ns: u64) -> bool {
        let takes = self.through_ns.saturating_sub(now_ns) <= bound.burst_ns;
        if takes {
            self.through_ns = self.through_ns.max(now_ns) + bound.interval_ns;
        }
        takes
    }
}

/// The answers of a second, shared out. One source gets half of them at most. A quarter is kept for sources that have
/// been here for a while and ask for little: probes, which a flood of strangers, forged ones included, does not starve.
#[derive(Debug)]
pub(crate) struct Shares {
    strangers: (Rate, Bound),
    /// None: there are too few to keep a quarter of.
    kept: Option<(Rate, Bound)>,
    of_source: Bound,
    little: Bound,
    /// Who came lately. A flood of forged sources makes this forget...
    sources: Lately<IpAddr, Source>,
    /// ...and not this: who was here before it.
    known: HashMap<IpAddr, Source>,
    /// When those who are known and silent may be looked for again.
    look_again_ns: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Source {
    since_ns: Option<u64>,
    last_ns: u64,
    all: Rate,
    little: Rate,
}

impl Shares {
    const BURST_NS: u64 = S / 10;
    /// A source that has been here for so long is no stranger.
    const A_WHILE_NS: u64 = S;
    /// So many sources are known at most, in less than 1 MB...
    const KNOWN: usize = 4_096;
    /// ...and make room for others after so long a silence.
    const FORGOTTEN_NS: u64 = 600 * S;
    /// What "little" is of all answers: 1 of so many.
    const LITTLE: u32 = 100;

    /// So many answers a second in all.
    pub(crate) fn new(a_second: u32) -> Self {
        let bound = |a_second| Bound::new(a_second, Self::BURST_NS);
        Self {
            strangers: (Rate::default(), bound(a_second - a_second / 4)),
            kept: (a_second >= 4).then(|| (Rate::default(), bound(a_second / 4))),
            of_source: bound(a_second.div_ceil(2)),
            little: bound(a_second / Self::LITTLE),
            sources: Lately::default(),
            known: HashMap::new(),
            look_again_ns: 0,
        }
    }

    /// Whether a datagram of this peer gets an answer.
    pub(crate) fn takes_one(&mut self, peer: IpAddr, now_ns: u64) -> bool {
        let peer = source_of(peer);
        let known = self.known.contains_key(&peer) || self.gets_known(peer, now_ns);
        let source = match self.known.get_mut(&peer) {
            Some(source) => source,
            None => self.sources.entry(peer),
        };
        source.last_ns = now_ns;
        if !source.all.takes_one(self.of_source, now_ns) {
            return false;
        }
        let wants_little = source.little.takes_one(self.little, now_ns);
        let kept = self.kept.as_mut().filter(|_| known && wants_little);
        if kept.is_some_and(|(rate, bound)| rate.takes_one(*bound, now_ns)) {
            return true;
        }
        let (rate, bound) = &mut self.strangers;
        rate.takes_one(*bound, now_ns)
    }

    /// Whether this source has been here for a while, and there is room for it among the known.
    fn gets_known(&mut self, peer: IpAddr, now_ns: u64) -> bool {
        let source = self.sources.entry(peer);
        let since_ns = *source.since_ns.get_or_insert(now_ns);
        let source = *source;
        if now_ns.saturating_sub(since_ns) < Self::A_WHILE_NS {
            return false;
        }
        // Strangers may come often, and looking through all takes its time.
        if self.known.len() >= Self::KNOWN && now_ns >= self.look_again_ns {
            self.look_again_ns = now_ns + S;
            self.known.retain(|_, known| now_ns.saturating_sub(known.last_ns) < Self::FORGOTTEN_NS);
        }
        let room = self.known.len() < Self::KNOWN;
        if room {
            self.known.insert(peer, source);
        }
        room
    }
}

/// Who is one source: an IPv4 address, or a subnet of IPv6, all of whose 2^64 addresses are one host's to use (RFC 4291,
/// section 2.5.4).
pub(crate) fn source_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() & !u128::from(u64::MAX)).into(),
        peer @ IpAddr::V4(_) => peer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_rate_holds_over_any_second() {
        let bound = Bound::new(100, 100 * MS);
        let mut rate = Rate::default();
        // Ten times too many, for ten seconds from an arbitrary origin.
        let taken = (0..10_000_u64).filter(|n| rate.takes_one(bound, 5 * S + n * MS)).count();
        assert!((1_000..=1_011).contains(&taken), "{taken} in 10 s at 100 a second and a burst of 0.1 s");
        let (bound, mut slow) = (Bound::new(1, 100 * MS), Rate::default());
        assert!(slow.takes_one(bound, 0));
        assert!(!slow.takes_one(bound, 500 * MS));
        assert!(slow.takes_one(bound, 1_000 * MS));
    }

    /// A probe of 100 a second beside others, for ten seconds: how many of its datagrams, and of theirs, are taken.
    fn beside(others_a_second: u64, other: impl Fn(u64) -> IpAddr, begins_ns: u64) -> (u64, u64, u64) {
        let mut shares = Shares::new(1_000);
        let (mut sent, mut of_probe, mut of_others) = (0, 0, 0);
        let every = S / others_a_second;
        let mut next_probe = 0;
        for n in 0..10 * others_a_second {
            let now = n * every;
            if now >= begins_ns {
                of_others += u64::from(shares.takes_one(other(n), now));
            }
            if now >= next_probe {
                next_probe += 100 * MS;
                sent += 1;
                of_probe += u64::from(shares.takes_one(address("10.0.0.1"), now));
            }
        }
        (sent, of_probe, of_others)
    }

    /// By a flood of so many datagrams a second.
    fn check_flood(a_second: u64) {
        let one = |_| address("192.0.2.1");
        let many = |n: u64| IpAddr::V4(std::net::Ipv4Addr::from_bits(0xC000_0000 + n as u32));
        // One source: half of the answers are its, and the probe has all of its own, from the beginning.
        let (sent, of_probe, of_others) = beside(a_second, one, 0);
        assert_eq!(sent, of_probe);
        assert!((4_900..5_200).contains(&of_others), "{of_others}");
        // Forged sources, each another one: the probe that is here already has all of its own.
        let (sent, of_probe, of_others) = beside(a_second, many, 2 * S);
        assert_eq!(sent, of_probe);
        assert!(of_others < 7_000, "{of_others}");
    }

    /// Ten seconds of so many datagrams a second, of seven sources.
    fn check_total(a_second: u64) {
        let mut shares = Shares::new(1_000);
        let few = |n: u64| IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0A00_0000 + (n % 7) as u32));
        let taken = (0..10 * a_second).filter(|n| shares.takes_one(few(*n), n * (S / a_second))).count();
        assert!(taken <= 10_000 + 2 * 100, "{taken} in 10 s at 1,000 a second");
    }

    #[test]
    fn a_flood_takes_nothing_from_a_probe() {
        check_flood(10_000);
    }

    #[test]
    fn all_together_stay_below_the_rate() {
        check_total(10_000);
    }

    mod acceptance {
        #[test]
        fn a_larger_flood_takes_nothing_from_a_probe() {
            super::check_flood(100_000);
        }

        #[test]
        fn all_together_stay_below_the_rate() {
            super::check_total(100_000);
        }
    }

    #[test]
    fn a_subnet_of_ipv6_is_one_source() {
        assert_eq!(source_of(address("2001:db8::1")), source_of(address("2001:db8::ffff:1")));
        assert_ne!(source_of(address("2001:db8::1")), source_of(address("2001:db8:0:1::1")));
        assert_eq!(source_of(address("::ffff:10.0.0.1")), address("10.0.0.1"));
        assert_ne!(source_of(address("10.0.0.1")), source_of(address("10.0.0.2")));
    }
}
