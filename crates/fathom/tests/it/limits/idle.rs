//! `fathom limits` against real limits: a reflector's own, connection tracking's, and the fabric's middleboxes'; and
//! against what is no limit. The bracket must contain the limit that was set; durations are not checked.

use crate::support::faults::Reflector;
use crate::support::net::Host;
use crate::support::probe::{Outcome, Probe, fathom, wait_for_events};
use crate::support::rows::{events, manifest, number, of_kind};
use crate::support::{FATHOM, free_port, needs};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Delay with which the reflector of a busy machine may close an idle connection.
const LATE_NS: u64 = 500_000_000;

fn start(mut command: Command, target: &str, arguments: &str) -> Probe {
    Probe::spawn(command.args(["limits", target, "--json"]).args(arguments.split_whitespace()))
}

fn here(target: SocketAddr, arguments: &str) -> Probe {
    start(Command::new(FATHOM), &target.to_string(), arguments)
}

fn result(outcome: &Outcome) -> Value {
    let mut all = outcome.objects();
    assert_eq!(all.len(), 1, "{outcome:?}");
    all.remove(0)
}

/// Asserts that the search found the limit between the two ends, how connections died, and what ended them.
fn assert_found(outcome: &Outcome, limit: Duration, how: &str, by: &str) {
    let result = assert_bracket(outcome, limit, by);
    let hows = result["how"].as_object().expect("how they died");
    assert_eq!(hows.keys().collect::<Vec<_>>(), [how], "{result:#}");
}

/// Asserts that the search found the limit between the two ends, and what ended connections; the result.
fn assert_bracket(outcome: &Outcome, limit: Duration, by: &str) -> Value {
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let result = result(outcome);
    assert_eq!((&result["verdict"], &result["confirmed"]), (&json!("found"), &json!(true)), "{result:#}");
    let limit_ns = limit.as_nanos() as u64;
    let end =
        |name: &str| result[name]["idle_ns"].as_u64().unwrap_or_else(|| panic!("no {name}: {result:#}"));
    let (survived, died) = (end("survived"), end("died"));
    assert!(survived <= limit_ns + LATE_NS && limit_ns <= died, "{survived} {limit_ns} {died}: {result:#}");
    assert!(survived < died, "{result:#}");
    assert_eq!(result["by"], by, "{result:#}");
    result
}

fn loopback() -> SocketAddr {
    SocketAddr::new([127, 0, 0, 1].into(), free_port())
}

/// The recording holds the fate of each connection and the result: it is sound, `explain` and `summary` repeat it, and
/// `limits check` holds settings against it.
#[test]
fn found_idle_limit_is_recorded_and_checked() {
    let target = loopback();
    let _reflector = Reflector::start_with(&Host::this(), target, "--idle-timeout 750ms");
    let home = tempfile::tempdir().expect("a directory");
    let record = home.path().join("r");
    let search = || here(target, &format!("--up-to 1s --record {}", record.display())).finish();
    // A reflector that closes 50 ms late makes the result unclear, never wrong: then the search is repeated.
    let again = || {
        let _ = std::fs::remove_dir_all(&record);
        search()
    };
    let outcome =
        std::iter::repeat_with(again).take(3).find(|outcome| result(outcome)["verdict"] != "unclear");
    let outcome = outcome.expect("a clear result in three searches");
    let found = assert_bracket(&outcome, Duration::from_millis(750), "reflector");
    assert!(found["how"].get("closed_while_idle").is_some(), "{found:#}");
    assert!(outcome.err.starts_with("looking for the idle limit of 127.0.0.1:"), "{}", outcome.err);
    assert_recorded(home.path(), &found);

    let text = fathom(home.path(), &["recording", "summary", "r"]).out;
    assert!(text.contains(": idle limit between ") && text.contains("by: the reflector"), "{text}");
    // A keepalive after a second comes too late.
    std::fs::write(home.path().join("s.conf"), "net.ipv4.tcp_keepalive_time = 1\n").expect("a file");
    let check = fathom(home.path(), &["limits", "check", "s.conf", "--record", "r", "--json"]);
    let judged = check.objects()[0]["judgements"][0].clone();
    assert_eq!((check.code(), &judged["loses"]), (1, &json!(true)), "{judged:#}");
    // The limit that counts is what survived.
    assert_eq!(judged["limit_ns"], found["survived"]["idle_ns"], "{judged:#}");

    // An existing directory is not written over, and a search that could try nothing leaves none behind.
    let second = search();
    assert!(second.code() == 1 && second.out.is_empty(), "{second:?}");
    let absent = here(loopback(), &format!("--record {}", home.path().join("none").display())).finish();
    assert!(absent.code() == 1 && !home.path().join("none").exists(), "{absent:?}");
}

