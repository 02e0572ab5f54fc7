//! Npgsql (.NET, `PostgreSQL`), and how connection strings are found in files.

use super::{Default, Key, Library, Names, always, half, most_of, on, shortest, since, texts};
use crate::group::{Group, Insert};
use crate::syntax::{Document, pairs};
use crate::unit::{H, MIN, S, Unit};
use crate::version::{FIRST, Version};

const BUILDER: &str = "Npgsql 6.0 to 10.0, NpgsqlConnectionStringBuilder.cs";

pub(super) static LIBRARY: Library = Library {
    name: "Npgsql",
    keys: &[
        Key { name: "Keepalive", also: &[], unit: Unit::Seconds, defaults: &[always(0, BUILDER)] },
        Key { name: "TCP Keepalive", also: &[], unit: Unit::Bool, defaults: &[always(0, BUILDER)] },
        Key { name: "TCP Keepalive Time", also: &[], unit: Unit::Seconds, defaults: &[always(0, BUILDER)] },
        Key {
            name: "TCP Keepalive Interval",
            also: &[],
            unit: Unit::Seconds,
            defaults: &[always(0, BUILDER)],
        },
        Key {
            name: "Connection Idle Lifetime",
            also: &[],
            unit: Unit::Seconds,
            defaults: &[always(5 * MIN, BUILDER)],
        },
        Key {
            name: "Connection Pruning Interval",
            also: &[],
            unit: Unit::Seconds,
            defaults: &[always(10 * S, BUILDER)],
        },
        Key {
            name: "Connection Lifetime",
            also: &["Load Balance Timeout"],
            unit: Unit::Seconds,
            defaults: &[
                Default {
                    since: FIRST,
                    value: 0,
                    source: "Npgsql 5.0.0 to 8.0.9, NpgsqlConnectionStringBuilder.cs",
                },
                Default {
                    since: Version(9, 0, 0),
                    value: H,
                    source: "Npgsql 9.0.0, NpgsqlConnectionStringBuilder.cs",
                },
            ],
        },
        Key {
            name: "Minimum Pool Size",
            also: &["MinPoolSize"],
            unit: Unit::Count,
            defaults: &[always(0, BUILDER)],
        },
        Key {
            name: "Maximum Pool Size",
            also: &["MaxPoolSize"],
            unit: Unit::Count,
            defaults: &[always(100, BUILDER)],
        },
        Key { name: "Pooling", also: &[], unit: Unit::Bool, defaults: &[always(1, BUILDER)] },
    ],
    other: &[
        "Host",
        "Server",
        "Port",
        "Database",
        "DB",
        "Username",
        "User Name",
        "User Id",
        "UID",
        "Password",
        "PSW",
        "PWD",
        "Passfile",
        "Application Name",
        "Enlist",
        "Search Path",
        "Client Encoding",
        "Encoding",
        "Timezone",
        "SSL Mode",
        "SSL Negotiation",
        "GSS Encryption Mode",
        "SSL Certificate",
        "SSL Key",
        "SSL Password",
        "Root Certificate",
        "Check Certificate Revocation",
        "Kerberos Service Name",
        "Krbsrvname",
        "Include Realm",
        "Persist Security Info",
        "Log Parameters",
        "Include Error Detail",
        "Include Failed Batched Command",
        "Channel Binding",
        "Require Auth",
        "Timeout",
        "Command Timeout",
        "Cancellation Timeout",
        "Internal Command Timeout",
        "Target Session Attributes",
        "Load Balance Hosts",
        "Host Recheck Seconds",
        "Read Buffer Size",
        "Write Buffer Size",
        "Socket Receive Buffer Size",
        "Socket Send Buffer Size",
        "Max Auto Prepare",
        "Auto Prepare Min Usages",
        "No Reset On Close",
        "Replication Mode",
        "Options",
        "Array Nullability Mode",
        "Load Table Composites",
        "Server Compatibility Mode",
        "Trust Server Certificate",
        "Multiplexing",
        "Write Coalescing Buffer Threshold Bytes",
        "Integrated Security",
        "Use Perf Counters",
        "Convert Infinity DateTime",
        "Entity Template Database",
        "Entity Admin Database",
    ],
    strict: |_| true,
    // The names of its properties are other words for some.
    names: Names { as_one_word: true, ..Names::ANY_CASE },
    newer: &[since("Keepalive", Version(3, 0, 0)), since("Connection Lifetime", Version(5, 0, 0))],
    idle_by: "Keepalive",
    age_by: Some("Connection Lifetime"),
    idle: |values| {
        let get = |name| values.get(name);
        if get("Pooling") == 0 {
            return shortest(&[(Some(0), "Pooling")]);
        }
        let time = on(get("TCP Keepalive Time"));
        let kernels = (time.is_none() && get("TCP Keepalive") != 0).then_some(2 * H);
        // It prunes by the median of what it counted over that time: what stopped being used is closed within twice of it.
        let pruned = on(get("Connection Idle Lifetime")).filter(|_| get("Minimum Pool Size") == 0);
        shortest(&[
            (on(get("Keepalive")), "Keepalive"),
            (time, "TCP Keepalive Time"),
            (kernels, super::KERNELS),
            (pruned.map(|ns| ns.saturating_mul(2)), "twice Connection Idle Lifetime"),
            (on(get("Connection Lifetime")), "Connection Lifetime"),
        ])
    },
    age: |values| {
        if values.get("Pooling") == 0 {
            return shortest(&[(Some(0), "Pooling")]);
        }
        shortest(&[(on(values.get("Connection Lifetime")), "Connection Lifetime")])
    },
    idle_remedies: |_, limit| vec![vec![("Keepalive", half(limit, Unit::Seconds))]],
    age_remedies: |_, limit| vec![vec![("Connection Lifetime", most_of(limit, Unit::Seconds))]],
    contradictions: |values| {
        let mut all = Vec::new();
        let get = |name| values.get(name);
        if get("Connection Pruning Interval") == 0 {
            let why = "Connection Pruning Interval is 0: Npgsql refuses it";
            all.push(("Connection Pruning Interval", why.to_owned()));
        }
        if get("Connection Idle Lifetime") < get("Connection Pruning Interval") {
            let why = "Connection Idle Lifetime is below Connection Pruning Interval: Npgsql refuses it";
            all.push(("Connection Idle Lifetime", why.to_owned()));
        }
        if get("TCP Keepalive Interval") > 0 && get("TCP Keepalive Time") == 0 {
            let why = "TCP Keepalive Interval without TCP Keepalive Time: Npgsql refuses it";
            all.push(("TCP Keepalive Interval", why.to_owned()));
        }
        if get("Maximum Pool Size") < get("Minimum Pool Size") {
            let why = "Minimum Pool Size is above Maximum Pool Size: Npgsql refuses it";
            all.push(("Minimum Pool Size", why.to_owned()));
        }
        for name in ["Keepalive", "TCP Keepalive Time", "Connection Idle Lifetime", "Connection Lifetime"] {
            if get(name) < 0 {
                all.push((name, format!("{name} is below 0")));
            }
        }
        all
    },
    cost: "Npgsql does not test a connection before it lends it: the next command fails, or waits for Command Timeout (30 s)",
    too_short: [
        "(whole seconds): set Pooling=false, or send a request on each connection more often than that",
        "(whole seconds): set Pooling=false, or clear the pool (NpgsqlConnection.ClearPool) more often than that",
    ],
    elsewhere: ["", ""],
    notes: &[],
};

