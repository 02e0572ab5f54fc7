//! A file system that fills up stops the recording, not the probe.

use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{events, of_kind, recordings, rows};
use crate::support::small_disk::{Small, wait_until_it_waits};
use crate::support::{must, needs_root, wait_for};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A recording on a small disk, and a reflector to measure against.
struct Recorded {
    home: TempDir,
    echo: Echo,
    dir: PathBuf,
    disk: Small,
}

impl Recorded {
    fn begin() -> Self {
        let disk = Small::mount();
        let home = tempfile::tempdir().expect("a directory");
        Self { home, echo: Echo::start("127.0.0.1"), dir: disk.path().join("r"), disk }
    }

    fn probe(&self, options: &str) -> Probe {
        let (target, dir) = (self.echo.address(), self.dir.display());
        Probe::start(self.home.path(), &format!("{target} {options} --record {dir} --json"))
    }

    /// Once a connection is recorded, takes whatever is free; what took it.
    fn fill(&self) -> PathBuf {
        wait_for_events(&self.dir, "a connection", |events| !of_kind(events, "connection.opened").is_empty());
        self.disk.fill()
    }
}

/// It is sound; or, where not even its end found room any more, interrupted, and complete once there is room. Where it is
/// whole: there, or in a copy.
fn assert_sound_or_interrupted(home: &Path, dir: &Path) -> PathBuf {
    let verified = fathom(home, &["recording", "verify", &dir.display().to_string()]);
    if verified.code() == 0 {
        assert_sound(dir);
        return dir.to_owned();
    }
    assert!(verified.out.contains("it was interrupted"), "{verified:?}");
    let (roomy, kept) = (tempfile::tempdir_in(home).expect("a directory").keep().join("roomy"), rows(dir));
    must("cp", &["-r", &dir.display().to_string(), &roomy.display().to_string()]);
    must(env!("CARGO_BIN_EXE_fathom"), &["recording", "recover", &roomy.display().to_string()]);
    assert_sound(&roomy);
    assert!(rows(&roomy) == kept, "recovering changed samples");
    roomy
}

/// A probe of so many samples, more than there is room for: others fill the disk at its beginning, or its own rows do.
fn full_disk_stops_recording(count: u64, is_filled: bool) {
    let recorded = Recorded::begin();
    let (home, dir) = (&recorded.home, recorded.dir.as_path());
    let probe = recorded.probe(&format!("--every 500us --count {count}"));
    if is_filled {
        recorded.fill();
    }
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1, "{}", outcome.err);

    // It is told when it happens and again at the end, with the place and what to do.
    let told = outcome.told();
    assert_eq!(told.len(), 2, "{}", outcome.err);
    assert!(told[0].contains("recording waits for room on the disk, probing goes on"), "{}", told[0]);
    assert!(told[1].contains("the recording is incomplete"), "{}", told[1]);
    for line in told {
        let place = dir.display().to_string();
        assert!(
            line.contains(&place) && line.contains("No space left") && line.contains("free some space"),
            "{line}"
        );
    }

    // The probe ran to its end all the same.
    let summary = outcome.objects().pop().expect("a summary");
    let number = |name: &str| summary[name].as_u64().expect(name);
    assert_eq!(number("samples") + number("not_sent"), count, "{summary}");
    assert_eq!(number("answered"), number("samples"), "{summary}");
    assert_eq!(summary["connections"][0]["cause"], "finished", "{summary}");

    // What was written reads back: the samples in order from the first, as many as the last event counts.
    let log = events(dir);
    let ended = of_kind(&log, "recording.ended");
    assert_eq!(ended.len(), 1, "{log:?}");
    assert!(ended[0]["error"].as_str().is_some_and(|e| e.contains("No space left")), "{}", ended[0]);
    assert_sound(dir);
    let rows = rows(dir);
    assert_eq!(ended[0]["samples"], rows.len(), "{}", ended[0]);
    let fitted = rows.len() as u64;
    assert!((is_filled || fitted > count / 20) && fitted < number("samples"), "{fitted} samples fitted");
    let consecutive = rows.windows(2).all(|pair| pair[0].at("seq") + 1 == pair[1].at("seq"));
    assert!(consecutive, "samples are missing in between");

    // Putting it in order needs room: without, an error may say so, and nothing is lost by having tried.
    let recover = |dir: &Path| fathom(home.path(), &["recording", "recover", &dir.display().to_string()]);
    let tried = recover(dir);
    assert!(tried.code() == 0 || tried.err.contains("free some space"), "{tried:?}");
    assert_sound(dir);
    assert!(crate::support::rows::rows(dir) == rows, "recovering on a full disk changed samples");
    let roomy = home.path().join("roomy");
    must("cp", &["-r", &dir.display().to_string(), &roomy.display().to_string()]);
    let recovered = recover(&roomy);
    assert_eq!(recovered.code(), 0, "{recovered:?}");
    assert_sound(&roomy);
    assert!(crate::support::rows::rows(&roomy) == rows, "recovering changed samples");
}