/// Asserts that the recording `r` of a search that found a limit tells the same as the search did.
fn assert_recorded(home: &Path, found: &Value) {
    let log = events(&home.join("r"));
    let ended = of_kind(&log, "limits.ended");
    assert!(
        ended.len() == 1 && ended[0]["result"]["died"]["idle_ns"] == found["died"]["idle_ns"],
        "{ended:?}"
    );
    let count = |became: &str| {
        of_kind(&log, "limits.judged").iter().filter(|event| event["became"] == became).count() as u64
    };
    let rows = found["lengths"].as_array().expect("lengths");
    assert_eq!(rows[0]["length_ns"], 500_000_000);
    for became in ["survived", "died"] {
        let told: u64 = rows.iter().filter_map(|row| row[became].as_u64()).sum();
        assert!(told > 0 && count(became) == told, "{became}: {told}: {found:#}");
    }
    let verified = fathom(home, &["recording", "verify", "r"]);
    assert!(verified.code() == 0 && verified.out.contains(": sound (0 samples"), "{verified:?}");
    let again = fathom(home, &["recording", "summary", "--json", "r"]).summary();
    for key in
        ["verdict", "limit", "how", "by", "up_to_ns", "took_ns", "opened", "meanwhile", "target", "remote"]
    {
        assert_eq!(again[key], found[key], "{key}");
    }
    let story = fathom(home, &["recording", "explain", "r"]);
    assert!(
        story.code() == 0
            && story.out.contains("connections that were left idle (tcp-idle-limit)")
            && story.out.contains(": idle limit between ")
            && story.out.contains("by: the reflector")
            && !story.out.contains("0 samples"),
        "{story:?}"
    );
}

#[test]
fn ctrl_c_prints_what_is_known() {
    let target = loopback();
    let _reflector = Reflector::start(&Host::this(), target);
    let home = tempfile::tempdir().expect("a directory");
    let search = here(target, &format!("--up-to 30m --record {}", home.path().join("r").display()));
    wait_for_judged(&home.path().join("r"), 3);
    search.signal("INT");
    let outcome = search.finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let result = result(&outcome);
    assert_eq!(result["verdict"], "stopped", "{result:#}");
    assert!(result["survived"]["idle_ns"].as_u64() >= Some(500_000_000), "{result:#}");
}

/// Waits until so many connections of a recorded search were judged.
fn wait_for_judged(dir: &Path, connections: usize) {
    wait_for_events(dir, "connections that survived", |log| {
        of_kind(log, "limits.judged").len() >= connections
    });
}

/// Connections of a recorded search that survived.
fn survived(log: &[Value]) -> usize {
    of_kind(log, "limits.judged").iter().filter(|event| event["became"] == "survived").count()
}

/// Asserts that the recording of a resumed search holds the earlier search too, and tried only longer lengths.
fn assert_resumed(home: &Path, outcome: &Outcome, knew: usize, longer_than_ns: u64) {
    assert!(outcome.err.contains("connections judged by the search in "), "{}", outcome.err);
    let log = events(&home.join("second"));
    let (earlier, own): (Vec<&Value>, Vec<&Value>) =
        of_kind(&log, "limits.judged").into_iter().partition(|event| event["connection"].is_null());
    assert!(earlier.iter().filter(|event| event["became"] == "survived").count() >= knew);
    let shortest = own.iter().map(|event| number(event, "length_ns")).min();
    assert!(shortest > Some(longer_than_ns), "{shortest:?}");
    let told = fathom(home, &["recording", "summary", "--json", "second"]).summary();
    assert_eq!(told, result(outcome));
    let lengths: Vec<u64> =
        told["lengths"].as_array().expect("rows").iter().map(|row| number(row, "length_ns")).collect();
    assert!(lengths.windows(2).all(|two| two[0] < two[1]), "each length stands there once: {lengths:?}");
    assert_eq!(fathom(home, &["recording", "verify", "second"]).code(), 0);
}

