//! `--on-event`: a command that is run for each event. The recording thread hands events over and never waits: what finds
//! the queue full is dropped and counted. Some threads run the command, and end what takes too long.

use crate::exit::Failure;
use crate::output::tell;
use crate::probe::config::{Command, Config};
use crate::probe::plain;
use crate::probe::show::is_opening_or_closing;
use fathom_core::event::Event;
use fathom_core::text::count;
use serde_json::json;
use std::io::Write as _;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Commands at a time.
const AT_ONCE: usize = 4;
/// Events that wait for one of them to end.
const WAITING: usize = 64;
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the run's end waits for commands that it has caused.
const AT_THE_END: Duration = Duration::from_secs(5);
/// How often it is looked whether a command has ended.
const LOOK: Duration = Duration::from_millis(20);
/// A pipe takes so much at once (pipe(7)): a command that does not read must hold nobody up.
const MOST_BYTES: usize = 60 << 10;
/// What the threads share.
struct Shared {
    command: Command,
    /// A live view has the terminal: nothing may be written there meanwhile.
    quiet: bool,
    dropped: AtomicU64,
    /// The first thing that went wrong, for people.
    failure: Mutex<Option<String>>,
    over: AtomicBool,
}

impl Shared {
    fn failed(&self, text: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            if !self.quiet {
                tell!("{text}");
            }
            *failure = Some(text);
        }
    }
}

/// The recording thread's end.
pub(in crate::probe) struct HookSender {
    lines: SyncSender<String>,
    shared: Arc<Shared>,
    /// Label and target of each path.
    names: Vec<[String; 2]>,
    /// Connections are the samples.
    connect: bool,
}

impl HookSender {
    /// Has the command run for an event that people would be told, soon; never waits.
    pub(in crate::probe) fn offer(&self, path: usize, event: &Event) {
        let shown = plain::event(None, event).is_some();
        if !shown || self.connect && is_opening_or_closing(event) {
            return;
        }
        let line = line(event, &self.names[path]);
        if line.len() > MOST_BYTES || self.lines.try_send(line).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The event as in `events.jsonl`, and of which path.
fn line(event: &Event, [label, target]: &[String; 2]) -> String {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    value["label"] = json!(label);
    value["target"] = json!(target);
    format!("{value}\n")
}

/// The threads that run the command.
pub(in crate::probe) struct Hook {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

impl Hook {
    /// None: no command is asked for. `quiet`: a live view has the terminal.
    pub(in crate::probe) fn of(config: &Config, quiet: bool) -> Result<Option<(HookSender, Self)>, Failure> {
        let Some(command) = &config.operate.on_event else { return Ok(None) };
        let names = config.paths.iter().map(|path| [path.label.clone(), path.target.to_string()]).collect();
        let (lines, waiting) = sync_channel(WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let (dropped, failure, over) = (AtomicU64::new(0), Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { command: command.clone(), quiet, dropped, failure, over });
        let thread = |_| {
            let (waiting, shared) = (Arc::clone(&waiting), Arc::clone(&shared));
            std::thread::Builder::new().name("on-event".into()).spawn(move || work(&waiting, &shared))
        };
        let threads = (0..AT_ONCE).map(thread).collect::<Result<Vec<_>, _>>();
        let threads =
            threads.map_err(|e| Failure::run(format!("cannot start the threads of --on-event: {e}")))?;
        let sender = HookSender { lines, shared: Arc::clone(&shared), names, connect: config.connect };
        Ok(Some((sender, Self { threads, shared })))
    }

    /// After the last event: waits a little for what is under way, and tells what came to nothing. The senders are gone.
    pub(in crate::probe) fn finish(self) {
        let until = Instant::now() + AT_THE_END;
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() >= until {
                self.shared.over.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK);
        }
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(text) = failure.filter(|_| self.shared.quiet) {
            tell!("{text}");
        }
        match self.shared.dropped.load(Ordering::Relaxed) {
            0 => {}
            n => {
                tell!(
                    "fathom: --on-event: {} not handed over: the command takes too long",
                    count(n, "event")
                );
            }
        }
    }
}

fn work(waiting: &Mutex<Receiver<String>>, shared: &Shared) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(line) = next else { return };
        if shared.over.load(Ordering::Relaxed) {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let name = shared.command.shown();
        match run(&line, shared) {
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => shared.failed(format!(
                "fathom: --on-event {name} ended with {status}; probing goes on (said once)"
            )),
            Ok(None) => {
                let why = if shared.over.load(Ordering::Relaxed) {
                    "the run is over".to_owned()
                } else {
                    format!("it took longer than {} s", PATIENCE.as_secs())
                };
                shared.failed(format!("fathom: --on-event {name} was ended: {why} (said once)"));
            }
            Err(e) => {
                shared.failed(format!(
                    "fathom: cannot run --on-event {name}: {e}; probing goes on (said once)"
                ));
            }
        }
    }
}

fn start(words: &[String], quiet: bool) -> std::io::Result<Child> {
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(if quiet { Stdio::null() } else { Stdio::inherit() });
    #[cfg(unix)]
    // A group of its own: with what a shell started it is ended at once, and Ctrl-C is for the probe.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn()
}

/// Runs the command for one event; none: it was ended because it took too long, or because the run is over.
fn run(line: &str, shared: &Shared) -> std::io::Result<Option<ExitStatus>> {
    let mut child = start(&shared.command.words, shared.quiet)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that wants nothing of it may have ended already.
        let _ = stdin.write_all(line.as_bytes());
    }
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until || shared.over.load(Ordering::Relaxed) {
            fathom_os::process::kill_group(child.id());
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}
