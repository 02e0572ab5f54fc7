//! Before the first sample: what must hold, and what help the machine grants.

use super::config::{Config, Family};
use super::resolve::lookup;
use crate::exit::Failure;
use crate::output::tell;
use fathom_os::{assist, interfaces};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::thread;

/// Sockets besides the connections: files of the recording, the terminal, polling.
const OTHER_FILES: u64 = 64;
/// Stacks of threads, samples on their way, a segment that is closed: back to back 25 MiB, with one connection.
const ADDRESS_SPACE: u64 = 32 << 20;
/// A SCHED_FIFO priority above ordinary threads and below the kernel's own.
const FIFO_LEVEL: u8 = 10;

/// What was asked of the machine and what it gave, in words, for the recording.
pub(super) type Granted = BTreeMap<&'static str, String>;

/// A number that tells this run's echoes from any other's.
pub(crate) fn session() -> Result<u32, Failure> {
    getrandom::u32().map_err(|e| Failure::run(format!("this host gives no random numbers: {e}")))
}

/// Rates that could disturb others need an explicit word, unless the reflector is on this very host.
pub(super) fn refuse_impolite(config: &Config) -> Result<(), Failure> {
    let Some(reason) = config.impolite() else { return Ok(()) };
    if config.paths.iter().all(is_here) { Ok(()) } else { Err(Failure::usage(reason)) }
}

/// Whether the reflector of this path is on this very host.
pub(super) fn is_here(path: &super::config::Path) -> bool {
    // A name that does not resolve is reported when connecting, in better words.
    lookup(&path.target, Family::Any)
        .map_or(true, |all| all.iter().all(|a| interfaces::is_loopback_or_own(a.ip())))
}

/// What does not fit into the address space ends the program in the middle of whatever it does, and its thread may never end.
pub(super) fn make_room_in_memory() -> Result<(), Failure> {
    match assist::address_space_left() {
        Some(left) if left < ADDRESS_SPACE => Err(Failure::run(format!(
            "a run needs {} MiB of address space beyond the program's own and the limit leaves {} MiB; raise it by {} MiB or more (`ulimit -v`, LimitAS= in a unit)",
            ADDRESS_SPACE >> 20,
            left >> 20,
            ((ADDRESS_SPACE - left) >> 20) + 1
        ))),
        _ => Ok(()),
    }
}

/// A processor that is not there is a mistake of the command line. Whatever else refuses one is told, and the run goes on.
pub(super) fn refuse_missing_cpus(config: &Config) -> Result<(), Failure> {
    for (option, cpu) in [("cpu", config.cpu), ("recorder-cpu", config.recorder_cpu)] {
        let Some(cpu) = cpu else { continue };
        // This thread stays where it may run.
        let tried = thread::Builder::new().spawn(move || assist::pin_to_cpu(cpu));
        if let Ok(Ok(Err(e))) = tried.map(thread::JoinHandle::join)
            && e.kind() == ErrorKind::InvalidInput
        {
            return Err(Failure::usage(format!("--{option} {cpu}: {e}")));
        }
    }
    Ok(())
}

/// Raises the limit of open files where the connections need it.
pub(super) fn make_room_for_sockets(config: &Config) -> Result<(), Failure> {
    let of_load = config.load.map_or(0, |load| u64::from(load.connections));
    let connections = config.lanes() as u64 + of_load;
    let needed = connections + OTHER_FILES;
    let (soft, hard) = assist::raise_open_files();
    if soft >= needed {
        return Ok(());
    }
    Err(Failure::run(format!(
        "{connections} connections need {needed} open files and the limit is {soft} (hard limit {hard}); raise it with `ulimit -Hn {needed}` as root, or LimitNOFILE= in a unit"
    )))
}

/// Holds the processors out of deep idle states while the value lives; the words are for the recording.
pub(super) fn hold_cpu_latency(config: &Config) -> Option<(String, Option<assist::CpuLatencyHold>)> {
    let us = config.cpu_latency_us?;
    Some(match assist::hold_cpu_latency(us) {
        Ok(hold) => (format!("held at {us} us"), Some(hold)),
        Err(e) => {
            tell!("fathom: --cpu-latency {us} not granted: {e}");
            (format!("refused: {e}"), None)
        }
    })
}

/// Asks the machine for what the user allowed, for the calling thread; says what it gave. What is refused is told and
/// recorded, and the run goes on without it.
pub(super) fn help_for_probing(config: &Config) -> Granted {
    let mut granted = Granted::new();
    // Both cost nothing to ask and need no right.
    note(&mut granted, "precise_timers", assist::precise_timers(), false);
    note(&mut granted, "short_slices", assist::short_slices(), false);
    if let Some(cpu) = config.cpu {
        note(&mut granted, "cpu", assist::pin_to_cpu(cpu), true);
    }
    if config.priority {
        note(&mut granted, "priority", assist::realtime_priority(FIFO_LEVEL), true);
        note(&mut granted, "memory", assist::lock_memory(), true);
    }
    if config.spin {
        granted.insert("spin", "polling without sleeping".to_owned());
    }
    granted
}

fn note<T: ToString>(granted: &mut Granted, what: &'static str, answer: std::io::Result<T>, asked: bool) {
    let words = match answer {
        Ok(words) => words.to_string(),
        Err(e) => {
            if asked {
                tell!("fathom: --{what} not granted: {e}");
            }
            format!("refused: {e}")
        }
    };
    tracing::info!(what, answer = words, "asked the machine for help");
    granted.insert(what, words);
}

/// A thread of the run's own steps back for the probing thread.
pub(super) fn step_back() {
    // Where the system has no such thing, both run alike.
    let _ = assist::background_priority();
}

/// The recording thread steps back, to a processor of its own where that was asked for; says what was given.
pub(super) fn help_for_recording(config: &Config) -> Granted {
    step_back();
    let mut granted = Granted::new();
    if let Some(cpu) = config.recorder_cpu {
        note(&mut granted, "recorder-cpu", assist::pin_to_cpu(cpu), true);
    }
    granted
}
