//! Software timestamps of the kernel (`SO_TIMESTAMPING`): when bytes left for the driver, were acknowledged, came in.
//!
//! All stamps are `CLOCK_REALTIME`, ns since the Unix epoch, and so may step; take differences only between stamps that
//! are close together. Up to some hundred packets after the first socket of the machine enables them come without
//! a receive stamp, because the kernel switches stamping on a little later: keep one such socket open from the start.

use super::TxKind;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// A socket that can be stamped: any.
pub trait Stampable: AsFd {}
impl<T: AsFd> Stampable for T {}

/// Keeps the kernel stamping received packets for as long as it lives: the kernel switches that on a little after the
/// first socket asks, and off after the last closes, and stamps nothing in between.
#[derive(Debug)]
pub struct Keeper {
    _socket: std::net::UdpSocket,
}

/// See [`Keeper`].
pub fn keep_enabled() -> io::Result<Keeper> {
    // On the loopback address nothing from outside reaches it; nothing is ever read from it.
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    enable(&socket, false)?;
    Ok(Keeper { _socket: socket })
}

/// Has the kernel stamp what this socket sends and receives. On TCP the id of a send stamp is the offset of the last
/// byte of the `send`, counted from 0 at this call when the kernel knows `OPT_ID_TCP` (Linux 6.2; before it, from the
/// first byte not yet acknowledged: call this before sending anything). On UDP it counts the datagrams from 0. `acks`:
/// stamp acknowledgements too, which wakes whoever waits for the socket once more for each message.
pub fn enable(socket: &impl Stampable, acks: bool) -> io::Result<()> {
    let acks = if acks { libc::SOF_TIMESTAMPING_TX_ACK } else { 0 };
    let flags = libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | acks;
    match set(socket.as_fd(), flags | libc::SOF_TIMESTAMPING_OPT_ID_TCP) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => set(socket.as_fd(), flags),
        outcome => outcome,
    }
}

/// Has the kernel stamp what this socket receives, and nothing else: no stamp wakes whoever waits for the socket.
pub fn enable_received(socket: &impl Stampable) -> io::Result<()> {
    set(socket.as_fd(), libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE)
}

fn set(socket: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    // SAFETY: `flags` lives across the call and its size is given.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives without blocking: how many bytes, and when the last of them came in, where the kernel stamped them.
pub fn recv_with_timestamp(socket: &impl Stampable, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
    let mut stamp = None;
    let read = receive(socket.as_fd(), buffer, libc::MSG_DONTWAIT, |level, kind, data| {
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING {
            stamp = software_stamp(data);
        }
    })?;
    Ok((read, stamp))
}

/// The same, behind what is in `buffer` already: at most so many bytes, for which it is given room.
pub fn recv_appending(
    socket: &impl Stampable,
    buffer: &mut Vec<u8>,
    at_most: usize,
) -> io::Result<(usize, Option<i64>)> {
    buffer.reserve(at_most);
    let mut stamp = None;
    let on_control = |level, kind, data: &[u8]| {
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING {
            stamp = software_stamp(data);
        }
    };
    let room = &mut buffer.spare_capacity_mut()[..at_most];
    // SAFETY: no name is asked for.
    let read = unsafe { receive_into(socket.as_fd(), room, libc::MSG_DONTWAIT, None, on_control)? };
    // SAFETY: the kernel has written so many bytes behind what was there, within the capacity.
    unsafe { buffer.set_len(buffer.len() + read) };
    Ok((read, stamp))
}

/// Takes all send stamps that wait on the socket: what happened, the id as [`enable`] explains, when. Other errors
/// that wait there (ICMP) are dropped; the socket's own calls tell them too.
pub fn drain_error_queue(
    socket: &impl Stampable,
    mut on_stamp: impl FnMut(TxKind, u32, i64),
) -> io::Result<()> {
    loop {
        let (mut stamp, mut what) = (None, None);
        let outcome =
            receive(socket.as_fd(), &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT, |level, kind, data| {
                match (level, kind) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamp = software_stamp(data),
                    (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                        what = sent_what(data);
                    }
                    _ => {}
                }
            });
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            outcome => outcome?,
        };
        if let (Some(utc_ns), Some((kind, id))) = (stamp, what) {
            on_stamp(kind, id, utc_ns);
        }
    }
}

/// One `recvmsg`, retried when a signal interrupts it; each control message goes to `on_control` as level, type, data.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: libc::c_int,
    on_control: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) -> io::Result<usize> {
    // SAFETY: no name is asked for.
    unsafe { receive_named(socket, buffer, flags, None, on_control) }
}

/// As [`receive`]; the sender's address and its length go to `name`.
///
/// # Safety
/// The pointer must be valid for writing as many bytes as the length beside it says.
pub(crate) unsafe fn receive_named(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: libc::c_int,
    name: Option<(*mut libc::c_void, &mut libc::socklen_t)>,
    on_control: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) -> io::Result<usize> {
    // SAFETY: of the same layout, and what is written there is the kernel's, which is initialised.
    let buffer = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
    // SAFETY: as the caller promises.
    unsafe { receive_into(socket, buffer, flags, name, on_control) }
}

