//! `fathom recording explain` on recordings that real probes made: the facts it must tell, whatever else it says.

use crate::support::claims::checked_story;
use crate::support::faults::explanations;
use crate::support::probe::{Outcome, Probe, fathom, wait_for_events};
use crate::support::reflector::{Echo, answers_tcp};
use crate::support::rows::{has_kind, of_kind, rows};
use crate::support::{FATHOM, Kept, free_port, must, signal, wait_for};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A reflector on a port of our choice, which can be stopped and started again there.
fn reflector(port: u16) -> Kept {
    let mut command = Command::new(FATHOM);
    command
        .args(["echo", "--listen", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = Kept(command.spawn().expect("fathom starts"));
    answers_tcp(([127, 0, 0, 1], port).into());
    child
}

fn explain(home: &Path, arguments: &[&str]) -> Outcome {
    fathom(home, &[&["recording", "explain"], arguments].concat())
}

fn statements(story: &[Value]) -> Vec<&str> {
    story.iter().map(|line| line["statement"].as_str().expect("a sentence")).collect()
}

/// The line that says this; there must be one.
fn saying<'a>(story: &'a [Value], phrase: &str) -> &'a Value {
    let found = story.iter().find(|line| line["statement"].as_str().is_some_and(|s| s.contains(phrase)));
    found.unwrap_or_else(|| panic!("nothing says {phrase:?}: {story:#?}"))
}

#[test]
fn clean_run_reports_no_incidents() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let run = format!("{} --every 5ms --count 50 --stall-after 30s --record r --quiet", echo.address());
    assert_eq!(Probe::start(home.path(), &run).finish().code(), 0);
    let outcome = explain(home.path(), &["r"]);
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    assert!(outcome.out.contains("with 64 bytes every 5 ms"), "{}", outcome.out);
    assert!(
        outcome.out.contains("in all 1 connection (1 finished), 0 stalls, 0 unexplained; 50 samples"),
        "{}",
        outcome.out
    );
    assert!(!outcome.out.contains("lost") || outcome.out.contains("no connection lost"), "{}", outcome.out);
    assert!(!outcome.out.contains('\x1b'), "colours without a terminal");
}

