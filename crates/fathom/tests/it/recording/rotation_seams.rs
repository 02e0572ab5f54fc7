//! What goes on over a seam of `--rotate`: a stall, an outage, datagrams, several probing threads. Each is told as going on
//! before the seam and whole after it, and no sample is counted twice or not at all. In virtual time `fathom-core` holds the same.

use crate::support::net::Host;
use crate::support::probe::{Outcome, Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{Events, events, has_kind, number, of_kind, recordings, rows};
use crate::support::wait_for;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Waits for another recording than those of now, and for this in one that follows.
fn wait_over_a_seam(kept: &Path, what: &str, holds: impl Fn(&Events) -> bool) {
    let before = recordings(kept).len();
    wait_for("a seam", || (recordings(kept).len() > before).then_some(()));
    wait_in_the_latest(kept, what, holds);
}

fn wait_in_the_latest(kept: &Path, what: &str, holds: impl Fn(&Events) -> bool) {
    wait_for(what, || {
        let latest = recordings(kept).pop()?;
        let lines = std::fs::read_to_string(latest.join("events.jsonl")).unwrap_or_default();
        let whole = lines.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let log: Events = whole.map(|line| serde_json::from_str(line).expect("JSON")).collect();
        holds(&log).then_some(())
    });
}

fn summary_of(home: &Path, dir: &Path) -> Value {
    fathom(home, &["recording", "summary", &dir.display().to_string(), "--json"])
        .objects()
        .pop()
        .expect("one")
}

fn explained(home: &Path, dir: &Path) -> String {
    fathom(home, &["recording", "explain", &dir.display().to_string()]).out
}

/// The law over all seams of a run: what was sent are the rows and the told losses of all recordings together, and so are
/// the counts of their summaries those of the run.
fn assert_nothing_is_lost(home: &Path, outcome: &Outcome) -> (Value, Vec<PathBuf>) {
    let summary = outcome.objects().pop().expect("a summary");
    let all = recordings(&home.join("kept"));
    assert!(all.len() >= 2, "{all:?}");
    let mut stood = 0;
    for (n, dir) in all.iter().enumerate() {
        assert_sound(dir);
        let log = events(dir);
        assert_eq!(of_kind(&log, "recording.continues").len(), usize::from(n > 0));
        assert_eq!(of_kind(&log, "recording.rotated").len(), usize::from(n + 1 < all.len()));
        let told = of_kind(&log, "recording.overflowed");
        stood += rows(dir).len() as u64 + told.iter().map(|event| number(event, "lost")).sum::<u64>();
    }
    assert_eq!(stood, number(&summary, "samples"), "{summary}");
    let each: Vec<Value> = all.iter().map(|dir| summary_of(home, dir)).collect();
    for count in ["samples", "answered", "unanswered", "in_flight", "not_sent", "due"] {
        let sum: u64 = each.iter().map(|one| number(one, count)).sum();
        assert_eq!(sum, number(&summary, count), "{count}: {each:#?}");
    }
    assert_one_story(home);
    (summary, all)
}

/// The law of a story over all seams of a run: it is that of one run, in order of time, and nothing is told by halves.
fn assert_one_story(home: &Path) -> Vec<Value> {
    let outcome = fathom(home, &["recording", "explain", "kept", "--json"]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let story = outcome.objects();
    let times: Vec<&str> = story.iter().map(|line| line["at"].as_str().expect("a time")).collect();
    let times: Vec<jiff::Timestamp> = times.into_iter().map(|at| at.parse().expect("a time")).collect();
    assert!(times.is_sorted(), "{story:#?}");
    let saying = |phrase: &str| {
        story.iter().filter(|line| line["statement"].as_str().is_some_and(|s| s.contains(phrase))).count()
    };
    assert_eq!(["was measured with", "in all "].map(saying), [1, 1], "{story:#?}");
    for half in ["next recording", "before this recording began", "the recording before says"] {
        assert_eq!(saying(half), 0, "{half}: {story:#?}");
    }
    story
}

mod acceptance {
    use super::*;

    #[test]
    fn stall_across_seam_is_open_then_complete() {
        let home = tempfile::tempdir().expect("a directory");
        let kept = home.path().join("kept");
        let echo = Echo::start("127.0.0.1");
        let line = format!("{} --every 5ms --record kept --rotate 2s --json --quiet", echo.address());
        let probe = Probe::start(home.path(), &line);
        // Enough is known of the path by then for a silence to be a stall.
        wait_for("a first seam", || (recordings(&kept).len() > 1).then_some(()));
        let begun = recordings(&kept).len() - 1;
        echo.signal("STOP");
        wait_for("the stall", || {
            recordings(&kept)[begun..]
                .iter()
                .any(|dir| {
                    std::fs::read_to_string(dir.join("events.jsonl"))
                        .is_ok_and(|log| log.contains("\"stall.began\""))
                })
                .then_some(())
        });
        wait_over_a_seam(&kept, "the continuation", |log| has_kind(log, "recording.continues"));
        echo.signal("CONT");
        wait_in_the_latest(&kept, "the end of the stall", |log| has_kind(log, "stall.ended"));
        probe.signal("TERM");
        let outcome = probe.finish();
        assert_eq!(outcome.code(), 0, "{outcome:?}");
        let (_, all) = assert_nothing_is_lost(home.path(), &outcome);

        // Each stall that began is ended, or goes on over the seam, and only such a one ends without having begun.
        let mut going_on = 0;
        let (mut over_seams, mut began) = (Vec::new(), 0);
        for dir in &all {
            let log = events(dir);
            let stalled = |kind: &str| -> Vec<Value> {
                let carried =
                    of_kind(&log, kind).into_iter().flat_map(|e| e["connections"].as_array().expect("them"));
                carried.filter(|one| !one["stall"].is_null()).cloned().collect()
            };
            assert_eq!(stalled("recording.continues").len(), going_on);
            let (began_here, ended) =
                (of_kind(&log, "stall.began").len(), of_kind(&log, "stall.ended").len());
            began += began_here;
            let after = stalled("recording.rotated").len();
            assert_eq!(going_on + began_here, ended + after, "{}", dir.display());
            if after > 0 {
                over_seams.push((dir.clone(), stalled("recording.rotated").remove(0)));
            }
            going_on = after;
        }
        assert_eq!(going_on, 0);
        assert!(began >= 1 && !over_seams.is_empty());

        // Over all of them each stall is told once.
        let told = assert_one_story(home.path());
        let stalls = told
            .iter()
            .filter(|line| line["statement"].as_str().is_some_and(|s| s.contains(" stalled for ")));
        assert_eq!(stalls.count(), began, "{told:#?}");

        let (first, stall) = &over_seams[0];
        assert!(
            explained(home.path(), first).contains("goes on in the next recording"),
            "{}",
            explained(home.path(), first)
        );
        // The one in which it ends tells it once, from its beginning, which lies before that recording.
        let last =
            &all[all.iter().position(|dir| *dir == over_seams.last().expect("one").0).expect("it") + 1];
        let log = events(last);
        let ended = of_kind(&log, "stall.ended")[0];
        let seam = of_kind(&log, "recording.continues")[0];
        assert!(
            number(ended, "mono_ns") - number(ended, "duration_ns") < number(seam, "mono_ns"),
            "{ended} {seam}"
        );
        assert_eq!(
            stall["stall"]["seq"].as_u64(),
            events(first).iter().rev().find(|e| e["kind"] == "stall.began").and_then(|e| e["seq"].as_u64())
        );
        let story = explained(home.path(), last);
        let lines: Vec<&str> = story.lines().filter(|line| line.contains("stalled for")).collect();
        assert!(
            lines.len() == 1 && lines[0].contains(&format!("connection #0 to {}", echo.address())),
            "{story}"
        );
        assert!(!story.contains("nothing happened"), "{story}");
    }

    #[test]
    fn outage_across_seam_is_open_then_complete() {
        for udp in [false, true] {
            let home = tempfile::tempdir().expect("a directory");
            let kept = home.path().join("kept");
            let echo = Echo::start("127.0.0.1");
            let address = echo.address();
            let line = format!(
                "{address} --every 10ms {} --reconnect-at-most 50ms --record kept --rotate 2s --json --quiet",
                if udp { "--udp" } else { "" }
            );
            let probe = Probe::start(home.path(), &line);
            wait_in_the_latest(&kept, "a connection", |log| has_kind(log, "connection.opened"));
            wait_for("samples", || {
                recordings(&kept)
                    .iter()
                    .any(|dir| number(&summary_of(home.path(), dir), "answered") > 5)
                    .then_some(())
            });
            echo.kill();
            // A path without a connection, over the next seam.
            let lost = |log: &Events| has_kind(log, "connection.closed");
            wait_in_the_latest(&kept, "the loss", |log| lost(log) || has_kind(log, "recording.continues"));
            wait_over_a_seam(&kept, "an attempt", |log| has_kind(log, "connection.opening"));
            let again = Echo::start_on(&Host::this(), address);
            wait_over_a_seam(&kept, "the next recording", |log| has_kind(log, "recording.continues"));
            probe.signal("TERM");
            let outcome = probe.finish();
            assert_eq!(outcome.code(), 0, "{outcome:?}");
            drop(again);
            let (summary, all) = assert_nothing_is_lost(home.path(), &outcome);
            let outages = summary["outages"].as_array().expect("a list");
            assert_eq!(outages.len(), 1, "udp {udp}: {summary:#}");
            assert_eq!(outages[0]["over"], true);
            // In the recordings: those before the end say that it goes on; the one with the end has the whole of it; those after
            // have none.
            let of: Vec<Vec<Value>> = all
                .iter()
                .map(|dir| summary_of(home.path(), dir)["outages"].as_array().expect("a list").clone())
                .collect();
            let whole: Vec<&Value> = of.iter().flatten().filter(|outage| outage["over"] == true).collect();
            assert_eq!(whole, [&outages[0]], "udp {udp}: {of:#?}");
            let open: Vec<&Value> = of.iter().flatten().filter(|outage| outage["over"] == false).collect();
            assert!(!open.is_empty(), "{of:#?}");
            for outage in open {
                assert_eq!(outage["began_at"], outages[0]["began_at"], "{of:#?}");
                assert_eq!(outage["goes_on"], true, "{of:#?}");
                assert!(number(outage, "lasted_ns") < number(&outages[0], "lasted_ns"), "{of:#?}");
            }
            let before =
                of.iter().position(|outages| outages.iter().any(|o| o["over"] == false)).expect("one");
            let text = fathom(home.path(), &["recording", "summary", &all[before].display().to_string()]).out;
            assert!(text.contains("goes on in the next recording"), "{text}");
        }
    }

    #[test]
    fn datagrams_and_threads_lose_nothing_at_seam() {
        for words in
            ["--udp --every 3ms --connections 2", "--ping-pong --threads 2 --connections 4 --allow-high-rate"]
        {
            let home = tempfile::tempdir().expect("a directory");
            let echo = Echo::start("127.0.0.1");
            let line =
                format!("{} {words} --for 3300ms --record kept --rotate 1s --json --quiet", echo.address());
            let outcome = Probe::start(home.path(), &line).finish();
            assert_eq!(outcome.code(), 0, "{words}: {outcome:?}");
            let (_, all) = assert_nothing_is_lost(home.path(), &outcome);
            // A host that is slow has fewer: one recording is closed at a time.
            assert!(all.len() >= 2, "{words}: {all:?}");
            // Every connection stays open over every seam that comes behind its opening, whichever thread it is of: boundaries are of the
            // clock, and the first may come before a connection is made.
            let connections = if words.contains("--udp") { 2 } else { 4 };
            let (mut opened, mut closed) = (vec![], vec![]);
            for (at, dir) in all.iter().enumerate() {
                let log = wait_for_events(dir, "its beginning", |log| {
                    has_kind(log, if at == 0 { "recording.started" } else { "recording.continues" })
                });
                if at > 0 {
                    let seam = of_kind(&log, "recording.continues")[0];
                    let carried = seam["connections"].as_array().map(Vec::len);
                    // One that is made while the seam is, on another thread, belongs behind it wherever its event stands; and the run may end
                    // beside one.
                    let before =
                        |of: &[_]| of.iter().filter(|at_ns| **at_ns < number(seam, "mono_ns")).count();
                    let open = before(&opened) - before(&closed);
                    assert_eq!(
                        carried,
                        Some(open),
                        "{words}: {}: {opened:?} {closed:?} {seam}",
                        dir.display()
                    );
                }
                let when = |kind| of_kind(&log, kind).into_iter().map(|event| number(event, "mono_ns"));
                opened.extend(when("connection.opened"));
                closed.extend(when("connection.closed"));
            }
            assert_eq!(opened.len(), connections, "{words}: {all:?}");
        }
    }
}
