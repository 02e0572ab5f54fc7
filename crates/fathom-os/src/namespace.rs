//! Namespaces of Linux: networks, users and mounts of their own. See `namespaces(7)`, `network_namespaces(7)` and
//! `user_namespaces(7)`.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::{CapabilitySet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where `ip netns` keeps names: iproute2's `NETNS_RUN_DIR`.
const NAMES: &str = "/run/netns";

/// A namespace held open: it lives at least as long as this.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// The network namespace of the calling thread.
    pub fn network() -> io::Result<Self> {
        Self::of("/proc/thread-self/ns/net")
    }

    /// The user namespace of the calling thread.
    pub fn user() -> io::Result<Self> {
        Self::of("/proc/thread-self/ns/user")
    }

    fn of(link: &str) -> io::Result<Self> {
        let file = File::open(link)
            .map_err(|cause| said(&cause, format!("cannot open {link}: {cause}; /proc must be mounted")))?;
        Ok(Self { file })
    }

    /// From a descriptor that another process passed on.
    pub fn from_file(file: File) -> Self {
        Self { file }
    }

    /// The descriptor.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What tells this namespace from every other: the inode number that `readlink /proc/PID/ns/net` shows.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }
}

/// The network namespace of a process, as [`Namespace::inode`] tells it; none where it has gone or may not be looked at.
pub fn network_inode_of(pid: u32) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/ns/net")).ok().map(|found| found.ino())
}

/// Makes this process root of a user namespace of its own, in which it may make networks. Before the first thread:
/// the kernel refuses it to a process that has several.
pub fn own_users() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER).map_err(|cause| {
        let remedy = match cause {
            Errno::INVAL => "this process has several threads already",
            Errno::NOSPC | Errno::USERS => "raise user.max_user_namespaces (sysctl)",
            _ => {
                "allow it (sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0), \
                 or run as root"
            }
        };
        refused("make a user namespace", cause, remedy)
    })?;
    // user_namespaces(7): without privilege, one line that maps the own id, and setgroups(2) given up first.
    let map = |file: &str, text: &str| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(|cause| {
            said(&cause, format!("cannot write {path}: {cause}; allow user namespaces, or run as root"))
        })
    };
    map("setgroups", "deny")?;
    map("uid_map", &format!("0 {user} 1"))?;
    map("gid_map", &format!("0 {group} 1"))
}

/// Whether this process has the capabilities that networks of one's own take (`CAP_SYS_ADMIN` to make them,
/// `CAP_NET_ADMIN` to set them up).
pub fn may_make_networks() -> bool {
    let wanted = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted))
}

/// Runs `work` in a network namespace of its own, in a thread of its own: the calling thread stays where it is. Commands
/// that `work` starts are in the namespace too.
pub fn in_new_network<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<(Namespace, T)> {
    let inside = || {
        unshare(UnshareFlags::NEWNET).map_err(|cause| {
            let remedy = if cause == Errno::NOSPC {
                "raise user.max_net_namespaces (sysctl)"
            } else {
                "run as root or in a user namespace"
            };
            refused("make a network namespace", cause, remedy)
        })?;
        let namespace = Namespace::network()?;
        let done = work()?;
        Ok((namespace, done))
    };
    std::thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Moves the calling thread into a network, by way of the users that own it where those are not its own already. A
/// change of users is granted only to a process with a single thread.
pub fn enter(users: Option<&Namespace>, network: &Namespace) -> io::Result<()> {
    if let Some(users) = users
        && users.inode()? != Namespace::user()?.inode()?
    {
        move_into_link_name_space(users.file.as_fd(), Some(LinkNameSpaceType::User)).map_err(|cause| {
            refused("enter the user namespace", cause, "be the user who made it, or root")
        })?;
    }
    move_into_link_name_space(network.file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|cause| refused("enter the network namespace", cause, "be the user who made it, or root"))
}

/// Gives the calling thread a view of the mounts of its own: what is mounted from here on nobody else sees, and it goes
/// with the last process that has this view.
pub fn private_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)
        .map_err(|cause| refused("make a mount namespace", cause, "run as root or in a user namespace"))?;
    // Down-stream only: what the machine mounts meanwhile still appears here.
    let flags = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
    rustix::mount::mount_change("/", flags)
        .map_err(|cause| refused("make the mounts private", cause, "allow mount(2) (seccomp)"))
}

