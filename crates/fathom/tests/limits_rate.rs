//! `fathom limits --rate-ceiling` through a policer (nftables, packets a second) and over loopback, which has none that low.

mod support;

use serde_json::json;
use std::net::SocketAddr;
use support::faults::{Reflector, Site};
use support::net::Host;
use support::probe::{Probe, fathom};
use support::{FATHOM, free_port, needs, needs_root};

/// A router that drops what is beyond 400 packets a second of this direction.
#[test]
fn the_ceiling_of_a_policer_is_found() {
    if !(needs_root() && needs("nft")) {
        return;
    }
    let site = Site::routed();
    let (port, router) = (site.target.port(), site.router());
    router.on("nft add table ip fathom");
    router.rule(&format!("tcp dport {port} limit rate over 400/second burst 5 packets drop"));
    let _reflector = Reflector::start(&site.net.reflector, site.target);
    let mut command = site.net.probe.fathom();
    let target = site.target.to_string();
    let outcome =
        Probe::spawn(command.args(["limits", &target, "--rate-ceiling", "2000", "--json"])).finish();
    let result = outcome.objects().remove(0);
    if result["verdict"] == "unclear" {
        // A machine that is too busy for some hundred packets a second says that it is, and never that the path is.
        assert!(outcome.code() == 1 && outcome.err.contains("this host"), "{outcome:?}");
        return;
    }
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    assert_eq!((&result["verdict"], &result["limit"]), (&json!("found"), &json!("rate")), "{result:#}");
    let rate =
        |end: &str| result[end]["rate_per_s"].as_u64().unwrap_or_else(|| panic!("no {end}: {result:#}"));
    let (good, bad) = (rate("good"), rate("bad"));
    // Each echo is acknowledged too, by the next packet or by one of its own: half of the packets may be that.
    assert!((150..=440).contains(&good) && (200..=550).contains(&bad) && good < bad, "{result:#}");
    // What is lost comes later, so that delay may be what begins: but then something was lost, too.
    assert!(result["bad"]["lost"].as_u64() > result["good"]["lost"].as_u64(), "{result:#}");
}

#[test]
fn a_path_without_a_ceiling_has_none() {
    let target = SocketAddr::new([127, 0, 0, 1].into(), free_port());
    let _reflector = Reflector::start(&Host::this(), target);
    let mut command = std::process::Command::new(FATHOM);
    let target = target.to_string();
    let outcome = Probe::spawn(command.args([
        "limits",
        &target,
        "--rate-ceiling",
        "150",
        "--connections",
        "3",
        "--json",
    ]))
    .finish();
    let result = outcome.objects().remove(0);
    assert!(result["bad"].is_null() && result["connections"] == 3, "{result:#}");
    if result["verdict"] == "not_found" {
        assert_eq!((outcome.code(), &result["good"]["rate_per_s"]), (0, &json!(150)), "{result:#}");
    } else {
        // A machine that is too busy for 150 packets a second says that it is.
        assert!(outcome.code() == 1 && outcome.err.contains("this host"), "{outcome:?}");
    }
}

#[test]
fn what_would_be_too_much_is_refused_in_a_line() {
    let home = tempfile::tempdir().expect("a directory");
    for (arguments, part) in [
        ("--rate-ceiling 5001", "--allow-high-rate"),
        ("--rate-ceiling 50001 --connections 100", "--allow-high-rate"),
        ("--rate-ceiling 1000 --age", "--age"),
        ("--rate-ceiling 1000 --record r", "--record"),
        ("--connections 30", "--per-length"),
        ("--age --connections 7", "8 or more"),
        ("--allow-high-rate", "--rate-ceiling"),
    ] {
        let arguments: Vec<&str> =
            ["limits", "10.0.0.4"].into_iter().chain(arguments.split_whitespace()).collect();
        let refused = fathom(home.path(), &arguments);
        assert!(refused.code() == 2 && refused.err.contains(part), "{arguments:?}: {refused:?}");
    }
}
