//! Hosts: a network namespace each, with one TUN device that bears all of the host's addresses and gets all it sends.

use crate::directory::HostRecord;
use crate::error::Error;
use fathom_os::namespace::{self, Namespace};
use fathom_os::tun::Tun;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::thread;

/// The name of the device inside each host.
pub(crate) const DEVICE: &str = "fabric";
/// Packets that wait in a device before the next is lost: a burst of the fastest sender while the fabric is busy.
const QUEUE: u32 = 10_000;

/// A host that has been made: its network and the device that carries its packets.
#[derive(Debug)]
pub(crate) struct HostDevice {
    pub(crate) name: String,
    pub(crate) network: Namespace,
    pub(crate) tun: Tun,
}

/// Making and removing a network is mostly waiting for the kernel (for its RCU grace periods), so several wait at once.
const AT_ONCE: usize = 8;

/// Makes all hosts.
pub(crate) fn make(hosts: &[HostRecord]) -> Result<Vec<HostDevice>, Error> {
    let share = hosts.len().div_ceil(AT_ONCE).max(1);
    let some = |hosts: &[HostRecord]| hosts.iter().map(one).collect::<Result<Vec<_>, _>>();
    thread::scope(|scope| {
        let working: Vec<_> = hosts.chunks(share).map(|part| scope.spawn(move || some(part))).collect();
        let mut made = Vec::with_capacity(hosts.len());
        for part in working {
            match part.join() {
                Ok(part) => made.extend(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(made)
    })
}

/// Closes the hosts' devices, which removes them.
pub(crate) fn close(mut hosts: Vec<HostDevice>) {
    let share = hosts.len().div_ceil(AT_ONCE).max(1);
    thread::scope(|scope| {
        while !hosts.is_empty() {
            let part = hosts.split_off(hosts.len().saturating_sub(share));
            scope.spawn(move || drop(part));
        }
    });
}

fn one(host: &HostRecord) -> Result<HostDevice, Error> {
    let failed = |e: io::Error| Error::run(format!("host {}: {e}", host.name));
    let work = || {
        quiet(host.addresses.iter().any(IpAddr::is_ipv6));
        let tun = Tun::create(DEVICE)?;
        configure(&host.addresses, host.mtu)?;
        Ok(tun)
    };
    let (network, tun) = namespace::in_new_network(work).map_err(failed)?;
    if let Some(label) = &host.netns {
        namespace::name(&network, label).map_err(failed)?;
    }
    Ok(HostDevice { name: host.name.clone(), network, tun })
}

/// Keeps the kernel from talking unasked, as far as it lets us: no router solicitation, no duplicate address detection
/// (whose second of waiting would make addresses useless at once), no link-local address. What it says all the same
/// (multicast memberships) the fabric passes over.
fn quiet(ipv6: bool) {
    let own = [
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv6/conf/default/accept_ra", "0"),
        ("ipv6/conf/default/autoconf", "0"),
        ("ipv6/conf/default/accept_dad", "0"),
        ("ipv6/conf/default/dad_transmits", "0"),
        ("ipv6/conf/default/router_solicitations", "0"),
        // IN6_ADDR_GEN_MODE_NONE: no link-local address.
        ("ipv6/conf/default/addr_gen_mode", "1"),
    ];
    let without = [("ipv6/conf/default/disable_ipv6", "1")];
    for (name, value) in own.iter().chain(if ipv6 { &[][..] } else { &without[..] }) {
        // A kernel without IPv6 has no such file; a read-only /proc/sys costs noise, not truth.
        let _ = fs::write(format!("/proc/sys/net/{name}"), value);
    }
}

/// Runs one `ip -batch` in the network of the calling thread.
fn configure(addresses: &[IpAddr], mtu: u16) -> io::Result<()> {
    let script = script(addresses, mtu);
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| {
            let remedy = if e.kind() == ErrorKind::NotFound {
                "install iproute2 (apt install iproute2)"
            } else {
                "see that it may be run"
            };
            io::Error::new(e.kind(), format!("cannot run ip: {e}; {remedy}"))
        })?;
    if let Some(mut stdin) = ip.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    let done = ip.wait_with_output()?;
    if done.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&done.stderr);
    let complaint = complaint.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(io::Error::other(format!(
        "ip could not set up the device {DEVICE}: {complaint}; is iproute2 older than 5.0?"
    )))
}

fn script(addresses: &[IpAddr], mtu: u16) -> String {
    let mut script = format!(
        "link set dev lo up\nlink set dev {DEVICE} mtu {mtu} txqueuelen {QUEUE} multicast off\nlink set dev {DEVICE} up\n"
    );
    for address in addresses {
        // Infallible, as below: the text is in memory.
        let _ = match address {
            IpAddr::V4(v4) => writeln!(script, "address add {v4}/32 dev {DEVICE}"),
            IpAddr::V6(v6) => writeln!(script, "address add {v6}/128 dev {DEVICE} nodad"),
        };
    }
    // The first address of a family is the one that speaks where a program does not choose.
    for (any, first) in [
        ("0.0.0.0/0", addresses.iter().find(|a| a.is_ipv4())),
        ("::/0", addresses.iter().find(|a| a.is_ipv6())),
    ] {
        if let Some(first) = first {
            let _ = writeln!(script, "route add {any} dev {DEVICE} src {first}");
        }
    }
    script
}

/// `/etc/hosts` for inside the fabric: this machine's own, then every name of the scenario.
pub(crate) fn names_file<'a>(names: impl Iterator<Item = (&'a str, IpAddr)>) -> String {
    let mut text = fs::read_to_string("/etc/hosts").unwrap_or_else(|_| "127.0.0.1 localhost\n".to_owned());
    text.push_str("\n# fathom fabric\n");
    for (name, address) in names {
        let _ = writeln!(text, "{address} {name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ip_family_gets_route_and_source() {
        let addresses = ["10.0.0.1", "fd00::1", "10.0.0.2"].map(|a| a.parse().unwrap());
        let both = script(&addresses, 1_500);
        for line in [
            "address add 10.0.0.1/32 dev fabric",
            "address add 10.0.0.2/32 dev fabric",
            "address add fd00::1/128 dev fabric nodad",
            "route add 0.0.0.0/0 dev fabric src 10.0.0.1",
            "route add ::/0 dev fabric src fd00::1",
        ] {
            assert!(both.lines().any(|l| l == line), "{line} in\n{both}");
        }
        assert!(!script(&addresses[..1], 9_000).contains("::/0"));
    }

    #[test]
    fn names_come_after_those_of_the_machine() {
        let text = names_file([("server", "10.0.0.2".parse().unwrap())].into_iter());
        assert!(text.ends_with("# fathom fabric\n10.0.0.2 server\n"), "{text}");
        assert!(text.contains("localhost"));
    }
}