/// Where each sample is a connection, events fill the disk, and what was kept back for the end.
fn connect_recording_ends_properly(count: u64) {
    let recorded = Recorded::begin();
    let probe = recorded.probe(&format!("--connect --every 2ms --count {count}"));
    recorded.fill();
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1, "{}", outcome.err);
    assert!(outcome.err.contains("the recording is incomplete"), "{}", outcome.err);
    let whole = assert_sound_or_interrupted(recorded.home.path(), &recorded.dir);
    let manifest = std::fs::read_to_string(whole.join("recording.json")).expect("a manifest");
    assert!(manifest.contains("\"ended_at\""), "{manifest}");
}

#[test]
fn full_disk_stops_recording_but_not_probe() {
    if needs_root() {
        full_disk_stops_recording(5_000, true);
    }
}

#[test]
fn connect_recording_ends_properly_on_full_disk() {
    if needs_root() {
        connect_recording_ends_properly(800);
    }
}

#[test]
fn already_full_disk_fails_before_connecting() {
    if !needs_root() {
        return;
    }
    let disk = Small::mount();
    std::fs::write(disk.path().join("ballast"), vec![1; 500 << 10]).expect("it fits");
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let dir = disk.path().join("r");
    let arguments = format!("127.0.0.1:{} --count 1 --record {}", echo.address().port(), dir.display());
    let outcome = Probe::start(home.path(), &arguments).finish();
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    assert!(
        outcome.err.contains(&dir.display().to_string()) && outcome.err.contains("free some space"),
        "{}",
        outcome.err
    );
    assert_eq!(outcome.out, "");
    assert_eq!(echo.stop()["connections"], 0, "it connected before it knew where to record");
    assert_eq!(
        crate::support::probe::left_behind(disk.path()),
        [Path::new("ballast")],
        "files were left on a full disk"
    );
}

/// A disk full for a moment ended the recording for good: 883 of 6,000 samples.
#[test]
fn recording_resumes_when_disk_has_room() {
    if !needs_root() {
        return;
    }
    let recorded = Recorded::begin();
    let dir = recorded.dir.as_path();
    let probe = recorded.probe("--every 2ms");
    let ballast = recorded.fill();
    wait_until_it_waits(dir);
    std::fs::remove_file(&ballast).expect("removed");
    wait_for_events(dir, "it to go on", |events| !of_kind(events, "recording.resumed").is_empty());
    probe.signal("TERM");
    let outcome = probe.finish();
    let summary = outcome.objects().pop().expect("a summary");
    assert_sound(dir);
    let log = events(dir);
    let lost: u64 = of_kind(&log, "recording.overflowed").iter().filter_map(|e| e["lost"].as_u64()).sum();
    assert_eq!(summary["samples"].as_u64(), Some(rows(dir).len() as u64 + lost), "{log:#?}");
    assert_eq!(outcome.code(), i32::from(lost > 0), "{}", outcome.err);
    assert!(
        outcome.err.contains("waits for room") && outcome.err.contains("there is room again"),
        "{}",
        outcome.err
    );
}

