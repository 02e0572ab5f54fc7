//! The kernel settings that explain a long-lived connection or its latency.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The value of a kernel setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SysctlValue {
    /// One number, in the setting's own unit.
    Integer(i64),
    /// Several, as the smallest, default and largest size of `tcp_rmem`.
    Integers(Vec<i64>),
    /// A name, or names.
    Text(String),
}

type Parse = fn(&str) -> Option<SysctlValue>;

/// Name in `sysctl`, path, and how to read it. A setting whose text does not parse is left out.
const REGISTRY: &[(&str, &str, Parse)] = &[
    ("kernel.sched_rt_runtime_us", "/proc/sys/kernel/sched_rt_runtime_us", integer),
    ("net.core.busy_poll", "/proc/sys/net/core/busy_poll", integer),
    ("net.core.busy_read", "/proc/sys/net/core/busy_read", integer),
    ("net.core.default_qdisc", "/proc/sys/net/core/default_qdisc", text),
    ("net.core.rmem_default", "/proc/sys/net/core/rmem_default", integer),
    ("net.core.rmem_max", "/proc/sys/net/core/rmem_max", integer),
    ("net.core.somaxconn", "/proc/sys/net/core/somaxconn", integer),
    ("net.core.wmem_default", "/proc/sys/net/core/wmem_default", integer),
    ("net.core.wmem_max", "/proc/sys/net/core/wmem_max", integer),
    ("net.ipv4.ip_local_port_range", "/proc/sys/net/ipv4/ip_local_port_range", integers),
    ("net.ipv4.tcp_congestion_control", "/proc/sys/net/ipv4/tcp_congestion_control", text),
    ("net.ipv4.tcp_ecn", "/proc/sys/net/ipv4/tcp_ecn", integer),
    ("net.ipv4.tcp_fin_timeout", "/proc/sys/net/ipv4/tcp_fin_timeout", integer),
    ("net.ipv4.tcp_keepalive_intvl", "/proc/sys/net/ipv4/tcp_keepalive_intvl", integer),
    ("net.ipv4.tcp_keepalive_probes", "/proc/sys/net/ipv4/tcp_keepalive_probes", integer),
    ("net.ipv4.tcp_keepalive_time", "/proc/sys/net/ipv4/tcp_keepalive_time", integer),
    ("net.ipv4.tcp_mtu_probing", "/proc/sys/net/ipv4/tcp_mtu_probing", integer),
    ("net.ipv4.tcp_retries1", "/proc/sys/net/ipv4/tcp_retries1", integer),
    ("net.ipv4.tcp_retries2", "/proc/sys/net/ipv4/tcp_retries2", integer),
    ("net.ipv4.tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem", integers),
    ("net.ipv4.tcp_sack", "/proc/sys/net/ipv4/tcp_sack", integer),
    ("net.ipv4.tcp_slow_start_after_idle", "/proc/sys/net/ipv4/tcp_slow_start_after_idle", integer),
    ("net.ipv4.tcp_syn_retries", "/proc/sys/net/ipv4/tcp_syn_retries", integer),
    ("net.ipv4.tcp_timestamps", "/proc/sys/net/ipv4/tcp_timestamps", integer),
    ("net.ipv4.tcp_wmem", "/proc/sys/net/ipv4/tcp_wmem", integers),
];

/// Every registered setting that this system has; none elsewhere than on Linux.
pub(super) fn read_all() -> BTreeMap<String, SysctlValue> {
    let value = |path, parse: Parse| super::read(path).as_deref().and_then(parse);
    REGISTRY.iter().filter_map(|&(name, path, parse)| Some((name.to_owned(), value(path, parse)?))).collect()
}

fn integer(text: &str) -> Option<SysctlValue> {
    text.parse().ok().map(SysctlValue::Integer)
}

fn integers(text: &str) -> Option<SysctlValue> {
    let numbers: Result<Vec<i64>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    numbers.ok().map(SysctlValue::Integers)
}

#[expect(clippy::unnecessary_wraps, reason = "of one type with the other ways to read")]
fn text(text: &str) -> Option<SysctlValue> {
    Some(SysctlValue::Text(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_paths_and_order_agree() {
        for (name, path, _) in REGISTRY {
            assert_eq!(format!("/proc/sys/{}", name.replace('.', "/")), *path);
        }
        assert!(REGISTRY.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn values_are_numbers_where_they_should_be() {
        assert_eq!(integer("-1"), Some(SysctlValue::Integer(-1)));
        assert_eq!(integer("cubic"), None);
        assert_eq!(
            integers("4096\t131072\t6291456"),
            Some(SysctlValue::Integers(vec![4096, 131_072, 6_291_456]))
        );
        assert_eq!(integers("4096 x"), None);
        assert_eq!(text("cubic"), Some(SysctlValue::Text("cubic".into())));
    }
}
