//! One connection on its socket.

use fathom_core::event::TcpInfo;
use fathom_core::policy::Link;
use fathom_os::socket;
use mio::net::TcpStream;
use std::io;

/// See the module.
pub(crate) struct Socket {
    /// None where not even an attempt could be begun.
    pub(crate) stream: Option<TcpStream>,
    pub(crate) link: Link,
    /// Bytes that the kernel has not taken yet.
    unsent: Vec<u8>,
}

impl Socket {
    pub(crate) fn new(link: Link) -> Self {
        Self { stream: None, link, unsent: Vec::new() }
    }

    /// Sends this: now what the kernel takes, the rest when it takes more.
    pub(crate) fn send(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.unsent = bytes;
        self.write()
    }

    /// Writes what the kernel takes now.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let Some(stream) = self.stream.as_ref().filter(|_| self.link.is_established()) else {
            return Ok(());
        };
        while !self.unsent.is_empty() {
            match socket::write_now(stream, &self.unsent) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The kernel's view of it.
    pub(crate) fn info(&self) -> Option<TcpInfo> {
        self.stream.as_ref().and_then(socket::tcp_info)
    }
}
