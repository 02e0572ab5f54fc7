//! Configurations as a scenario writes them.

use std::net::IpAddr;

use fathom_fabric::event::StageEvent;
use fathom_fabric::stage::StageConfig;
use fathom_fabric::stage::firewall::FirewallConfig;
use fathom_fabric::stage::limits::{Counts, IdleLimits, OnExpiry, Unknown};
use fathom_fabric::stage::load_balancer::LoadBalancerConfig;
use fathom_fabric::stage::nat::NatConfig;
use fathom_fabric::stage::private_endpoint::PrivateEndpointConfig;
use fathom_fabric::stage::transit::Transit;

use super::bench::{MINUTE, SECOND};

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|e| e.message().to_owned())
}

fn resolve(name: &str) -> Option<IpAddr> {
    (name == "db").then(|| "10.0.0.4".parse().expect("an address"))
}

#[test]
fn omitted_settings_match_cloud_defaults() {
    let balancer: LoadBalancerConfig = read("address = '10.0.0.100'\nbackends = ['db']").expect("valid");
    assert_eq!(balancer.idle.established_ns, 4 * MINUTE);
    assert_eq!((balancer.on_expiry, balancer.unknown), (OnExpiry::Silent, Unknown::Drop));
    let nat: NatConfig = read("addresses = ['192.0.2.1']").expect("valid");
    assert_eq!((nat.idle.established_ns, nat.idle.closed_ns), (4 * MINUTE, 65 * SECOND));
    assert_eq!(nat.unknown, Unknown::Reset);
    let endpoint: PrivateEndpointConfig = read("address = '10.0.0.9'\ntarget = 'db'").expect("valid");
    assert_eq!(endpoint.idle.established_ns, 5 * MINUTE);
}

#[test]
fn idle_limit_alone_keeps_other_defaults() {
    let nat: NatConfig = read("addresses = ['192.0.2.1']\nidle = '350s'").expect("valid");
    assert_eq!((nat.idle.established_ns, nat.idle.closed_ns), (350 * SECOND, 65 * SECOND));
    let text = "idle = { established = '2s', half-closed = '1s', counts = 'originator' }\ntransit = '50us'";
    let firewall: FirewallConfig = read(text).expect("valid");
    let expected = IdleLimits {
        half_closed_ns: SECOND,
        counts: Counts::Originator,
        ..IdleLimits::established(2 * SECOND)
    };
    assert_eq!((firewall.idle, firewall.transit), (expected, Transit::constant(50_000)));
}

#[test]
fn a_configuration_written_is_the_one_read() {
    let text = "kind = 'load-balancer'\naddress = '10.0.0.100'\nbackends = ['db', '10.0.0.5']\n\
                frontends = [{ port = 80, backend-port = 8080 }]\nidle = '90s'\non-expiry = 'reset'\n\
                probe = { source = '10.0.0.99', every = '5s', failures = 3 }\n\
                transit = { min = '10us', mean = '30us', sd = '20us' }";
    let config: StageConfig = read(text).expect("valid");
    let written = toml::to_string(&config).expect("TOML");
    assert_eq!(read::<StageConfig>(&written).expect("valid"), config, "{written}");
    for text in [
        "kind = 'firewall'\nrules = [{ from = '10.0.0.0/8', port = 80, action = 'reject', idle = '5m' }]",
        "kind = 'nat'\naddresses = ['192.0.2.1']\ncool-down = '3s'",
        "kind = 'private-endpoint'\naddress = '10.0.0.9'\ntarget = 'db'",
        "kind = 'gateway'\nmtu = 1400\nmss = 1350\nrate = '1Gbit/s'\nqueue = '256KiB'\nmemory = { idle = '5m' }",
    ] {
        let config: StageConfig = read(text).expect("valid");
        let written = toml::to_string(&config).expect("TOML");
        assert_eq!(read::<StageConfig>(&written).expect("valid"), config, "{written}");
        config.build("box", &resolve).expect("it can be built");
    }
}

#[test]
fn invalid_config_is_one_line_error() {
    let refused = |text: &str| {
        let why = read::<StageConfig>(text).and_then(|config| config.build("box", &resolve).map(|_| ()));
        why.expect_err(text)
    };
    for (text, expected) in [
        ("kind = 'nat'\naddresses = []", "no outer address"),
        ("kind = 'nat'\naddresses = ['192.0.2.1']\nports = [9, 8]", "ports 9 to 8"),
        ("kind = 'firewall'\ninstances = 0", "at least one instance"),
        ("kind = 'firewall'\nidel = '5m'", "unknown field `idel`"),
        ("kind = 'firewall'\nidle = '5'", "which unit"),
        ("kind = 'firewall'\ntransit = { min = '9us', mean = '8us' }", "below the least"),
        ("kind = 'firewall'\nrules = [{ from = 'here' }]", "here is no network"),
        ("kind = 'private-endpoint'\naddress = '10.0.0.9'\ntarget = 'web'", "neither a host"),
        ("kind = 'private-endpoint'\naddress = 'fd00::9'\ntarget = 'db'", "two IP versions"),
        ("kind = 'load-balancer'\naddress = '10.0.0.9'\nbackends = []", "no backends"),
        (
            "kind = 'load-balancer'\naddress = '10.0.0.9'\nbackends = ['db']\nprobe = { source = '10.0.0.8' }",
            "which one to probe",
        ),
        ("kind = 'gateway'\nmtu = 20", "at least 68"),
    ] {
        let why = refused(text);
        assert!(why.contains(expected), "{text}: {why}");
        assert_eq!(why.trim().lines().count(), 1, "{why}");
    }
}

#[test]
fn events_are_read_as_people_write_them() {
    for (text, expected) in [
        ("what = 'flush-flows'", StageEvent::FlushFlows),
        ("what = 'idle-limit'\nidle = '90s'", StageEvent::IdleLimit { idle_ns: 90 * SECOND }),
        ("what = 'scale-in'\ninstances = 2", StageEvent::ScaleIn { instances: 2 }),
        (
            "what = 'failover'\nfrom = 'db'\nforget = true",
            StageEvent::Failover { from: "db".into(), forget: true },
        ),
        ("what = 'restore'\nhost = 'db'", StageEvent::Restore { host: "db".into() }),
        (
            "what = 'switchover'\noutage = '12s'\nforget = false",
            StageEvent::Switchover { outage_ns: 12 * SECOND, forget: false },
        ),
    ] {
        assert_eq!(read::<StageEvent>(text), Ok(expected), "{text}");
    }
}
