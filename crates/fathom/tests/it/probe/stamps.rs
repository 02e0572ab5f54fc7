//! The kernel's stamps: round trips of real samples are split into parts that add up, or not at all. A run without
//! stamps, by choice or because the kernel refuses, is otherwise the same.

use crate::support::probe::{Outcome, Probe, fathom};
use crate::support::reflector::{Echo, Reflector};
use crate::support::rows::{Row, events, of_kind, rows};
use crate::support::{FATHOM, needs};
use std::path::Path;
use std::process::Command;

/// Runs a probe to its end; its samples.
fn measure(arguments: &str) -> Vec<Row> {
    let home = tempfile::tempdir().expect("a directory");
    let outcome = Probe::start(home.path(), &format!("{arguments} --record r --quiet")).finish();
    assert_eq!(outcome.code(), 0, "{arguments}: {}", outcome.err);
    rows(&home.path().join("r"))
}

/// The law of the split: it is whole or absent, no part is negative, and with what remains for the network the parts
/// are the round trip. Gives whether there is one.
fn assert_adds_up(row: &Row) -> bool {
    let (send, recv) = (row.get("send_stack_ns"), row.get("recv_stack_ns"));
    assert_eq!(send.is_some(), recv.is_some(), "half a split: {row:?}");
    let Some((send, recv)) = send.zip(recv) else { return false };
    let (rtt, reflector) = (row.at("rtt_ns"), row.get("reflector_ns").unwrap_or(0));
    let network = rtt - send - reflector - recv;
    let parts = [send, network, reflector, recv];
    assert!(parts.iter().all(|part| *part >= 0), "{parts:?} of {row:?}");
    assert_eq!(parts.iter().sum::<i64>(), rtt, "{row:?}");
    true
}

/// The samples that were alone on the way: the one before had come back, and the next one went out later.
fn alone(rows: &[Row]) -> Vec<usize> {
    let back_ns = |row: &Row| row.rtt_ns().map_or(i64::MAX, |rtt| row.at("sent_ns") + rtt);
    let alone = |&at: &usize| {
        let before = at.checked_sub(1).is_none_or(|before| back_ns(&rows[before]) < rows[at].at("sent_ns"));
        before && rows.get(at + 1).is_none_or(|next| back_ns(&rows[at]) < next.at("sent_ns"))
    };
    (0..rows.len()).filter(alone).collect()
}

/// Each sample of a run is split, whole, or not at all; how many of those that were alone are, of how many.
fn check_split(reflector: &dyn Reflector, transport: &str, size: u64) -> (usize, usize) {
    let line = format!(
        "{} {transport} --every 4ms --count 40 --size {size} --timestamps require",
        reflector.address()
    );
    let rows = measure(&line);
    assert_eq!(rows.len(), 40, "{line}");
    let split: Vec<bool> = rows.iter().map(|row| row.rtt_ns().is_some() && assert_adds_up(row)).collect();
    let stamped = rows.iter().any(|row| row.get("reflector_ns").is_some());
    assert_eq!(stamped, reflector.stamps() && size >= 64, "{line}");
    let alone = alone(&rows);
    (alone.iter().filter(|&&at| split[at]).count(), alone.len())
}

/// Stamped and unstamped messages, in one packet and in several.
#[test]
fn sample_split_adds_up_or_is_absent() {
    let echo = Echo::start("127.0.0.1");
    for (transport, size) in [("", 1), ("", 1_400), ("", 20_000), ("--udp", 64), ("--udp", 2_500)] {
        let (split, alone) = check_split(&echo, transport, size);
        // Pieces of a large message have stamps of their own, and then nothing is claimed.
        assert!(split > 0 || size > 1_400, "none of {alone}: {transport} {size}");
    }
}

/// The samples of which the reflector's note lies between the kernel's stamps, of those that were alone and split.
fn inside() -> (usize, usize) {
    let echo = Echo::start("127.0.0.1");
    let rows = measure(&format!("{} --every 4ms --count 200 --timestamps require", echo.address()));
    let split: Vec<&Row> =
        alone(&rows).into_iter().map(|at| &rows[at]).filter(|row| assert_adds_up(row)).collect();
    let inside = |row: &&&Row| {
        row.at("send_stack_ns") <= row.at("forward_ns") && row.at("recv_stack_ns") <= row.at("backward_ns")
    };
    (split.iter().filter(inside).count(), split.len())
}

/// Both ends of this path have one wall clock, so what the reflector noted lies between the kernel's stamps, but where the
/// clock was slewed between an anchor and a sample.
#[test]
fn most_reflector_notes_lie_between_kernel_stamps() {
    let (inside, split) = inside();
    assert!(inside * 2 > split && split > 0, "{inside} of {split}");
}

#[test]
fn ping_pong_is_split_only_on_request() {
    let echo = Echo::start("127.0.0.1");
    let line = format!("{} --ping-pong --count 2000", echo.address());
    let required = measure(&format!("{line} --timestamps require"));
    let split = required.iter().filter(|row| assert_adds_up(row)).count();
    assert!(split > 0, "none of {}", required.len());
    // By default nothing is asked of the kernel at this pace.
    assert!(measure(&line).iter().all(|row| row.get("send_stack_ns").is_none()));
}

/// Runs a probe under strace with these options for it; what it did, one system call a line, and how it ended.
fn traced(home: &Path, options: &str, probe: &str) -> (String, Outcome) {
    let line =
        format!("-f -qq -e trace=setsockopt,recvmsg {options} -o trace {FATHOM} probe {probe} --quiet");
    let outcome =
        Probe::spawn(Command::new("strace").args(line.split_whitespace()).current_dir(home)).finish();
    (std::fs::read_to_string(home.join("trace")).expect("a trace"), outcome)
}

