//! Keys from the terminal, read on a thread of their own.
//!
//! crossterm reads a terminal that has gone away for ever, without returning. So this thread waits by itself, asks crossterm
//! only when there is something to read, and is not waited for when the view ends.

use crossterm::event::{self, Event};
use fathom_os::signals::stop_telling_resizes;
use fathom_os::terminal::{Terminal, Waited};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How soon the thread notices that the view is over.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What came from the terminal.
#[derive(Debug)]
pub(super) enum Input {
    Event(Event),
    /// The terminal has gone away.
    Gone,
}

/// The thread; it ends when this is dropped.
pub(super) struct Keys {
    came: Receiver<Input>,
    _over: Sender<()>,
}

impl Keys {
    pub(super) fn start() -> io::Result<Self> {
        let terminal = Terminal::open()?;
        let (tell, came) = channel();
        let (over, is_over) = channel();
        thread::Builder::new().name("keys".into()).spawn(move || {
            // An error of the terminal leaves the view as blind as its going away.
            if read(&terminal, &tell, &is_over).is_err() {
                let _ = tell.send(Input::Gone);
            }
        })?;
        Ok(Self { came, _over: over })
    }

    /// What comes within this time, as soon as something does.
    pub(super) fn wait(&self, at_most: Duration) -> impl Iterator<Item = Input> {
        let first = match self.came.recv_timeout(at_most) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Input::Gone),
        };
        first.into_iter().chain(self.came.try_iter())
    }
}

fn read(terminal: &Terminal, tell: &Sender<Input>, is_over: &Receiver<()>) -> io::Result<()> {
    if terminal.wait(Duration::ZERO)? == Waited::Gone {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // crossterm is told once of each key that can be read, and forgets it where a resize was told with it: such a key
    // was answered after the next one. The view looks at the size itself. From here on crossterm has its handler.
    event::poll(Duration::ZERO)?;
    stop_telling_resizes();
    // What crossterm has read already, nobody can be told of by the terminal.
    let mut waited = Waited::Input;
    loop {
        match waited {
            Waited::Gone => return Err(io::ErrorKind::UnexpectedEof.into()),
            Waited::Nothing => {}
            Waited::Input => {
                // Where the terminal itself cannot be waited for, this is the wait.
                while event::poll(if cfg!(unix) { Duration::ZERO } else { LOOK_EVERY })? {
                    if tell.send(Input::Event(event::read()?)).is_err() {
                        return Ok(());
                    }
                }
            }
        }
        if matches!(is_over.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected)) {
            return Ok(());
        }
        waited = terminal.wait(LOOK_EVERY)?;
    }
}
