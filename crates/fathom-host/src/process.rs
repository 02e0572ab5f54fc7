//! Which process one is: by its number, by when it started and in which boot of the machine. A number alone may be
//! another process's by the time that it is read from a file.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;

/// A process, for as long as the machine runs and for all time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number, as processes of its own PID namespace see it.
    pub pid: u32,
    /// When it started, in ticks since the machine did (field 22 of `/proc/PID/stat`, `proc(5)`). It stays when the
    /// process becomes another program.
    pub start: u64,
    /// Which start of the machine that was (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
}

impl Identity {
    /// This process.
    pub fn own() -> io::Result<Self> {
        let pid = std::process::id();
        let start = running_since(pid).ok_or_else(|| io::Error::other("/proc shows no processes"))?;
        Ok(Self { pid, start, boot: boot()? })
    }

    /// Whether it still runs. One that has ended and waits to be collected does not.
    pub fn runs(&self) -> bool {
        running_since(self.pid) == Some(self.start) && boot().is_ok_and(|boot| boot == self.boot)
    }

    /// Asks it to end (SIGTERM). One that has ended already is no error.
    pub fn ask_to_end(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it (SIGKILL). One that has ended already is no error.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
        // The handle first, then the look whether it is the one: the number may pass to another in between.
        let handle = pidfd_open(pid, PidfdFlags::empty());
        if !self.runs() {
            return Ok(());
        }
        let sent = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            // Kernels before 5.3 have no handles.
            Err(Errno::NOSYS) => kill_process(pid, signal),
            Err(cause) => Err(cause),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim_end().to_owned())
}

/// When the process of this number started; none where none runs.
fn running_since(pid: u32) -> Option<u64> {
    start_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// From `/proc/PID/stat`. The name, in parentheses, may hold anything, parentheses and blanks included.
fn start_of(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // The state is field 3, the start time field 22.
    fields.nth(22 - 3 - 1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn start_time_parses_with_any_process_name() {
        let rest = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["(fathom)", "(a b)", "(x) R 1 (y)", "()"] {
            assert_eq!(start_of(&format!("7 {name} S {rest}")), Some(22));
        }
        assert_eq!(start_of(&format!("7 (sh) Z {rest}")), None);
        assert_eq!(start_of("7 (sh) S 1 2"), None);
        assert_eq!(start_of(""), None);
    }

    #[test]
    fn only_the_process_itself_is_signalled() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let own = Identity::own().unwrap();
        let there = Identity { pid: child.id(), start: running_since(child.id()).unwrap(), ..own.clone() };
        assert!(own.runs() && there.runs());
        // The same number in another life of the machine, or of the number.
        for another in [
            Identity { start: there.start + 1, ..there.clone() },
            Identity { boot: "another".to_owned(), ..there.clone() },
        ] {
            assert!(!another.runs());
            another.kill().unwrap();
        }
        io::Write::write_all(child.stdin.as_mut().unwrap(), b"still here").unwrap();
        let mut echo = [0; 10];
        child.stdout.as_mut().unwrap().read_exact(&mut echo).unwrap();
        there.kill().unwrap();
        // Nobody has collected it yet, and it does not run any more.
        let mut rest = Vec::new();
        child.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
        while running_since(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(!there.runs());
        child.wait().unwrap();
        there.kill().unwrap();
        Identity { pid: 0, ..there }.ask_to_end().unwrap();
    }
}
