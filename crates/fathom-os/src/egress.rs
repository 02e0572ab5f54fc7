//! By what a path's connections leave this host: address, interface, its driver and what it can. Asked for when
//! a connection opens and once a minute. A question takes system calls, and a card may be slow to answer: no thread that
//! measures asks.

use crate::host::NicFacts;
use crate::interfaces;
use fathom_core::event::EventKind;
use std::net::SocketAddr;

/// Between two looks when no connection opens.
const LOOK_EVERY_NS: u64 = 60_000_000_000;
/// Connections that open within this of a look are taken to leave as it found: thousands may open in a second.
const SAME_FOR_NS: u64 = 20_000_000;

/// Asks the system by which interface a connection leaves.
type Ask = fn(SocketAddr, SocketAddr) -> Option<NicFacts>;

fn ask(local: SocketAddr, remote: SocketAddr) -> Option<NicFacts> {
    NicFacts::of(&interfaces::towards(local, remote)?)
}

/// What is known of one path.
#[derive(Debug)]
pub struct Egress {
    ask: Ask,
    /// The latest connection's ends.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// The interface when it was last known.
    nic: Option<NicFacts>,
    /// Whether the latest answer told it.
    told: bool,
    asked_ns: u64,
}

impl Default for Egress {
    fn default() -> Self {
        Self { ask, ends: None, nic: None, told: false, asked_ns: 0 }
    }
}

impl Egress {
    /// The interface by which the latest connection leaves, where it is known.
    pub fn nic(&self) -> Option<&NicFacts> {
        self.nic.as_ref().filter(|_| self.told)
    }

    /// A connection opened at this moment (in ns of any clock, the same for every call): what differs from the one before.
    pub fn opened(&mut self, local: SocketAddr, remote: SocketAddr, now_ns: u64) -> Vec<EventKind> {
        let route = |(from, to): (SocketAddr, SocketAddr)| (from.ip(), to.ip());
        let before = self.ends.replace((local, remote)).map(route);
        if before == Some((local.ip(), remote.ip())) && now_ns.saturating_sub(self.asked_ns) < SAME_FOR_NS {
            return Vec::new();
        }
        let mut found = Vec::new();
        if let Some((from, _)) = before.filter(|(from, _)| *from != local.ip()) {
            found.push(changed("source", &from, &local.ip()));
        }
        found.extend(self.look(now_ns));
        found
    }

    /// Whether it is time to look without a reason.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.ends.is_some() && now_ns.saturating_sub(self.asked_ns) >= LOOK_EVERY_NS
    }

    /// Asks again: what differs from the last answer.
    pub fn look(&mut self, now_ns: u64) -> Vec<EventKind> {
        let Some((local, remote)) = self.ends else { return Vec::new() };
        self.asked_ns = now_ns;
        // While there is no way, or nobody tells, the last that is known stays known.
        let answer = (self.ask)(local, remote);
        tracing::debug!(%local, %remote, nic = ?answer, "looked by what it leaves this host");
        self.told = answer.is_some();
        let Some(nic) = answer else { return Vec::new() };
        let before = self.nic.replace(nic);
        before.zip(self.nic.as_ref()).map_or_else(Vec::new, |(before, now)| differences(&before, now))
    }
}

fn changed(what: &str, from: &impl ToString, to: &impl ToString) -> EventKind {
    EventKind::AddressChanged { what: what.to_owned(), from: from.to_string(), to: to.to_string() }
}

/// What differs, one event each. What either of them does not tell is no difference; that an interface has no driver or
/// stands upon nothing is told. (The speed is left out: it follows the load of some wireless and virtual links.)
fn differences(before: &NicFacts, now: &NicFacts) -> Vec<EventKind> {
    let words = |words: &[String]| if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    let driver = |nic: &NicFacts| Some(nic.driver.clone().unwrap_or_else(|| "none".to_owned()));
    let yes = |value: Option<bool>| value.map(|is| if is { "yes" } else { "no" }.to_owned());
    let on = |value: Option<bool>| value.map(|is| if is { "on" } else { "off" }.to_owned());
    let all = |nic: &NicFacts| {
        [
            ("interface", Some(nic.name.clone())),
            ("driver", driver(nic)),
            ("virtual_function", yes(nic.virtual_function)),
            ("lower", Some(words(&nic.lower))),
            ("mtu", nic.mtu.map(|bytes| bytes.to_string())),
            ("tso", on(nic.offloads.tso)),
            ("gso", on(nic.offloads.gso)),
            ("gro", on(nic.offloads.gro)),
            ("lro", on(nic.offloads.lro)),
        ]
    };
    let pairs = all(before).into_iter().zip(all(now));
    pairs
        .filter_map(|((what, from), (_, to))| Some((what, from?, to?)))
        .filter(|(_, from, to)| from != to)
        .map(|(what, from, to)| changed(what, &from, &to))
        .collect()
}

