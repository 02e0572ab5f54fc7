//! `fathom fabric` from outside: hosts that reach each other, events, the truth, and that nothing stays behind. As root,
//! and as a user without any privilege in a user namespace.
mod site;
use crate::support::{FATHOM, Kept, must, needs, wait_for};
use serde_json::Value;
use site::{Site, User, text};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Two hosts, 5 ms each way.
const PAIR: &str = r#"
format = 1
name = "pair"
[[host]]
name = "client"
addresses = ["10.77.0.1", "fd77::1"]
[[host]]
name = "server"
addresses = ["10.77.0.2", "fd77::2"]
[[path]]
label = "between"
from = "client"
to = "server"
both = { delay = "5ms" }
[[path]]
label = "between-v6"
from = "fd77::1"
to = "fd77::2"
both = { delay = "5ms" }
"#;
const BOTH_WAYS_NS: u64 = 10_000_000;

#[test]
fn fabric_lifecycle_works_as_root() {
    everything_works(User::Root);
}

fn everything_works(user: User) {
    let Some(site) = Site::new(user, PAIR) else { return };
    let ready = site.json("up scenario.toml --name NAME --json --truth truth --packets");
    assert_eq!(ready["hosts"][0]["name"], "client", "{ready}");
    // The command's exit code is the answer, its environment says where it is, and names are known there.
    assert_eq!(site.exec("client", &["sh", "-c", "exit 7"]).status().expect("a command").code(), Some(7));
    let environment =
        site.exec("client", &["sh", "-c", "echo $FATHOM_FABRIC_HOST"]).output().expect("a command");
    assert_eq!(text(&environment.stdout), "client\n");
    assert_eq!(site.exec("client", &["no-such-program"]).status().expect("a command").code(), Some(127));
    assert!(site.refused("exec --name NAME cleint -- true", 1).contains("client, server"));

    let reflector = site.reflector("server");
    for target in ["server", "10.77.0.2", "fd77::2"] {
        let summary = site.probe("client", &format!("{target} --count 20 --every 20ms"));
        assert_eq!(summary["answered"], 20, "{summary}");
        let fastest = summary["rtt_ns"]["min"].as_u64().expect("a time");
        assert!(fastest >= BOTH_WAYS_NS, "{fastest}");
    }
    let status = site.json("status NAME --json");
    let counters = &status["world"]["counters"];
    assert!(counters["packets_in"].as_u64() >= Some(120), "{status}");
    assert_eq!(counters["dropped"], 0, "{status}");
    assert!(status["lateness_ns"]["count"].as_u64() >= Some(120), "{status}");
    assert!(site.must("status NAME").contains("host server  10.77.0.2 fd77::2"));
    // Only root may name networks, and then everybody's tools find them.
    let named = if user == User::Root { 2 } else { 0 };
    assert_eq!(site.named_networks().len(), named);
    if user == User::Root {
        let namespace = format!("fathom-{}-client", site.name);
        must("ip", &["netns", "exec", &namespace, "ping", "-c", "1", "10.77.0.2"]);
    }
    assert!(site.refused("up scenario.toml --name NAME", 1).contains("is up already"));

    let down = site.json("down NAME --json");
    assert!(down["ended"].as_array().is_some_and(|all| all.iter().any(|p| p["host"] == "server")), "{down}");
    drop(reflector);
    site.assert_nothing_left();
    assert!(site.refused("status NAME", 1).contains("no fabric"));
    let truth = site.truth("truth");
    assert_eq!(truth[0]["kind"], "truth.started");
    assert_eq!(truth.last().expect("a line")["kind"], "truth.ended");
    assert!(truth.iter().any(|line| line["kind"] == "clock.anchored"));
    assert_packets(&site.path("truth/truth-packets.parquet"));
    assert!(site.refused("up scenario.toml --name NAME --truth truth", 1).contains("another run"));
    site.assert_nothing_left();
}

/// Every packet was due exactly 5 ms after it came, and was not given to its host before that.
fn assert_packets(path: &Path) {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    let file = fs::File::open(path).expect("a file");
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 4_096).expect("Parquet");
    let mut rows = 0;
    for batch in reader {
        let batch = batch.expect("rows");
        let times = |name: &str| batch.column_by_name(name).expect(name).as_primitive::<Int64Type>().clone();
        let words = |name: &str| batch.column_by_name(name).expect(name).as_string::<i32>().clone();
        let (came, due, out) = (times("in_ns"), times("due_ns"), times("out_ns"));
        let (from, to, path, fate) = (words("from"), words("to"), words("path"), words("fate"));
        for i in 0..batch.num_rows() {
            assert_eq!(fate.value(i), "delivered");
            assert_eq!(due.value(i) - came.value(i), 5_000_000);
            assert!(out.value(i) >= due.value(i));
            assert_ne!(from.value(i), to.value(i));
            assert!(path.value(i).starts_with("between"));
        }
        rows += batch.num_rows();
    }
    assert!(rows >= 120, "{rows}");
}

