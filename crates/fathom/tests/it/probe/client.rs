//! `fathom probe --as-client` against reflectors that are killed, silent, absent or replaced. What became of each request is
//! counted again from the recording's rows and events, as another program reads them.

use crate::support::faults::Reflector;
use crate::support::net::Host;
use crate::support::probe::{Outcome, Probe, fathom, wait_for_events};
use crate::support::rows::{Events, FIRST_ON_CONNECTION, UNANSWERED, events, number, of_kind, rows};
use crate::support::{FATHOM, free_port, wait_for};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const OUTCOMES: [&str; 4] = ["failed", "ambiguous", "shed", "fallback"];

fn loopback() -> SocketAddr {
    SocketAddr::new([127, 0, 0, 1].into(), free_port())
}

/// A directory with a policy in it.
fn home(policy: &str) -> TempDir {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("p.toml"), policy).expect("written");
    home
}

fn start(home: &TempDir, target: SocketAddr, arguments: &str) -> Probe {
    let mut command = Command::new(FATHOM);
    let command =
        command.args(["probe", &target.to_string(), "--as-client", "p.toml", "--record", "r", "--json"]);
    Probe::spawn(command.args(arguments.split_whitespace()).current_dir(home.path()))
}

/// The requests of a recording by how they ended, counted from its rows and events.
fn ends(dir: &Path, target: SocketAddr, log: &Events) -> BTreeMap<String, u64> {
    let openings = of_kind(log, "connection.opening");
    let elsewhere = |event: &&&Value| event["target"] != json!(target.to_string());
    let to_fallback: BTreeSet<u64> =
        openings.iter().filter(elsewhere).map(|e| number(e, "connection")).collect();
    let rows = rows(dir);
    let here = |row: &&crate::support::rows::Row| !to_fallback.contains(&(row.at("connection") as u64));
    let answered = rows.iter().filter(|row| row.rtt_ns().is_some()).filter(here).count() as u64;
    let mut ends: BTreeMap<String, u64> = OUTCOMES.iter().map(|name| ((*name).to_owned(), 0)).collect();
    ends.insert("answered".to_owned(), answered);
    let mut seen = BTreeSet::new();
    for ended in of_kind(log, "request.ended") {
        assert!(seen.insert(number(ended, "request")), "a request ends once: {ended}");
        *ends.get_mut(ended["outcome"].as_str().expect("a word")).expect("one of four") += 1;
    }
    ends
}

/// The law of conservation, from the recording against the summary; and the recording is sound and says the same later.
fn conserved(home: &TempDir, target: SocketAddr, outcome: &Outcome) -> (Value, Events) {
    let objects = outcome.objects();
    assert_eq!(objects.len(), 1, "{outcome:?}");
    let (summary, dir) = (objects[0].clone(), home.path().join("r"));
    let log = events(&dir);
    let ends = ends(&dir, target, &log);
    for (name, n) in &ends {
        assert_eq!(&number(&summary, name), n, "{name}: {ends:?} {summary:#}");
    }
    assert_eq!(number(&summary, "due"), ends.values().sum::<u64>(), "{summary:#}");
    assert_eq!(number(&summary, "in_flight"), 0);
    assert_eq!(number(&summary["waited_ns"], "count"), number(&summary, "due"), "{summary:#}");
    let verified = fathom(home.path(), &["recording", "verify", "r"]);
    assert_eq!(verified.code(), 0, "{verified:?}");
    let later = fathom(home.path(), &["recording", "summary", "--json", "r"]).summary();
    for (key, value) in summary.as_object().expect("an object").iter().filter(|(key, _)| *key != "recording")
    {
        assert_eq!(&later[key], value, "{key}");
    }
    let told = fathom(home.path(), &["recording", "explain", "r"]);
    assert!(
        told.code() == 0
            && told.out.contains("an application's requests every")
            && told.out.contains(&format!("of {} requests ", number(&summary, "due"))),
        "{told:?}"
    );
    (summary, log)
}

