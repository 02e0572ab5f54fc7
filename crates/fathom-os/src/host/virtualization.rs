//! Which hypervisor and which container, by the traces they leave.

use super::{cpuinfo_value, read};
use std::path::Path;

/// Makers of virtual machines by what they write into the firmware's tables: vendor, start of the product's name
/// (empty: any), name. Microsoft and Google make real machines too, Amazon rents out real ones.
const FIRMWARE: &[(&str, &str, &str)] = &[
    ("Microsoft Corporation", "Virtual Machine", "microsoft"),
    ("Amazon EC2", "", "amazon"),
    ("Google", "Google Compute Engine", "google"),
    ("VMware", "", "vmware"),
    ("innotek GmbH", "", "oracle"),
    ("Xen", "", "xen"),
    ("Parallels", "", "parallels"),
    ("Apple Inc.", "Apple Virtualization", "apple"),
    ("BHYVE", "", "bhyve"),
    ("QEMU", "", "qemu"),
];

/// Hypervisors by the signature of CPUID leaf `0x4000_0000`.
const SIGNATURES: &[(&[u8; 12], &str)] = &[
    (b"KVMKVMKVM\0\0\0", "kvm"),
    (b"Linux KVM Hv", "kvm"),
    (b"Microsoft Hv", "microsoft"),
    (b"XenVMMXenVMM", "xen"),
    (b"VMwareVMware", "vmware"),
    (b"TCGTCGTCGTCG", "qemu"),
    (b"bhyve bhyve ", "bhyve"),
];

/// The hypervisor this machine runs under; none on bare metal and where unknown.
pub(super) fn machine(cpuinfo: &str) -> Option<String> {
    let dmi = |name: &str| read(Path::new("/sys/class/dmi/id").join(name)).unwrap_or_default();
    let flagged = cpuinfo_value(cpuinfo, "flags")
        .map(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    machine_by(
        flagged,
        signature(flagged),
        (&dmi("sys_vendor"), &dmi("product_name")),
        read("/sys/hypervisor/type").as_deref(),
    )
    .map(str::to_owned)
}

/// `flagged`: whether the processor admits to a hypervisor; none on processors without such a flag. The firmware is
/// asked first, because it tells the cloud where the signature tells only the hypervisor it built upon; except that
/// QEMU is the firmware of KVM machines as well.
fn machine_by(
    flagged: Option<bool>,
    signature: Option<[u8; 12]>,
    (vendor, product): (&str, &str),
    hypervisor: Option<&str>,
) -> Option<&'static str> {
    if hypervisor == Some("xen") {
        return Some("xen");
    }
    if flagged == Some(false) {
        return None;
    }
    // A real machine of a cloud calls itself so: "m5.metal".
    let rented_metal = product.contains(".metal");
    let firmware = FIRMWARE
        .iter()
        .find(|(maker, kind, _)| vendor.starts_with(maker) && product.starts_with(kind) && !rented_metal)
        .map(|(_, _, name)| *name);
    let signed = signature
        .and_then(|mark| SIGNATURES.iter().find(|(known, _)| **known == mark))
        .map(|(_, name)| *name);
    match (firmware, signed) {
        (Some("qemu") | None, Some(signed)) => Some(signed),
        (firmware, _) => firmware,
    }
}

#[cfg(target_arch = "x86_64")]
fn signature(flagged: Option<bool>) -> Option<[u8; 12]> {
    if flagged != Some(true) {
        return None;
    }
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let mut mark = [0; 12];
    for (part, register) in mark.chunks_exact_mut(4).zip([leaf.ebx, leaf.ecx, leaf.edx]) {
        part.copy_from_slice(&register.to_le_bytes());
    }
    Some(mark)
}

#[cfg(not(target_arch = "x86_64"))]
fn signature(_flagged: Option<bool>) -> Option<[u8; 12]> {
    None
}

/// The container this process runs in; none outside of containers and where unknown.
pub(super) fn container() -> Option<String> {
    let exists = |path: &str| Path::new(path).exists();
    let first_cgroup = read("/proc/1/cgroup").unwrap_or_default();
    container_by(
        read("/run/systemd/container").or_else(|| std::env::var("container").ok()).as_deref(),
        exists("/run/.containerenv"),
        exists("/.dockerenv"),
        std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() || first_cgroup.contains("/kubepods"),
        &first_cgroup,
    )
    .map(str::to_owned)
}

fn container_by<'a>(
    told: Option<&'a str>,
    podman: bool,
    docker: bool,
    kubernetes: bool,
    first_cgroup: &str,
) -> Option<&'a str> {
    // What the manager of the container says of itself comes before what it leaves lying about.
    match told {
        Some("oci") | None => {}
        Some(name) => return Some(name),
    }
    let hints = [
        (podman, "podman"),
        (docker || first_cgroup.contains("/docker"), "docker"),
        (kubernetes, "kubernetes"),
        (first_cgroup.contains("/lxc"), "lxc"),
    ];
    hints.into_iter().find(|(found, _)| *found).map(|(_, name)| name).or(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hypervisors_are_known_by_their_traces() {
        let (kvm, hyper_v) = (Some(*b"KVMKVMKVM\0\0\0"), Some(*b"Microsoft Hv"));
        let cases = [
            (Some(true), hyper_v, ("Microsoft Corporation", "Virtual Machine"), None, Some("microsoft")),
            (Some(true), kvm, ("Amazon EC2", "m7i.large"), None, Some("amazon")),
            (Some(true), kvm, ("QEMU", "Standard PC (Q35 + ICH9, 2009)"), None, Some("kvm")),
            // No firmware tables: a micro VM.
            (Some(true), kvm, ("", ""), None, Some("kvm")),
            (Some(true), Some(*b"????????????"), ("", ""), None, None),
            // ARM has neither flag nor signature.
            (None, None, ("Amazon EC2", "c7g.large"), None, Some("amazon")),
            (None, None, ("QEMU", "KVM Virtual Machine"), None, Some("qemu")),
            // Real machines.
            (Some(false), None, ("Microsoft Corporation", "Surface Pro"), None, None),
            (Some(false), None, ("Amazon EC2", "m5.metal"), None, None),
            (None, None, ("Amazon EC2", "c7g.metal"), None, None),
            // A paravirtual Xen guest shows no flag.
            (Some(false), None, ("", ""), Some("xen"), Some("xen")),
        ];
        for (flagged, signature, dmi, hypervisor, name) in cases {
            assert_eq!(machine_by(flagged, signature, dmi, hypervisor), name, "{dmi:?}");
        }
    }

    #[test]
    fn containers_are_known_by_their_traces() {
        assert_eq!(container_by(None, false, false, false, "0::/init.scope"), None);
        assert_eq!(container_by(None, false, true, false, ""), Some("docker"));
        assert_eq!(container_by(Some("oci"), true, false, false, ""), Some("podman"));
        assert_eq!(container_by(Some("systemd-nspawn"), false, true, false, ""), Some("systemd-nspawn"));
        assert_eq!(container_by(None, false, false, true, ""), Some("kubernetes"));
        assert_eq!(container_by(Some("oci"), false, false, false, ""), Some("oci"));
    }
}