/// What `recover`, `verify` and `explain` said of it was silent about the disk.
#[test]
fn killed_recording_reports_full_disk() {
    if !needs_root() {
        return;
    }
    let recorded = Recorded::begin();
    let (home, dir) = (recorded.home.path(), recorded.dir.display().to_string());
    let probe = recorded.probe("--every 2ms");
    let ballast = recorded.fill();
    wait_until_it_waits(&recorded.dir);
    probe.kill_9();
    let said = |command: &str| fathom(home, &["recording", command, &dir]).out;
    for command in ["verify", "explain"] {
        assert!(said(command).contains("there was no room for "), "{}", said(command));
    }
    std::fs::remove_file(&ballast).expect("removed");
    let recovered = said("recover");
    assert!(recovered.contains("; there was no room for the recording"), "{recovered}");
    assert!(said("explain").contains("noted: there was no room for the recording"), "{}", said("explain"));
    assert_sound(&recorded.dir);
}

/// The disk had room again by the time the recording was closed: exit code 0, and "probing goes on" where it did not.
#[test]
fn on_full_exit_fails_despite_late_room() {
    if !needs_root() {
        return;
    }
    let recorded = Recorded::begin();
    let probe = recorded.probe("--every 20ms --on-full exit");
    recorded.fill();
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1, "{}", outcome.err);
    let told = outcome.told();
    assert_eq!(told.len(), 2, "{}", outcome.err);
    assert!(told[0].contains("the disk is full, and --on-full exit ends the run"), "{}", told[0]);
    assert!(told[1].contains("the run ended early by --on-full exit"), "{}", told[1]);
    assert!(!outcome.err.contains("probing goes on"), "{}", outcome.err);
    assert_sound(&recorded.dir);
}

/// A file that reaches its limit (`ulimit -f`): the signal killed the probe.
fn file_size_limit_acts_as_full(limit_kib: u32, count: u64) {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let line = format!(
        "ulimit -f {limit_kib}; exec {} probe {} --every 500us --count {count} --record r --json",
        crate::support::FATHOM,
        echo.address()
    );
    let outcome =
        Probe::spawn(std::process::Command::new("bash").args(["-c", &line]).current_dir(home.path()))
            .finish();
    assert_eq!(outcome.code(), 1, "{}", outcome.err);
    let told = outcome.told();
    assert_eq!(told.len(), 2, "{}", outcome.err);
    assert!(told[0].contains("recording waits for room on the disk, probing goes on"), "{}", told[0]);
    assert!(told.iter().all(|line| line.contains("ulimit -f")), "{}", outcome.err);
    let summary = outcome.objects().pop().expect("a summary");
    let number = |name: &str| summary[name].as_u64().expect(name);
    assert_eq!(number("samples") + number("not_sent"), count, "{summary}");
    let dir = home.path().join("r");
    assert_sound(&dir);
    let kept = rows(&dir).len() as u64;
    let lost: u64 =
        of_kind(&events(&dir), "recording.overflowed").iter().filter_map(|e| e["lost"].as_u64()).sum();
    assert_eq!(kept + lost, number("samples"), "each has a row, or its loss is told");
    assert!(kept > 0 && lost > 0, "{kept} rows, {lost} lost");
    // The summary says how many are missing, and why.
    let again = fathom(home.path(), &["recording", "summary", "r", "--json"]).summary();
    assert_eq!(again["not_recorded"], serde_json::json!({ "file_limit": lost }), "{again}");
    let text = fathom(home.path(), &["recording", "summary", "r"]).out;
    assert!(
        text.contains(&format!("  not recorded {lost} samples: a file had reached the limit of its size\n")),
        "{text}"
    );
}

#[test]
fn file_size_limit_acts_as_full_disk() {
    // A little more than the reserve needs.
    file_size_limit_acts_as_full(144, 4_000);
}

