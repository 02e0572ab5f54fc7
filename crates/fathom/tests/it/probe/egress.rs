//! The interface and source address of a connection: in its event, in the manifest, and an event when a later connection
//! has others.

use crate::support::faults::on;
use crate::support::net::{Host, Net};
use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{Events, events, of_kind};
use crate::support::{FATHOM, needs, needs_root};
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// A probe's host with two cables to the reflector's, whose address 10.79.0.1 neither of them bears.
struct TwoCables {
    net: Net,
    _echo: Echo,
    home: TempDir,
}

impl TwoCables {
    fn new() -> Self {
        let net = Net::new();
        for (host, at) in [(&net.probe, 1), (&net.reflector, 2)] {
            on(host, "ip address flush dev cable");
            on(host, &format!("ip address add 10.78.1.{at}/24 dev cable"));
        }
        on(&net.probe, "ip link add second type veth peer name other");
        on(&net.probe, &format!("ip link set other netns {}", net.reflector.name()));
        for (host, device, at) in [(&net.probe, "second", 1), (&net.reflector, "other", 2)] {
            on(host, &format!("ip address add 10.78.2.{at}/24 dev {device}"));
            on(host, &format!("ip link set {device} up"));
        }
        on(&net.reflector, "ip address add 10.79.0.1/32 dev lo");
        on(&net.probe, "ip route add 10.79.0.1 via 10.78.1.2");
        let echo = Echo::start_on(&net.reflector, "10.79.0.1:7007".parse().expect("an address"));
        Self { net, _echo: echo, home: tempfile::tempdir().expect("a directory") }
    }

    /// Starts a probe; `then` makes the difference once its first connection is there, and what ends that connection.
    fn run(&self, options: &str, then: impl FnOnce(&Net)) -> (Events, Value) {
        let dir = self.home.path().join("r");
        let line = format!("10.79.0.1 --every 50ms --user-timeout 1s --record r --json --quiet {options}");
        let probe = Probe::start_on(&self.net.probe, self.home.path(), &line);
        wait_for_events(&dir, "a connection", |events| !of_kind(events, "connection.opened").is_empty());
        then(&self.net);
        wait_for_events(&dir, "another connection", |events| of_kind(events, "connection.opened").len() == 2);
        probe.signal("TERM");
        assert_eq!(probe.finish().code(), 0);
        assert_sound(&dir);
        let manifest = std::fs::read_to_string(dir.join("recording.json")).expect("a manifest");
        (events(&dir), serde_json::from_str(&manifest).expect("JSON"))
    }

    fn explained(&self) -> String {
        let outcome = fathom(self.home.path(), &["recording", "explain", "r"]);
        assert_eq!(outcome.code(), 0, "{}", outcome.err);
        outcome.out
    }
}

/// Ends the connection that there is; new ones can be made.
fn end_connections(host: &Host) {
    on(host, "ss -K dst 10.79.0.1");
}

fn change(event: &Value) -> [&str; 3] {
    ["what", "from", "to"].map(|field| event[field].as_str().expect("text"))
}

fn can_run() -> bool {
    needs_root() && needs("ss")
}

#[test]
fn changed_source_and_interface_are_reported() {
    if !can_run() {
        return;
    }
    let site = TwoCables::new();
    let (events, manifest) = site.run("", |net| {
        on(&net.probe, "ip route replace 10.79.0.1 via 10.78.2.2");
        on(&net.probe, "ip address flush dev cable");
    });
    let opened = of_kind(&events, "connection.opened");
    assert_eq!(opened.iter().map(|event| &event["interface"]).collect::<Vec<_>>(), ["cable", "second"]);
    for (event, source) in opened.iter().zip(["10.78.1.1:", "10.78.2.1:"]) {
        assert!(event["local"].as_str().is_some_and(|local| local.starts_with(source)), "{event}");
        assert_eq!(event["remote"], "10.79.0.1:7007");
    }
    let changed = of_kind(&events, "address.changed");
    assert_eq!(
        changed.iter().map(|event| change(event)).collect::<Vec<_>>(),
        [["source", "10.78.1.1", "10.78.2.1"], ["interface", "cable", "second"]]
    );
    assert!(changed.iter().all(|event| event["connection"] == 1), "{changed:?}");
    assert_eq!(manifest["host"]["nic"]["name"], "cable", "the first connection's");
    assert!(manifest["host"]["kernel"].is_string());
    let story = site.explained();
    assert!(story.contains("connections came from 10.78.2.1 here, no longer from 10.78.1.1"), "{story}");
    assert!(story.contains("packets left by interface second, no longer by cable"), "{story}");
    assert!(
        story.contains("- for connection #1 packets left by interface second"),
        "beside the end: {story}"
    );
}

