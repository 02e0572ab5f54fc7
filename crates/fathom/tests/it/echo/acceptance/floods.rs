//! Strangers flood a reflector in three ways at once; probes that were there before go on.
//!
//! A machine that is busy with other things can keep the reflector from reading its socket, and datagrams are lost in the
//! kernel then: no guard can help that, and it is no fault of one. The kernel counts them, so the two are told apart by number:
//! what a probe lacks beyond those is the guard's. Only where there are none can its story be held against the guard.

use crate::support::claims::checked_story;
use crate::support::faults::on;
use crate::support::net::{Host, Net};
use crate::support::probe::{Probe, assert_sound, fathom};
use crate::support::rows::{events, of_kind};
use crate::support::{Kept, must, needs, needs_root, wait_for};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

/// How long the floods last.
const FLOOD: Duration = Duration::from_secs(20);
/// A second of a probe's samples: less than what a reflector keeps for those who ask for little, a hundredth of its answers.
const SAMPLES: u64 = 16;
/// A second of its answers: the flood asks for more than twice as many.
const ANSWERS: u32 = 2_000;
const THROUGHPUT: u16 = 5_201;
/// The strangers' addresses: three that send datagrams, one that connects.
const STRANGERS: [u8; 4] = [11, 12, 13, 14];
/// Verdicts that put the blame on what lies between.
const NETWORK: [&str; 3] = ["path_down", "flow_forgotten", "idle_expired"];

/// A child that tells its state in lines.
struct Talker {
    child: Kept,
    input: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
}

impl Talker {
    fn start(command: &mut std::process::Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child: Child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Self { input: child.stdin.take(), child: Kept(child), out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        line
    }

    fn object(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }
}

/// Datagrams that came to a host of the test and that nobody read in time.
fn unread(host: &Host) -> u64 {
    let out = host.command("cat").arg("/proc/net/snmp").output().expect("cat").stdout;
    let text = String::from_utf8(out).expect("text");
    let udp: Vec<Vec<&str>> =
        text.lines().filter_map(|l| l.strip_prefix("Udp: ")).map(|l| l.split(' ').collect()).collect();
    let at = udp[0].iter().position(|name| *name == "RcvbufErrors").expect("Linux counts them");
    udp[1][at].parse().expect("a number")
}

/// How many samples stand in a recording that is being written.
fn answered(dir: &Path) -> u64 {
    // It may not have begun.
    let Some(dir) = dir.is_dir().then_some(dir) else { return 0 };
    let outcome = fathom(dir, &["recording", "summary", ".", "--json"]);
    let summary: Option<Value> = serde_json::from_str(&outcome.out).ok();
    summary.and_then(|summary| summary["answered"].as_u64()).unwrap_or(0)
}

fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name}: {of}"))
}

/// Nothing in a recording and its story blames what lies between.
fn assert_blames_no_network(dir: &Path) {
    let events = events(dir);
    for explained in of_kind(&events, "connection.explained") {
        let verdict = explained["verdict"].as_str().expect("a verdict");
        assert!(!NETWORK.contains(&verdict), "{explained}");
    }
    for line in checked_story(dir, &events) {
        let statement = line["statement"].as_str().expect("a sentence");
        assert!(!NETWORK.iter().any(|verdict| statement.contains(verdict)), "{line}");
    }
}

#[test]
fn three_floods_spare_established_probes() {
    if !needs_root() || !needs("python3") {
        return;
    }
    let (net, home) = (Net::new(), tempfile::tempdir().expect("a directory"));
    let address = net.v4(2).to_string();
    let strangers: Vec<String> = STRANGERS.iter().map(|&last| net.v4(last).to_string()).collect();
    for stranger in &strangers {
        on(&net.probe, &format!("ip address add {stranger}/24 dev cable"));
    }
    let options = format!(
        "echo --json --listen {} --throughput {THROUGHPUT} --max-connections 200 --udp-max-rate {ANSWERS}",
        net.reflector_v4()
    );
    let mut reflector = Talker::start(net.reflector.fathom().args(options.split(' ')));
    while reflector.object()["protocol"] != "iperf3" {}

    let every = Duration::from_secs(1) / SAMPLES as u32;
    let probe = |transport: &str| {
        let options = format!("--every {}ms --record {transport} --json --quiet", every.as_millis());
        let udp = if transport == "udp" { "--udp" } else { "" };
        let line = format!("{} --source {} {udp} {options}", net.reflector_v4(), net.v4(1));
        Probe::start_on(&net.probe, home.path(), &line)
    };
    let probes = ["tcp", "udp"].map(|transport| (home.path().join(transport), probe(transport)));
    for (dir, _) in &probes {
        // For so long they have been there: a reflector knows who came before a flood.
        wait_for("the first two seconds", || (answered(dir) >= 2 * SAMPLES).then_some(()));
    }

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/floods.py");
    let (echo, throughput) = (net.reflector_v4().port().to_string(), THROUGHPUT.to_string());
    let mut floods = Talker::start(
        net.probe.command("python3").args([script, &address, &echo, &throughput]).args(&strangers),
    );
    assert_eq!(floods.line(), "begun\n");
    // And a test of the kind that is served, as large as a small machine bears beside the rest.
    let test = format!(
        "{address}:{THROUGHPUT} --throughput --bitrate 20Mbit --connections 4 --for 10s --no-record --quiet"
    );
    let test = Probe::start_on(&net.probe, home.path(), &test);
    thread::sleep(FLOOD);
    drop(floods.input.take());
    let flooded = floods.object();
    test.finish();

    let summaries = probes.map(|(dir, probe)| {
        probe.signal("TERM");
        (dir, probe.finish().summary())
    });
    must("kill", &["-TERM", &reflector.child.0.id().to_string()]);
    let served = reflector.object();
    let tests = reflector.object();
    let unread = unread(&net.reflector);
    eprintln!("{flooded}; {served}; {tests}; {unread} not read in time");

    // The floods were floods, and were held off.
    assert!(count(&served["datagrams_refused"], "rate") > 1_000, "{served}");
    let held_off = count(&served["refused"], "too_many") + count(&served, "connections_silent_closed");
    assert!(held_off > 100, "{served}");
    assert!(count(&tests, "tests_refused") + count(&tests, "busy") > 20, "{tests}");

    for (dir, summary) in &summaries {
        assert!(count(summary, "answered") > 10 * SAMPLES, "{summary}");
        assert_sound(dir);
    }
    let [(tcp_dir, tcp), (udp_dir, udp)] = &summaries;
    assert_blames_no_network(tcp_dir);
    assert_eq!(count(tcp, "unanswered"), 0, "{tcp}");
    let events = events(tcp_dir);
    assert_eq!(of_kind(&events, "connection.opened").len(), 1, "its connection was never lost: {events:#?}");
    let lost = count(udp, "unanswered");
    eprintln!("{lost} of {} datagrams of the probe lost", count(udp, "samples"));
    assert!(lost.saturating_sub(unread) * 100 < count(udp, "samples"), "{unread} not read in time: {udp}");
    let loss = &udp["loss"];
    let blamed = count(loss, "forward") + count(loss, "backward");
    assert!(blamed.saturating_sub(unread) * 100 < count(udp, "samples"), "{unread} not read in time: {udp}");
    if unread == 0 {
        assert_blames_no_network(udp_dir);
    } else {
        eprintln!(
            "this machine kept the reflector from reading: what is told of the lost datagrams is not looked at"
        );
    }
}
