//! Facts about this host that explain its figures, gathered once at the start of a run; those of its interface
//! ([`NicFacts`]) whenever they are asked for.
//!
//! Everything is optional: what the system does not tell is absent, and nothing here fails. Of what identifies a host only
//! its name and keyed hashes (`identity.rs`) are taken, so that recordings of two hosts are never taken for one host's;
//! its serial numbers and the ids themselves are left out on purpose.

mod identity;
mod nic;
mod sysctl;
mod virtualization;

pub use nic::{NicFacts, Offloads};
pub use sysctl::SysctlValue;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known about a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// What the host calls itself, as `uname -n` has it.
    #[serde(default)]
    pub name: Option<String>,
    /// Which machine this is: `hmac-sha256:` and 32 hexadecimal digits, a hash of the machine id (`identity`).
    #[serde(default)]
    pub machine_id: Option<String>,
    /// Which boot of it: the same of the kernel's boot id.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The zone of its clocks, as `Europe/Berlin`.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// Operating system as it names itself, as `Debian GNU/Linux 13 (trixie)`; from `os-release`, elsewhere its family.
    pub os: Option<String>,
    /// Release of the kernel, as `uname -r` has it.
    pub kernel: Option<String>,
    /// Processor's model name.
    pub cpu: Option<String>,
    /// Logical processors, and how many of them are for this process.
    pub cores: Cores,
    /// Memory the kernel manages, in bytes.
    pub memory_bytes: Option<u64>,
    /// Hardware the kernel reads time from, as `tsc`; from sysfs.
    pub clocksource: Option<String>,
    /// Hypervisor this machine runs under, by the names of `systemd-detect-virt --vm`, as `kvm` or `microsoft`; absent
    /// on bare metal and where unknown.
    pub virtualization: Option<String>,
    /// Container this process runs in, by the names of `systemd-detect-virt --container`, as `docker`; absent outside
    /// of containers and where unknown.
    pub container: Option<String>,
    /// Interface that the first connection of the run left by; absent until there is one, and where it is not known.
    pub nic: Option<NicFacts>,
    /// Kernel settings that bear on latency and on long-lived connections, by their names in `sysctl`.
    pub sysctls: BTreeMap<String, SysctlValue>,
}

/// Logical processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cores {
    /// Online in this machine.
    pub online: Option<u32>,
    /// Those this process may use, by affinity and by the quota of its control group.
    pub usable: Option<u32>,
}

impl HostFacts {
    /// Gathers what there is; `nic`, where its name is known.
    pub fn gather(nic: Option<&str>) -> Self {
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        Self {
            name: identity::name(),
            machine_id: identity::machine(),
            boot_id: identity::boot(),
            time_zone: identity::time_zone(),
            os: os_name(),
            kernel: kernel(),
            cpu: cpu_model(&cpuinfo),
            cores: Cores {
                online: online_cores(),
                usable: std::thread::available_parallelism().ok().map(|count| count.get() as u32),
            },
            memory_bytes: read("/proc/meminfo").and_then(|text| memory_bytes(&text)),
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            virtualization: virtualization::machine(&cpuinfo),
            container: virtualization::container(),
            nic: nic.and_then(NicFacts::of),
            sysctls: sysctl::read_all(),
        }
    }
}

/// A small text file without the white space around it; none if it is not there or empty.
fn read(path: impl AsRef<std::path::Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn os_name() -> Option<String> {
    let release = read("/etc/os-release").or_else(|| read("/usr/lib/os-release"));
    let family = || Some(std::env::consts::OS).filter(|name| !name.is_empty()).map(str::to_owned);
    release.and_then(|text| pretty_name(&text)).or_else(family)
}

/// `PRETTY_NAME` of os-release(5), whose values may be quoted as a shell would.
fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let value = value.trim().trim_matches(['"', '\'']).replace('\\', "");
    (!value.is_empty()).then_some(value)
}

fn kernel() -> Option<String> {
    #[cfg(unix)]
    return rustix::system::uname().release().to_str().ok().map(str::to_owned);
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
fn online_cores() -> Option<u32> {
    // SAFETY: sysconf has no preconditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).ok().filter(|&count| count > 0)
}

#[cfg(not(unix))]
fn online_cores() -> Option<u32> {
    None
}

/// The first processor's name, as x86 and s390 have it; ARM gives numbers only, so there it is absent.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    cpuinfo_value(cpuinfo, "model name").map(str::to_owned)
}

fn cpuinfo_value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key && !value.trim().is_empty()).then(|| value.trim())
    })
}

/// `MemTotal:` is in KiB, which `proc_meminfo(5)` calls kB.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files_are_read_as_their_manuals_say() {
        let release = "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nID=debian\n";
        assert_eq!(pretty_name(release).as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(pretty_name("NAME=x\n"), None);
        assert_eq!(memory_bytes("MemTotal:        4030464 kB\nMemFree: 1 kB\n"), Some(4_030_464 * 1024));
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
        let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC 9R14\nflags\t\t: fpu hypervisor\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("AMD EPYC 9R14"));
        assert_eq!(cpu_model("processor : 0\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_host_is_described_and_survives_json() {
        let facts = HostFacts::gather(Some("lo"));
        let uname = std::process::Command::new("uname").arg("-r").output().unwrap();
        assert_eq!(facts.kernel.as_deref(), Some(String::from_utf8(uname.stdout).unwrap().trim()));
        assert!(facts.os.is_some());
        let name = std::process::Command::new("uname").arg("-n").output().unwrap();
        assert_eq!(facts.name.as_deref(), Some(String::from_utf8(name.stdout).unwrap().trim()));
        assert!(facts.memory_bytes.unwrap() > 1 << 20);
        let (online, usable) = (facts.cores.online.unwrap(), facts.cores.usable.unwrap());
        assert!((1..=online).contains(&usable), "{usable} of {online}");
        let nic = facts.nic.as_ref().unwrap();
        assert_eq!(nic.name, "lo");
        assert!(nic.mtu.unwrap() >= 1_280);
        assert!(matches!(facts.sysctls["net.ipv4.tcp_retries2"], SysctlValue::Integer(1..)));
        assert!(
            matches!(&facts.sysctls["net.ipv4.tcp_rmem"], SysctlValue::Integers(three) if three.len() == 3)
        );
        assert_eq!(HostFacts::gather(Some("no-such-if0")).nic, None);
        assert_eq!(HostFacts::gather(None).nic, None);
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&json).unwrap(), facts);
    }
}
