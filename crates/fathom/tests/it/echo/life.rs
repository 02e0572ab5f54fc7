//! How a reflector starts, ends, and refuses to start.

use super::reflector::{FATHOM, Reflector, connect, is_root, round_trip, skip};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    outcome(&Command::new(FATHOM).arg("echo").args(arguments).output().expect("fathom runs"))
}

fn outcome(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn sigterm_ends_it_with_counts() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let mut stream = reflector.connect();
    round_trip(&mut stream, b"0123456789");
    let (counts, said) = reflector.stop();
    assert_eq!(counts["format"], 1);
    assert_eq!(counts["connections"], 1);
    assert_eq!(counts["bytes"], 10);
    assert!(counts["uptime_ns"].as_u64().is_some_and(|ns| ns > 0), "{counts}");
    assert!(said.contains("served 1 connection (1 still open), refused 0;"), "{said}");
    assert!(said.contains("10 bytes echoed"), "{said}");
}

#[test]
fn it_ends_by_itself_after_its_time() {
    let (code, said) = run(&["--listen", "127.0.0.1:0", "--for", "50ms"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("fathom echo: listening on tcp 127.0.0.1:"), "{said}");
    assert!(said.contains("served 0 connections"), "{said}");
}

#[test]
fn spinning_serves_too() {
    let reflector = Reflector::start("127.0.0.1:0", &["--spin", "--cpu", "0"]);
    assert_eq!(round_trip(&mut reflector.connect(), b"in"), b"in");
    assert_eq!(reflector.stop().0["connections"], 1);
}

/// A spinning reflector tries reads only on connections that take their echoes; others are waited for as without `--spin`.
#[test]
fn spin_holds_unread_echoes_until_read() {
    const MANY: usize = 1 << 30;
    let reflector = Reflector::start("127.0.0.1:0", &["--spin"]);
    let (mut full, mut other) = (reflector.connect(), reflector.connect());
    // From 1 on: zeros at the beginning would pass for nothing having come.
    let piece: Vec<u8> = (1..=251).collect();
    full.set_nonblocking(true).expect("a mode");
    // Both ends' buffers are full when nothing more goes after the reflector has had turns enough.
    let (mut written, mut refused) = (0, 0);
    while refused < 100 {
        match full.write(&piece[written % piece.len()..]) {
            Ok(n) => (written, refused) = (written + n, 0),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                assert_eq!(round_trip(&mut other, b"beside it"), b"beside it");
            }
            Err(e) => panic!("after {written}: {e}"),
        }
        assert!(written < MANY, "whatever is sent is taken, and nothing is read");
    }
    full.set_nonblocking(false).expect("a mode");
    let mut back = vec![0; written];
    full.read_exact(&mut back).expect("all that went comes back");
    assert!(back.chunks(piece.len()).all(|chunk| chunk == &piece[..chunk.len()]));
    assert_eq!(round_trip(&mut full, b"in"), b"in");
    assert_eq!(reflector.stop().0["connections"], 2);
}

#[test]
fn port_in_use_error_suggests_ss() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let address = reflector.tcp.expect("it serves TCP").to_string();
    let (code, said) = run(&["--listen", &address]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("cannot listen on tcp {address}")) && said.contains("ss -ltnp"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn port_in_use_is_reported_as_json() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let address = reflector.tcp.expect("it serves TCP");
    for arguments in [
        vec!["--listen".into(), format!("tcp://{address}")],
        vec![
            "--listen".into(),
            "tcp://127.0.0.1:0".into(),
            "--throughput".into(),
            address.port().to_string(),
        ],
    ] {
        let done = Command::new(FATHOM).args(["echo", "--json"]).args(&arguments).output().expect("it runs");
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        let lines: Vec<Value> = String::from_utf8_lossy(&done.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let wanted = json!({
            "event": "address_in_use", "format": 1, "protocol": "tcp", "address": address.to_string(),
            "port": address.port(),
        });
        assert_eq!(lines, [wanted], "{arguments:?}");
    }
}

#[test]
fn port_in_use_is_reported_despite_stdout_error() {
    let reflector = Reflector::start("127.0.0.1:0", &[]);
    let address = reflector.tcp.expect("it serves TCP");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let done = Command::new(FATHOM)
        .args(["echo", "--json", "--listen", &format!("tcp://{address}")])
        .stdout(full)
        .output()
        .expect("it runs");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains(&format!("cannot listen on tcp {address}")), "{said}");
    assert!(said.contains("another socket has this TCP port"), "{said}");
}

#[test]
fn privileged_port_error_explains_permission() {
    let start = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if start.trim().parse().is_ok_and(|first: u32| first <= 7) {
        return skip("this host lets anybody listen on port 7");
    }
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
            "sh",
            "-c",
        ]);
        // The build directory may be closed to others: the shell passes on what root has opened.
        command.arg("exec /proc/self/fd/0 echo --listen 127.0.0.1:7");
        command.stdin(std::fs::File::open(FATHOM).expect("the binary"));
        command
    } else {
        let mut command = Command::new(FATHOM);
        command.args(["echo", "--listen", "127.0.0.1:7"]);
        command
    };
    let (code, said) = outcome(&command.output().expect("it runs"));
    assert_eq!(code, Some(1), "{said}");
    for part in ["cannot listen on tcp 127.0.0.1:7", "setcap cap_net_bind_service", "sudo", "above 1023"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn invalid_arguments_exit_two() {
    for arguments in [
        &["--allow", "10.0.0.0/33"][..],
        &["--allow", "everybody"],
        &["--listen", "somewhere:7"],
        &["--listen", "99999"],
        &["--listen", "sctp://7"],
        &["--listen", "tcp://0", "--udp-only"],
        &["--tcp-only", "--udp-only"],
        &["--idle-timeout", "-1s"],
        &["--idle-timeout", "5"],
        &["--max-connections", "0"],
    ] {
        let (code, said) = run(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
}

#[test]
fn help_has_examples() {
    let output = Command::new(FATHOM).args(["echo", "--help"]).output().expect("fathom runs");
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(
        help.contains("fathom echo --allow 10.0.0.0/8") && help.contains("[default: [::]:7007]"),
        "{help}"
    );
}

#[test]
fn descriptor_shortage_is_reported_once_and_survived() {
    let mut command = Command::new("sh");
    let script =
        format!("ulimit -n 20; exec {FATHOM} echo --json --listen 127.0.0.1:0 --max-connections 1000");
    command.args(["-c", &script]);
    let mut reflector = Reflector::spawn(command);
    let address = reflector.tcp.expect("it serves TCP");
    let mut first = connect(address);
    assert_eq!(round_trip(&mut first, b"in"), b"in");
    let held: Vec<_> = (0..20).map(|_| connect(address)).collect();
    let mut waiting = connect(address);
    waiting.write_all(b"later").expect("the kernel takes it");
    reflector.said("cannot take another connection");
    assert_eq!(round_trip(&mut first, b"still in"), b"still in");
    drop(held);
    let mut echo = [0; 5];
    Read::read_exact(&mut waiting, &mut echo).expect("its turn comes");
    assert_eq!(&echo, b"later");
    let (_, said) = reflector.stop();
    assert!(!said.contains("cannot take another"), "it was said once before: {said}");
}