/// A reflector that answers each frame so much later, on one connection.
fn delayed(delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a probe connects");
        let mut back = stream.try_clone().expect("cloned");
        let (tell, come) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
        std::thread::spawn(move || {
            for (at, bytes) in come {
                // The delay is what this reflector is for.
                std::thread::sleep((at + delay).saturating_duration_since(Instant::now()));
                if back.write_all(&bytes).is_err() {
                    break;
                }
            }
        });
        let mut buffer = vec![0; 64 << 10];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            let _ = tell.send((Instant::now(), buffer[..n].to_vec()));
        }
    });
    address
}

/// Each flush that failed asked the run to stop; the second time means "at once", and what was under way was unanswered.
#[test]
fn on_full_exit_waits_for_pending_echoes() {
    if !needs_root() {
        return;
    }
    let recorded = Recorded::begin();
    let (target, dir) = (delayed(Duration::from_millis(600)), recorded.dir.display());
    let arguments = format!("{target} --every 5ms --on-full exit --record {dir} --json");
    let probe = Probe::start(recorded.home.path(), &arguments);
    recorded.fill();
    let outcome = probe.finish();
    assert_eq!(outcome.code(), 1, "{}", outcome.err);
    let summary = outcome.objects().pop().expect("a summary");
    assert_eq!(summary["unanswered"], 0, "{summary}");
    assert!(summary["answered"].as_u64() > Some(0), "{summary}");
    assert_sound_or_interrupted(recorded.home.path(), &recorded.dir);
}

mod acceptance {
    use super::*;

    #[test]
    fn full_disk_stops_recording_but_not_probe() {
        if needs_root() {
            full_disk_stops_recording(12_000, false);
        }
    }

    #[test]
    fn connect_recording_ends_properly_on_full_disk() {
        if needs_root() {
            connect_recording_ends_properly(3_000);
        }
    }

    #[test]
    fn file_size_limit_acts_as_full_disk() {
        file_size_limit_acts_as_full(256, 8_000);
    }

    #[test]
    fn on_full_exit_ends_the_run() {
        if !needs_root() {
            return;
        }
        let recorded = Recorded::begin();
        let outcome = recorded.probe("--every 500us --on-full exit").finish();
        assert_eq!(outcome.code(), 1, "{}", outcome.err);
        assert!(outcome.err.contains("free some space"), "{}", outcome.err);
        assert_sound_or_interrupted(recorded.home.path(), &recorded.dir);
    }

    /// A disk that fills up while recordings follow one another: the run goes on, each recording is sound, and when there is room
    /// again so are those that follow. What has no row is told.
    #[test]
    fn rotation_on_full_disk_reports_every_loss() {
        if !needs_root() {
            return;
        }
        let recorded = Recorded::begin();
        let home = recorded.home.path();
        let probe = recorded.probe("--every 5ms --rotate 1s --quiet");
        let all = || recordings(&recorded.dir);
        wait_for("a first seam", || (all().len() >= 2).then_some(()));
        let ballast = recorded.disk.path().join("ballast");
        let mut filling = std::fs::File::create(&ballast).expect("created");
        // Held full over at least one boundary, by the clock of the rotation.
        let second = || jiff::Timestamp::now().as_second();
        let until = second() + 3;
        wait_for("two boundaries on a full disk", || {
            while Write::write(&mut filling, &[1; 512]).is_ok() {}
            (second() >= until).then_some(())
        });
        drop(filling);
        std::fs::remove_file(&ballast).expect("removed");
        let before = all().len();
        wait_for("recordings that follow", || (all().len() >= before + 2).then_some(()));
        probe.signal("TERM");
        let outcome = probe.finish();
        let summary = outcome.objects().pop().expect("a summary");
        let mut stood = 0;
        for dir in all() {
            let dir = assert_sound_or_interrupted(home, &dir);
            let told = events(&dir);
            let told = of_kind(&told, "recording.overflowed")
                .into_iter()
                .map(|event| event["lost"].as_u64().expect("lost"));
            stood += rows(&dir).len() as u64 + told.sum::<u64>();
        }
        assert_eq!(summary["samples"], stood, "{summary}\n{}", outcome.err);
        assert!(outcome.err.contains("No space left"), "{}", outcome.err);
    }
}
