//! The daemon's end of the control socket.

use super::protocol::{Answer, Entry, Request, read_line};
use crate::engine::{Command, Snapshot};
use crate::error::Error;
use crate::processes::Cleanup;
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
pub(crate) type Stop = Option<DownRequest>;

/// Whoever waits to hear that everything is gone.
pub(crate) struct DownRequest(UnixStream);

impl DownRequest {
    /// Tells that it is.
    pub(crate) fn answer(self, cleanup: &Cleanup) {
        // Who has gone meanwhile does not need to know.
        let _ = send(&self.0, &Answer::of(cleanup), &[]);
    }
}

/// What requests are answered from.
pub(crate) struct ControlState {
    pub(crate) scenario: Scenario,
    pub(crate) marker: String,
    pub(crate) networks: Vec<(String, File)>,
    pub(crate) users: Option<Namespace>,
    pub(crate) commands: Sender<Command>,
    pub(crate) waker: Waker,
    /// What was told when it came up; part of every status.
    pub(crate) ready: Value,
}

/// Opens the socket. Its directory lets only its owner in.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, Error> {
    UnixListener::bind(path)
        .map_err(|e| Error::run(format!("cannot listen on {}: {e}; choose a shorter --name", path.display())))
}

/// Answers, in a thread of its own, as long as the process lives.
pub(crate) fn serve(
    listener: UnixListener,
    state: Arc<ControlState>,
    stop: Sender<Stop>,
) -> Result<(), Error> {
    let answer = move || {
        for socket in listener.incoming().flatten() {
            // Who sends nonsense, or nothing, is left.
            let _ = one(&socket, &state, &stop);
        }
    };
    thread::Builder::new().name("control".to_owned()).spawn(answer).map(|_| ()).map_err(|e| Error::thread(&e))
}

fn one(socket: &UnixStream, state: &ControlState, stop: &Sender<Stop>) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let (line, _) = read_line(socket)?;
    let request = match serde_json::from_slice(&line) {
        Ok(request) => request,
        Err(e) => return send(socket, &Answer::Error(format!("not a question: {e}")), &[]),
    };
    let answer = match request {
        Request::Status => state.status(),
        Request::Event { toml } => state.event(&toml),
        Request::Enter { host } => return state.enter(socket, &host),
        Request::Down => {
            if stop.send(Some(DownRequest(socket.try_clone()?))).is_ok() {
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

impl ControlState {
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
