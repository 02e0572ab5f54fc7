//! What outlives the call and the connection that started it: a supervisor, and the program below it.

use crate::error::Error;
use crate::job::{Job, Supervisor};
use crate::process::Identity;
use crate::state::State;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The mark of a study's own processes on the runner's machine. What runs here must not bear it, lest a runner of this
/// same machine takes it for its own.
const MARK: &str = "FATHOMETER_STUDY";
/// How long a program whose time is over has from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// The processes of a job before they have a directory of their own to stand in.
pub(crate) fn command(role: &str) -> Result<Command, Error> {
    let this = std::env::current_exe().map_err(|e| Error::run(format!("cannot find this program: {e}")))?;
    let mut command = Command::new(this);
    command.args(["host", role]).env_remove(MARK).stdin(Stdio::null());
    Ok(command)
}

/// Seconds since the machine started.
pub(crate) fn uptime_s() -> u64 {
    clock_gettime(ClockId::Boottime).tv_sec.unsigned_abs()
}

/// What wakes a supervisor.
enum Event {
    Ended,
    AskedToEnd,
}

/// `fathom host supervise`: runs a program below it in the job's directory, passes on a request to end, ends the program
/// when its time is over, and leaves word of how it ended.
pub fn supervise(directory: PathBuf, limit_s: u64, argv: &[OsString]) -> Result<(), Error> {
    // Of no terminal and of no session of `sshd`'s. One that is the first of its session already is no error.
    let _ = rustix::process::setsid();
    let job = Job::new(directory);
    let own = |cause| Error::run(format!("cannot tell which process this is: {cause}"));
    let (tell, events) = channel();
    watch_signals(tell.clone())?;
    job.leave("supervisor", &Supervisor { process: Identity::own().map_err(own)?, began_s: uptime_s() })?;
    let state = match start(&job, argv) {
        Ok(mut child) => {
            watch_end(&child, tell)?;
            let expired = wait(&child, Duration::from_secs(limit_s), &events);
            let status = child.wait().map_err(|e| Error::run(format!("cannot wait for the program: {e}")))?;
            if expired { State::Expired } else { State::from(status) }
        }
        Err(error) => {
            let _ = std::fs::write(job.file("err"), format!("{error}\n"));
            State::Exited { code: 127 }
        }
    };
    let _ = std::fs::remove_file(job.file("reserve"));
    job.leave("ended", &state)
}

fn start(job: &Job, argv: &[OsString]) -> Result<Child, Error> {
    let output = |name| {
        let path = job.file(name);
        OpenOptions::new().append(true).create_new(true).open(&path).map_err(Error::path("make", &path))
    };
    let (out, err) = (output("out")?, output("err")?);
    command("become")?
        .arg(job.path())
        .arg(std::process::id().to_string())
        .arg("--")
        .args(argv)
        .current_dir(job.path())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|e| Error::run(format!("cannot start the program: {e}")))
}

fn watch_signals(tell: Sender<Event>) -> Result<(), Error> {
    let failed = |cause| Error::run(format!("cannot watch for SIGTERM: {cause}"));
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(failed)?;
    let watch = move || signals.forever().for_each(|_| _ = tell.send(Event::AskedToEnd));
    std::thread::Builder::new().name("signals".into()).spawn(watch).map(drop).map_err(failed)
}

/// Tells when the program has ended, and leaves it to be collected: until then its number is no other's.
fn watch_end(child: &Child, tell: Sender<Event>) -> Result<(), Error> {
    let pid = Pid::from_child(child);
    let watch = move || {
        let whole = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), whole).is_err_and(|cause| cause == Errno::INTR) {}
        let _ = tell.send(Event::Ended);
    };
    let failed = |cause| Error::run(format!("cannot start a thread: {cause}"));
    std::thread::Builder::new().name("wait".into()).spawn(watch).map(drop).map_err(failed)
}

/// Returns when the program has ended, and whether that is because its time was over.
fn wait(child: &Child, limit: Duration, events: &std::sync::mpsc::Receiver<Event>) -> bool {
    let pid = Pid::from_child(child);
    let mut deadline = Instant::now().checked_add(limit);
    let mut expired = false;
    loop {
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        match events.recv_timeout(left) {
            Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => return expired,
            Ok(Event::AskedToEnd) => _ = kill_process(pid, Signal::TERM),
            Err(RecvTimeoutError::Timeout) if expired => {
                let _ = kill_process(pid, Signal::KILL);
                deadline = None;
            }
            Err(RecvTimeoutError::Timeout) => {
                expired = true;
                let _ = kill_process(pid, Signal::TERM);
                deadline = Instant::now().checked_add(GRACE);
            }
        }
    }
}

/// `fathom host become`: leaves word of which process this is, and becomes this binary with other arguments; comes back
/// only when that fails. It ends when its supervisor does, however that happens.
pub fn become_program(directory: PathBuf, supervisor: u32, argv: &[OsString]) -> Error {
    let begun = || -> Result<Command, Error> {
        let failed = |cause: std::io::Error| Error::run(format!("cannot begin: {cause}"));
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(|e| failed(e.into()))?;
        // It may have ended before that was asked for.
        if rustix::process::getppid().map(Pid::as_raw_nonzero).map(|pid| pid.get().unsigned_abs())
            != Some(supervisor)
        {
            return Err(Error::run("its supervisor has ended"));
        }
        Job::new(directory).leave("program", &Identity::own().map_err(failed)?)?;
        std::env::current_exe().map(Command::new).map_err(failed)
    };
    match begun() {
        Ok(mut command) => {
            Error::run(format!("cannot begin: {}", command.args(argv).env_remove(MARK).exec()))
        }
        Err(error) => error,
    }
}