/// A killed search leaves its findings, and another goes on with them.
#[test]
fn killed_search_keeps_findings_and_is_resumed() {
    let target = loopback();
    let _reflector = Reflector::start(&Host::this(), target);
    let home = tempfile::tempdir().expect("a directory");
    let [first, second] = ["first", "second"].map(|name| home.path().join(name));
    let search = here(target, &format!("--up-to 30m --record {}", first.display()));
    wait_for_judged(&first, 6);
    search.kill_9();
    let knew = survived(&events(&first));

    let went_on = format!("--up-to 1500ms --resume {} --record {}", first.display(), second.display());
    let outcome = here(target, &went_on).finish();
    assert_eq!((outcome.code(), &result(&outcome)["verdict"]), (0, &json!("not_found")), "{outcome:?}");
    assert_resumed(home.path(), &outcome, knew, 1_000_000_000);

    // A search with other settings, or one that is over, is refused in a line.
    for (arguments, part) in [
        (format!("--resume {} --age", first.display()), "leave out --age"),
        (format!("--resume {} --keepalive 1s", first.display()), "leave out --keepalive"),
        (format!("--resume {}", second.display()), "came to its end"),
        (format!("--resume {}", home.path().display()), "recording.json"),
        (format!("--resume {}", home.path().join("none").display()), "none"),
        (format!("--resume {} --up-to 1s", first.display()), "--up-to is 1s"),
    ] {
        let refused = here(target, &arguments).finish();
        assert!(refused.code() == 2 && refused.err.contains(part), "{arguments}: {refused:?}");
        assert_eq!(refused.told().len(), 1, "{arguments}: {refused:?}");
    }
    let elsewhere = here(loopback(), &format!("--resume {}", first.display())).finish();
    assert!(elsewhere.code() == 2 && elsewhere.err.contains("not of 127.0.0.1"), "{elsewhere:?}");

    let recovered = fathom(home.path(), &["recording", "recover", "first"]);
    assert_eq!(recovered.code(), 0, "{recovered:?}");
    let known = fathom(home.path(), &["recording", "summary", "--json", "first"]).summary();
    assert_eq!((&known["verdict"], &known["up_to_ns"]), (&json!("stopped"), &json!(1_800_000_000_000_u64)));
    assert!(known["survived"]["idle_ns"].as_u64() >= Some(1_000_000_000), "{known:#}");
    let story = fathom(home.path(), &["recording", "explain", "first"]);
    assert!(
        story.out.contains(": no idle limit up to ") && story.out.contains("was put in order later"),
        "{story:?}"
    );
}

/// Each length is a letter of the picture, which the result replaces.
#[test]
fn terminal_shows_lengths_as_picture() {
    if !needs("script") {
        return;
    }
    let target = loopback();
    let _reflector = Reflector::start(&Host::this(), target);
    let line = format!("stty cols 100 rows 30; {FATHOM} limits {target} --up-to 1500ms");
    let mut command = Command::new("script");
    let outcome = Probe::spawn(command.args(["-qec", &line, "/dev/null"])).finish();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let pictures: Vec<&str> = outcome.out.split("\x1b[J").collect();
    let legend = |text: &&&str| text.contains("+ survived") && text.contains("500ms +");
    assert!(pictures.iter().filter(legend).count() > 0, "{outcome:?}");
    let last = pictures.last().expect("one");
    assert!(last.contains(": no idle limit up to ") && !last.contains("+ survived"), "{outcome:?}");
}