/// As [`receive_named`], into memory that need not be initialised: as many bytes of it as are returned are then.
///
/// # Safety
/// As there.
unsafe fn receive_into(
    socket: BorrowedFd<'_>,
    buffer: &mut [MaybeUninit<u8>],
    flags: libc::c_int,
    name: Option<(*mut libc::c_void, &mut libc::socklen_t)>,
    mut on_control: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) -> io::Result<usize> {
    // Room for the stamps (64 bytes) and an extended error with an IPv6 address (64 bytes), aligned for their headers.
    let mut control = [0_u64; 32];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros are a valid msghdr (musl's has private padding, so it cannot be written out).
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    if let Some((storage, length)) = &name {
        message.msg_name = *storage;
        message.msg_namelen = **length;
    }
    let read = loop {
        // SAFETY: `message` points to one buffer, one control area and, as the caller promises, room for a name, of the
        // lengths given; all live across the call.
        let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        if let Ok(read) = usize::try_from(read) {
            break read;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    if let Some((_, length)) = name {
        *length = message.msg_namelen;
    }
    // SAFETY: the kernel filled the control area and set its length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers that lie within the control area, which is aligned.
        let header = unsafe { &*next };
        // SAFETY: CMSG_LEN only adds up sizes.
        let before_data = unsafe { libc::CMSG_LEN(0) } as usize;
        let length = (header.cmsg_len as usize).saturating_sub(before_data);
        // SAFETY: the data of a message lies behind its header, `length` bytes of it, all initialised.
        let data = unsafe { std::slice::from_raw_parts(libc::CMSG_DATA(next), length) };
        on_control(header.cmsg_level, header.cmsg_type, data);
        // SAFETY: `next` is a header within the control area of `message`.
        next = unsafe { libc::CMSG_NXTHDR(&raw const message, next) };
    }
    Ok(read)
}

/// The first of the three `struct timespec` of `struct scm_timestamping` is the software stamp; zero: none.
fn software_stamp(data: &[u8]) -> Option<i64> {
    let number = |at: usize| Some(i64::from_ne_bytes(data.get(at..at + 8)?.try_into().ok()?));
    let (seconds, nanoseconds) = (number(0)?, number(8)?);
    (seconds != 0).then(|| seconds * 1_000_000_000 + nanoseconds)
}

/// What a `struct sock_extended_err` says of a send stamp: its kind and the id.
fn sent_what(data: &[u8]) -> Option<(TxKind, u32)> {
    // SCM_TSTAMP_SND and SCM_TSTAMP_ACK of linux/errqueue.h; 1 is SCM_TSTAMP_SCHED.
    const SENT: u32 = 0;
    const ACKNOWLEDGED: u32 = 2;
    let number = |at: usize| Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let origin = *data.get(std::mem::offset_of!(libc::sock_extended_err, ee_origin))?;
    if origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
        return None;
    }
    let kind = match number(std::mem::offset_of!(libc::sock_extended_err, ee_info))? {
        SENT => TxKind::Software,
        ACKNOWLEDGED => TxKind::Ack,
        _ => return None,
    };
    Some((kind, number(std::mem::offset_of!(libc::sock_extended_err, ee_data))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{mono_ns, utc_ns};
    use std::io::Write;

    #[test]
    fn timestamps_are_ordered_along_the_path() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.set_nodelay(true).unwrap();
        enable(&sender, true).unwrap();
        enable(&receiver, false).unwrap();
        let deadline = mono_ns() + 20_000_000_000;
        let (mut compared, mut sent_stamps, mut acks) = (0, 0, 0);
        for at in 0_u32.. {
            assert!(mono_ns() < deadline, "20 s of sends gave {compared} whole sets of stamps");
            let before = utc_ns();
            sender.write_all(b"x").unwrap();
            let received = loop {
                match recv_with_timestamp(&receiver, &mut [0; 8]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                    outcome => break outcome.unwrap(),
                }
            };
            assert_eq!(received.0, 1);
            let after = utc_ns();
            let mut sent = None;
            drain_error_queue(&sender, |kind, id, stamp| {
                assert!(id <= at, "a stamp of byte {id}, of which {at} was the last");
                match kind {
                    TxKind::Software if id == at => sent = Some(stamp),
                    TxKind::Software => {}
                    TxKind::Ack => acks += 1,
                }
            })
            .unwrap();
            sent_stamps += usize::from(sent.is_some());
            // The first receive stamps are missing, until the kernel has switched stamping on.
            if let (Some(sent), Some(received)) = (sent, received.1) {
                assert!(
                    before <= sent && sent <= received && received <= after,
                    "{before} {sent} {received} {after}"
                );
                compared += 1;
            }
            if compared >= 100 && acks > 0 {
                break;
            }
        }
        assert!(sent_stamps >= compared);
    }
}
