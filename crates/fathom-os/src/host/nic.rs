//! The interface a run goes through.

use super::read;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What is known about a network interface. From sysfs and ethtool; on other systems than Linux the name alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NicFacts {
    /// Name, as `eth0`.
    pub name: String,
    /// Driver, as `hv_netvsc`, `ena` or `virtio_net`; absent for interfaces without a device, as `lo`.
    pub driver: Option<String>,
    /// Whether packets go through a virtual function of the real card (SR-IOV; Azure's "accelerated networking")
    /// rather than through the hypervisor. Absent where the system does not tell.
    pub virtual_function: Option<bool>,
    /// The interfaces that this one stands upon, in alphabetical order: the virtual function of an accelerated one, the
    /// members of a bond or bridge. Empty where there is none, and in recordings that do not say.
    #[serde(default)]
    pub lower: Vec<String>,
    /// Largest packet, in bytes.
    pub mtu: Option<u32>,
    /// Link speed in Mbit/s; absent where there is no link or a virtual one.
    pub speed_mbps: Option<u32>,
    /// What the card or the kernel joins and splits.
    pub offloads: Offloads,
}

/// Segmentation and reassembly away from the connection; each absent where the system does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offloads {
    /// TCP segmentation by the card.
    pub tso: Option<bool>,
    /// Segmentation by the kernel, late.
    pub gso: Option<bool>,
    /// Received segments joined by the kernel.
    pub gro: Option<bool>,
    /// Received segments joined by the card.
    pub lro: Option<bool>,
}

impl NicFacts {
    /// Describes the interface of this name; `None` where there is none, or the system does not tell.
    pub fn of(name: &str) -> Option<Self> {
        let directory = Path::new("/sys/class/net").join(name);
        if cfg!(target_os = "linux") && !directory.exists() {
            return None;
        }
        let driver = link_name(&directory.join("device/driver"));
        let lower = lower(&directory);
        Some(Self {
            virtual_function: virtual_function(&directory, driver.as_deref(), !lower.is_empty()),
            mtu: read(directory.join("mtu")).and_then(|text| text.parse().ok()),
            // -1 and 2^32 - 1 both say "unknown".
            speed_mbps: read(directory.join("speed"))
                .and_then(|text| text.parse().ok())
                .filter(|&speed| speed != 0 && speed != u32::MAX),
            offloads: offloads(name),
            name: name.to_owned(),
            lower,
            driver,
        })
    }
}

fn link_name(link: &Path) -> Option<String> {
    let target = std::fs::read_link(link).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

fn virtual_function(directory: &Path, driver: Option<&str>, has_lower: bool) -> Option<bool> {
    let has = |name: &str| directory.join("device").join(name).exists();
    match driver? {
        // A hypervisor's interface hands its packets to the virtual function below it while there is one.
        "hv_netvsc" | "virtio_net" | "vmxnet3" | "vif" => Some(has_lower),
        "iavf" | "igbvf" | "ixgbevf" | "i40evf" => Some(true),
        // The host sees whose function it is; a guest does not.
        _ if has("physfn") => Some(true),
        _ if has("sriov_totalvfs") => Some(false),
        _ => None,
    }
}

/// The interfaces that this one stands upon.
fn lower(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("lower_")?.to_owned()))
        .collect();
    names.sort_unstable();
    names
}

#[cfg(target_os = "linux")]
fn offloads(name: &str) -> Offloads {
    use socket2::{Domain, Socket, Type};
    // Numbers of linux/ethtool.h.
    const ETHTOOL_GTSO: u32 = 0x1e;
    const ETHTOOL_GGSO: u32 = 0x23;
    const ETHTOOL_GFLAGS: u32 = 0x25;
    const ETHTOOL_GGRO: u32 = 0x2b;
    const ETH_FLAG_LRO: u32 = 1 << 15;
    let Ok(socket) = Socket::new(Domain::IPV4, Type::DGRAM, None) else {
        return Offloads::default();
    };
    let ask = |command| ethtool(&socket, name, command);
    Offloads {
        tso: ask(ETHTOOL_GTSO).map(|value| value != 0),
        gso: ask(ETHTOOL_GGSO).map(|value| value != 0),
        gro: ask(ETHTOOL_GGRO).map(|value| value != 0),
        lro: ask(ETHTOOL_GFLAGS).map(|flags| flags & ETH_FLAG_LRO != 0),
    }
}

/// Asks one of the ethtool commands that answer with one number.
#[cfg(target_os = "linux")]
fn ethtool(socket: &socket2::Socket, name: &str, command: u32) -> Option<u32> {
    use std::os::fd::AsRawFd;
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command, data: 0 };
    // SAFETY: all zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: the kernel wants a string.
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: `request` names an interface and points to a value that lives across the call; these commands read the
    // command from it and write one number to it.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    (outcome == 0).then_some(value.data)
}

#[cfg(not(target_os = "linux"))]
fn offloads(_name: &str) -> Offloads {
    Offloads::default()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn accelerated_interface_is_recognised() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path();
        let accelerated = |driver| virtual_function(directory, driver, !lower(directory).is_empty());
        std::fs::create_dir(directory.join("device")).unwrap();
        assert_eq!(accelerated(Some("hv_netvsc")), Some(false));
        assert_eq!(accelerated(Some("mlx5_core")), None);
        assert_eq!(accelerated(None), None);
        std::fs::write(directory.join("device/sriov_totalvfs"), "8").unwrap();
        assert_eq!(accelerated(Some("mlx5_core")), Some(false));
        for name in ["lower_enP2s1", "lower_enP1s1", "upper_br0", "mtu"] {
            std::fs::write(directory.join(name), "").unwrap();
        }
        assert_eq!(lower(directory), ["enP1s1", "enP2s1"]);
        assert_eq!(accelerated(Some("hv_netvsc")), Some(true));
    }

    #[test]
    fn loopback_offloads_can_be_read() {
        let lo = NicFacts::of("lo").unwrap();
        assert_eq!((lo.name.as_str(), lo.driver, lo.lower), ("lo", None, Vec::new()));
        // Loopback takes any size whole; the kernel gives it these features fixed.
        assert_eq!((lo.offloads.tso, lo.offloads.lro), (Some(true), Some(false)));
        assert_eq!(NicFacts::of("no-such-if0"), None);
        assert_eq!(offloads("no-such-if0"), Offloads::default());
        assert_eq!(offloads("a name longer than any interface has"), Offloads::default());
    }
}