#[test]
fn cut_link_drops_and_logs_packets() {
    let Some(site) = Site::new(User::Root, PAIR) else { return };
    site.must("up scenario.toml --name NAME --truth truth");
    site.must("event --name NAME link-cut --path between --direction forward --for 1h");
    assert!(site.must("status NAME").contains("path between  cut forward"));
    // A SYN, which gets no answer.
    let connect = ["timeout", "1", "bash", "-c", "</dev/tcp/10.77.0.2/7"];
    let connected = site.exec("client", &connect).status().expect("a command");
    assert_eq!(connected.code(), Some(124), "it was refused or accepted over a cut path");
    site.must("down NAME");
    let truth = site.truth("truth");
    let began = truth.iter().find(|line| line["kind"] == "event.began").expect("the cut");
    assert_eq!((&began["event"], &began["parameters"]["direction"]), (&"link-cut".into(), &"forward".into()));
    assert_cut_forward(&truth);
}

/// Only what goes from the client to the server is dropped, by the cut.
fn assert_cut_forward(truth: &[Value]) {
    let dropped: Vec<_> = truth.iter().filter(|line| line["kind"] == "packet.dropped").collect();
    assert!(!dropped.is_empty());
    for line in dropped {
        assert_eq!((&line["reason"], &line["place"]), (&"cut".into(), &"between".into()), "{line}");
        let source = line["flow"]["source"].as_str();
        assert!(source.is_some_and(|source| source.starts_with("10.77.0.1:")), "{line}");
    }
}

#[test]
fn host_pause_stops_only_its_processes_as_root() {
    stands_still(User::Root);
}

fn stands_still(user: User) {
    let Some(site) = Site::new(user, PAIR) else { return };
    site.up();
    let (mut server, client) = (site.reflector("server"), site.reflector("client"));
    let stands = |kept: &Kept| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", kept.0.id())).expect("it runs");
        // The state follows the name, which is in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    site.must("event --name NAME host-pause --host server --for 2s");
    wait_for("the server to stand", || stands(&server).then_some(()));
    assert!(!stands(&client), "it is on another host");
    wait_for("the server to go on", || (!stands(&server)).then_some(()));
    // A fabric that ends in the middle of a pause ends what stands still in order: it hears the SIGTERM.
    site.must("event --name NAME host-pause --host server --for 1h");
    wait_for("the server to stand again", || stands(&server).then_some(()));
    site.must("down NAME");
    let ended = server.0.wait().expect("an end");
    assert!(ended.success(), "{ended}");
    site.assert_nothing_left();
}

#[test]
fn up_and_down_clean_up_killed_daemon() {
    for user in [User::Root, User::Nobody] {
        let Some(site) = Site::new(user, PAIR) else { return };
        let first = site.up();
        let orphan = site.exec("client", &["sleep", "1000"]).spawn().expect("a command");
        let orphan = Kept(orphan);
        wait_for("the command", || (!site.marked_processes().is_empty()).then_some(()));
        kill(&first);
        wait_for("the daemon's end", || {
            let out = site.output("status NAME");
            text(&out.stderr).contains("gone without a word").then_some(())
        });
        assert!(site.state().exists());
        let second = site.up();
        assert_ne!(first["pid"], second["pid"]);
        assert_eq!(site.marked_processes(), Vec::<u32>::new(), "the first one's process is ended");
        drop(orphan);
        let pinged = site.exec("client", &["ping", "-c", "1", "server"]).output().expect("a command");
        assert!(pinged.status.success(), "{}", text(&pinged.stdout));
        // And `down` cleans alike.
        kill(&second);
        site.must("down --name NAME");
        site.assert_nothing_left();
    }
}

/// Kills the daemon. What follows must bear that the kernel is still at it.
fn kill(ready: &Value) {
    must("kill", &["-KILL", &ready["pid"].to_string()]);
}

