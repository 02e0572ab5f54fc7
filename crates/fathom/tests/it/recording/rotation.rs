//! A run whose recordings follow one another (`--rotate`): nothing is lost at a seam, and old ones go, and nothing else.

use crate::support::probe::{Probe, assert_sound, fathom};
use crate::support::reflector::Echo;
use crate::support::rows::{events, manifest, number, of_kind, recordings, rows};
use crate::support::small_disk::Small;
use crate::support::{FATHOM, must, needs_root, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn probe(home: &Path, words: &[&str]) -> Probe {
    Probe::spawn(Command::new(FATHOM).arg("probe").args(words).current_dir(home))
}

/// Runs a probe of three connections over one seam and more with all of them open; its summary, and its recordings.
fn rotated(home: &Path, after: usize) -> (Value, Vec<PathBuf>) {
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let words = [target.as_str(), "--every", "3ms", "--connections", "3", "--label", "zone"];
    let options = ["--record", "kept", "--rotate", "1s", "--json", "--quiet"];
    let running = probe(home, &[&words[..], &options].concat());
    let kept = home.join("kept");
    let opened = |dir: &PathBuf| {
        let log = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
        log.matches("\"connection.opened\"").count()
    };
    wait_for("three connections", || {
        (recordings(&kept).iter().map(opened).sum::<usize>() == 3).then_some(())
    });
    let before = recordings(&kept).len() + after;
    wait_for("a seam", || (recordings(&kept).len() > before).then_some(()));
    running.signal("TERM");
    let summary = running.finish().summary();
    let all = recordings(&kept);
    let last = Path::new("kept").join(all.last().and_then(|dir| dir.file_name()).expect("one"));
    assert_eq!(summary["recording"], Value::from(last.display().to_string()));
    (summary, all)
}

/// Each sample that was sent has one row in one recording, or its loss is told, and the recordings' summaries add up to the run's.
fn assert_each_sample_once(home: &Path, summary: &Value, all: &[PathBuf]) {
    let (mut seqs, mut told): (BTreeMap<i64, Vec<i64>>, _) = (BTreeMap::new(), 0);
    let mut sent = BTreeMap::new();
    for (n, dir) in all.iter().enumerate() {
        // `verify` holds the law of each: what stands before it, its rows and its losses are what was sent.
        assert_sound(dir);
        let log = events(dir);
        assert_eq!(of_kind(&log, "recording.continues").len(), usize::from(n > 0));
        assert_eq!(of_kind(&log, "recording.rotated").len(), usize::from(n + 1 < all.len()));
        told += of_kind(&log, "recording.overflowed").iter().map(|event| number(event, "lost")).sum::<u64>();
        told += of_kind(&log, "samples.in_flight").iter().map(|event| number(event, "samples")).sum::<u64>();
        for row in rows(dir) {
            seqs.entry(row.at("connection")).or_default().push(row.at("seq"));
        }
        for closed in of_kind(&log, "connection.closed") {
            sent.insert(closed["connection"].as_i64().expect("which"), number(&closed["evidence"], "sent"));
        }
        if n > 0 {
            let before = manifest(&all[n - 1]);
            let continues = of_kind(&log, "recording.continues")[0];
            let earlier = events(&all[n - 1]);
            let seam = of_kind(&earlier, "recording.rotated")[0];
            assert_eq!((&continues["previous"], &seam["next"]), (&before["id"], &manifest(dir)["id"]));
            for field in ["samples", "not_sent", "connections"] {
                assert_eq!(continues[field], seam[field], "{field}");
            }
            // A boundary may come before the connections are made.
            let carried = continues["connections"].as_array().map(Vec::len);
            assert!(carried == Some(3) || n + 1 < all.len(), "{continues}");
            assert_eq!(before["ended_at"], manifest(dir)["started_at"]);
        }
        assert_eq!(fathom(home, &["recording", "explain", &dir.display().to_string()]).code(), 0);
    }
    assert_eq!(seqs.len(), 3);
    let rows: usize = seqs.values().map(Vec::len).sum();
    assert_eq!(rows as u64 + told, number(summary, "samples"));
    for (connection, seqs) in &mut seqs {
        seqs.sort_unstable();
        assert!(
            told > 0 || seqs.iter().copied().eq(0..seqs.len() as i64),
            "connection {connection}: {seqs:?}"
        );
        assert_eq!(seqs.len() as u64 + told, sent[connection], "connection {connection}");
    }
    // Each says of itself what is in it, and together they say what the run said.
    let of = |dir: &PathBuf| {
        fathom(home, &["recording", "summary", &dir.display().to_string(), "--json"]).summary()
    };
    let each: Vec<Value> = all.iter().map(of).collect();
    for count in ["samples", "answered", "unanswered", "in_flight", "not_sent", "due"] {
        let sum: u64 = each.iter().map(|one| number(one, count)).sum();
        assert_eq!(sum, number(summary, count), "{count}");
    }
}

/// `verify` finds a lost row on either side of a seam.
fn assert_lost_sample_is_found(home: &Path, all: &[PathBuf]) {
    // Of the last seam: all connections were open.
    for (dir, kind) in all[all.len() - 2..].iter().zip(["recording.rotated", "recording.continues"]) {
        let file = dir.join("events.jsonl");
        let text = std::fs::read_to_string(&file).expect("a log");
        let changed: Vec<String> = text
            .lines()
            .map(|line| {
                let mut event: Value = serde_json::from_str(line).expect("JSON");
                if event["kind"] == kind {
                    let one = &mut event["connections"][0]["samples"];
                    *one = Value::from(one.as_u64().expect("a number") + 1);
                }
                format!("{event}\n")
            })
            .collect();
        std::fs::write(&file, changed.concat()).expect("written");
        let found = fathom(home, &["recording", "verify", &dir.display().to_string()]);
        assert_eq!(found.code(), 1, "{found:?}");
        assert!(
            (found.out.clone() + &found.err).contains("the samples sent are its rows and its told losses"),
            "{found:?}"
        );
    }
}

#[test]
fn rotated_recordings_hold_each_sample_once() {
    let home = tempfile::tempdir().expect("a directory");
    let (summary, all) = rotated(home.path(), 0);
    assert_each_sample_once(home.path(), &summary, &all);
    assert_lost_sample_is_found(home.path(), &all);
}

/// The recording of an earlier process of the same rotation goes when `--keep` is over, and nothing else does.
#[test]
fn expired_recording_of_earlier_process_is_removed() {
    let home = tempfile::tempdir().expect("a directory");
    let kept = home.path().join("kept");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address().to_string();
    let short = |words: &[&str]| {
        let words = [&[target.as_str(), "--count", "2", "--every", "1ms", "--quiet"], words].concat();
        assert_eq!(probe(home.path(), &words).finish().code(), 0);
    };
    short(&["--label", "zone", "--record", "kept/zone-20200101T000000Z"]);
    let others = recordings(&kept);
    let rotation = ["--label", "zone", "--record", "kept", "--rotate", "1s", "--keep", "1s"];
    short(&rotation);
    let mut first = recordings(&kept);
    first.retain(|dir| !others.contains(dir));
    let line = [&[target.as_str(), "--every", "10ms", "--quiet"], &rotation[..]].concat();
    let running = probe(home.path(), &line);
    wait_for("the first recording to go", || (!first[0].exists()).then_some(()));
    running.signal("TERM");
    assert_eq!(running.finish().code(), 0);
    assert_eq!((first.len(), others.len(), others[0].exists()), (1, 1, true));
}

/// The law of `--keep`: what goes was of this run, or of one that was over before, and lay where its run had made it. Gives what has gone.
fn gone(before: &[(PathBuf, Value)], runs: &[&Value]) -> Vec<PathBuf> {
    let gone: Vec<_> = before.iter().filter(|(dir, _)| !dir.exists()).collect();
    for (dir, manifest) in &gone {
        let rotation = &manifest["rotation"];
        assert!(runs.contains(&&rotation["run"]), "{} is of another run: {rotation}", dir.display());
        let name = dir.file_name().and_then(|name| name.to_str()).expect("a name");
        assert_eq!(rotation["directory"], name, "a copy has gone");
    }
    gone.into_iter().map(|(dir, _)| dir.clone()).collect()
}

fn all_with_manifests(kept: &Path) -> Vec<(PathBuf, Value)> {
    // One that goes meanwhile has gone.
    let read = |dir: PathBuf| {
        let text = std::fs::read_to_string(dir.join("recording.json")).ok()?;
        Some((dir, serde_json::from_str(&text).expect("JSON")))
    };
    recordings(kept).into_iter().filter_map(read).collect()
}

mod acceptance {
    use super::*;

    #[test]
    fn many_rotated_recordings_hold_each_sample_once() {
        let home = tempfile::tempdir().expect("a directory");
        let (summary, all) = rotated(home.path(), 3);
        assert_each_sample_once(home.path(), &summary, &all);
    }

    /// On a full disk no recording could be begun, and it was only when one was that old ones went: so the disk stayed full for ever, of
    /// what was not to be kept (a stranger).
    #[test]
    fn rotation_frees_disk_full_of_old_recordings() {
        if !needs_root() {
            return;
        }
        let (small, echo) = (Small::mount(), Echo::start("127.0.0.1"));
        let kept = small.path().join("kept");
        let line = ["--every", "10ms", "--quiet", "--record", "kept", "--rotate", "1s", "--keep", "2s"];
        let running = probe(small.path(), &[&[echo.address().to_string().as_str()][..], &line].concat());
        let old = wait_for("a recording that has ended", || {
            all_with_manifests(&kept).into_iter().find(|(_, manifest)| !manifest["ended_at"].is_null())
        });
        // What follows it is refused a reserve, as long as nothing goes.
        small.fill();
        wait_for("the old one to go", || (!old.0.exists()).then_some(()));
        running.signal("TERM");
        _ = running.finish();
        // Who is started again finds the same disk: the one before is over by then, and what it left is old.
        let left = all_with_manifests(&kept);
        let whole = left.iter().filter(|(_, manifest)| !manifest["ended_at"].is_null());
        let whole: Vec<&PathBuf> = whole.map(|(dir, _)| dir).collect();
        assert!(!whole.is_empty(), "{left:?}");
        let target = echo.address().to_string();
        wait_for("what is old to make room", || {
            small.fill();
            // What there was is less than what a recording keeps back.
            _ = probe(small.path(), &[&[target.as_str(), "--count", "1"], &line[..]].concat()).finish();
            whole.iter().all(|dir| !dir.exists()).then_some(())
        });
    }

    /// It removed a copy of a recording of its own (`cp -a`), and what another probe of the same target and label recorded there.
    #[test]
    fn rotation_removes_only_its_old_recordings() {
        let home = tempfile::tempdir().expect("a directory");
        let kept = home.path().join("kept");
        let echo = Echo::start("127.0.0.1");
        let target = echo.address().to_string();
        let short = |words: &[&str]| {
            let words = [&[target.as_str(), "--count", "2", "--every", "1ms", "--quiet"], words].concat();
            assert_eq!(probe(home.path(), &words).finish().code(), 0);
        };
        let rotation = ["--label", "zone", "--record", "kept", "--rotate", "1s"];
        // The same label, but by no rotation; and another label's rotation.
        short(&["--label", "zone", "--record", "kept/zone-20200101T000000Z"]);
        short(&["--label", "other", "--record", "kept", "--rotate", "1d"]);
        std::fs::write(kept.join("notes.txt"), "mine").expect("written");
        // Another probe of that label and target is there, and keeps what it records; one that was as this one has ended.
        let other = [&[target.as_str(), "--every", "10ms", "--quiet"], &rotation[..]].concat();
        let beside = probe(home.path(), &other);
        wait_for("a seam of the other probe", || (recordings(&kept).len() >= 4).then_some(()));
        let known = recordings(&kept);
        // An earlier process of the same rotation: systemd has started it again.
        short(&[&rotation[..], &["--keep", "1s"]].concat());
        let new = all_with_manifests(&kept);
        let earlier = new.iter().find(|(dir, m)| !known.contains(dir) && !m["rotation"]["keep_ns"].is_null());
        let (earlier, its) = earlier.expect("it");
        let copy = kept.join("copy of one of before");
        must("cp", &["-a", &earlier.display().to_string(), &copy.display().to_string()]);

        let line =
            [&[target.as_str(), "--every", "10ms", "--quiet"], &rotation[..], &["--keep", "3s"]].concat();
        let before = all_with_manifests(&kept);
        let running = probe(home.path(), &line);
        wait_for("the earlier process's recording to be removed", || (!earlier.exists()).then_some(()));
        let ours = wait_for("a recording of its own", || {
            let all = all_with_manifests(&kept);
            all.into_iter().find(|(dir, m)| {
                let is_known = before.iter().any(|(known, _)| known == dir);
                !is_known && !m["rotation"]["keep_ns"].is_null() && !m["ended_at"].is_null()
            })
        });
        let own_copy = kept.join("copy of its own");
        must("cp", &["-a", &ours.0.display().to_string(), &own_copy.display().to_string()]);
        let before = [before, all_with_manifests(&kept)].concat();
        wait_for("its own to be removed", || (!ours.0.exists()).then_some(()));
        running.signal("TERM");
        let outcome = running.finish();
        assert_eq!(outcome.code(), 0, "{outcome:?}");
        beside.signal("TERM");
        assert_eq!(beside.finish().code(), 0);
        let gone = gone(&before, &[&its["rotation"]["run"], &ours.1["rotation"]["run"]]);
        assert!(gone.contains(earlier) && gone.contains(&ours.0), "{gone:?}");
        assert!(copy.exists() && own_copy.exists() && kept.join("notes.txt").exists());
        for dir in recordings(&kept) {
            assert_sound(&dir);
        }
    }
}
