//! pgxpool (Go, PostgreSQL): `pool_…` of URLs and of keyword strings.

use super::{Default, Key, Library, Names, always, on, round_below, shortest, since, texts};
use crate::group::{Entry, Group, Insert};
use crate::syntax::{Document, keywords, url};
use crate::unit::{H, MIN, S, Unit};
use crate::version::{FIRST, Version};

const POOL: &str = "pgx 5.0.0 to 5.9.2, pgxpool/pool.go";
/// Not a setting of a file: the dialer's, in Go.
const DIALER: &str = "TCP keepalive of pgx's dialer";

pub(super) static LIBRARY: Library = Library {
    name: "pgxpool",
    keys: &[
        Key { name: "pool_max_conn_lifetime", also: &[], unit: Unit::Go, defaults: &[always(H, POOL)] },
        Key {
            name: "pool_max_conn_lifetime_jitter",
            also: &[],
            unit: Unit::Go,
            defaults: &[always(0, POOL)],
        },
        Key {
            name: "pool_max_conn_idle_time",
            also: &[],
            unit: Unit::Go,
            defaults: &[always(30 * MIN, POOL)],
        },
        Key { name: "pool_health_check_period", also: &[], unit: Unit::Go, defaults: &[always(MIN, POOL)] },
        Key {
            name: "pool_ping_timeout",
            also: &[],
            unit: Unit::Go,
            defaults: &[always(0, "pgx after 5.9.2, pgxpool/pool.go")],
        },
        Key { name: "pool_min_conns", also: &[], unit: Unit::Count, defaults: &[always(0, POOL)] },
        Key { name: "pool_min_idle_conns", also: &[], unit: Unit::Count, defaults: &[always(0, POOL)] },
        Key { name: "pool_max_conns", also: &[], unit: Unit::Count, defaults: &[always(4, POOL)] },
        Key {
            name: DIALER,
            also: &[],
            unit: Unit::Go,
            defaults: &[
                Default { since: FIRST, value: 5 * MIN, source: "pgx 5.0.0 and 5.5.0, pgconn/config.go" },
                Default {
                    since: Version(5, 6, 0),
                    value: 15 * S,
                    source: "pgx 5.7.0, pgconn/config.go, and Go's net.Dialer",
                },
            ],
        },
    ],
    other: &[],
    // Any other parameter is the server's.
    strict: |name| name.starts_with("pool_"),
    names: Names::EXACT,
    newer: &[
        since("pool_max_conn_idle_time", Version(4, 4, 0)),
        since("pool_max_conn_lifetime_jitter", Version(4, 17, 0)),
    ],
    idle_by: "pool_max_conn_idle_time",
    age_by: Some("pool_max_conn_lifetime"),
    idle: |values| {
        let period = values.get("pool_health_check_period").max(0);
        let idle = values.get("pool_max_conn_idle_time").max(0).saturating_add(period);
        // It keeps pool_min_conns, however long they were idle.
        let idle = (values.get("pool_min_conns") <= 0).then_some(idle);
        shortest(&[
            (on(values.get(DIALER)), DIALER),
            (idle, "pool_max_conn_idle_time and pool_health_check_period"),
            (life(values), "pool_max_conn_lifetime and what is added to it"),
        ])
    },
    age: |values| {
        shortest(&[(life(values), "pool_max_conn_lifetime, its jitter and pool_health_check_period")])
    },
    idle_remedies: |values, limit| {
        let by = if values.get("pool_min_conns") > 0 {
            "pool_max_conn_lifetime"
        } else {
            "pool_max_conn_idle_time"
        };
        remedies(values, limit, by)
    },
    age_remedies: |values, limit| remedies(values, limit, "pool_max_conn_lifetime"),
    contradictions: |values| {
        let mut all = Vec::new();
        if values.get("pool_health_check_period") <= 0 {
            let why = "pool_health_check_period is not above 0: pgxpool cannot run with it";
            all.push(("pool_health_check_period", why.to_owned()));
        }
        if values.get("pool_max_conns") < 1 {
            all.push(("pool_max_conns", "pool_max_conns is below 1: pgxpool refuses it".to_owned()));
        } else if values.is_set("pool_max_conns")
            && values.get("pool_min_conns") > values.get("pool_max_conns")
        {
            let why = "pool_min_conns is above pool_max_conns".to_owned();
            all.push(("pool_min_conns", why));
        }
        all
    },
    cost: "pgxpool pings a connection that was unused for more than a second before it lends it; without pool_ping_timeout (none by default) that waits for as long as the caller's context lets it",
    too_short: [
        "(milliseconds): open a connection for each use (pgx.Connect)",
        "(milliseconds): open a connection for each use (pgx.Connect)",
    ],
    elsewhere: ["", ""],
    notes: &[
        "database/sql keeps its pool's settings in code: look there for SetConnMaxLifetime and SetConnMaxIdleTime (both off by default); they are not judged here",
    ],
};