#[test]
fn run_ends_with_its_commands_exit_code() {
    for user in [User::Root, User::Nobody] {
        let Some(site) = Site::new(user, PAIR) else { return };
        let on_host = site.output("run scenario.toml --name NAME --host client -- ping -c 2 server");
        assert!(on_host.status.success(), "{}", text(&on_host.stderr));
        site.assert_nothing_left();
        // The command runs here, and reaches hosts without naming the fabric. What it leaves behind on them is ended.
        let script = format!(
            "{FATHOM} fabric exec server -- sleep 1000 & {FATHOM} fabric exec client -- sh -c 'exit 9'"
        );
        let mut command = site.fabric("run scenario.toml --name NAME -- sh -c");
        let here = command.arg(script).output().expect("a command");
        assert_eq!(here.status.code(), Some(9), "{}", text(&here.stderr));
        site.assert_nothing_left();
        assert_eq!(site.output("run scenario.toml --name NAME -- no-such-program").status.code(), Some(127));
        site.assert_nothing_left();
    }
}

#[test]
fn terminated_run_removes_its_fabric() {
    let Some(site) = Site::new(User::Root, PAIR) else { return };
    for signal in ["TERM", "INT", "KILL"] {
        let mut command = site.fabric("run scenario.toml --name NAME --host client -- sh -c");
        command
            .arg("echo started; exec sleep 1000")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut run = Kept(command.spawn().expect("a command"));
        let mut line = String::new();
        BufReader::new(run.0.stdout.take().expect("piped")).read_line(&mut line).expect("text");
        assert_eq!(line, "started\n");
        must("kill", &[&format!("-{signal}"), &run.0.id().to_string()]);
        run.0.wait().expect("an end");
        if signal == "KILL" {
            wait_for("the fabric's end", || (!site.state().with_extension("lock").exists()).then_some(()));
        }
        site.assert_nothing_left();
    }
}

#[test]
fn down_names_and_spares_foreign_process() {
    let Some(site) = Site::new(User::Root, PAIR) else { return };
    site.up();
    let namespace = format!("fathom-{}-client", site.name);
    let mut stranger = Command::new("ip");
    stranger.args(["netns", "exec", &namespace, "sh", "-c", "echo there; read line"]);
    let mut stranger = Kept(stranger.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("ip"));
    let mut line = String::new();
    BufReader::new(stranger.0.stdout.take().expect("piped")).read_line(&mut line).expect("text");
    let down = site.output("down NAME");
    assert!(down.status.success(), "{}", text(&down.stderr));
    let said = text(&down.stderr);
    assert!(said.contains(&format!("process {} (sh) on client", stranger.0.id())), "{said}");
    site.assert_nothing_left();
    // It still listens.
    stranger.0.stdin.take().expect("piped").write_all(b"line\n").expect("it reads");
    assert!(stranger.0.wait().expect("an end").success());
}

/// A hub, and hosts with a path to it each, of 1 ms, 2 ms, and so on.
fn hosts_respect_their_path_delays(all: u32) {
    let spoke = |i: u32| {
        format!(
            "[[host]]\nname = \"h{i}\"\naddress = \"10.78.0.{i}\"\n[[path]]\nlabel = \"p{i}\"\nfrom = \"h{i}\"\nto = \
             \"hub\"\nboth = {{ delay = \"{i}ms\" }}\n"
        )
    };
    let hub = "format = 1\n[[host]]\nname = \"hub\"\naddress = \"10.78.0.100\"\n".to_owned();
    let scenario: String = std::iter::once(hub).chain((1..all).map(spoke)).collect();
    let Some(site) = Site::new(User::Root, &scenario) else { return };
    let ready = site.up();
    let hosts = ready["hosts"].as_array().expect("hosts");
    assert_eq!(hosts.len(), all as usize);
    let address = |host: &Value| host["addresses"][0].as_str().and_then(|a| a.parse::<IpAddr>().ok());
    assert!(hosts.iter().all(|host| address(host).is_some()));
    let _reflector = site.reflector("hub");
    for i in 1..u64::from(all) {
        let summary = site.probe(&format!("h{i}"), "hub --count 5 --every 5ms");
        assert_eq!(summary["answered"], 5, "{summary}");
        let fastest = summary["rtt_ns"]["min"].as_u64().expect("a time");
        assert!(fastest >= 2 * i * 1_000_000, "h{i}: {fastest}");
    }
    let status = site.json("status NAME --json");
    assert_eq!(status["world"]["counters"]["dropped"], 0, "{status}");
    // Hosts without a path between them do not reach each other, and are told so.
    let unreachable = site.exec("h1", &["ping", "-c", "1", "-W", "1", "h2"]).status().expect("a command");
    assert!(!unreachable.success());
    site.must("down NAME");
    site.assert_nothing_left();
}

#[test]
fn five_hosts_respect_their_path_delays() {
    hosts_respect_their_path_delays(5);
}

