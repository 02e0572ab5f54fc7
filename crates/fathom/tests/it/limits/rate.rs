//! `fathom limits --rate-ceiling` through a policer (nftables, packets a second) and over loopback, which has none that low.

use crate::support::faults::Reflector;
use crate::support::net::Host;
use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::rows::{Events, of_kind};
use crate::support::{FATHOM, free_port};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

/// A search up to 105 packets a second from a host.
fn search(host: &Host, home: &Path, target: &str, arguments: &str) -> Probe {
    let mut command = host.fathom();
    command.current_dir(home).args(["limits", target, "--rate-ceiling", "105", "--json"]);
    Probe::spawn(command.args(arguments.split_whitespace()))
}

fn steps(log: &Events) -> usize {
    of_kind(log, "ceiling.stepped").len()
}

/// The summary of a recording.
fn told(home: &Path, name: &str) -> Value {
    fathom(home, &["recording", "summary", "--json", name]).summary()
}

/// Each interrupted search keeps its steps, and the next goes on after them.
#[test]
fn killed_rate_search_is_resumed() {
    let target = SocketAddr::new([127, 0, 0, 1].into(), free_port());
    let _reflector = Reflector::start(&Host::this(), target);
    let home = tempfile::tempdir().expect("a directory");
    let target = target.to_string();
    let begin = |arguments: &str| search(&Host::this(), home.path(), &target, arguments);

    let first = begin("--record first");
    wait_for_events(&home.path().join("first"), "a step that is over", |log| steps(log) >= 1);
    first.kill_9();
    assert_eq!(fathom(home.path(), &["recording", "recover", "first"]).code(), 0);
    assert_sound(&home.path().join("first"));
    let known = told(home.path(), "first");
    assert_eq!(known["verdict"], "stopped", "{known:#}");
    let rows = known["steps"].as_array().expect("steps");
    // Steps at the end that this host did not keep are tried again.
    let kept = |row: &Value| row["judged"] != "host_late" && row["judged"] != "not_reached";
    let kept = rows.iter().rposition(kept).map_or(0, |last| last + 1);

    let second = begin("--resume first --record second");
    wait_for_events(&home.path().join("second"), "the steps of the first", |log| steps(log) >= kept);
    second.signal("INT");
    let second = second.finish();
    assert_eq!((second.code(), second.objects()[0]["verdict"].as_str()), (0, Some("stopped")), "{second:?}");
    assert!(second.err.contains(" by the search in first"), "{second:?}");
    let again = told(home.path(), "second");
    assert_eq!((&again, &again["earlier"]), (&second.objects()[0], &json!(kept)));
    assert_sound(&home.path().join("second"));

    for (arguments, part) in
        [("--resume second --connections 2", "give --connections 1 too"), ("--resume none", "none")]
    {
        let refused = begin(arguments).finish();
        assert!(refused.code() == 2 && refused.err.contains(part), "{arguments}: {refused:?}");
        assert_eq!(refused.told().len(), 1, "{arguments}: {refused:?}");
    }
    // A search for another limit says which it was; settings are not held against it.
    let idle = fathom(home.path(), &["limits", &target, "--resume", "second"]);
    assert!(idle.code() == 2 && idle.err.contains("give --rate-ceiling 105 too"), "{idle:?}");
    std::fs::write(home.path().join("s.conf"), "net.ipv4.tcp_keepalive_time = 60\n").expect("a file");
    let check = fathom(home.path(), &["limits", "check", "--record", "second", "s.conf"]);
    assert!(check.code() == 2 && check.err.contains("search for the rate ceiling"), "{check:?}");
}