#[test]
fn explain_reports_killed_and_stopped_reflectors() {
    let home = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let first = reflector(port);
    let run = format!("127.0.0.1:{port} --every 20ms --stall-after 300ms --record r --label one --quiet");
    let probe = Probe::start(home.path(), &run);
    let dir = home.path().join("r");
    wait_for_events(&dir, "a connection", |events| has_kind(events, "connection.opened"));

    signal(&first.0, "KILL");
    drop(first);
    wait_for_events(&dir, "a refusal", |events| {
        has_kind(events, "connection.closed") && has_kind(events, "connection.refused")
    });
    // The fresh connection that was tried at the end must not meet the reflector's successor.
    wait_for_events(&dir, "an explanation", |events| !explanations(events, "closing").is_empty());
    let second = reflector(port);
    // A process that is killed may let another connection in before its listener is gone.
    let count = |events: &[Value], kind: &str| of_kind(events, kind).len();
    let log = wait_for_events(&dir, "another connection", |events| {
        count(events, "connection.opened") > count(events, "connection.closed")
    });
    let last = count(&log, "connection.opened") - 1;
    // A pause is told by what a counter gained, so an echo on this connection must have come before.
    wait_for("an echo on it", || {
        rows(&dir)
            .iter()
            .any(|row| row.at("connection") == last as i64 && row.rtt_ns().is_some())
            .then_some(())
    });

    signal(&second.0, "STOP");
    wait_for_events(&dir, "a stall", |events| has_kind(events, "stall.began"));
    // It stands still for at least so long.
    std::thread::sleep(std::time::Duration::from_millis(400));
    let running = explain(home.path(), &["r", "--json"]);
    signal(&second.0, "CONT");
    wait_for_events(&dir, "the echo", |events| {
        let last = explanations(events, "stall").last().map(|event| event["connection"] == last);
        last == Some(true) && of_kind(events, "pause").iter().any(|pause| pause["host"] == "remote")
    });
    probe.signal("TERM");
    assert_eq!(probe.finish().code(), 0);

    assert!(
        saying(&running.objects(), "was measured")["statement"]
            .as_str()
            .is_some_and(|s| s.contains("still running"))
    );
    let outcome = explain(home.path(), &["r", "--json"]);
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let log = crate::support::rows::events(&dir);
    let story = checked_story(&dir, &log);
    assert_eq!(story, outcome.objects(), "told the same way each time");
    let told = statements(&story);
    assert!(
        told[0].contains(&format!("127.0.0.1:{port} was measured with 64 bytes every 20 ms")),
        "{told:#?}"
    );

    let end = saying(&story, &format!("connection #0 to 127.0.0.1:{port} ended after"));
    let closed = of_kind(&log, "connection.closed");
    assert_eq!((&end["cause"], &end["connection"]), (&closed[0]["cause"], &0.into()), "{end}");
    assert!(["peer_closed", "reset"].contains(&end["cause"].as_str().expect("a cause")), "{end}");
    // The process that is there now began after the end: so the one before is gone.
    assert_eq!([&end["verdict"], &end["confidence"]], ["peer_down", "medium"], "{end}");
    assert!(end["statement"].as_str().is_some_and(|s| s.contains("Verdict: peer_down, because")), "{end}");
    assert!(end["evidence"].to_string().contains("later connection #"), "{end}");
    let attempts = saying(&story, &format!("a connection to 127.0.0.1:{port} was refused"));
    let connected = format!("then connected as #{last}");
    assert!(attempts["statement"].as_str().is_some_and(|s| s.contains(&connected)), "{attempts}");

    let stall = saying(&story, &format!("connection #{last} to 127.0.0.1:{port} stalled for"));
    assert!(stall["statement"].as_str().is_some_and(|s| s.contains("then the echo came")), "{stall}");
    assert!(stall["cause"].is_null(), "{stall}");
    // The reflector said so itself when it ran again.
    assert_eq!([&stall["verdict"], &stall["confidence"]], ["peer_paused", "high"], "{stall}");
    let pauses = of_kind(&log, "pause").into_iter().filter(|pause| pause["host"] == "remote");
    let longest = pauses.filter_map(|pause| pause["duration_ns"].as_u64()).max();
    assert!(longest >= Some(400_000_000), "{longest:?}");
    // While it stood still nothing had been reported, so nothing was claimed.
    let meanwhile = running.objects();
    let open = saying(&meanwhile, &format!("connection #{last} to"));
    assert_eq!([&open["verdict"], &open["confidence"]], [&Value::Null, &"none".into()], "{open}");
    assert!(open["statement"].as_str().is_some_and(|s| s.contains("Why is not known")), "{open}");
    let order = |line: &Value| story.iter().position(|l| l == line);
    assert!(order(end) < order(attempts) && order(attempts) < order(stall), "{told:#?}");
    let all = format!("in all {} connections (1 finished, ", last + 1);
    assert!(told.last().is_some_and(|s| s.starts_with(&all)), "{told:#?}");
    for line in &story {
        for key in
            ["format", "label", "at", "connection", "statement", "evidence", "cause", "verdict", "confidence"]
        {
            assert!(line.get(key).is_some(), "no {key} in {line}");
        }
    }

    // Of two each line names its own.
    let [one, other] = ["r", "s"].map(|name| home.path().join(name));
    must("cp", &["-a", &one.display().to_string(), &other.display().to_string()]);
    let manifest = std::fs::read_to_string(other.join("recording.json")).expect("it reads");
    let id = crate::support::rows::manifest(&one)["id"].as_str().expect("an id").to_owned();
    std::fs::write(other.join("recording.json"), manifest.replace(&id, "another")).expect("written");
    let both = explain(home.path(), &["r", "s"]);
    assert_eq!(both.out.matches("[one] 127.0.0.1:").count(), 2, "{}", both.out);
}

#[test]
fn interrupted_recording_names_its_end() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let probe = Probe::start(home.path(), &format!("{} --every 5ms --record r --quiet", echo.address()));
    let dir = home.path().join("r");
    wait_for_events(&dir, "a connection", |events| has_kind(events, "connection.opened"));
    wait_for("samples on disk", || {
        (fathom(home.path(), &["recording", "export", "r"]).out.lines().count() > 3).then_some(())
    });
    probe.kill_9();
    let outcome = explain(home.path(), &["r"]);
    assert_eq!(outcome.code(), 0, "a torn end is no damage: {}", outcome.err);
    assert!(outcome.out.contains("what came after is not known"), "{}", outcome.out);
    assert!(outcome.out.contains("1 connection (1 whose end nobody saw)"), "{}", outcome.out);
    assert!(explain(home.path(), &["missing"]).code() == 1);
}

/// A directory twice, or one and its copy, was explained twice.
#[test]
fn repeated_recording_is_explained_once() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let words = ["--count", "3", "--every", "1ms", "--quiet", "--record", "a"];
    let mut probe = Command::new(FATHOM);
    let ran = probe.arg("probe").arg(&target).args(words).current_dir(home.path()).output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    must(
        "cp",
        &["-a", &home.path().join("a").display().to_string(), &home.path().join("b").display().to_string()],
    );
    let once = explain(home.path(), &["a"]);
    for twice in [&["a", "a"][..], &["a", "b"]] {
        let told = explain(home.path(), twice);
        assert_eq!((told.code(), &told.out), (0, &once.out), "{twice:?}");
        assert!(told.err.contains(&format!("{}: is a once more", twice[1])), "{}", told.err);
    }
}