#[test]
fn mistakes_name_remedy_and_create_nothing() {
    let Some(site) = Site::new(User::Root, "format = 1\n[[host]]\nname = \"a\"\naddress = \"10.0.0.300\"\n")
    else {
        return;
    };
    let wrong = site.refused("up scenario.toml --name NAME", 1);
    assert!(wrong.contains("scenario.toml:4:"), "{wrong}");
    assert!(site.refused("up missing.toml --name NAME", 1).contains("missing.toml"));
    assert!(site.refused("up scenario.toml --name NAME --packets", 2).contains("--truth"));
    assert!(site.refused("down NAME", 1).contains("no fabric"));
    assert!(site.refused("exec --name NAME a", 2).contains("COMMAND"));
    site.assert_nothing_left();
    // A machine without `ip` is told which package has it.
    fs::write(site.path("scenario.toml"), PAIR).expect("a file");
    assert!(
        site.refused("up scenario.toml --name Bad/Name", 2).contains("a-z, 0-9 and -, as in \"bad-name\"")
    );
    let mut command = site.fabric("up scenario.toml --name NAME");
    let out = command.env("PATH", site.path("run")).output().expect("a command");
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("iproute2"), "{}", text(&out.stderr));
    site.assert_nothing_left();
}

/// Runs a command on a terminal of its own, closes that when `it-runs` is there, and waits for the command's end.
const TERMINAL: &str = r#"
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    # It may be ignored here, as under nohup.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
signal.alarm(60)
while not os.path.exists("it-runs"):
    time.sleep(0.01)
os.close(terminal)
print("ended with", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

mod acceptance {
    use super::*;

    #[test]
    fn fabric_lifecycle_works_unprivileged() {
        everything_works(User::Nobody);
    }

    #[test]
    fn host_pause_stops_only_its_processes_unprivileged() {
        stands_still(User::Nobody);
    }

    #[test]
    fn truth_log_explains_link_cut_stall() {
        let Some(site) = Site::new(User::Root, PAIR) else { return };
        site.must("up scenario.toml --name NAME --truth truth");
        let _reflector = site.reflector("server");
        let mut command =
            site.exec("client", &[FATHOM, "probe", "server", "--every", "50ms", "--json", "--quiet"]);
        let probe = command.args(["--record", "r"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let probe = Kept(probe.expect("a command"));
        let kind = |kind: &str| {
            let lines = fs::read_to_string(site.path("r/events.jsonl")).unwrap_or_default();
            lines
                .lines()
                .filter_map(|l| serde_json::from_str::<Value>(l).ok())
                .find(|event| event["kind"] == kind)
        };
        let delivered = || site.json("status NAME --json")["world"]["counters"]["delivered"].as_u64();
        wait_for("samples", || (delivered() >= Some(40)).then_some(()));
        // Long enough for the probe to call it a stall, and short enough for the connection to survive it.
        site.must("event --name NAME link-cut --path between --direction forward --for 3s");
        assert!(site.must("status NAME").contains("path between  cut forward"));
        let began = wait_for("the stall", || kind("stall.began"));
        let ended = wait_for("its end", || kind("stall.ended"));
        assert_eq!(ended["recovered"], true, "{ended}");
        must("kill", &["-TERM", &probe.0.id().to_string()]);
        site.must("down NAME");
        site.assert_nothing_left();

        let truth = site.truth("truth");
        let at = |kind: &str| {
            truth.iter().position(|line| line["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
        };
        let (cut, dropped, restored) = (at("event.began"), at("packet.dropped"), at("event.ended"));
        assert!(cut < dropped && dropped < restored, "{cut} {dropped} {restored}");
        assert_eq!(truth[cut]["event"], "link-cut");
        assert_eq!(truth[cut]["parameters"]["direction"], "forward");
        assert_cut_forward(&truth);
        // Both write RFC 3339 by the same clock: the stall lies after the cut.
        let time = |value: &Value| {
            value["at"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok()).expect("a time")
        };
        assert!(time(&truth[cut]) < time(&began) && time(&began) < time(&ended));
        assert!(time(&truth[restored]) < time(&ended));
    }

    #[test]
    fn twenty_hosts_respect_their_path_delays() {
        hosts_respect_their_path_delays(20);
    }

    /// SSH was cut, or the window closed.
    #[test]
    fn lost_terminal_removes_fabric() {
        let Some(site) = Site::new(User::Root, PAIR) else { return };
        if !needs("python3") {
            return;
        }
        fs::write(site.path("terminal.py"), TERMINAL).expect("a file");
        let run = ["fabric", "run", "scenario.toml", "--name", &site.name, "--"];
        let out = site
            .command("python3")
            .args(["terminal.py", FATHOM])
            .args(run)
            .args(["sh", "-c", "touch it-runs; exec sleep 1000"])
            .output()
            .expect("a command");
        assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
        site.assert_nothing_left();
    }
}
