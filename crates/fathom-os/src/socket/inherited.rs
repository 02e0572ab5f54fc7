//! Sockets that were opened for this process by whoever started it (systemd socket activation, `sd_listen_fds(3)`).

use std::io;

/// A socket this process was started with.
#[derive(Debug)]
pub enum Inherited {
    /// A listening TCP socket.
    Tcp(mio::net::TcpListener),
    /// A bound UDP socket.
    Udp(mio::net::UdpSocket),
}

/// The sockets named by `LISTEN_PID` and `LISTEN_FDS`, in their order, made non-blocking and closed on exec. Empty
/// when there are none, or when they are meant for another process. A second call gives none: they have an owner.
#[cfg(unix)]
pub fn inherited_listeners() -> io::Result<Vec<Inherited>> {
    use std::sync::atomic::{AtomicBool, Ordering};
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    let meant_for_us = number("LISTEN_PID") == Some(std::process::id());
    let Some(count) = number("LISTEN_FDS").filter(|_| meant_for_us) else {
        return Ok(Vec::new());
    };
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    // "SD_LISTEN_FDS_START 3", https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html
    (3..3_i32.saturating_add_unsigned(count.min(1 << 16))).map(adopt).collect()
}

#[cfg(unix)]
fn adopt(fd: i32) -> io::Result<Inherited> {
    use socket2::{Domain, Socket, Type};
    use std::os::fd::FromRawFd;
    let refuse = |what: &str| {
        let message = format!(
            "cannot use inherited descriptor {fd}: {what}; use ListenStream= and ListenDatagram= with addresses and \
             ports, and Accept=no, in the socket unit"
        );
        io::Error::new(io::ErrorKind::InvalidInput, message)
    };
    // SAFETY: F_GETFD only asks whether the descriptor is open.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(refuse("it is not open"));
    }
    // SAFETY: it is open, the variables say it was opened for this process, and it is adopted only once.
    let socket = unsafe { Socket::from_raw_fd(fd) };
    socket.set_cloexec(true)?;
    let kind = socket.r#type().map_err(|_| refuse("it is not a socket"))?;
    let domain = socket.local_addr()?.domain();
    if domain != Domain::IPV4 && domain != Domain::IPV6 {
        return Err(refuse("it is not an Internet socket"));
    }
    socket.set_nonblocking(true)?;
    if kind == Type::DGRAM {
        Ok(Inherited::Udp(mio::net::UdpSocket::from_std(socket.into())))
    } else if kind == Type::STREAM && socket.is_listener()? {
        Ok(Inherited::Tcp(mio::net::TcpListener::from_std(socket.into())))
    } else {
        Err(refuse("it is a connection, not a listener"))
    }
}

/// As on Unix; this system knows no such thing, so always empty.
#[cfg(not(unix))]
pub fn inherited_listeners() -> io::Result<Vec<Inherited>> {
    Ok(Vec::new())
}