#[test]
fn server_without_echo_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut bytes = [0; 64];
            let _ = stream.read(&mut bytes);
            let _ = stream.write_all(b"SSH-2.0-not-an-echo\r\n");
        }
    });
    let outcome = here(target, "").finish();
    assert_eq!(outcome.code(), 1);
    assert!(outcome.told().iter().any(|line| line.contains("does not send back")), "{}", outcome.err);
    assert!(outcome.out.is_empty(), "{}", outcome.out);
}

#[test]
fn search_recording_carries_label_and_path() {
    let target = loopback();
    let _reflector = Reflector::start_with(&Host::this(), target, "");
    let dir = tempfile::tempdir().expect("a directory");
    let record = dir.path().join("search");
    let words = "--up-to 1s --per-length 1 --label near --from here --to there --via nothing --tag tier=1";
    let mut command = Command::new(FATHOM);
    command.args(["limits", &target.to_string(), "--quiet", "--record"]).arg(&record);
    let outcome = Probe::spawn(command.args(words.split_whitespace())).finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    // For people, and nothing but the result.
    assert!(outcome.out.contains(": no idle limit up to ") && outcome.err.is_empty(), "{outcome:?}");
    let manifest = manifest(&record);
    assert_eq!(manifest["label"], "near");
    let path = json!({ "from": "here", "to": "there", "via": "nothing", "tags": { "tier": "1" } });
    assert_eq!(manifest["path"], path);
    let unrecorded = here(target, "--label near").finish();
    assert_eq!(unrecorded.code(), 2, "{}", unrecorded.err);
}

/// Searches of seconds, real firewalls, and peers.
mod acceptance {
    use super::*;
    use crate::support::fabric::{Fabric, preset};
    use crate::support::faults::Site;
    use crate::support::needs_root;
    use crate::support::reflector::{Reflector as _, Xinetd};
    use crate::support::rows::has_kind;

    #[test]
    fn reflector_idle_limit_is_found_and_attributed() {
        let target = loopback();
        let _reflector = Reflector::start_with(&Host::this(), target, "--idle-timeout 2200ms");
        let outcome = here(target, "--up-to 6s").finish();
        assert_found(&outcome, Duration::from_millis(2_200), "closed_while_idle", "reflector");
        let mut command = Command::new(FATHOM);
        let command = command.args(["limits", &target.to_string(), "--up-to", "4s", "--quiet"]);
        let outcome = Probe::spawn(command).finish();
        assert!(
            outcome.out.contains(": idle limit between ") && outcome.out.contains("by: the reflector"),
            "{outcome:?}"
        );
        assert!(outcome.err.is_empty(), "{}", outcome.err);
    }

    #[test]
    fn xinetd_has_no_idle_limit() {
        if !needs("xinetd") {
            return;
        }
        let xinetd = Xinetd::start("127.0.0.1");
        let outcome = here(xinetd.address(), "--up-to 3s").finish();
        assert_eq!(outcome.code(), 0, "{}", outcome.err);
        let result = result(&outcome);
        assert_eq!(result["verdict"], "not_found", "{result:#}");
        assert!(result.get("died").is_none() && result["meanwhile"] == json!([]), "{result:#}");
        assert_eq!(result["survived"]["hits"], 3, "{result:#}");
    }

    /// Another reflector listens soon afterwards: idle and busy connections died together.
    #[test]
    fn reflector_restart_is_not_an_idle_limit() {
        let target = loopback();
        let reflector = Reflector::start(&Host::this(), target);
        let search = here(target, "--up-to 7s");
        // Four seconds: connections are idle, and none has reached its length.
        thread::sleep(Duration::from_secs(4));
        reflector.kill();
        let _reflector = Reflector::start(&Host::this(), target);
        let outcome = search.finish();
        let result = result(&outcome);
        assert_eq!(result["verdict"], "not_found", "{result:#}");
        assert!(result.get("died").is_none(), "{result:#}");
        let meanwhile = result["meanwhile"].as_array().expect("what happened");
        assert!(meanwhile.iter().any(|m| m["what"].get("all_died").is_some()), "{result:#}");
    }

