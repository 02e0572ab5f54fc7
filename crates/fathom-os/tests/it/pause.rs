//! A process that is really stopped, and what its pause clock says of it.

use fathom_os::clock::mono_ns;
use fathom_os::pause::{DEFAULT_PERIOD, DEFAULT_THRESHOLD, PauseClock, Running};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Run by the tests below in a process of its own: tells its pauses until its input ends.
#[test]
#[ignore = "a child of a_stopped_process_reports_the_stop"]
fn child_with_a_pause_clock() {
    let clock = PauseClock::start(DEFAULT_PERIOD, DEFAULT_THRESHOLD, |pause| {
        let waited = pause.run_queue_ns.expect("Linux counts it");
        println!("\npause {} {} {waited}", pause.began_mono_ns, pause.ended_mono_ns);
    })
    .unwrap();
    println!("\nready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(clock);
}

/// As the one above, in a process whose first thread says all the time that it runs.
#[test]
#[ignore = "a child of a_stopped_process_reports_the_stop"]
fn child_that_works() {
    let clock = PauseClock::start(DEFAULT_PERIOD, DEFAULT_THRESHOLD, |pause| {
        let waited = pause.run_queue_ns.expect("Linux counts it");
        println!("\npause {} {} {waited}", pause.began_mono_ns, pause.ended_mono_ns);
    })
    .unwrap();
    println!("\nready");
    let over = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let mut running = Running::new(clock.gap());
    while !over.is_finished() {
        work(&mut running);
    }
}

/// One turn of a loop that is watched by the clock.
fn work(running: &mut Running) {
    let now = mono_ns();
    running.runs(now);
    running.put_off(now);
    running.rests_until(now + 200_000);
    std::thread::sleep(Duration::from_micros(200));
}

/// How often the thread of the clock has slept.
fn sleeps_of_the_clock() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = tasks
        .map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default())
        .find(|status| status.starts_with("Name:\tpause-clock\n"))
        .expect("the clock's thread");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Sends a signal and waits until the kernel has carried it out.
fn signal(child: &Child, signal: libc::c_int, until: libc::c_int) {
    let pid = child.id() as libc::pid_t;
    // SAFETY: the child is ours and not yet waited for, so the id is its.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    // SAFETY: all zeros are a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid for writes.
    let outcome = unsafe { libc::waitid(libc::P_PID, child.id(), &raw mut info, until) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

const CHILDREN: [&str; 2] = ["pause::child_with_a_pause_clock", "pause::child_that_works"];

/// A stop, and the pause that the clock reported of it: all by the same clock, ns.
struct Stop {
    stopped: u64,
    resuming: u64,
    began: u64,
    ended: u64,
    /// For how long it waited for a processor.
    waited: u64,
}

/// Stops a child for 100 ms.
fn stop(child: &str) -> Stop {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", child])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "ready"));

    signal(&child, libc::SIGSTOP, libc::WSTOPPED);
    let stopped = mono_ns();
    // This is the fault under test, not a wait for something to happen.
    std::thread::sleep(Duration::from_millis(100));
    let resuming = mono_ns();
    signal(&child, libc::SIGCONT, libc::WCONTINUED);

    // A noisy machine may have paused it before; the stop is the pause that spans the moment of resuming.
    let [began, ended, waited] = lines
        .by_ref()
        .filter_map(|line| {
            let numbers = line.strip_prefix("pause ")?.to_owned();
            let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
            <[u64; 3]>::try_from(numbers).ok()
        })
        .find(|[_, ended, _]| *ended >= resuming)
        .expect("the pause is told");
    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    Stop { stopped, resuming, began, ended, waited }
}

#[test]
fn a_stopped_process_reports_the_stop() {
    for child in CHILDREN {
        let Stop { stopped, resuming, began, ended, .. } = stop(child);
        assert!(began < resuming, "{child}: it began before it ended");
        // How much longer it was depends on when the kernel let it run again.
        assert!(
            ended - began >= (resuming - stopped) / 2,
            "{child}: {began} to {ended}, stopped at {stopped}"
        );
    }
}

mod acceptance {
    use super::*;

    #[test]
    fn busy_process_rarely_wakes_pause_clock() {
        let clock = PauseClock::start(DEFAULT_PERIOD, DEFAULT_THRESHOLD, |_| ()).unwrap();
        let (began, before) = (mono_ns(), sleeps_of_the_clock());
        let mut running = Running::new(clock.gap());
        while mono_ns() - began < 2_500_000_000 {
            work(&mut running);
        }
        let periods = (mono_ns() - began) / DEFAULT_PERIOD.as_nanos() as u64;
        let sleeps = sleeps_of_the_clock() - before;
        // A clock that nobody relieves sleeps in each period. (A busy machine may keep the loop from running for some.)
        assert!(sleeps < periods / 3, "{sleeps} in {periods} periods");
        // And it is not put off for ever: it reads the kernel's accounts.
        assert!(sleeps >= 2, "{sleeps} in {periods} periods");
    }

    #[test]
    fn reported_stop_has_its_length() {
        for child in CHILDREN {
            let Stop { stopped, resuming, began, ended, waited } = stop(child);
            let stop = resuming - stopped;
            let period = DEFAULT_PERIOD.as_nanos() as u64;
            // It begins at the first tick that was missed, one period after the stop at the latest.
            assert!(
                began <= stopped + period + stop / 2,
                "{child}: began {} ns after the stop",
                began - stopped
            );
            let ratio = (ended - began) as f64 / stop as f64;
            assert!((0.5..3.0).contains(&ratio), "{child}: {ratio} of {stop} ns");
            // A stopped process waits for no processor, so the wait is none of the stop.
            let most = (ended - began).saturating_sub(stop / 2);
            assert!(waited <= most, "{child}: {waited} of {} ns", ended - began);
        }
    }
}
