//! One of a thing is no plural: a run of one sample on one connection, from the probe's line to `verify` and the reflector's
//! own end. (`1 samples` and `1 connections` stood in five of these.)

// (Shared with other tests, each of which uses a part of it.)
#[allow(dead_code)]
use crate::echo::reflector::Reflector;
use crate::support::probe::{Probe, fathom};

/// What each says of the one sample.
fn says(what: &str, text: &str, wanted: &[&str]) {
    for words in wanted {
        assert!(text.contains(words), "{what}: {words:?} is not in\n{text}");
    }
    for word in ["sample", "connection", "time", "message", "datagram", "event", "row"] {
        assert!(!text.contains(&format!(" 1 {word}s")), "{what}: a plural of one {word}:\n{text}");
    }
}

#[test]
fn a_run_of_one_sample() {
    let home = tempfile::tempdir().expect("a directory");
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let address = reflector.tcp.expect("it serves TCP");
    let run = |options: &str| Probe::start(home.path(), &format!("{address} --count 1 {options}")).finish();
    let outcome = run("--record one --size 1");
    says("the beginning", &outcome.err, &["1 time on each connection"]);
    says("the summary", &outcome.out, &["1 sample, 1 answered", "1 byte "]);
    let outcome = fathom(home.path(), &["recording", "verify", "one"]);
    says("verify", &outcome.out, &["sound (1 sample, "]);
    let outcome = fathom(home.path(), &["recording", "export", "one", "--format", "csv", "-o", "one.csv"]);
    says("export", &outcome.err, &["1 sample written to one.csv"]);
    let outcome = fathom(home.path(), &["recording", "explain", "one"]);
    says("explain", &outcome.out, &["1 byte ", "1 sample"]);
    let (_, last) = reflector.stop();
    says("the reflector", &last, &["served 1 connection", "1 byte echoed"]);
}