    /// The resumed search tries no length again that all survived, and finds the limit.
    #[test]
    fn resumed_search_finds_the_limit() {
        let target = loopback();
        let _reflector = Reflector::start_with(&Host::this(), target, "--idle-timeout 4200ms");
        let home = tempfile::tempdir().expect("a directory");
        let [first, second] = ["first", "second"].map(|name| home.path().join(name));
        let search = here(target, &format!("--up-to 8s --record {}", first.display()));
        wait_for_events(&first, "three lengths that were survived", |log| survived(log) >= 9);
        search.kill_9();
        let knew = survived(&events(&first));

        let went_on = format!("--up-to 8s --resume {} --record {}", first.display(), second.display());
        let outcome = here(target, &went_on).finish();
        assert_found(&outcome, Duration::from_millis(4_200), "closed_while_idle", "reflector");
        assert_resumed(home.path(), &outcome, knew, 1_000_000_000);
    }

    fn on(site: &Site, limit_s: u64) -> Outcome {
        let limit = format!("sysctl -q -w net.netfilter.nf_conntrack_tcp_timeout_established={limit_s}");
        site.router().on(&limit);
        let _reflector = Reflector::start(&site.net.reflector, site.target);
        start(site.net.probe.fathom(), &site.target.to_string(), "--up-to 8s").finish()
    }

    /// A keepalive that comes before the limit keeps connections open, and one that comes after it does not.
    #[test]
    fn keepalive_below_limit_keeps_connections_open() {
        if !(needs_root() && needs("nft")) {
            return;
        }
        let site = Site::firewalled();
        site.router().on("sysctl -q -w net.netfilter.nf_conntrack_tcp_timeout_established=3");
        let _reflector = Reflector::start(&site.net.reflector, site.target);
        let [below, above] = ["1s", "6s"].map(|every| {
            let arguments = format!("--up-to 5s --keepalive {every}");
            start(site.net.probe.fathom(), &site.target.to_string(), &arguments)
        });
        let kept = below.finish();
        let result = result(&kept);
        assert_eq!(
            (&result["verdict"], &result["keepalive_ns"]),
            (&json!("not_found"), &json!(1_000_000_000)),
            "{result:#}"
        );
        assert!(result["survived"]["idle_ns"].as_u64() >= Some(5_000_000_000), "{result:#}");
        assert_found(&above.finish(), Duration::from_secs(3), "silent", "between");
    }

    /// A firewall that knows connections for four seconds from their beginning, whatever moves on them (an nftables set whose
    /// elements time out and are not renewed), and drops or refuses what it does not know.
    #[test]
    fn age_limit_of_firewall_is_found() {
        if !(needs_root() && needs("nft")) {
            return;
        }
        let home = tempfile::tempdir().expect("a directory");
        let searches =
            [("drop", "silent"), ("reject with tcp reset", "reset_on_request")].map(|(verdict, how)| {
                let site = Site::routed();
                let port = site.target.port();
                let router = site.router();
                router.on("nft add table ip fathom");
                router.on(
                    "nft add set ip fathom known { type inet_service; flags dynamic,timeout; timeout 4s; }",
                );
                router.rule(&format!(
                    "tcp dport {port} tcp flags & (syn|ack) == syn add @known {{ tcp sport }}"
                ));
                router.rule(&format!("tcp dport {port} tcp sport != @known {verdict}"));
                let reflector = Reflector::start(&site.net.reflector, site.target);
                let arguments = format!("--age --up-to 12s --record {}", home.path().join(how).display());
                (start(site.net.probe.fathom(), &site.target.to_string(), &arguments), how, site, reflector)
            });
        for (search, how, _site, _reflector) in searches {
            let outcome = search.finish();
            assert_eq!(outcome.code(), 0, "{}", outcome.err);
            let result = result(&outcome);
            assert_eq!(
                (&result["verdict"], &result["limit"]),
                (&json!("found"), &json!("age")),
                "{result:#}"
            );
            let age = |name: &str| {
                result[name]["age_ns"].as_u64().unwrap_or_else(|| panic!("no {name}: {result:#}"))
            };
            let (lived, died) = (age("survived"), age("died"));
            assert!(lived <= 4_000_000_000 && 4_000_000_000 <= died, "{lived} {died}: {result:#}");
            assert_eq!(
                result["how"].as_object().expect("how").keys().collect::<Vec<_>>(),
                [how],
                "{result:#}"
            );
            assert_eq!(result["by"], "between", "{result:#}");
            assert!(outcome.err.starts_with("looking for the age limit of "), "{}", outcome.err);
            let verified = fathom(home.path(), &["recording", "verify", how]);
            assert!(verified.code() == 0 && verified.out.contains(": sound (0 samples"), "{verified:?}");
            let again = fathom(home.path(), &["recording", "summary", "--json", how]).summary();
            for key in ["verdict", "limit", "how", "by", "lives", "took_ns"] {
                assert_eq!(again[key], result[key], "{key}");
            }
            let story = fathom(home.path(), &["recording", "explain", how]);
            assert!(
                story.out.contains("connections that were kept in use (tcp-age-limit)")
                    && story.out.contains(": age limit between "),
                "{story:?}"
            );
        }
    }

