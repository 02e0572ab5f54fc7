//! This reflector's identity. A probe asks for it to learn if the reflector that answers now is the one that served a connection.
//!
//! The identity names a place and a process. A process that replaces another one is at the same place. Another backend behind
//! the same address is at another place: its machine, its network or its listening address differs. The machine's addresses
//! are no part of the place, because they may change.

use std::fs::{read_link, read_to_string};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;

/// Identity of a machine that survives reboots and new addresses. Cloned machines differ in the cloud's name.
const MACHINE: [&str; 3] =
    ["/etc/machine-id", "/proc/sys/kernel/hostname", "/var/lib/cloud/data/instance-id"];
/// The host's own UTS namespace (Linux, `PROC_UTS_INIT_INO`). A process in another one is in a container, which its
/// host name identifies. A container gets a new network at each start.
const HOST_UTS: &str = "uts:[4026531838]";

/// The identity of this process, which listens on these addresses.
pub(crate) fn identity(listens: impl Iterator<Item = SocketAddr>) -> u32 {
    // The standard library seeds its hashers from the system's random source.
    let mut random = RandomState::new().build_hasher();
    random.write_u32(std::process::id());
    let mut listens: Vec<String> = listens.map(|address| address.to_string()).collect();
    listens.sort_unstable();
    let machine: String = MACHINE.into_iter().filter_map(|path| read_to_string(path).ok()).collect();
    let place = format!("{machine} {} {}", network(), listens.join(" "));
    fathom_wire::identity_of(digest(&place), random.finish() as u32)
}

/// Network namespace of this machine. There may be several, as for the hosts of an emulated network.
fn network() -> String {
    let namespace = |name: &str| {
        let link = read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
        link.to_string_lossy().into_owned()
    };
    if namespace("uts") == HOST_UTS { namespace("net") } else { String::new() }
}

/// FNV-1a over 32 bits, folded to the bits that are told.
fn digest(text: &str) -> u32 {
    let fold = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = text.as_bytes().iter().fold(0x811c_9dc5, fold);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_wire::is_same_place;

    fn of(listens: &[&str]) -> u32 {
        identity(listens.iter().map(|address| address.parse().expect("an address")))
    }

    #[test]
    fn replacement_process_keeps_place_but_not_identity() {
        let (one, two) = (of(&["10.0.0.1:7007"]), of(&["10.0.0.1:7007"]));
        assert!(is_same_place(one, two));
        assert_ne!(one, two);
        // Two beside each other are no replacement of one another.
        assert!(!is_same_place(of(&["10.0.0.1:7008"]), one));
    }
}