/// The two ends of a connection as its event names them.
pub fn ends(local: &str, remote: &str) -> Option<(SocketAddr, SocketAddr)> {
    local.parse().ok().zip(remote.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Offloads;

    const S: u64 = 1_000_000_000;

    /// Azure's synthetic interface, with the virtual function below it or, on 10.0.0.7, without.
    fn azure(local: SocketAddr, remote: SocketAddr) -> Option<NicFacts> {
        let accelerated = local.ip().to_string() != "10.0.0.7";
        (remote.port() != 9).then(|| NicFacts {
            name: "eth0".into(),
            driver: Some("hv_netvsc".into()),
            virtual_function: Some(accelerated),
            lower: if accelerated { vec!["enP1s1".into()] } else { Vec::new() },
            mtu: Some(1_500),
            speed_mbps: Some(if accelerated { 50_000 } else { 10_000 }),
            offloads: Offloads { lro: accelerated.then_some(false), ..Offloads::default() },
        })
    }

    fn end(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn told(all: &[EventKind]) -> Vec<String> {
        let one = |kind: &EventKind| match kind {
            EventKind::AddressChanged { what, from, to } => format!("{what}: {from} -> {to}"),
            other => panic!("{other:?}"),
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn removed_virtual_function_is_reported() {
        let mut egress = Egress { ask: azure, ..Egress::default() };
        let there = end("10.0.1.4:7007");
        assert!(!egress.is_due(500 * S), "no connection, no question");
        assert!(egress.opened(end("10.0.0.5:40000"), there, S).is_empty(), "the first is no change");
        assert_eq!(egress.nic().unwrap().lower, ["enP1s1"]);
        assert!(egress.opened(end("10.0.0.5:40001"), there, 10 * S).is_empty(), "another port is no change");
        assert_eq!(
            told(&egress.opened(end("10.0.0.7:40002"), there, 20 * S)),
            ["source: 10.0.0.5 -> 10.0.0.7", "virtual_function: yes -> no", "lower: enP1s1 -> nothing"]
        );
        assert!(!egress.is_due(79 * S) && egress.is_due(80 * S));
        assert!(egress.look(80 * S).is_empty(), "told once");
        assert!(!egress.is_due(81 * S));
    }

    #[test]
    fn thousands_that_open_together_are_asked_about_once() {
        #[expect(clippy::unnecessary_wraps, reason = "as the system is asked")]
        fn once(_: SocketAddr, remote: SocketAddr) -> Option<NicFacts> {
            assert_eq!(remote.port(), 1, "asked again");
            Some(NicFacts::default())
        }
        let mut egress = Egress { ask: once, ..Egress::default() };
        egress.opened(end("10.0.0.5:40000"), end("10.0.1.4:1"), 5 * S);
        for port in 2..2_000 {
            assert!(
                egress.opened(end("10.0.0.5:40000"), end(&format!("10.0.1.4:{port}")), 5 * S + 9).is_empty()
            );
        }
    }

    #[test]
    fn change_is_compared_with_last_known_interface() {
        let mut egress = Egress { ask: azure, ..Egress::default() };
        egress.opened(end("10.0.0.5:40000"), end("10.0.1.4:7007"), S);
        assert!(egress.opened(end("10.0.0.5:40000"), end("10.0.1.4:9"), 5 * S).is_empty());
        assert!(egress.nic().is_none(), "not known now");
        assert_eq!(told(&egress.opened(end("10.0.0.7:40000"), end("10.0.1.4:7007"), 9 * S)).len(), 3);
        assert_eq!(ends("", "10.0.1.4:7007"), None, "a socket that no longer says where it was");
    }
}
