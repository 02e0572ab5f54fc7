//! `fathom probe --ping-pong --connections N --threads M`: each thread leads connections of its own, and all of them
//! stand in one recording.

use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::{Echo, Reflector};
use crate::support::rows::{events, manifest, of_kind, rows};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 8;
const COUNT: usize = 500;

#[test]
fn threads_share_connections_over_tcp_and_udp() {
    let echo = Echo::start("127.0.0.1");
    one_run(&echo, "--threads 4");
    one_run(&echo, "--threads 3");
    one_run(&echo, "--threads 8 --udp");
}

/// A whole run: every connection of every thread has its samples, numbered as if one thread had led them all.
fn one_run(reflector: &impl Reflector, options: &str) {
    let home = tempfile::tempdir().expect("a directory");
    let address = reflector.address();
    let line = format!(
        "{address} --ping-pong --connections {CONNECTIONS} {options} --count {COUNT} --record r --json --quiet"
    );
    let summary = Probe::start(home.path(), &line).finish().summary();
    let case = format!("{line}: {summary}");
    assert_eq!(summary["answered"], CONNECTIONS * COUNT, "{case}");
    let dir = home.path().join("r");
    assert_sound(&dir);
    let mut seqs: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in rows(&dir) {
        seqs.entry(row.at("connection")).or_default().push(row.at("seq"));
    }
    assert_eq!(
        seqs.keys().copied().collect::<Vec<_>>(),
        (0..CONNECTIONS as i64).collect::<Vec<_>>(),
        "{case}"
    );
    for seqs in seqs.values() {
        assert_eq!(*seqs, (0..COUNT as i64).collect::<Vec<_>>(), "in order: {case}");
    }
    let events = events(&dir);
    let mut lanes: Vec<i64> =
        of_kind(&events, "connection.opened").iter().map(|e| e["lane"].as_i64().expect("a lane")).collect();
    lanes.sort_unstable();
    assert_eq!(lanes, (0..CONNECTIONS as i64).collect::<Vec<_>>(), "{case}");
    assert_eq!(of_kind(&events, "recording.ended").len(), 1, "{case}");
    let read = fathom(home.path(), &["recording", "summary", "r", "--json"]).summary();
    assert_eq!(
        (&read["rtt_ns"], &read["connections"]),
        (&summary["rtt_ns"], &summary["connections"]),
        "{case}"
    );
}

#[test]
fn ctrl_c_ends_every_thread() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let line =
        format!("{} --ping-pong --connections 4 --threads 4 --record r --json --quiet", echo.address());
    let probe = Probe::start(home.path(), &line);
    let opened = |n: usize| move |events: &Vec<_>| of_kind(events, "connection.opened").len() == n;
    wait_for_events(&home.path().join("r"), "every connection", opened(4));
    probe.signal("INT");
    let summary = probe.finish().summary();
    let causes: Vec<_> =
        summary["connections"].as_array().expect("some").iter().map(|c| &c["cause"]).collect();
    assert_eq!(causes, ["finished"; 4], "{summary}");
}

/// The recording thread takes the processor from a probe that shares it. It rests for 0.7 s, however many samples come.
#[test]
#[cfg(target_os = "linux")]
fn recording_thread_rests_during_ping_pong() {
    const ROUND_TRIPS: u64 = 40_000;
    let (woke_up, _, summary) = recording_wakes_up(&format!("--count {ROUND_TRIPS} --no-record"));
    assert!(woke_up <= ROUND_TRIPS / 200, "{woke_up} times: {summary}");
}

