//! Other processes of this machine: a handle on one that no reuse of its number can mislead, and open files handed to
//! one over a Unix socket.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// At most so many files go with one message.
const MOST_FILES: usize = 4;

/// A process, whatever becomes of its number (`pidfd_open(2)`).
#[derive(Debug)]
pub struct Peer {
    handle: OwnedFd,
}

impl Peer {
    /// The process of this number now; none where there is none.
    pub fn open(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        Some(Self { handle: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    /// Asks it to end (SIGTERM). One that has ended already is no error.
    pub fn ask_to_end(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it (SIGKILL). One that has ended already is no error.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Stops it where it is (SIGSTOP). One that has ended already is no error.
    pub fn stand_still(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it run again (SIGCONT). One that runs, or has ended already, is no error.
    pub fn go_on(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Waits until it has ended, at most so long; whether it has.
    pub fn has_ended_within(&self, patience: Duration) -> bool {
        let mut one = [PollFd::new(&self.handle, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        poll(&mut one, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}

/// Leaves the session of whoever started this process: no terminal, no Ctrl-C meant for others.
pub fn leave_session() -> io::Result<()> {
    rustix::process::setsid().map(|_| ()).map_err(io::Error::from)
}

/// From here on what this process writes to its standard output and standard error goes to `log`.
pub fn detach_output(log: &File) -> io::Result<()> {
    rustix::stdio::dup2_stdout(log)?;
    rustix::stdio::dup2_stderr(log)?;
    Ok(())
}

/// The effective user of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Sends bytes and with their first one up to four open files (`SCM_RIGHTS`, `unix(7)`).
pub fn send_with_files(socket: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    if files.len() > MOST_FILES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("at most {MOST_FILES} files a message"),
        ));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    // The rest, where the socket's buffer took only a part, goes without the files.
    io::Write::write_all(&mut &*socket, &bytes[sent..])
}

/// Receives up to a buffer of bytes and the files that came with them; they are closed in programs that this process
/// becomes. 0 bytes: the other end has closed.
pub fn receive_with_files(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<File>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket.as_fd(), &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    let files = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .map(File::from)
        .collect();
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "more files came than were expected"));
    }
    Ok((received.bytes, files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn process_ignoring_term_is_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo ready; while :; do read x || sleep 1; done"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let peer = Peer::open(child.id()).unwrap();
        peer.ask_to_end().unwrap();
        assert!(!peer.has_ended_within(Duration::ZERO), "it does not listen");
        peer.kill().unwrap();
        assert!(peer.has_ended_within(Duration::from_mins(1)));
        child.wait().unwrap();
        // Its number may be another's by now; the handle is not.
        peer.kill().unwrap();
        assert!(Peer::open(0).is_none());
    }

    #[test]
    fn file_descriptor_passes_over_socket() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        send_with_files(&here, b"hello", &[file.as_fd()]).unwrap();
        let mut bytes = [0; 64];
        let (length, mut files) = receive_with_files(&there, &mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"hello");
        let mut content = String::new();
        files[0].rewind().unwrap();
        files[0].read_to_string(&mut content).unwrap();
        assert_eq!((files.len(), content.as_str()), (1, "content"));
        drop(here);
        assert_eq!(receive_with_files(&there, &mut bytes).unwrap().0, 0);
    }
}