/// No option is set and no control message is received: what is not done costs nothing.
#[test]
fn off_asks_nothing_of_the_kernel() {
    if !needs("strace") {
        return;
    }
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    for (timestamps, asked) in [("off", false), ("auto", true)] {
        let line = format!(
            "{} --every 20ms --count 20 --record {timestamps} --timestamps {timestamps}",
            echo.address()
        );
        let (trace, outcome) = traced(home.path(), "", &line);
        assert_eq!(outcome.code(), 0, "{}", outcome.err);
        for call in ["SO_TIMESTAMPING", "recvmsg("] {
            assert_eq!(trace.contains(call), asked, "{call} with {timestamps}: {trace}");
        }
        let rows = rows(&home.path().join(timestamps));
        assert_eq!(rows.len(), 20);
        assert_eq!(rows.iter().any(assert_adds_up), asked, "{rows:?}");
        assert!(rows.iter().all(|row| row.rtt_ns().is_some() && row.get("srtt_us").is_some()));
        assert!(of_kind(&events(&home.path().join(timestamps)), "note").is_empty());
    }
}

/// A kernel that does not have the option: strace lets this one system call of the probing thread fail.
#[test]
fn refused_timestamping_is_noted_or_ends_run() {
    if !needs("strace") {
        return;
    }
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let line = |how: &str, name: &str| {
        format!("{} --every 5ms --count 20 --record {name} --timestamps {how}", echo.address())
    };
    let (trace, _) = traced(home.path(), "", &line("auto", "first"));
    let calls: Vec<&str> = trace.lines().filter(|line| line.contains("setsockopt(")).collect();
    let thread = |call: &str| call.split(' ').next().map(str::to_owned);
    // The first connection's, after its other options: strace counts the calls of each thread.
    let connection = calls.iter().position(|call| call.contains("TCP_NODELAY")).expect("a connection");
    let own: Vec<&&str> = calls.iter().filter(|call| thread(call) == thread(calls[connection])).collect();
    let after = own.iter().position(|call| call.contains("TCP_NODELAY")).expect("it is its own");
    let nth = own.iter().enumerate().position(|(n, call)| n > after && call.contains("SO_TIMESTAMPING"));
    let nth = nth.expect("it asks for stamps") + 1;
    let refuse = format!("-e inject=setsockopt:error=ENOPROTOOPT:when={nth}");

    let (trace, outcome) = traced(home.path(), &refuse, &line("auto", "auto"));
    assert!(
        trace.lines().any(|call| call.contains("SO_TIMESTAMPING") && call.contains("INJECTED")),
        "{trace}"
    );
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let dir = home.path().join("auto");
    let rows = rows(&dir);
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row.rtt_ns().is_some() && !assert_adds_up(row)), "{rows:?}");
    let events = events(&dir);
    let notes = of_kind(&events, "note");
    assert!(
        notes.len() == 1 && notes[0]["text"].as_str().is_some_and(|text| text.contains("not split")),
        "{notes:?}"
    );
    let explained = fathom(home.path(), &["recording", "explain", "auto"]);
    assert!(explained.out.contains("noted: round trips are not split"), "{}", explained.out);

    let (_, outcome) = traced(home.path(), &refuse, &line("require", "require"));
    assert_eq!(outcome.code(), 1, "{}", outcome.err);
    assert!(outcome.err.contains("--timestamps auto"), "{}", outcome.err);
}

/// Shares that a busy machine lowers, and each reflector, address and size.
mod acceptance {
    use super::*;
    use crate::support::rate::assert_rate;
    use crate::support::reflector::{LOOPBACK, Socat};
    use crate::support::{Random, needs_ipv6};

    /// Echoes that were read together are not split.
    #[test]
    fn most_samples_are_split() {
        if !needs("socat") || !needs_ipv6() {
            return;
        }
        assert_rate(2, 3, || {
            let mut random = Random(0xFA7_803);
            for address in LOOPBACK {
                let reflectors: [Box<dyn Reflector>; 2] =
                    [Box::new(Echo::start(address)), Box::new(Socat::start(address))];
                for reflector in &reflectors {
                    for transport in ["", "--udp"] {
                        let largest = if transport.is_empty() { 200_000 } else { 2_500 };
                        for size in [1, 64, 64 + random.below(1_400), 1_500 + random.below(largest)] {
                            let (split, alone) = check_split(reflector.as_ref(), transport, size);
                            let most = split * 2 >= alone || size > 1_400;
                            assert!(most, "{split} of {alone}: {address} {transport} {size}");
                        }
                    }
                }
            }
        });
    }

    #[test]
    fn nearly_all_reflector_notes_lie_between_kernel_stamps() {
        assert_rate(2, 3, || {
            let (inside, split) = inside();
            assert!(split > 100 && inside * 10 >= split * 9, "{inside} of {split}");
        });
    }

    #[test]
    fn most_ping_pong_samples_are_split() {
        assert_rate(2, 3, || {
            let echo = Echo::start("127.0.0.1");
            let required =
                measure(&format!("{} --ping-pong --count 2000 --timestamps require", echo.address()));
            let split = required.iter().filter(|row| assert_adds_up(row)).count();
            assert!(split * 2 > required.len(), "{split} of {}", required.len());
        });
    }
}