const READS: &str = r#"
    [request]
    idempotent = true
    deadline = "20s"
    try_timeout = "500ms"
    [retry]
    at_most = 100
    first = "20ms"
    cap = "200ms"
    budget = "none"
    [pool]
    min = 2
    max = 4
    wait = "10s"
"#;

/// A client that reads 50 times a second, whose reflector is killed once connections are open; and its recording.
fn reads_from_one_that_is_killed(home: &TempDir, target: SocketAddr) -> (Probe, PathBuf) {
    let reflector = Reflector::start(&Host::this(), target);
    let client = start(home, target, "--rate 50");
    let dir = home.path().join("r");
    wait_for_events(&dir, "connections", |log| of_kind(log, "connection.opened").len() >= 2);
    reflector.kill();
    (client, dir)
}

/// Nothing is answered for a while; a read is asked again until it is, and none is lost.
#[test]
fn reads_survive_reflector_restart() {
    let (target, home) = (loopback(), home(READS));
    let (client, dir) = reads_from_one_that_is_killed(&home, target);
    let log = wait_for_events(&dir, "a try that failed", |log| !of_kind(log, "try.failed").is_empty());
    let before = of_kind(&log, "connection.opened").len();
    let _reflector = Reflector::start(&Host::this(), target);
    wait_for_events(&dir, "new connections", |log| of_kind(log, "connection.opened").len() > before);
    client.signal("INT");
    let outcome = client.finish();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let (summary, log) = conserved(&home, target, &outcome);
    assert_eq!(summary["answered"], summary["due"], "{summary:#}");
    assert!(number(&summary, "retries") > 0 && number(&summary, "extra_connections") > 0, "{summary:#}");
    assert!(number(&summary, "reconnections_a_second") > 0, "{summary:#}");
    let retried =
        of_kind(&log, "try.failed").iter().filter(|e| e.get("retry_in_ns").is_some()).count() as u64;
    assert_eq!(number(&summary, "retries"), retried);
    // What an answered row says is what its caller waited: from due, not from the try that was answered.
    let waited = rows(&dir).iter().filter_map(|row| Some(row.rtt_ns()? + row.at("lateness_ns"))).max();
    assert_eq!(summary["waited_ns"]["max"].as_i64(), waited);
    // The first row of each connection is flagged, in a pool too.
    let firsts = rows(&dir).iter().filter(|row| row.has(FIRST_ON_CONNECTION)).count();
    let connections: BTreeSet<i64> = rows(&dir).iter().map(|row| row.at("connection")).collect();
    assert_eq!(firsts, connections.len());
}

/// The kernel accepts, and no application reads: each request that was sent has one row, without an answer, and is never
/// sent again, although retries are allowed.
#[test]
fn unanswered_writes_are_ambiguous_and_sent_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("an address");
    let home = home(
        "[request]\ndeadline = \"600ms\"\ntry_timeout = \"200ms\"\n[retry]\nat_most = 5\nbudget = \"none\"\n[pool]\nmax = 3\n",
    );
    let outcome = start(&home, target, "--rate 40 --for 1s").finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(outcome.told().iter().any(|line| line.contains("answered no request")), "{}", outcome.err);
    let (summary, log) = conserved(&home, target, &outcome);
    assert_eq!((number(&summary, "due"), number(&summary, "answered")), (40, 0), "{summary:#}");
    assert!(number(&summary, "ambiguous") > 0, "{summary:#}");
    let rows = rows(&home.path().join("r"));
    assert!(rows.iter().all(|row| row.has(UNANSWERED)), "{rows:?}");
    assert_eq!(rows.len() as u64, number(&summary, "ambiguous"));
    assert_eq!(number(&summary["notice_ns"], "count"), number(&summary, "ambiguous"));
    let failed = of_kind(&log, "try.failed");
    let again = |e: &&Value| e["sent"] == true && e.get("retry_in_ns").is_some();
    assert_eq!(failed.iter().filter(|e| again(e)).count(), 0, "{failed:?}");
    let closed = of_kind(&log, "connection.closed");
    assert!(closed.iter().any(|e| e["cause"] == "abandoned"), "{closed:?}");
}