/// The connection strings of a file that are this library's.
pub(super) fn groups(library: &'static Library, document: &Document<'_>) -> Vec<Group> {
    let mut groups = Vec::new();
    for (entry, mapped) in texts(document) {
        let (entries, wrongs) = pairs(&mapped);
        let known = entries.iter().filter(|entry| library.knows(&entry.key)).count();
        if known < 2 || (entries.len() > 1 && known * 2 < entries.len()) || mapped.text.contains("://") {
            continue;
        }
        let insert = Insert::Piece { at: entry.span.end, lead: lead(&mapped.text), between: ";" };
        // What is added behind a quote that is open would be within it.
        let insert = if wrongs.is_empty() { insert } else { Insert::Nowhere };
        groups.push(Group { wrongs, ..Group::new(entries, entry.span.start, insert) });
    }
    groups
}

fn lead(text: &str) -> &'static str {
    if text.trim_end().ends_with(';') { "" } else { ";" }
}

/// How much a connection string speaks for a library: what both know as well speaks for both.
fn weight(library: &'static Library, group: &Group) -> usize {
    let count = |library: &Library| group.entries.iter().filter(|e| library.knows(&e.key)).count();
    let (mine, other) = (count(library), count(other_than(library)));
    if mine >= other { 4 + (mine - other) * 3 } else { 0 }
}

fn other_than(library: &'static Library) -> &'static Library {
    if std::ptr::eq(library, &raw const LIBRARY) { &super::adonet::LIBRARY } else { &LIBRARY }
}

pub(super) fn evidence(library: &'static Library, document: &Document<'_>) -> usize {
    groups(library, document).iter().map(|group| weight(library, group)).sum()
}

/// Each connection string as the library's that it speaks for more; where it speaks for both, as this one's.
pub(super) fn of_each(library: &'static Library, document: &Document<'_>) -> Vec<(&'static Library, Group)> {
    let other = other_than(library);
    let mine = groups(library, document).into_iter().filter(|group| weight(library, group) > 0);
    let others = groups(other, document).into_iter().filter(|group| weight(library, group) == 0);
    let mut all: Vec<_> =
        mine.map(|group| (library, group)).chain(others.map(|group| (other, group))).collect();
    all.sort_by_key(|(_, group)| group.at);
    all
}
