//! `fathom limits --one-way` through firewalls that count the data of one direction only (nftables), and against servers
//! that cannot keep silent.

use crate::support::faults::Reflector;
use crate::support::net::Host;
use crate::support::probe::{Outcome, Probe, fathom};
use crate::support::reflector::{Reflector as _, Xinetd};
use crate::support::{FATHOM, free_port, needs};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;

fn start(mut command: Command, target: SocketAddr, arguments: &str) -> Probe {
    Probe::spawn(command.args(["limits", &target.to_string()]).args(arguments.split_whitespace()))
}

fn result(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    outcome.objects().remove(0)
}

#[test]
fn one_way_rejects_plain_echo_server() {
    if !needs("xinetd") {
        return;
    }
    let xinetd = Xinetd::start("127.0.0.1");
    for from in ["here", "there"] {
        let arguments = format!("--up-to 3s --one-way 1s --one-way-from {from}");
        let outcome = start(Command::new(FATHOM), xinetd.address(), &arguments).finish();
        assert!(outcome.code() == 1 && outcome.out.is_empty(), "{outcome:?}");
        let told = outcome.told();
        assert!(told.len() == 1 && told[0].contains("traffic one way needs `fathom echo` there"), "{told:?}");
    }
}

#[test]
fn one_way_search_works_with_a_key() {
    let home = tempfile::tempdir().expect("a directory");
    let key = home.path().join("key");
    std::fs::write(&key, "sixteen bytes, or more of them\n").expect("written");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    let target = SocketAddr::new([127, 0, 0, 1].into(), free_port());
    let _reflector = Reflector::start_with(&Host::this(), target, &format!("--key {}", key.display()));
    let arguments =
        format!("--json --up-to 2s --per-length 1 --one-way 1s --one-way-from there --key {}", key.display());
    let result = result(&start(Command::new(FATHOM), target, &arguments).finish());
    assert_eq!(result["verdict"], "not_found", "{result:#}");
}

#[test]
fn invalid_one_way_options_are_rejected() {
    let home = tempfile::tempdir().expect("a directory");
    for (arguments, part) in [
        ("--one-way 500ms", "1s or more"),
        ("--one-way 20s --one-way-from there --up-to 2h", "a reflector sends 128 segments"),
        ("--one-way 20s --one-way-from elsewhere", "write here, or there"),
        ("--one-way-from there", "--one-way"),
        ("--one-way 20s --age", "--age"),
        ("--one-way 20s --keepalive 20s", "--keepalive"),
    ] {
        let arguments: Vec<&str> =
            ["limits", "10.0.0.4"].into_iter().chain(arguments.split_whitespace()).collect();
        let refused = fathom(home.path(), &arguments);
        assert!(refused.code() == 2 && refused.err.contains(part), "{arguments:?}: {refused:?}");
    }
}

/// Real firewalls, and searches of many seconds.
mod acceptance {
    use super::*;
    use crate::support::faults::Site;
    use crate::support::needs_root;

    /// A firewall that forgets a connection three seconds after the last segment with data of one direction, and drops unknown
    /// packets. An acknowledgement without data is 52 bytes long.
    fn counting(from: &str) -> Site {
        let site = Site::routed();
        let (port, router) = (site.target.port(), site.router());
        router.on("nft add table ip fathom");
        router.on("nft add set ip fathom known { type inet_service; flags dynamic,timeout; timeout 3s; }");
        router.rule(&format!("tcp dport {port} tcp flags & (syn|ack) == syn add @known {{ tcp sport }}"));
        router.rule(&format!("tcp dport {port} tcp sport != @known drop"));
        router.rule(&format!("tcp sport {port} tcp dport != @known drop"));
        router.rule(&match from {
            "here" => format!("tcp dport {port} ip length > 60 update @known {{ tcp sport }}"),
            _ => format!("tcp sport {port} ip length > 52 update @known {{ tcp dport }}"),
        });
        site
    }

    /// Traffic of the counted side keeps connections open. With traffic of the other side the limit is found.
    #[test]
    fn only_counted_direction_keeps_connections_open() {
        if !(needs_root() && needs("nft")) {
            return;
        }
        let home = tempfile::tempdir().expect("a directory");
        let searches = ["here", "there"].map(|counted| {
            let site = counting(counted);
            let reflector = Reflector::start(&site.net.reflector, site.target);
            let of = ["here", "there"].map(|from| {
                let dir = home.path().join(format!("{counted}-{from}"));
                let arguments = format!(
                    "--json --up-to 7s --one-way 1s --one-way-from {from} --record {}",
                    dir.display()
                );
                (from, start(site.net.probe.fathom(), site.target, &arguments))
            });
            (counted, of, site, reflector)
        });
        for (counted, of, _site, _reflector) in searches {
            for (from, search) in of {
                let result = result(&search.finish());
                assert_eq!(result["one_way"], json!({"every_ns": 1_000_000_000, "from": from}), "{result:#}");
                let survived = result["survived"]["idle_ns"].as_u64().unwrap_or(0);
                if counted == from {
                    assert_eq!(result["verdict"], "not_found", "{counted} {from}: {result:#}");
                    assert!(survived >= 6_000_000_000, "{counted} {from}: {result:#}");
                } else {
                    assert_eq!(result["verdict"], "found", "{counted} {from}: {result:#}");
                    let died = result["died"]["idle_ns"].as_u64().expect("they died");
                    assert!(
                        survived <= 3_000_000_000 && 3_000_000_000 <= died,
                        "{counted} {from}: {result:#}"
                    );
                    assert_eq!(result["by"], "between", "{counted} {from}: {result:#}");
                }
                let name = format!("{counted}-{from}");
                let story = fathom(home.path(), &["recording", "explain", &name]);
                assert!(story.out.contains(&format!(", with traffic from {from} every 1 s")), "{story:?}");
                assert_eq!(fathom(home.path(), &["recording", "verify", &name]).code(), 0);
                let again = fathom(home.path(), &["recording", "summary", "--json", &name]).summary();
                assert_eq!(again, result);
                // It is no limit of idle connections.
                let judged = fathom(home.path(), &["limits", "check", "-", "--record", &name]);
                assert!(judged.code() == 2 && judged.err.contains("without --one-way"), "{judged:?}");
            }
        }
    }
}
