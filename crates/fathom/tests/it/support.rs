//! What the end-to-end tests of `fathom probe` and its recordings share.
//!
//! Children are the tests' own and are ended by process id. Waiting is for a condition, in a bounded loop, never for
//! a time; where a test sleeps, the length of time is what it tests.

pub(crate) mod bystander;
pub(crate) mod claims;
pub(crate) mod counting;
#[cfg(target_os = "linux")]
pub(crate) mod database;
#[cfg(target_os = "linux")]
pub(crate) mod fabric;
pub(crate) mod faults;
pub(crate) mod keyed;
#[cfg(target_os = "linux")]
pub(crate) mod mariadb;
pub(crate) mod metadata;
pub(crate) mod net;
pub(crate) mod noting;
#[cfg(target_os = "linux")]
pub(crate) mod postgres;
pub(crate) mod probe;
pub(crate) mod rate;
pub(crate) mod reflector;
pub(crate) mod relay;
pub(crate) mod rows;
pub(crate) mod small_disk;
pub(crate) mod throughput;
pub(crate) mod withholding;

use std::collections::HashSet;
use std::net::UdpSocket;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");
/// Long enough for any machine; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Says visibly that a test could not run here; in CI that is a failure.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must run this test: {why}");
    eprintln!("SKIPPED: {why}");
}

/// Whether this test can make namespaces and mounts; says so where it cannot.
pub(crate) fn needs_root() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.trim_ascii() == b"0");
    if !root {
        skip("it needs root");
    }
    root
}

/// Whether a program is installed; says so where it is not.
pub(crate) fn needs(program: &str) -> bool {
    let found = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|dir| std::path::Path::new(dir).join(program).exists());
    if !found {
        skip(&format!("it needs {program}"));
    }
    found
}

/// Whether this host has an IPv6 loopback address; says so where it has not.
pub(crate) fn needs_ipv6() -> bool {
    let found = UdpSocket::bind("[::1]:0").is_ok();
    if !found {
        skip("it needs IPv6");
    }
    found
}

/// Waits until `found` gives something; panics with `what` where it never does.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(it) = found() {
            return it;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A port that nothing here has now, for servers that cannot be asked for port 0. It lies below the range
/// from which the kernel hands out ports (32768 and up), so that no other socket takes it meanwhile.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test binaries that run side by side begin in different places.
    let start = (std::process::id() % 97) as u16 * 100;
    let taken = taken_ports();
    let mut ports = (0..10_000).map(|_| 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000);
    ports.find(|port| !taken.contains(port)).expect("a free port")
}

/// Local ports of this host's sockets, from the kernel's tables. Whether a port can be bound is not tried: a child that
/// another test starts just then has a copy of the socket until it becomes its program, and the server finds its port taken.
fn taken_ports() -> HashSet<u16> {
    let tables =
        ["tcp", "tcp6", "udp", "udp6"].map(|table| std::fs::read_to_string(format!("/proc/net/{table}")));
    let lines = tables.iter().flatten().flat_map(|table| table.lines().skip(1));
    let local = lines.filter_map(|line| line.split_whitespace().nth(1)?.rsplit_once(':'));
    local.map(|(_, port)| u16::from_str_radix(port, 16).expect("a port in hexadecimal digits")).collect()
}

/// Runs a command to its end, which must be a success; gives its standard output.
pub(crate) fn must(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    let [told, said] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(out.status.success(), "{program} {}: {}: {told}{said}", arguments.join(" "), out.status);
    told
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, name: &str) {
    must("kill", &[&format!("-{name}"), &child.id().to_string()]);
}

/// Whether every thread of a process stands still.
pub(crate) fn all_stand(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    tasks.map(|task| task.expect("listed").path().join("stat")).all(|stat| {
        let stat = std::fs::read_to_string(stat).expect("it runs");
        // The state follows the name, which is in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

/// What a child said when it has ended, by itself and in time; else it is killed, and the test has failed.
pub(crate) fn ended(child: Child) -> Output {
    let pid = child.id();
    let (send, receive) = mpsc::channel();
    let waiting = thread::spawn(move || send.send(child.wait_with_output()));
    let Ok(output) = receive.recv_timeout(PATIENCE) else {
        // It has not been waited for, so the number is still its own.
        let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        panic!("a child did not end within {PATIENCE:?}; killed: {killed:?}");
    };
    waiting.join().expect("it has sent").expect("it has sent");
    output.expect("it can be waited for")
}

/// A child that does not outlive its test.
#[derive(Debug)]
pub(crate) struct Kept(pub(crate) Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // Where it has been waited for already, both do nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `SplitMix64`, seeded: the same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        fathom_wire::pattern::mix(self.0) % limit
    }
}