/// Shows a file in the place of another; both must exist.
pub fn bind(source: &Path, target: &Path) -> io::Result<()> {
    rustix::mount::mount_bind(source, target).map_err(|cause| {
        let what = format!("mount {} over {}", source.display(), target.display());
        refused(&what, cause, "it takes CAP_SYS_ADMIN over the mounts")
    })
}

/// Mounts sysfs anew, so that `/sys/class/net` shows the network of the calling thread. Wants [`private_mounts`] first.
pub fn own_sysfs() -> io::Result<()> {
    rustix::mount::mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)
        .map_err(|cause| refused("mount /sys anew", cause, "it takes CAP_SYS_ADMIN over the network"))
}

/// Whether a network of this name stands in `ip netns`.
pub fn is_named(name: &str) -> bool {
    Path::new(NAMES).join(name).exists()
}

/// Where a name stands. What is a path and no name could lead root to unmount and delete anything.
fn named(name: &str) -> io::Result<PathBuf> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        let line = format!("{name:?} cannot name a network; use a name without slashes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, line));
    }
    Ok(Path::new(NAMES).join(name))
}

/// Gives a network a name, as `ip netns add` would: it outlives this process until [`forget_name`]. An error of the
/// kind `PermissionDenied` means that this process may not (in a user namespace, say).
pub fn name(namespace: &Namespace, name: &str) -> io::Result<PathBuf> {
    let path = named(name)?;
    prepare_names()?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(&path, flags, Mode::empty()).map_err(|cause| {
        let remedy = format!("remove the old one with: ip netns delete {name}");
        refused(&format!("name a network {name}"), cause, &remedy)
    })?;
    let link = format!("/proc/self/fd/{}", namespace.file.as_raw_fd());
    bind(Path::new(&link), &path).inspect_err(|_| {
        // The empty file is of no use; should it stay, `ip netns delete` takes it away.
        let _ = fs::remove_file(&path);
    })?;
    Ok(path)
}

/// Takes a name away, as `ip netns delete` would; the network goes with its last process. A name that is not there is
/// no error.
pub fn forget_name(name: &str) -> io::Result<()> {
    let path = named(name)?;
    match rustix::mount::unmount(&path, UnmountFlags::DETACH) {
        // Not there, or a file on which nothing is mounted.
        Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
        Err(cause) => return Err(refused(&format!("unmount {}", path.display()), cause, "run as root")),
    }
    match fs::remove_file(&path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(said(&cause, format!("cannot remove {}: {cause}; run as root", path.display())))
        }
        _ => Ok(()),
    }
}

/// The directory of names is a shared mount, so that a name made in one view of the mounts shows in all: as `ip netns
/// add` makes it, and like there it stays.
fn prepare_names() -> io::Result<()> {
    fs::create_dir_all(NAMES)
        .map_err(|cause| said(&cause, format!("cannot create {NAMES}: {cause}; run as root")))?;
    let share =
        || rustix::mount::mount_change(NAMES, MountPropagationFlags::SHARED | MountPropagationFlags::REC);
    let shared = share().or_else(|cause| {
        // Not a mount point yet.
        if cause == Errno::INVAL {
            rustix::mount::mount_bind_recursive(NAMES, NAMES)?;
            share()
        } else {
            Err(cause)
        }
    });
    shared.map_err(|cause| refused(&format!("share the mount {NAMES}"), cause, "run as root"))
}

fn unshare(what: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(!what.contains(UnshareFlags::FILES));
    // SAFETY: the danger of this call is in `UnshareFlags::FILES` (descriptors that other threads do not see), which no
    // caller in this file passes.
    unsafe { rustix::thread::unshare_unsafe(what) }
}