/// An expired connection is closed when it comes back, or by the next check of idle ones.
fn life(values: &super::Values<'_>) -> Option<i64> {
    let more = values.get("pool_max_conn_lifetime_jitter").max(0);
    let more = more.saturating_add(values.get("pool_health_check_period").max(0));
    on(values.get("pool_max_conn_lifetime")).map(|life| life.saturating_add(more))
}

fn remedies(values: &super::Values<'_>, limit: i64, by: &'static str) -> Vec<super::Remedy> {
    let jitter =
        if by == "pool_max_conn_lifetime" { values.get("pool_max_conn_lifetime_jitter").max(0) } else { 0 };
    let period = values.get("pool_health_check_period").max(0);
    let left = (limit / 10 * 9).saturating_sub(period).saturating_sub(jitter);
    let quarter = ("pool_health_check_period", round_below(limit / 4, Unit::Go));
    let half = (by, round_below(limit / 2, Unit::Go));
    let mut all = Vec::new();
    if left >= limit / 4 {
        all.push(vec![(by, round_below(left, Unit::Go))]);
    }
    all.push(vec![half, quarter]);
    all.push(vec![half, quarter, ("pool_max_conn_lifetime_jitter", 0)]);
    all
}

const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

pub(super) fn groups(document: &Document<'_>) -> Vec<Group> {
    let mut groups = Vec::new();
    // Its databases are written like ours.
    if document.scopes.iter().any(|scope| scope.path == ["pgbouncer"]) {
        return groups;
    }
    for (entry, mapped) in texts(document) {
        let (entries, insert, wrongs) = if let Some(url) = url(&mapped) {
            if !SCHEMES.contains(&url.scheme.as_str()) {
                continue;
            }
            (url.entries, url.insert, Vec::new())
        } else {
            let (entries, wrongs) = keywords(&mapped);
            if !is_dsn(&entries) {
                continue;
            }
            let insert = Insert::Piece { at: entry.span.end, lead: " ", between: " " };
            (entries, if wrongs.is_empty() { insert } else { Insert::Nowhere }, wrongs)
        };
        groups.push(Group { wrongs, ..Group::new(entries, entry.span.start, insert) });
    }
    groups
}

/// Two names of libpq's, or one of the pool's.
fn is_dsn(entries: &[Entry]) -> bool {
    let plain = ["host", "port", "user", "password", "dbname", "sslmode"];
    entries.iter().any(|entry| entry.key.starts_with("pool_"))
        || entries.iter().filter(|entry| plain.contains(&entry.key.as_str())).count() > 1
}

pub(super) fn evidence(document: &Document<'_>) -> usize {
    let of = |group: &Group| 4 + group.entries.iter().filter(|e| e.key.starts_with("pool_")).count() * 10;
    groups(document).iter().map(of).sum()
}
