//! A search for the age limit that is killed before any connection died: what it knew is on the disk, and another goes on.

use serde_json::json;
use std::net::SocketAddr;
use std::process::Command;
use crate::support::faults::Reflector;
use crate::support::net::Host;
use crate::support::probe::{Probe, fathom, wait_for_events};
use crate::support::rows::{events, number, of_kind};
use crate::support::{FATHOM, free_port};

/// "Several sizes back to back, tcp-age-limit, for 29.8ms" of a search of 40 s, and `--resume` found nothing.
#[test]
fn killed_age_search_keeps_reached_ages() {
    let target = SocketAddr::new([127, 0, 0, 1].into(), free_port());
    let _reflector = Reflector::start(&Host::this(), target);
    let home = tempfile::tempdir().expect("a directory");
    let search = |arguments: &str| {
        let mut command = Command::new(FATHOM);
        command.current_dir(home.path()).args(["limits", &target.to_string(), "--age", "--connections", "8"]);
        Probe::spawn(command.args(arguments.split_whitespace()))
    };
    let first = search("--up-to 10m --record first");
    wait_for_events(&home.path().join("first"), "ages of connections that live", |log| {
        of_kind(log, "limits.lived").len() >= 4
    });
    first.kill_9();
    let log = events(&home.path().join("first"));
    let lived = of_kind(&log, "limits.lived");
    let ages = |event: &serde_json::Value| {
        let lives = event["lives"].as_array().expect("lives");
        lives.iter().map(|life| number(life, "least_ns")).max().expect("one")
    };
    let oldest = lived.iter().map(|event| ages(event)).max().expect("some");
    let lasted = number(log.last().expect("one"), "mono_ns") - number(&log[0], "mono_ns");
    assert!(lasted >= 3_000_000_000 && oldest > 0 && oldest <= lasted, "{oldest} {lasted}");

    let text = fathom(home.path(), &["recording", "summary", "first"]).out;
    assert!(text.contains(": no age limit up to ") && text.contains("ended early"), "{text}");
    let known = fathom(home.path(), &["recording", "summary", "--json", "first"]).summary();
    let lives = known["lives"].as_array().expect("lives");
    assert!(lives.iter().any(|life| life["least_ns"] == json!(oldest)), "{known:#}");
    assert!(number(&known, "took_ns").abs_diff(lasted) < 1_000_000, "{known:#} {lasted}");
    let story = fathom(home.path(), &["recording", "explain", "first"]).out;
    assert!(story.contains("no age limit up to "), "{story}");

    let outcome = search("--up-to 9s --json --resume first --record second").finish();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    assert!(outcome.err.contains("in use by the search in first"), "{}", outcome.err);
    let second = events(&home.path().join("second"));
    let earlier = of_kind(&second, "limits.judged").into_iter().filter(|event| event["connection"].is_null());
    assert_eq!(earlier.count(), lives.len());
}