/// How often the recording thread of a ping-pong run woke up, in how many seconds, and the run's summary.
#[cfg(target_os = "linux")]
fn recording_wakes_up(options: &str) -> (u64, f64, Value) {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{} --ping-pong {options} --json --quiet", echo.address());
    let probe = Probe::start(home.path(), &line);
    // The second is there once something was to be synced.
    let both = || {
        wake_ups(probe.pid(), "record").map(|woke_up| woke_up + wake_ups(probe.pid(), "sync").unwrap_or(0))
    };
    let at_first = crate::support::wait_for("the recording thread", both);
    let (began, mut seconds, mut woke_up) = (Instant::now(), 0.0, 0);
    // At the end it is the one that closes the recording, which has no syncs beside it.
    while let Some(now) = both().filter(|now| *now >= at_first + woke_up) {
        (seconds, woke_up) = (began.elapsed().as_secs_f64(), now - at_first);
        // The last look is as late as this before its end.
        std::thread::sleep(Duration::from_millis(20));
    }
    (woke_up, seconds, probe.finish().summary())
}

/// Watching costs time in every round trip: back to back, neither end's reactor watches the connection. Other connections,
/// one of which does not read for a while, have their echoes meanwhile.
#[test]
#[cfg(target_os = "linux")]
fn reactors_do_not_watch_ping_pong_connections() {
    for spin in [&[][..], &["--spin"]] {
        let echo = Echo::start_as(spin);
        let home = tempfile::tempdir().expect("a directory");
        let options = spin.join(" ");
        let line = format!("{} --ping-pong --record r --json --quiet {options}", echo.address());
        let listening = told_of(echo.pid());
        let probe = Probe::start(home.path(), &line);
        let aside = || {
            wait_for_events(&home.path().join("r"), "a connection", |e| {
                !of_kind(e, "connection.opened").is_empty()
            });
            crate::support::wait_for("both reactors to be told nothing", || {
                (told_of(probe.pid()) == 0 && told_of(echo.pid()) == listening).then_some(())
            });
        };
        aside();
        let mut others: Vec<TcpStream> =
            (0..6).map(|_| TcpStream::connect(echo.address()).expect("a connection")).collect();
        for other in &mut others {
            echoes(other, b"is anybody there");
        }
        let mut lazy = others.remove(0);
        drop(others);
        lazy.set_nonblocking(true).expect("a mode");
        let (piece, mut written) = (vec![7; 65_536], 0);
        // Until nobody takes any more: not this kernel, nor the reflector, nor its kernel.
        while let Ok(n) = lazy.write(&piece) {
            written += n;
        }
        lazy.set_nonblocking(false).expect("a mode");
        let mut read = vec![0; written];
        lazy.read_exact(&mut read).expect("all of it");
        assert!(read.iter().all(|byte| *byte == 7));
        drop(lazy);
        aside();
        probe.signal("INT");
        let summary = probe.finish().summary();
        assert_eq!(summary["answered"], summary["due"], "{options}: {summary}");
        assert_sound(&home.path().join("r"));
    }
}

/// How many sockets the reactors of a process are told of (proc(5), fdinfo of an epoll descriptor).
#[cfg(target_os = "linux")]
fn told_of(pid: u32) -> usize {
    let is_socket = |fd: &str| {
        std::fs::read_link(format!("/proc/{pid}/fd/{fd}"))
            .is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    let all = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("its descriptors").flatten();
    let told = all.filter_map(|info| std::fs::read_to_string(info.path()).ok());
    let told = told.flat_map(|info| info.lines().map(str::to_owned).collect::<Vec<_>>());
    let told = told.filter_map(|line| Some(line.strip_prefix("tfd:")?.split_whitespace().next()?.to_owned()));
    told.filter(|fd| is_socket(fd)).count()
}

fn echoes(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).expect("written");
    let mut echo = vec![0; text.len()];
    stream.read_exact(&mut echo).expect("an echo");
    assert_eq!(echo, text);
}

/// How often a thread of this name gave its processor away of its own (`proc_pid_status`(5)); `None`: there is none.
#[cfg(target_os = "linux")]
fn wake_ups(pid: u32, name: &str) -> Option<u64> {
    status_of(pid, name, "voluntary_ctxt_switches:").and_then(|n| n.parse().ok())
}

