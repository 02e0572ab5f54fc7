//! Linux's TCP keepalives, as sysctl's files set them.

use super::{Key, Library, Names, always, half, shortest};
use crate::group::{Group, Insert, Style};
use crate::syntax::Document;
use crate::unit::{H, S, Unit};

const KERNEL: &str = "Linux, include/net/tcp.h";
const TIME: &str = "net.ipv4.tcp_keepalive_time";

pub(super) static LIBRARY: Library = Library {
    name: "Linux",
    keys: &[
        Key {
            name: TIME,
            also: &[],
            unit: Unit::Seconds,
            defaults: &[always(2 * H, "Linux, include/net/tcp.h: TCP_KEEPALIVE_TIME")],
        },
        Key {
            name: "net.ipv4.tcp_keepalive_intvl",
            also: &[],
            unit: Unit::Seconds,
            defaults: &[always(75 * S, KERNEL)],
        },
        Key {
            name: "net.ipv4.tcp_keepalive_probes",
            also: &[],
            unit: Unit::Count,
            defaults: &[always(9, KERNEL)],
        },
        Key { name: "net.ipv4.tcp_retries2", also: &[], unit: Unit::Count, defaults: &[always(15, KERNEL)] },
    ],
    other: &[
        "net.ipv4.tcp_syn_retries",
        "net.ipv4.tcp_synack_retries",
        "net.ipv4.tcp_retries1",
        "net.ipv4.tcp_fin_timeout",
    ],
    // There is no such one: people look for it, and it is an option of sockets.
    strict: |name| name.ends_with(".tcp_user_timeout") || name.starts_with("net.ipv4.tcp_keepalive"),
    names: Names::EXACT,
    newer: &[],
    idle_by: TIME,
    age_by: None,
    idle: |values| shortest(&[(Some(values.get(TIME)), TIME)]),
    age: |_| shortest(&[]),
    idle_remedies: |_, limit| vec![vec![(TIME, half(limit, Unit::Seconds))]],
    age_remedies: |_, _| Vec::new(),
    contradictions: |values| {
        let mut all = Vec::new();
        for name in [TIME, "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"] {
            if values.get(name) <= 0 {
                all.push((name, format!("{name} is not above 0: the kernel refuses it")));
            }
        }
        all
    },
    cost: "a request on a connection that was dropped silently is sent again for about 15 minutes (tcp_retries2 = 15), unless the socket sets TCP_USER_TIMEOUT",
    too_short: [
        "(whole seconds): have the application send a request on each connection more often than that",
        "",
    ],
    elsewhere: ["", ""],
    notes: &[
        "it holds for sockets that ask for keepalives (SO_KEEPALIVE) and set no time of their own",
        "no sysctl bounds how old a connection becomes: an age limit is not judged here",
    ],
};

pub(super) fn groups(document: &Document<'_>) -> Vec<Group> {
    let entries: Vec<_> = document.scopes.iter().flat_map(|scope| scope.entries.iter().cloned()).collect();
    let at = entries.first().map_or(0, |entry| entry.key_at);
    if !entries.iter().any(|entry| entry.key.starts_with("net.")) {
        return Vec::new();
    }
    let insert = Insert::Before { at, style: Style::Spaced, prefix: String::new() };
    vec![Group::new(entries, at, insert)]
}
