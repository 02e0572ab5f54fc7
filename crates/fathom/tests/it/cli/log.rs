//! `-v`, `--log`, `--log-file`: what goes on inside, on request.

use crate::support::probe::Probe;
use crate::support::reflector::Echo;
use crate::support::{FATHOM, Kept, free_port, wait_for};
use serde_json::Value;
use std::fs;
use std::process::Command;

const SAMPLES: usize = 4;

/// What the log of a short run says with these options, where it goes to standard error.
fn logged(options: &str) -> String {
    let (home, echo) = (tempfile::tempdir().expect("a directory"), Echo::start("127.0.0.1"));
    let line =
        format!("{} --count {SAMPLES} --every 20ms --quiet --json --record r {options}", echo.address());
    let outcome = Probe::start(home.path(), &line).finish();
    assert_eq!(outcome.summary()["answered"], SAMPLES, "the run is as without: {}", outcome.err);
    outcome.err
}

/// The lines of this level from this module and those below it.
fn lines<'a>(log: &'a str, level: &str, module: &str) -> Vec<&'a str> {
    // The time, the level, the thread, the module and a colon.
    let is = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(level)
            && words.next().is_some()
            && words.next().is_some_and(|m| m.starts_with(module))
    };
    log.lines().filter(is).collect()
}

#[test]
fn default_log_is_silent() {
    assert_eq!(logged(""), "");
}

#[test]
fn each_v_logs_more() {
    let [one, two, three] = ["-v", "-vv", "-vvv"].map(logged);
    assert_eq!(lines(&one, "INFO", "fathom::log").len(), 1, "{one}");
    assert_eq!((lines(&one, "DEBUG", "fathom").len(), lines(&two, "TRACE", "fathom").len()), (0, 0));
    let opened =
        |log: &str| lines(log, "DEBUG", "fathom_core").iter().any(|l| l.contains("ConnectionOpened"));
    assert!(!opened(&one) && opened(&two) && opened(&three), "{two}");
    // Every sample is in it, once.
    let samples = lines(&three, "TRACE", "fathom_core").iter().filter(|l| l.contains("Sample {")).count();
    assert!(samples >= SAMPLES, "{samples} of {SAMPLES}: {three}");
}

#[test]
fn log_file_gets_only_filtered_modules() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("log");
    fs::write(&file, "what was here\n").expect("written");
    let options = format!("--log fathom_core=trace --log-file {}", file.display());
    assert_eq!(logged(&options), "", "nothing on standard error");
    let log = fs::read_to_string(&file).expect("it is there");
    let mut all = log.lines();
    assert_eq!(all.next(), Some("what was here"), "it is appended to");
    assert!(all.all(|line| line.contains("fathom_core")), "{log}");
    // The last that the probe said is in it: what was logged is written before the process ends.
    assert!(lines(&log, "DEBUG", "fathom_core").last().is_some_and(|l| l.contains("ScheduleEnded")), "{log}");
    let received = lines(&log, "TRACE", "fathom_core").iter().filter(|l| l.contains("received")).count();
    assert!(received >= SAMPLES, "{received}: {log}");
}

#[test]
fn the_environment_can_ask_for_it_too() {
    let (home, echo) = (tempfile::tempdir().expect("a directory"), Echo::start("127.0.0.1"));
    let target = echo.address().to_string();
    let arguments = ["probe", &target, "--count", "1", "--quiet", "--no-record", "--json"];
    let mut command = Command::new(FATHOM);
    let outcome = Probe::spawn(
        command.args(arguments).env("FATHOM_LOG", "off,fathom::probe::start=info").current_dir(home.path()),
    )
    .finish();
    assert_eq!(outcome.code(), 0);
    assert!(!lines(&outcome.err, "INFO", "fathom::probe::start").is_empty(), "{}", outcome.err);
    assert_eq!(lines(&outcome.err, "INFO", "fathom").len(), outcome.err.lines().count(), "{}", outcome.err);
}

#[test]
fn reflector_logs_refused_peer() {
    let home = tempfile::tempdir().expect("a directory");
    let (file, port) = (home.path().join("log"), free_port());
    let listen = format!("127.0.0.1:{port}");
    let mut command = Command::new(FATHOM);
    command.args(["echo", "--listen", &listen, "--allow", "192.0.2.0/24", "-vv", "--log-file"]).arg(&file);
    let _echo = Kept(command.stdout(std::process::Stdio::null()).spawn().expect("it starts"));
    let peer = wait_for("the reflector", || std::net::TcpStream::connect(&listen).ok());
    let us = peer.local_addr().expect("connected").to_string();
    wait_for("the refusal", || {
        let log = fs::read_to_string(&file).unwrap_or_default();
        log.lines().any(|line| line.contains("refused") && line.contains(&us)).then_some(())
    });
}

/// A log that is on changes no figure that is not a time.
#[test]
fn a_run_is_recorded_as_without_a_log() {
    let rows = |options: &str| -> Value {
        let (home, echo) = (tempfile::tempdir().expect("a directory"), Echo::start("127.0.0.1"));
        let line = format!("{} --count 9 --ping-pong --quiet --json --record r {options}", echo.address());
        let summary = Probe::start(home.path(), &line).finish().summary();
        crate::support::probe::assert_sound(&home.path().join("r"));
        serde_json::json!([summary["samples"], summary["answered"], summary["connections"][0]["cause"]])
    };
    assert_eq!(rows(""), rows("-vvv"));
}