/// What the kernel says under this key of the thread of this name.
#[cfg(target_os = "linux")]
fn status_of(pid: u32, name: &str, key: &str) -> Option<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut all = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let status =
        all.find(|status| status.lines().next().is_some_and(|first| first == format!("Name:\t{name}")))?;
    Some(status.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned())
}

/// Where there is a third processor, neither the probe nor the reflector shares one with the thread that writes.
#[test]
#[cfg(target_os = "linux")]
fn recorder_cpu_pins_recording_thread() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let may = std::fs::read_to_string("/proc/self/status").expect("this process's");
    let may = may.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("listed").trim();
    let last = may.rsplit([',', '-']).next().expect("one at least");
    let line = format!("{} --ping-pong --recorder-cpu {last} --record r --json --quiet", echo.address());
    let probe = Probe::start(home.path(), &line);
    wait_for_events(&home.path().join("r"), "a connection", |events| {
        !of_kind(events, "connection.opened").is_empty()
    });
    let runs_on = |thread| status_of(probe.pid(), thread, "Cpus_allowed_list:");
    assert_eq!(runs_on("record").as_deref(), Some(last));
    assert_eq!(runs_on("probe").as_deref(), Some(may), "nobody else was told to");
    probe.signal("INT");
    probe.finish().summary();
    let granted = &manifest(&home.path().join("r"))["probe"]["granted"]["recorder-cpu"];
    assert_eq!(*granted, format!("runs on CPU {last} only"));
}

/// `--cpu` is for the probing thread: on its processor the load and the pause clock would have what it leaves.
#[test]
#[cfg(target_os = "linux")]
fn cpu_pins_only_probing_thread() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let may = std::fs::read_to_string("/proc/self/status").expect("this process's");
    let may = may.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("listed").trim();
    let first = may.split([',', '-']).next().expect("one at least");
    let last = may.rsplit([',', '-']).next().expect("one at least");
    for (name, recorder, recorder_runs_on) in
        [("without", String::new(), may), ("with", format!("--recorder-cpu {last}"), last)]
    {
        let options = format!(
            "--every 10ms --load 1MB --load-phase 500ms --cpu {first} {recorder} --record {name} --json --quiet"
        );
        let probe = Probe::start(home.path(), &format!("{} {options}", echo.address()));
        wait_for_events(&home.path().join(name), "a load", |events| {
            !of_kind(events, "load.began").is_empty()
        });
        let threads = threads_of(probe.pid());
        for there in ["probe", "record", "load", "pause-clock"] {
            assert!(threads.iter().any(|(thread, _)| thread == there), "{there}: {threads:?}");
        }
        for (thread, runs_on) in &threads {
            let expected = match thread.as_str() {
                "probe" => first,
                "record" | "sync" | "segment" => recorder_runs_on,
                _ => may,
            };
            assert_eq!(runs_on, expected, "{thread}, {name} --recorder-cpu: {threads:?}");
        }
        probe.signal("INT");
        probe.finish().summary();
    }
}

/// Each thread's name, and the processors that it may run on.
#[cfg(target_os = "linux")]
fn threads_of(pid: u32) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    // One that has ended meanwhile has none.
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let value = |status: &str, key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.expect("each has it").trim().to_owned()
    };
    statuses.map(|status| (value(&status, "Name:"), value(&status, "Cpus_allowed_list:"))).collect()
}

#[test]
fn fatal_error_on_one_thread_ends_all() {
    // A server that greets: no echo server, which ends the run on whichever thread hears it first.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        let mut greeted = Vec::new();
        for mut peer in listener.incoming().flatten() {
            let _ = peer.write_all(b"220 welcome\r\n");
            greeted.push(peer);
        }
    });
    let home = tempfile::tempdir().expect("a directory");
    let line = format!("{address} --ping-pong --connections 4 --threads 2 --no-record --quiet");
    let outcome = Probe::start(home.path(), &line).finish();
    assert_eq!(outcome.code(), 1, "{}", outcome.err);
    assert!(outcome.err.contains("does not echo"), "{}", outcome.err);
}