#[test]
fn excessive_or_conflicting_options_are_rejected() {
    let home = tempfile::tempdir().expect("a directory");
    for (arguments, part) in [
        ("--rate-ceiling 5001", "--allow-high-rate"),
        ("--rate-ceiling 50001 --connections 100", "--allow-high-rate"),
        ("--rate-ceiling 1000 --age", "--age"),
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

/// Whole searches, of ten seconds each.
mod acceptance {
    use super::*;
    use crate::support::faults::Site;
    use crate::support::{needs, needs_root};

    /// A router drops packets beyond 75 a second of one direction. The search is killed, resumed, ended by Ctrl-C and resumed
    /// again: no step is lost or tried twice, the ceiling is found, and each recording is sound.
    #[test]
    fn policer_ceiling_is_found_across_interruptions() {
        if !(needs_root() && needs("nft")) {
            return;
        }
        let site = Site::routed();
        let (port, router) = (site.target.port(), site.router());
        router.on("nft add table ip fathom");
        router.rule(&format!("tcp dport {port} limit rate over 75/second burst 5 packets drop"));
        let _reflector = Reflector::start(&site.net.reflector, site.target);
        let home = tempfile::tempdir().expect("a directory");
        let target = site.target.to_string();
        let begin = |arguments: &str| search(&site.net.probe, home.path(), &target, arguments);
        let told = |name: &str| told(home.path(), name);

        let first = begin("--record first");
        wait_for_events(&home.path().join("first"), "a step that is over", |log| steps(log) >= 1);
        first.kill_9();
        assert_eq!(fathom(home.path(), &["recording", "recover", "first"]).code(), 0);
        assert_sound(&home.path().join("first"));
        let known = told("first")["steps"].as_array().expect("steps").len();
        assert!(known >= 1 && told("first")["verdict"] == "stopped", "{:#}", told("first"));

        let second = begin("--resume first --record second");
        wait_for_events(&home.path().join("second"), "another step", |log| steps(log) > known);
        second.signal("INT");
        let second = second.finish();
        assert_eq!(
            (second.code(), second.objects()[0]["verdict"].as_str()),
            (0, Some("stopped")),
            "{second:?}"
        );
        assert!(second.err.contains(" by the search in first"), "{second:?}");
        assert_eq!((&told("second"), &told("second")["earlier"]), (&second.objects()[0], &json!(known)));
        assert_sound(&home.path().join("second"));

        for (arguments, part) in
            [("--resume second --connections 2", "give --connections 1 too"), ("--resume none", "none")]
        {
            let refused = begin(arguments).finish();
            assert!(refused.code() == 2 && refused.err.contains(part), "{arguments}: {refused:?}");
            assert_eq!(refused.told().len(), 1, "{arguments}: {refused:?}");
        }

        let outcome = begin("--resume second --record third").finish();
        let result = outcome.objects().remove(0);
        assert_sound(&home.path().join("third"));
        assert_eq!(told("third"), result);
        let story = fathom(home.path(), &["recording", "explain", "third"]);
        assert!(story.out.contains("packets at rising rates (tcp-rate-ceiling)"), "{story:?}");
        let earlier = result["earlier"].as_u64().expect("a number") as usize;
        assert!(
            earlier > known && result["steps"].as_array().is_some_and(|all| all.len() > earlier),
            "{result:#}"
        );
        if result["verdict"] == "unclear" {
            // A machine that is too busy for the rate says so, and does not blame the path.
            assert!(outcome.code() == 1 && outcome.err.contains("this host"), "{outcome:?}");
            return;
        }
        assert_eq!(outcome.code(), 0, "{}", outcome.err);
        assert_eq!((&result["verdict"], &result["limit"]), (&json!("found"), &json!("rate")), "{result:#}");
        assert!(story.out.contains(" begin") && story.out.contains("worse again"), "{story:?}");
        let rate =
            |end: &str| result[end]["rate_per_s"].as_u64().unwrap_or_else(|| panic!("no {end}: {result:#}"));
        // Some echoes are acknowledged by a packet of its own, which counts too.
        let (good, bad) = (rate("good"), rate("bad"));
        assert!(good < bad && good <= 84 && bad >= 54, "{result:#}");
        // What is lost comes later, so that delay may be what begins: but then something was lost, too.
        assert!(result["bad"]["lost"].as_u64() > result["good"]["lost"].as_u64(), "{result:#}");
        let over = begin("--resume third").finish();
        assert!(over.code() == 2 && over.err.contains("came to its end"), "{over:?}");
        // A search for another limit says which it was; settings are held against none of it.
        let idle = fathom(home.path(), &["limits", &target, "--resume", "third"]);
        assert!(idle.code() == 2 && idle.err.contains("give --rate-ceiling 105 too"), "{idle:?}");
        std::fs::write(home.path().join("s.conf"), "net.ipv4.tcp_keepalive_time = 60\n").expect("a file");
        let check = fathom(home.path(), &["limits", "check", "--record", "third", "s.conf"]);
        assert!(check.code() == 2 && check.err.contains("search for the rate ceiling"), "{check:?}");
    }

    #[test]
    fn path_without_ceiling_has_none() {
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
            // A machine that is too busy for the rate says so.
            assert!(outcome.code() == 1 && outcome.err.contains("this host"), "{outcome:?}");
        }
    }

    /// Each rate is a letter of the picture, which the result replaces.
    #[test]
    fn terminal_shows_steps_as_picture() {
        if !needs("script") {
            return;
        }
        let target = SocketAddr::new([127, 0, 0, 1].into(), free_port());
        let _reflector = Reflector::start(&Host::this(), target);
        let line = format!("stty cols 100 rows 30; {FATHOM} limits {target} --rate-ceiling 100");
        let mut command = std::process::Command::new("script");
        let outcome = Probe::spawn(command.args(["-qec", &line, "/dev/null"])).finish();
        let pictures: Vec<&str> = outcome.out.split("\x1b[J").collect();
        let shows = |text: &&&str| {
            text.contains("+ as good as below") && text.contains("51/s ") && text.contains('>')
        };
        assert!(pictures.iter().filter(shows).count() >= 4, "{outcome:?}");
        let last = pictures.last().expect("a picture");
        assert!(last.contains("rate ceiling") && !last.contains("as good as below"), "{outcome:?}");
    }
}