#[test]
fn changed_route_from_same_address_is_reported() {
    if !can_run() {
        return;
    }
    let site = TwoCables::new();
    // As where the address of a host stands on its loopback interface and routing decides the way.
    on(&site.net.probe, "ip address add 10.79.0.9/32 dev lo");
    on(&site.net.reflector, "ip route add 10.79.0.9 via 10.78.1.1");
    for host in [&site.net.probe, &site.net.reflector] {
        for device in ["all", "cable", "second", "other"] {
            // Where there is no such device in this namespace, there is nothing to set.
            let _ = host
                .command("sysctl")
                .args(["-q", "-w", &format!("net.ipv4.conf.{device}.rp_filter=0")])
                .output();
        }
    }
    let (events, _) = site.run("--source 10.79.0.9", |net| {
        on(&net.probe, "ip route replace 10.79.0.1 via 10.78.2.2");
        end_connections(&net.probe);
    });
    let changed = of_kind(&events, "address.changed");
    assert_eq!(
        changed.iter().map(|event| change(event)).collect::<Vec<_>>(),
        [["interface", "cable", "second"]]
    );
    let opened = of_kind(&events, "connection.opened");
    assert!(
        opened.iter().all(|e| e["local"].as_str().is_some_and(|l| l.starts_with("10.79.0.9:"))),
        "{opened:?}"
    );
}

#[test]
fn lost_lower_interface_is_reported() {
    if !can_run() {
        return;
    }
    let site = TwoCables::new();
    // A bridge stands upon its ports as Azure's synthetic interface does upon the virtual function.
    for line in [
        "ip link add br0 type bridge",
        "ip link add spare type veth peer name unused",
        "ip link set spare master br0",
        "ip address flush dev cable",
        "ip link set cable master br0",
        "ip address add 10.78.1.1/24 dev br0",
        "ip link set br0 up",
        "ip route replace 10.79.0.1 via 10.78.1.2",
    ] {
        on(&site.net.probe, line);
    }
    let (events, manifest) = site.run("", |net| {
        on(&net.probe, "ip link set spare nomaster");
        on(&net.probe, "ip link set br0 mtu 1400");
        end_connections(&net.probe);
    });
    assert_eq!(manifest["host"]["nic"]["lower"], serde_json::json!(["cable", "spare"]));
    let changed = of_kind(&events, "address.changed");
    assert_eq!(
        changed.iter().map(|event| change(event)).collect::<Vec<_>>(),
        [["lower", "cable, spare", "cable"], ["mtu", "1500", "1400"]]
    );
    assert!(site.explained().contains("the interface stood upon cable, no longer upon cable, spare"));
}

/// The interface comes from the connection itself: no name is looked up for it. (Where DNS is dead, each look-up is
/// seconds of waiting.)
#[test]
fn a_name_is_looked_up_once() {
    if !needs("strace") {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let line = format!(
        "-f -qq -e trace=openat -o trace {FATHOM} probe localhost:{} -4 --count 3 --every 10ms --record r --quiet",
        echo.address().port()
    );
    let probe = Probe::spawn(Command::new("strace").args(line.split(' ')).current_dir(home.path()));
    assert_eq!(probe.finish().code(), 0);
    let trace = std::fs::read_to_string(home.path().join("trace")).expect("a trace");
    assert_eq!(trace.matches("\"/etc/hosts\"").count(), 1, "{trace}");
    let opened = events(&home.path().join("r"));
    assert_eq!(of_kind(&opened, "connection.opened")[0]["interface"], "lo");
}