#[test]
fn invalid_thread_options_are_rejected() {
    let home = tempfile::tempdir().expect("a directory");
    refused(home.path(), "--threads 2", "--ping-pong");
    refused(home.path(), "--ping-pong --threads 2", "--connections");
    refused(home.path(), "--ping-pong --connections 2 --threads 2 --load max", "cannot be used with");
}

fn refused(home: &Path, options: &str, part: &str) {
    let outcome = Probe::start(home, &format!("127.0.0.1 {options}")).finish();
    assert_eq!(outcome.code(), 2, "{options}: {}", outcome.err);
    assert!(outcome.err.contains(part), "{options}: {}", outcome.err);
}

/// Rates of this machine, and peers.
#[cfg(target_os = "linux")]
mod acceptance {
    use super::*;
    use crate::support::needs;
    use crate::support::rate::assert_rate;
    use crate::support::reflector::Xinetd;

    #[test]
    fn threads_share_connections_to_xinetd() {
        if needs("xinetd") {
            one_run(&Xinetd::start("127.0.0.1"), "--threads 4");
        }
    }

    /// It ran 500 times a second once, and more often where it recorded.
    #[test]
    fn recording_thread_rarely_wakes_during_ping_pong() {
        assert_rate(2, 3, || {
            // Once for each look; three events of the connection and the end of the run wake it too.
            wakes_up("--no-record", 2.0);
            // Each look writes, and waits for the disk some seven times, seventeen on a busy one. At twenty looks a second it
            // would be 140 and more.
            wakes_up("--record r", 40.0);
        });
    }

    fn wakes_up(record: &str, a_second_at_most: f64) {
        let (woke_up, seconds, summary) = recording_wakes_up(&format!("--for 3s {record}"));
        let at_most = a_second_at_most * seconds + 5.0;
        assert!(
            woke_up as f64 <= at_most,
            "{record}: {woke_up} times in {seconds} s, not {at_most}: {summary}"
        );
        assert!(woke_up > 0, "it was not looked at: {summary}");
    }

    /// An idle pause clock wakes up 83 times a second, and each time a round trip takes longer. The loops of both ends tell
    /// their clocks that they run.
    #[test]
    fn pause_clocks_rarely_wake_during_ping_pong() {
        assert_rate(2, 3, pause_clocks_wake_up);
    }

    fn pause_clocks_wake_up() {
        let echo = Echo::start("127.0.0.1");
        let home = tempfile::tempdir().expect("a directory");
        let line = format!("{} --ping-pong --for 3s --no-record --json --quiet", echo.address());
        let probe = Probe::start(home.path(), &line);
        let ends = [probe.pid(), echo.pid()];
        let count = || ends.map(|pid| wake_ups(pid, "pause-clock"));
        let at_first = ends.map(|pid| crate::support::wait_for("the clock", || wake_ups(pid, "pause-clock")));
        let (began, mut seconds, mut last) = (Instant::now(), 0.0, at_first);
        while let [Some(here), Some(there)] = count() {
            (seconds, last) = (began.elapsed().as_secs_f64(), [here, there]);
            std::thread::sleep(Duration::from_millis(20));
        }
        let summary = probe.finish().summary();
        // Once a second, and where a busy machine did not let the loop run for 12 ms.
        let at_most = 25.0 * seconds;
        for (end, (first, last)) in ["probe", "reflector"].into_iter().zip(at_first.into_iter().zip(last)) {
            let woke_up = last - first;
            assert!(woke_up as f64 <= at_most, "{end}: {woke_up} times in {seconds} s: {summary}");
            assert!(woke_up > 0, "{end}: its clock stands still: {summary}");
        }
    }
}
