//! The daemon's end of the control socket.

use super::engine::{Command, Snapshot};
use super::protocol::{Answer, Entry, Request, read_line};
use super::sweep::Swept;
use crate::exit::Failure;
use fathom_fabric::scenario::Scenario;
use fathom_os::namespace::Namespace;
use fathom_os::peer;
use fathom_os::reactor::Waker;
use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// Who has not asked by then does not keep others waiting.
const PATIENCE: Duration = Duration::from_secs(5);
const GOING: &str = "the fabric is being taken down";

/// That the fabric is to end: by a signal or a broken leash (none), or for somebody who wants an answer.
pub(super) type Stop = Option<Asker>;

/// Whoever waits to hear that everything is gone.
pub(super) struct Asker(UnixStream);

impl Asker {
    /// Tells that it is.
    pub(super) fn answer(self, swept: &Swept) {
        // Who has gone meanwhile does not need to know.
        let _ = send(&self.0, &Answer::of(swept), &[]);
    }
}

/// What questions are answered from.
pub(super) struct Desk {
    pub(super) scenario: Scenario,
    pub(super) marker: String,
    pub(super) networks: Vec<(String, File)>,
    pub(super) users: Option<Namespace>,
    pub(super) commands: Sender<Command>,
    pub(super) waker: Waker,
    /// What was told when it came up; part of every status.
    pub(super) ready: Value,
}

/// Opens the socket. Its directory lets only its owner in.
pub(super) fn listen(path: &Path) -> Result<UnixListener, Failure> {
    UnixListener::bind(path).map_err(|e| {
        Failure::run(format!("cannot listen on {}: {e}; choose a shorter --name", path.display()))
    })
}

/// Answers, in a thread of its own, as long as the process lives.
pub(super) fn serve(listener: UnixListener, desk: Arc<Desk>, stop: Sender<Stop>) -> Result<(), Failure> {
    let answer = move || {
        for socket in listener.incoming().flatten() {
            // Who sends nonsense, or nothing, is left.
            let _ = one(&socket, &desk, &stop);
        }
    };
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(answer)
        .map(|_| ())
        .map_err(|e| Failure::run(format!("cannot start a thread: {e}")))
}

fn one(socket: &UnixStream, desk: &Desk, stop: &Sender<Stop>) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let (line, _) = read_line(socket)?;
    let request = match serde_json::from_slice(&line) {
        Ok(request) => request,
        Err(e) => return send(socket, &Answer::Error(format!("not a question: {e}")), &[]),
    };
    let answer = match request {
        Request::Status => desk.status(),
        Request::Event { toml } => desk.event(&toml),
        Request::Enter { host } => return desk.enter(socket, &host),
        Request::Down => {
            if stop.send(Some(Asker(socket.try_clone()?))).is_ok() {
                return Ok(());
            }
            Answer::Error(GOING.to_owned())
        }
    };
    send(socket, &answer, &[])
}

fn send(socket: &UnixStream, answer: &Answer, files: &[&File]) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    peer::send_with_files(socket, &line, &files)
}

impl Desk {
    /// Asks the loop.
    fn command<T>(&self, make: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (sender, receiver) = channel();
        self.commands.send(make(sender)).ok()?;
        self.waker.wake().ok()?;
        receiver.recv().ok()
    }

    fn event(&self, toml: &str) -> Answer {
        let event = match self.scenario.event(toml) {
            Ok(event) => event,
            Err(e) => return Answer::Error(e.message),
        };
        match self.command(|answer| Command::Event(Box::new(event.clone()), answer)) {
            Some(Ok(())) => Answer::of(&event),
            Some(Err(why)) => Answer::Error(why),
            None => Answer::Error(GOING.to_owned()),
        }
    }

    fn status(&self) -> Answer {
        let Some(snapshot) = self.command(Command::Status) else { return Answer::Error(GOING.to_owned()) };
        let Snapshot { world, tally, window_ns } = *snapshot;
        let lateness = &tally.lateness;
        Answer::of(&json!({
            "fabric": self.ready,
            "world": world,
            "ignored": tally.ignored,
            "refused": tally.refused,
            "lost_records": tally.lost_records,
            "spin_window_ns": window_ns,
            "lateness_ns": {
                "count": lateness.count(),
                "p50": lateness.supported_quantile(0.5),
                "p99": lateness.supported_quantile(0.99),
                "max": lateness.max(),
            },
        }))
    }

    fn enter(&self, socket: &UnixStream, host: &str) -> io::Result<()> {
        let Some((_, network)) = self.networks.iter().find(|(name, _)| name == host) else {
            let names: Vec<&str> = self.networks.iter().map(|(name, _)| name.as_str()).collect();
            let line = format!("no host {host} in this fabric; its hosts: {}", names.join(", "));
            return send(socket, &Answer::Error(line), &[]);
        };
        let entry = Entry { marker: self.marker.clone(), users: self.users.is_some() };
        let files: Vec<&File> =
            [network].into_iter().chain(self.users.as_ref().map(Namespace::file)).collect();
        send(socket, &Answer::of(&entry), &files)
    }
}
