//! The terminal that a live view reads keys from: waiting for them, and noticing that it has gone away (an SSH session cut,
//! a window closed). A reader that does not look for that reads end-of-file at full speed for ever.

use std::io;
use std::time::Duration;

/// What came of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// There is something to read.
    Input,
    /// Nothing came in time.
    Nothing,
    /// The terminal has gone away: there will be no more keys.
    Gone,
}

/// The terminal of this process: standard input where that is one, else the controlling terminal.
#[derive(Debug)]
pub struct Terminal {
    #[cfg(unix)]
    opened: Option<std::fs::File>,
}

impl Terminal {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use std::io::IsTerminal;
            let opened =
                if io::stdin().is_terminal() { None } else { Some(std::fs::File::open("/dev/tty")?) };
            Ok(Self { opened })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for a key, at most so long.
    #[cfg(unix)]
    pub fn wait(&self, at_most: Duration) -> io::Result<Waited> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use std::os::fd::AsFd;
        let stdin = io::stdin();
        let terminal = self.opened.as_ref().map_or(stdin.as_fd(), AsFd::as_fd);
        let mut fds = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => return Ok(Waited::Nothing),
            polled => polled?,
        };
        let state = fds[0].revents();
        Ok(if state.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            Waited::Gone
        } else if state.contains(PollFlags::IN) {
            Waited::Input
        } else {
            Waited::Nothing
        })
    }

    /// Waits for a key, at most so long. Here whoever reads the keys must do the waiting.
    #[cfg(not(unix))]
    pub fn wait(&self, _at_most: Duration) -> io::Result<Waited> {
        Ok(Waited::Input)
    }
}
