//! A search for the age limit that is killed before any connection died: what it knew is on the disk, and another goes on.

use crate::support::faults::Reflector;
use crate::support::net::Host;
use crate::support::probe::{Probe, fathom, wait_for_events};
use crate::support::rows::{Events, events, number, of_kind};
use crate::support::{FATHOM, free_port};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use tempfile::TempDir;

/// A search that was killed: its recording is `first`.
struct Killed {
    home: TempDir,
    target: SocketAddr,
    _reflector: Reflector,
    /// Connections that it had.
    lives: usize,
}

impl Killed {
    /// Kills a search once it has told so often which ages its connections have reached.
    fn after(told: usize) -> Self {
        let target = SocketAddr::new([127, 0, 0, 1].into(), free_port());
        let reflector = Reflector::start(&Host::this(), target);
        let home = tempfile::tempdir().expect("a directory");
        let mut killed = Self { home, target, _reflector: reflector, lives: 0 };
        let search = killed.search("--up-to 10m --record first");
        let dir = killed.home.path().join("first");
        wait_for_events(&dir, "ages of connections that live", |log| {
            of_kind(log, "limits.lived").len() >= told
        });
        search.kill_9();
        killed.lives = killed.assert_findings(&events(&dir), told as u64 - 1);
        killed
    }

    fn search(&self, arguments: &str) -> Probe {
        let target = self.target.to_string();
        let mut command = Command::new(FATHOM);
        command.current_dir(self.home.path()).args(["limits", &target, "--age", "--connections", "8"]);
        Probe::spawn(command.args(arguments.split_whitespace()))
    }

    /// Asserts that `summary` and `explain` tell what the log has, of a search that lasted at least so many seconds; the
    /// number of its connections.
    fn assert_findings(&self, log: &Events, least_s: u64) -> usize {
        let lived = of_kind(log, "limits.lived");
        let highest = |event: &Value| {
            let lives = event["lives"].as_array().expect("lives");
            lives.iter().map(|life| number(life, "least_ns")).max().expect("one")
        };
        let oldest = lived.iter().map(|event| highest(event)).max().expect("some");
        let lasted = number(log.last().expect("one"), "mono_ns") - number(&log[0], "mono_ns");
        assert!(lasted >= least_s * 1_000_000_000 && oldest > 0 && oldest <= lasted, "{oldest} {lasted}");

        let home = self.home.path();
        let text = fathom(home, &["recording", "summary", "first"]).out;
        assert!(text.contains(": no age limit up to ") && text.contains("ended early"), "{text}");
        let known = fathom(home, &["recording", "summary", "--json", "first"]).summary();
        let lives = known["lives"].as_array().expect("lives");
        assert!(lives.iter().any(|life| life["least_ns"] == json!(oldest)), "{known:#}");
        assert!(number(&known, "took_ns").abs_diff(lasted) < 1_000_000, "{known:#} {lasted}");
        let story = fathom(home, &["recording", "explain", "first"]).out;
        assert!(story.contains("no age limit up to "), "{story}");
        lives.len()
    }
}

/// Connections that a log has from the search before.
fn earlier(log: &[Value]) -> usize {
    of_kind(log, "limits.judged").iter().filter(|event| event["connection"].is_null()).count()
}

#[test]
fn killed_age_search_keeps_reached_ages() {
    let killed = Killed::after(2);
    let resumed = killed.search("--up-to 10m --json --resume first --record second");
    let dir = killed.home.path().join("second");
    wait_for_events(&dir, "connections of the first search", |log| earlier(log) == killed.lives);
    resumed.signal("INT");
    let outcome = resumed.finish();
    assert_eq!((outcome.code(), &outcome.objects()[0]["verdict"]), (0, &json!("stopped")), "{outcome:?}");
    assert!(outcome.err.contains("in use by the search in first"), "{}", outcome.err);
    assert_eq!(earlier(&events(&dir)), killed.lives);
}

mod acceptance {
    use super::*;

    #[test]
    fn resumed_age_search_comes_to_its_end() {
        let killed = Killed::after(4);
        let outcome = killed.search("--up-to 9s --json --resume first --record second").finish();
        assert_eq!(outcome.code(), 0, "{outcome:?}");
        assert!(outcome.err.contains("in use by the search in first"), "{}", outcome.err);
        assert_eq!(earlier(&events(&killed.home.path().join("second"))), killed.lives);
    }
}