    /// Connections of several ages die with the reflector: that is told, others begin, and none of it is an age limit.
    #[test]
    fn reflector_restart_is_not_an_age_limit() {
        let target = loopback();
        let reflector = Reflector::start(&Host::this(), target);
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("r");
        let search = here(target, &format!("--age --up-to 9s --connections 8 --record {}", dir.display()));
        // When the first is as old as is asked for, four others are open.
        wait_for_events(&dir, "the first that became old enough", |log| has_kind(log, "limits.judged"));
        reflector.kill();
        let _reflector = Reflector::start(&Host::this(), target);
        let outcome = search.finish();
        let result = result(&outcome);
        assert_eq!((outcome.code(), &result["verdict"]), (0, &json!("not_found")), "{result:#}");
        assert!(result.get("died").is_none() && result["strays"] == 0, "{result:#}");
        assert_eq!(result["survived"]["age_ns"], 9_000_000_000_u64, "{result:#}");
        let meanwhile = result["meanwhile"].as_array().expect("what happened");
        assert!(meanwhile.iter().any(|m| m["what"].get("died_together").is_some()), "{result:#}");
    }

    #[test]
    fn connection_tracking_limit_is_found() {
        if !(needs_root() && needs("nft")) {
            return;
        }
        let silent = thread::spawn(|| on(&Site::firewalled(), 3));
        let site = Site::routed();
        site.router().rule("ct state invalid reject with tcp reset");
        site.router().on("sysctl -q -w net.netfilter.nf_conntrack_tcp_loose=0");
        let outcome = on(&site, 2);
        assert_found(&outcome, Duration::from_secs(2), "reset_on_request", "between");
        let outcome = silent.join().expect("it ran");
        assert_found(&outcome, Duration::from_secs(3), "silent", "between");
    }

    /// The middleboxes of `azure-idle-limits`, each in its way, seconds for minutes.
    #[test]
    fn middlebox_limits_are_found() {
        let text = preset("azure-idle-limits").replace("\"4m\"", "\"3s\"").replace("\"5m\"", "\"3700ms\"");
        let Some(fabric) = Fabric::up(&text) else { return };
        let _reflector = fabric.reflector("idle-server");
        let all = [
            ("10.70.1.4", "10.71.0.100", 3_000, "silent"),
            ("10.70.1.14", "10.71.0.101", 3_000, "reset_while_idle"),
            ("10.70.1.24", "10.71.1.24", 3_000, "reset_while_idle"),
            ("10.70.1.34", "10.71.1.34", 3_000, "reset_on_request"),
            ("10.70.1.44", "10.70.0.104", 3_700, "silent"),
        ];
        let searches = all.map(|(source, target, limit_ms, how)| {
            let arguments = format!("--up-to 8s --source {source}");
            (start(fabric.on("idle-client"), &format!("{target}:7"), &arguments), limit_ms, how)
        });
        for (search, limit_ms, how) in searches {
            assert_found(&search.finish(), Duration::from_millis(limit_ms), how, "between");
        }
    }
}
