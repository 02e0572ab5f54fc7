//! README's answer to "is it the network?": its commands are run, and each line that it shows of their output comes, in that
//! order. Numbers, times and the recording's name are each run's own.

use crate::support::probe::{Probe, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::has_kind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

/// What README writes after each prompt: the command, and the lines that it shows.
fn told() -> Vec<(String, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(path).expect("README.md");
    let section = text.split("\n## ").find(|s| s.starts_with("Is it the network?")).expect("the section");
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for line in section.lines().filter_map(|line| line.strip_prefix("    ")) {
        match line.split_once("$ ") {
            Some(("here" | "there", command)) => told.push((command.to_owned(), Vec::new())),
            _ => told.last_mut().expect("a command before its output").1.push(line.to_owned()),
        }
    }
    told
}

/// A line without its numbers, units and spacing.
fn shape(line: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let is_number = word.trim_start_matches(['(', '#']).starts_with(|c: char| c.is_ascii_digit());
        let is_unit = ["ns", "us", "µs", "ms", "s"].contains(&word.trim_end_matches([',', ')', ':']));
        match () {
            () if is_number => words.push("#"),
            () if is_unit && words.last() == Some(&"#") => {}
            // The name of a recording has its moment in it.
            () if word.starts_with("recordings/") || word == "second" => words.push("DIR"),
            () => words.push(word),
        }
    }
    words.join(" ")
}

#[track_caller]
fn shows(command: &str, lines: &[String], output: &str) {
    let mut rest = output.lines().map(shape);
    for line in lines {
        let wanted = shape(line);
        assert!(rest.any(|line| line == wanted), "{command}: {line:?} ({wanted:?}) is not in\n{output}");
    }
}

#[test]
fn is_it_the_network() {
    let told = told();
    let [(connect, port_answers), (echo, listens), (probe, stalls), (explain, explained)] = &told[..] else {
        panic!("{told:?}")
    };
    let home = tempfile::tempdir().expect("a directory");
    let database = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = database.local_addr().expect("bound").to_string();
    thread::spawn(move || database.incoming().for_each(drop));
    let arguments = |command: &str, name: &str, address: &str| {
        let command = command.strip_prefix("fathom probe ").expect("a probe");
        format!("{} --label db1", command.replacen(name, address, 1))
    };

    let outcome = Probe::start(home.path(), &arguments(connect, "db1:5432", &at)).finish();
    shows(connect, port_answers, &(outcome.err + &outcome.out));

    assert_eq!((echo.as_str(), listens.len()), ("fathom echo", 0));
    let reflector = Echo::start("127.0.0.1");
    let line = arguments(probe, "db1", &reflector.address().to_string());
    let running = Probe::start(home.path(), &format!("{line} --record second"));
    let dir = home.path().join("second");
    wait_for_events(&dir, "a connection", |events| has_kind(events, "connection.opened"));
    reflector.signal("STOP");
    wait_for_events(&dir, "a stall", |events| has_kind(events, "stall.began"));
    reflector.signal("CONT");
    // What README shows lasts longer.
    wait_for_events(&dir, "its verdict", |events| has_kind(events, "connection.explained"));
    running.signal("INT");
    let outcome = running.finish();
    shows(probe, stalls, &(outcome.err + &outcome.out));

    let name = explain.strip_prefix("fathom recording explain ").expect("explain");
    assert_eq!(
        PathBuf::from(name).parent(),
        Some(Path::new("recordings")),
        "where a probe records by itself"
    );
    shows(explain, explained, &fathom(home.path(), &["recording", "explain", "second"]).out);
}
