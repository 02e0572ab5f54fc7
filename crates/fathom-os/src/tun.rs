//! TUN devices: a network interface whose other end is a file. What a host sends is read from it, one IP packet a
//! read; what is written to it the host receives. See the kernel's `Documentation/networking/tuntap.rst`.

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

const DEVICE: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)` in the kernel's `include/uapi/linux/if_tun.h`.
const TUNSETIFF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<libc::c_int>(b'T', 202);

/// One TUN device of the network namespace in which it was created. The device goes when this is dropped (or the
/// process ends, however it ends).
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
}

impl Tun {
    /// Creates the device in the network namespace of the calling thread.
    ///
    /// No offload is offered (neither `IFF_VNET_HDR` nor `TUNSETOFFLOAD`), so the host's kernel cuts segments and
    /// computes checksums itself: every packet is one that could stand on a wire. Reads and writes do not block.
    pub fn create(name: &str) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(|cause| {
            let remedy = match cause {
                Errno::NOENT | Errno::NXIO | Errno::NODEV => "load the module (modprobe tun), or pass the device into the container",
                Errno::ACCESS | Errno::PERM => {
                    "let this user open it (chmod 0666 /dev/net/tun is what distributions ship: it gives nobody a network \
                     that is not their own), or run as root"
                }
                _ => "see whether the kernel has CONFIG_TUN",
            };
            refused(&format!("open {DEVICE}"), cause, remedy)
        })?;
        let request = interface_request(name)?;
        // SAFETY: the opcode is that of TUNSETIFF, which reads (and writes back into its own copy of) one `ifreq`.
        unsafe { rustix::ioctl::ioctl(&file, rustix::ioctl::Setter::<TUNSETIFF, libc::ifreq>::new(request)) }
            .map_err(|cause| {
                let remedy = if cause == Errno::BUSY {
                    "another process holds a device of this name here"
                } else {
                    "it takes CAP_NET_ADMIN in the network namespace: run as root or in a user namespace"
                };
                refused(&format!("create the TUN device {name}"), cause, remedy)
            })?;
        Ok(Self { file })
    }

    /// Appends the next packet to an empty buffer. False: there is none now. A packet longer than the buffer's spare
    /// capacity is cut, so that must hold the device's MTU.
    pub fn read(&self, packet: &mut Vec<u8>) -> io::Result<bool> {
        match rustix::io::read(&self.file, spare_capacity(packet)) {
            Ok(length) => Ok(length > 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Hands a packet to the host. The host's kernel takes it in before this returns.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        loop {
            match rustix::io::write(&self.file, packet) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// A request for a TUN device of this name, without the four bytes of packet information before each packet.
fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        let message = format!("cannot name a network device {name:?}: use 1 to {} bytes", libc::IFNAMSIZ - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut named = [0; libc::IFNAMSIZ];
    for (to, from) in named.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    Ok(libc::ifreq { ifr_name: named, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags } })
}

fn refused(operation: &str, cause: Errno, remedy: &str) -> io::Error {
    let cause = io::Error::from(cause);
    io::Error::new(cause.kind(), format!("cannot {operation}: {cause}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_device_name_is_refused() {
        for name in ["", "sixteen-bytes-xx", "a\0b"] {
            assert_eq!(interface_request(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        assert!(interface_request("fifteen-bytes-x").is_ok());
    }
}