/// A server that answers so many requests of a connection, or for so long, and reads on.
fn wearing_out(requests: usize, age: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, began) = (stream.expect("a connection"), Instant::now());
            stream.set_nodelay(true).expect("set");
            std::thread::spawn(move || {
                let (mut request, mut answered) = ([0; 64], 0);
                while stream.read_exact(&mut request).is_ok() {
                    if answered < requests && began.elapsed() < age {
                        answered += 1;
                        if stream.write_all(&request).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    target
}

/// Connections that are kept lose requests to a server that wears them out, and connections that are replaced in time lose
/// none; `studies/refresh-interval.toml` has it in virtual time. Gives the summaries of both.
fn kept_and_replaced(target: SocketAddr, arguments: &str, kept_try: &str) -> [Value; 2] {
    let rule = |tried: &str, age: &str| {
        format!(
            "[request]\ndeadline = \"5s\"\ntry_timeout = \"{tried}\"\n[connection]\n{age}[pool]\nmin = 1\nmax = 1\n"
        )
    };
    let clients = [rule(kept_try, ""), rule("2s", "age = \"1s\"\n")].map(|policy| {
        let home = home(&policy);
        let client = start(&home, target, arguments);
        (home, client)
    });
    let [kept, replaced] = clients.map(|(home, client)| {
        let outcome = client.finish();
        assert_eq!(outcome.code(), 0, "{outcome:?}");
        conserved(&home, target, &outcome).0
    });
    assert!(number(&kept, "ambiguous") >= 1, "a connection was worn out: {kept:#}");
    assert_eq!(replaced["answered"], replaced["due"], "{replaced:#}");
    assert!(number(&replaced, "extra_connections") >= 1, "{replaced:#}");
    [kept, replaced]
}

/// A second's 50 requests, and 40 more that a late client may have to make up for.
#[test]
fn connections_replaced_in_time_lose_nothing() {
    let target = wearing_out(90, Duration::MAX);
    let summaries = kept_and_replaced(target, "--rate 50 --for 2s", "300ms");
    assert_eq!(summaries.each_ref().map(|summary| number(summary, "due")), [100; 2]);
}

/// Nothing listens: after five failures nothing is tried any more.
#[test]
fn a_breaker_opens_and_sheds() {
    let target = loopback();
    let home = home("[pool]\nmin = 0\nmax = 100\n[breaker]\nwindow = 10\nleast = 5\nopen = \"1h\"\n");
    let outcome = start(&home, target, "--rate 50 --for 1s").finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let (summary, log) = conserved(&home, target, &outcome);
    assert_eq!((number(&summary, "due"), number(&summary, "breaker_opened")), (50, 1), "{summary:#}");
    let shed = number(&summary, "shed");
    assert!(shed > 0 && shed + number(&summary, "failed") == 50, "{summary:#}");
    // Nothing was ever open, so nothing took the place of anything.
    assert_eq!(summary["connections"], summary["not_established"], "{summary:#}");
    assert_eq!((&summary["extra_connections"], &summary["reconnections_a_second"]), (&json!(0), &json!(0)));
    let changed = of_kind(&log, "breaker.changed");
    assert_eq!((&changed[0]["from"], &changed[0]["to"]), (&json!("closed"), &json!("open")));
    let opened_ns = number(changed[0], "mono_ns");
    let later = of_kind(&log, "connection.opening").into_iter().filter(|e| number(e, "mono_ns") > opened_ns);
    assert_eq!(later.count(), 0, "{log:#?}");
}

#[test]
fn a_second_target_serves_what_the_first_refuses() {
    let (target, second) = (loopback(), loopback());
    let _reflector = Reflector::start(&Host::this(), second);
    let home = home(&format!("[fallback]\ntarget = \"{second}\"\n"));
    let outcome = start(&home, target, "--rate 50 --for 1s").finish();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let (summary, _) = conserved(&home, target, &outcome);
    assert_eq!((number(&summary, "due"), number(&summary, "fallback")), (50, 50), "{summary:#}");
    assert_eq!(rows(&home.path().join("r")).len(), 50);
    // The second target cannot be the first.
    let same = start(&home, second, "--for 1s").finish();
    assert!(same.code() == 2 && same.err.contains("name another"), "{same:?}");
}

/// What was on the disk is whole: rows and ends of requests.
#[test]
fn killed_client_accounts_for_due_requests() {
    let (target, home) = (loopback(), home(READS));
    let (client, dir) = reads_from_one_that_is_killed(&home, target);
    wait_for_events(&dir, "tries that failed", |log| of_kind(log, "try.failed").len() > 3);
    // Once a second it notes how many were due; none of them has an end before the reflector comes back.
    wait_for("the number of requests that were due", || {
        let noted = std::fs::read_to_string(dir.join(".progress")).ok()?;
        let noted: Value = serde_json::from_str(&noted).ok()?;
        (number(&noted, "due") > 40).then_some(())
    });
    client.kill_9();
    let interrupted = fathom(home.path(), &["recording", "summary", "--json", "r"]).summary();
    let recovered = fathom(home.path(), &["recording", "recover", "r"]);
    assert_eq!(recovered.code(), 0, "{recovered:?}");
    let summary = fathom(home.path(), &["recording", "summary", "--json", "r"]).summary();
    assert_eq!(summary, interrupted);
    let verified = fathom(home.path(), &["recording", "verify", "r"]);
    assert_eq!(verified.code(), 0, "{verified:?}");
    // The law: each that was due ended in one of five ways, or is told as not known.
    let (due, not_known) = (number(&summary, "due"), number(&summary, "not_known"));
    let told = ["answered", "failed", "ambiguous", "shed", "fallback"].map(|name| number(&summary, name));
    assert_eq!(due, told.iter().sum::<u64>() + not_known, "{summary:#}");
    assert!(due > 40 && not_known > 20, "{summary:#}");
    assert_eq!(number(&summary, "uncounted_ns"), 1_000_000_000);
    let story = fathom(home.path(), &["recording", "explain", "r"]);
    assert!(
        story.out.contains(&format!("of {due} requests that had been due, {not_known} have no end")),
        "{story:?}"
    );
    let counted = ends(&dir, target, &events(&dir));
    for (name, n) in &counted {
        assert_eq!(&number(&summary, name), n, "{name}");
    }
    let text = fathom(home.path(), &["recording", "summary", "r"]);
    assert!(text.out.contains("callers waited: ") && text.out.contains(" answered "), "{text:?}");
    assert!(text.out.contains("  not known "), "{text:?}");
}

/// Options that docs/policies.md does not name were once ignored; each is refused by its name.
#[test]
fn every_probe_option_is_used_or_refused() {
    const VALUES: [&str; 22] = [
        "1",
        "2s",
        "127.0.0.1",
        "auto",
        "off",
        "never",
        "k=v",
        "1Mbit",
        "1s,2s",
        "64,128",
        "wait",
        "polite",
        "azure",
        "64KiB",
        "info",
        "1d",
        "5",
        "require",
        "10,20",
        "twamp",
        "fathom",
        "x",
    ];
    // What is accepted goes on to this mistake.
    let home = home("[pool]\nmax = 0\n");
    let help = fathom(home.path(), &["probe", "--help"]);
    let option = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let long = line
            .trim_start()
            .split("--")
            .nth(1)
            .filter(|_| indent <= 6 && line.trim_start().starts_with('-'))?;
        let name: String = long.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        Some((name, long.contains('<')))
    };
    let options: Vec<(String, bool)> = help.out.lines().filter_map(option).collect();
    assert!(options.len() > 80, "{options:?}");
    let (mut taken, skipped) = (BTreeSet::new(), ["help", "version", "as-client"]);
    for (name, has_value) in options.iter().filter(|(name, _)| !skipped.contains(&name.as_str())) {
        let run = |value: &&str| {
            let mut words = vec!["probe", "127.0.0.1", "--as-client", "p.toml"];
            let given = if *has_value { format!("--{name}={value}") } else { format!("--{name}") };
            words.push(&given);
            fathom(home.path(), &words)
        };
        let outcome = VALUES.iter().map(run).find(|outcome| !outcome.err.contains("invalid value"));
        let outcome = outcome.unwrap_or_else(|| panic!("--{name}: none of the values is one"));
        assert_eq!(outcome.code(), 2, "--{name}: {outcome:?}");
        if outcome.err.contains("p.toml:2:7: `max` goes from") {
            taken.insert(name.as_str());
        } else {
            let names = outcome.err.contains(&format!("--{name}")) && outcome.err.contains("--as-client");
            assert!(names, "--{name}: {outcome:?}");
        }
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies.md"));
    let page = page.expect("the page");
    let (_, list) = page.split_once("have a meaning for an application: ").expect("the list");
    let list = list.split_once(". Any other").expect("its end").0;
    let named: BTreeSet<&str> = list.split('`').filter_map(|word| word.strip_prefix("--")).collect();
    assert_eq!(taken, named);
}

/// With `--quiet` nothing is on standard error.
#[test]
fn text_has_the_same_figures() {
    let (target, home) = (loopback(), home("[pool]\nmin = 1\n"));
    let _reflector = Reflector::start(&Host::this(), target);
    let mut command = Command::new(FATHOM);
    let command =
        command.args(["probe", &target.to_string(), "--as-client", "p.toml", "--rate", "20", "--for", "1s"]);
    let outcome = Probe::spawn(command.args(["--no-record", "--quiet"]).current_dir(home.path())).finish();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    assert!(outcome.out.contains(": 20 requests due\n  answered         20  100.00 %\n"), "{}", outcome.out);
    assert!(outcome.err.is_empty(), "{}", outcome.err);
}

#[test]
fn mistakes_are_one_line_with_their_place() {
    let target = loopback();
    let home = home("[pool]\nwait = \"1s\"\nvalidate_after = 0\nvalidation_timeout = \"2s\"\n");
    for (words, says) in [
        ("", "fathom: p.toml:4:22: `validation_timeout` 2s is above the pool's `wait` 1s"),
        ("--every 1s", "cannot be used with"),
        ("--rate 0", "requests a second, from 0.001"),
    ] {
        let outcome = start(&home, target, words).finish();
        assert!(outcome.code() == 2 && outcome.err.contains(says), "{words}: {outcome:?}");
        assert!(!home.path().join("r").exists());
    }
    let alone = fathom(home.path(), &["probe", &target.to_string(), "--rate", "20"]);
    assert!(alone.code() == 2 && alone.err.contains("--as-client"), "{alone:?}");
    let absent = fathom(home.path(), &["probe", &target.to_string(), "--as-client", "none.toml"]);
    assert!(
        absent.code() == 2 && absent.err.contains("none.toml:1:1: there is no such file; name one"),
        "{absent:?}"
    );
}

mod acceptance {
    use super::*;
    use crate::support::rate::assert_rate;

    /// The server answers for four seconds; every request must be answered within two.
    #[test]
    fn age_limit_below_server_limit_loses_nothing() {
        assert_rate(2, 3, || {
            let target = wearing_out(usize::MAX, Duration::from_secs(4));
            let [kept, replaced] = kept_and_replaced(target, "--rate 20 --for 9s", "2s");
            assert_eq!(number(&replaced, "due"), 180, "{replaced:#}");
            let extra = |summary| number(summary, "extra_connections");
            assert!(extra(&replaced) > extra(&kept), "{replaced:#} {kept:#}");
        });
    }
}
