//! Two hosts joined by a cable, as network namespaces that a test makes and removes.

use super::{FATHOM, must};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a command runs.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// `None`: this host itself.
    namespace: Option<String>,
}

impl Host {
    /// This host.
    pub(crate) fn this() -> Self {
        Self { namespace: None }
    }

    /// The name of its namespace.
    pub(crate) fn name(&self) -> &str {
        self.namespace.as_deref().expect("a namespace")
    }

    /// A command of this program on this host.
    pub(crate) fn command(&self, program: &str) -> Command {
        match &self.namespace {
            None => Command::new(program),
            Some(namespace) => {
                // `ip netns exec` becomes the program, so the child's id is the program's.
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace, program]);
                command
            }
        }
    }

    /// The binary under test on this host.
    pub(crate) fn fathom(&self) -> Command {
        self.command(FATHOM)
    }

    fn must(&self, arguments: &[&str]) {
        let mut words = vec!["netns", "exec", self.name()];
        words.extend(arguments);
        must("ip", &words);
    }
}

/// Which packets vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Those from the probe to the reflector.
    ToReflector,
    /// Those from the reflector to the probe.
    FromReflector,
}

/// Two namespaces, `probe` and `reflector`, joined by a veth pair with an IPv4 and an IPv6 network. Dropped, they are
/// gone, also when the test has panicked.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) probe: Host,
    pub(crate) reflector: Host,
    number: u32,
}

impl Net {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % 200;
        let name = |role: &str| format!("fathom-{}-{number}-{role}", std::process::id());
        let host = |role: &str| Host { namespace: Some(name(role)) };
        let net = Self { probe: host("p"), reflector: host("r"), number };
        let (p, r) = (name("p"), name("r"));
        must("ip", &["netns", "add", &p]);
        must("ip", &["netns", "add", &r]);
        must(
            "ip",
            &["link", "add", "cable", "netns", &p, "type", "veth", "peer", "name", "cable", "netns", &r],
        );
        for (host, last) in [(&net.probe, 1), (&net.reflector, 2)] {
            // Without duplicate address detection the address can be used at once.
            host.must(&["ip", "address", "add", &format!("10.77.{number}.{last}/24"), "dev", "cable"]);
            host.must(&[
                "ip",
                "address",
                "add",
                &format!("fd77:{number}::{last}/64"),
                "dev",
                "cable",
                "nodad",
            ]);
            host.must(&["ip", "link", "set", "lo", "up"]);
            host.must(&["ip", "link", "set", "cable", "up"]);
        }
        net
    }

    /// The reflector's address on its port 7007.
    pub(crate) fn reflector_v4(&self) -> SocketAddr {
        SocketAddr::new(self.v4(2), 7007)
    }

    /// The same, IPv6.
    pub(crate) fn reflector_v6(&self) -> SocketAddr {
        SocketAddr::new(format!("fd77:{}::2", self.number).parse().expect("an address"), 7007)
    }

    /// The address of this number in the IPv4 network; 1 is the probe's and 2 the reflector's.
    pub(crate) fn v4(&self, last: u8) -> IpAddr {
        format!("10.77.{}.{last}", self.number).parse().expect("an address")
    }

    /// From now on TCP and UDP packets of one direction vanish where they would arrive. (Dropped where they leave, the
    /// sender's kernel would be told.)
    pub(crate) fn drop_packets(&self, direction: Direction) {
        self.rule(direction, "meta l4proto { tcp, udp } drop");
    }

    /// From now on every so many-th packet of a protocol vanishes in one direction.
    pub(crate) fn drop_some(&self, direction: Direction, protocol: &str, every: u32) {
        let last = every - 1;
        self.rule(direction, &format!("meta l4proto {protocol} numgen inc mod {every} {last} drop"));
    }

    /// From now on the reflector's host answers TCP packets with a RST.
    pub(crate) fn reset_connections(&self) {
        self.rule(Direction::ToReflector, "meta l4proto tcp reject with tcp reset");
    }

    /// From now on the reflector's host says by ICMP that it does not want them.
    pub(crate) fn reject_connections(&self) {
        self.rule(Direction::ToReflector, "meta l4proto tcp reject with icmpx type admin-prohibited");
    }

    fn rule(&self, direction: Direction, rule: &str) {
        let receiver = match direction {
            Direction::ToReflector => &self.reflector,
            Direction::FromReflector => &self.probe,
        };
        receiver.must(&["nft", "add table inet fathom"]);
        receiver.must(&["nft", "add chain inet fathom input { type filter hook input priority 0; }"]);
        receiver.must(&["nft", &format!("add rule inet fathom input {rule}")]);
    }

    /// Packets arrive again.
    pub(crate) fn restore(&self) {
        for host in [&self.probe, &self.reflector] {
            host.must(&["nft", "flush ruleset"]);
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for host in [&self.probe, &self.reflector] {
            // Where `new` failed half-way there may be nothing to remove.
            let _ = Command::new("ip").args(["netns", "del", host.name()]).output();
        }
    }
}