fn refused(operation: &str, cause: Errno, remedy: &str) -> io::Error {
    let cause = io::Error::from(cause);
    said(&cause, format!("cannot {operation}: {cause}; {remedy}"))
}

fn said(cause: &io::Error, message: String) -> io::Error {
    io::Error::new(cause.kind(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this process can make networks; says so where it cannot.
    fn can() -> bool {
        let can = may_make_networks();
        if !can {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must run this test as root");
            eprintln!("SKIPPED: it needs root");
        }
        can
    }

    #[test]
    fn new_network_differs_and_caller_stays() {
        if !can() {
            return;
        }
        let before = Namespace::network().unwrap().inode().unwrap();
        let (namespace, seen) = in_new_network(|| Namespace::network()?.inode()).unwrap();
        assert_eq!(namespace.inode().unwrap(), seen);
        assert_ne!(seen, before);
        assert_eq!(Namespace::network().unwrap().inode().unwrap(), before);
        assert_eq!(network_inode_of(std::process::id()), Some(before));
    }

    #[test]
    fn tun_device_carries_packets_both_ways() {
        if !can() {
            return;
        }
        let ip = |arguments: &str| {
            let done = std::process::Command::new("ip").args(arguments.split(' ')).status().unwrap();
            assert!(done.success(), "ip {arguments}");
        };
        let (_namespace, ()) = in_new_network(|| {
            let tun = crate::tun::Tun::create("fabric")?;
            ip("address add 192.0.2.1/32 dev fabric");
            ip("link set dev fabric up");
            ip("route add default dev fabric");
            let socket = std::net::UdpSocket::bind("192.0.2.1:4000")?;
            socket.send_to(b"question", "198.51.100.1:5000")?;
            // Whatever else the kernel has to say first (IPv6), the question is among it.
            let mut packet = Vec::with_capacity(2_048);
            while packet.first() != Some(&0x45) {
                packet.clear();
                assert!(tun.read(&mut packet)?, "the question has been sent");
            }
            assert_eq!((&packet[12..16], &packet[16..20]), (&[192, 0, 2, 1][..], &[198, 51, 100, 1][..]));
            assert_eq!(&packet[28..], b"question");
            // With the addresses and the ports exchanged both checksums (RFC 1071) stay right.
            for (a, b, length) in [(12, 16, 4), (20, 22, 2)] {
                let (left, right) = packet.split_at_mut(b);
                left[a..a + length].swap_with_slice(&mut right[..length]);
            }
            tun.write(&packet)?;
            let mut answer = [0; 64];
            let (length, from) = socket.recv_from(&mut answer)?;
            assert_eq!(
                (&answer[..length], from.to_string().as_str()),
                (&b"question"[..], "198.51.100.1:5000")
            );
            Ok(())
        })
        .unwrap();
    }

    /// A prepared state of a fabric had `"netns":"../../…"`: root unmounted and deleted what that led to.
    #[test]
    fn path_is_refused_as_namespace_name() {
        let home = tempfile::tempdir().unwrap();
        let treasure = home.path().join("treasure");
        fs::write(&treasure, "untouched").unwrap();
        let path = treasure.to_str().unwrap();
        for name in [path, &format!("../..{path}"), "..", ".", "", "a/../b"] {
            assert_eq!(forget_name(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        assert_eq!(fs::read_to_string(treasure).unwrap(), "untouched");
    }

    #[test]
    fn namespace_name_is_unique_and_removable() {
        if !can() {
            return;
        }
        let label = format!("fathom-os-test-{}", std::process::id());
        let (namespace, ()) = in_new_network(|| Ok(())).unwrap();
        match name(&namespace, &label) {
            Ok(path) => {
                assert!(is_named(&label));
                assert_eq!(fs::metadata(&path).unwrap().ino(), namespace.inode().unwrap());
                assert!(name(&namespace, &label).unwrap_err().to_string().contains("ip netns delete"));
                assert!(is_named(&label), "the refusal must not touch the name that stands");
                forget_name(&label).unwrap();
                assert!(!is_named(&label) && !path.exists());
                forget_name(&label).unwrap();
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        }
    }
}
