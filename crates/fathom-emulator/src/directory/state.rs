//! What a fabric made, for whoever removes it.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// What a fabric made, for whoever removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricState {
    /// Tells this fabric's processes from those of an earlier one of the same name.
    pub(crate) marker: String,
    /// The daemon.
    pub(crate) pid: u32,
    pub(crate) scenario: PathBuf,
    pub(crate) hosts: Vec<HostRecord>,
}

/// One host of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// As the scenario names it.
    pub name: String,
    /// All of them; the first of a family is the one that speaks.
    pub addresses: Vec<IpAddr>,
    /// What its largest packet has, bytes.
    pub mtu: u16,
    /// Inode of its network namespace, once that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<u64>,
    /// The name it bears in `ip netns`, where it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
}

impl HostRecord {
    /// The name that a host's network bears in `ip netns`.
    pub(crate) fn netns_of(fabric: &str, host: &str) -> String {
        format!("fathom-{fabric}-{host}")
    }
}

impl FabricState {
    /// Reads what a fabric of this name wrote. Whoever else wrote it may name what is not the fabric's: each network's
    /// name must be the one that the fabric itself gives, and a host's name one that a scenario may have.
    pub(super) fn parse(bytes: &[u8], fabric: &str) -> Result<Self, String> {
        let state: Self = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        for host in &state.hosts {
            if !is_host_name(&host.name) {
                return Err(format!("no host can be named {:?}", host.name));
            }
            if let Some(netns) =
                host.netns.as_ref().filter(|n| **n != HostRecord::netns_of(fabric, &host.name))
            {
                return Err(format!("the network {netns:?} is none of this fabric's"));
            }
        }
        Ok(state)
    }
}

/// As a scenario may name a host.
fn is_host_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !name.is_empty() && !name.starts_with(['-', '.']) && name.bytes().all(plain)
}
