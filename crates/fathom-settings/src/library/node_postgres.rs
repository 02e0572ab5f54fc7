//! node-postgres (`pg` and `pg-pool`): the object that `new Pool(…)` takes, as JSON, or a URL.

use super::{Key, Library, Names, always, half, most_of, on, shortest, since, texts};
use crate::group::{Entry, Group, Insert};
use crate::syntax::{Document, Format, Scope, url};
use crate::unit::{H, S, Unit};
use crate::version::Version;
use std::collections::HashSet;

const POOL: &str = "pg-pool 3.14.0, index.js";
const CLIENT: &str = "pg 8.23.0, lib/client.js";

pub(super) static LIBRARY: Library = Library {
    name: "node-postgres",
    keys: &[
        Key { name: "idleTimeoutMillis", also: &[], unit: Unit::Millis, defaults: &[always(10 * S, POOL)] },
        Key { name: "maxLifetimeSeconds", also: &[], unit: Unit::Seconds, defaults: &[always(0, POOL)] },
        Key { name: "min", also: &[], unit: Unit::Count, defaults: &[always(0, POOL)] },
        Key { name: "max", also: &[], unit: Unit::Count, defaults: &[always(10, POOL)] },
        Key { name: "keepAlive", also: &[], unit: Unit::Bool, defaults: &[always(0, CLIENT)] },
        Key {
            name: "keepAliveInitialDelayMillis",
            also: &[],
            unit: Unit::Millis,
            defaults: &[always(0, CLIENT)],
        },
        Key { name: "connectionTimeoutMillis", also: &[], unit: Unit::Millis, defaults: &[always(0, POOL)] },
    ],
    other: &[
        "host",
        "port",
        "user",
        "password",
        "database",
        "connectionString",
        "ssl",
        "allowExitOnIdle",
        "maxUses",
        "statement_timeout",
        "query_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "application_name",
        "fallback_application_name",
        "client_encoding",
        "options",
        "poolSize",
        "binary",
        "types",
        "enableChannelBinding",
    ],
    strict: |_| false,
    names: Names::EXACT,
    newer: &[
        since("keepAliveInitialDelayMillis", Version(7, 11, 0)),
        since("maxLifetimeSeconds", Version(8, 7, 3)),
    ],
    idle_by: "idleTimeoutMillis",
    age_by: Some("maxLifetimeSeconds"),
    idle: |values| {
        let get = |name| values.get(name);
        // It keeps `min` of them, however long they were idle.
        let idle = on(get("idleTimeoutMillis")).filter(|_| get("min") <= 0);
        // Node passes whole seconds on; less than one leaves the kernel's two hours.
        let delay = get("keepAliveInitialDelayMillis");
        let keepalive = (get("keepAlive") != 0 && delay >= S).then_some(delay);
        let kernels = (get("keepAlive") != 0 && delay < S).then_some(2 * H);
        shortest(&[
            (idle, "idleTimeoutMillis"),
            (keepalive, "keepAliveInitialDelayMillis"),
            (kernels, super::KERNELS),
            (on(get("maxLifetimeSeconds")), "maxLifetimeSeconds"),
        ])
    },
    age: |values| shortest(&[(on(values.get("maxLifetimeSeconds")), "maxLifetimeSeconds")]),
    idle_remedies: |_, limit| {
        let delay = ("keepAliveInitialDelayMillis", half(limit, Unit::Seconds));
        vec![
            vec![("idleTimeoutMillis", half(limit, Unit::Millis))],
            vec![delay],
            vec![("keepAlive", 1), delay],
        ]
    },
    age_remedies: |_, limit| vec![vec![("maxLifetimeSeconds", most_of(limit, Unit::Seconds))]],
    contradictions: |values| {
        let mut all = Vec::new();
        let most = if values.get("max") == 0 { 10 } else { values.get("max") };
        if values.get("min") > most {
            all.push(("min", "min is above max".to_owned()));
        }
        if values.is_set("keepAliveInitialDelayMillis") && values.get("keepAlive") == 0 {
            let why = "keepAliveInitialDelayMillis without \"keepAlive\": true does nothing";
            all.push(("keepAliveInitialDelayMillis", why.to_owned()));
        }
        all
    },
    cost: "pg does not test a connection before it lends it: a query on a dead one fails, or waits for query_timeout (off by default)",
    too_short: [
        "(whole milliseconds): set maxUses to 1, which opens a connection for each use",
        "(whole seconds): set maxUses to 1, which opens a connection for each use",
    ],
    elsewhere: [
        "pg-pool reads it from the object in code, not from a URL: new Pool({ connectionString, idleTimeoutMillis: … })",
        "pg-pool reads it from the object in code, not from a URL: new Pool({ connectionString, maxLifetimeSeconds: … })",
    ],
    notes: &[],
};

/// A number that nobody but a driver has, and names that several have.
pub(super) fn own_names(library: &Library, scope: &Scope, port: &str) -> usize {
    const SHARED: [&str; 9] =
        ["host", "user", "password", "database", "ssl", "port", "min", "max", "options"];
    let of = |entry: &Entry| match entry.key.as_str() {
        "port" if entry.value == port => 4,
        key if SHARED.contains(&key) => usize::from(library.knows(key)),
        key if library.knows(key) => 10,
        _ => 0,
    };
    scope.entries.iter().map(of).sum()
}

/// Objects that look like this library's, and URLs beside them.
pub(super) fn objects_and_urls(
    library: &'static Library,
    document: &Document<'_>,
    schemes: &[&str],
    url_takes_settings: bool,
) -> Vec<Group> {
    let mut groups = Vec::new();
    let is_object = |scope: &Scope| own_names(library, scope, "") > 1;
    let tree = matches!(document.format, Format::Json | Format::Toml | Format::Yaml);
    for scope in document.scopes.iter().filter(|scope| tree && is_object(scope)) {
        groups.push(Group::new(scope.entries.clone(), scope.at, scope.insert.clone()));
    }
    let taken: HashSet<usize> =
        groups.iter().flat_map(|group| &group.entries).map(|entry| entry.key_at).collect();
    let within = |at: usize| taken.contains(&at);
    let urls =
        texts(document).filter(|(entry, _)| !within(entry.key_at)).filter_map(|(_, mapped)| url(&mapped));
    let urls = urls.filter(|url| schemes.contains(&url.scheme.as_str())).map(|url| {
        if url_takes_settings {
            Group::new(url.entries, url.at, url.insert)
        } else {
            Group::new(Vec::new(), url.at, Insert::Nowhere)
        }
    });
    groups.extend(urls);
    groups
}

const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

pub(super) fn groups(document: &Document<'_>) -> Vec<Group> {
    objects_and_urls(&LIBRARY, document, &SCHEMES, false)
}

pub(super) fn evidence(document: &Document<'_>) -> usize {
    evidence_of(&LIBRARY, document, &SCHEMES, "5432")
}

pub(super) fn evidence_of(
    library: &'static Library,
    document: &Document<'_>,
    schemes: &[&str],
    port: &str,
) -> usize {
    let json = document.format == Format::Json;
    let objects = document.scopes.iter().filter(|_| json).map(|scope| own_names(library, scope, port));
    let urls = texts(document).filter_map(|(_, mapped)| url(&mapped));
    let urls = urls
        .filter(|url| schemes.contains(&url.scheme.as_str()))
        .map(|url| 4 + url.entries.iter().filter(|entry| library.key(&entry.key).is_some()).count() * 10);
    // One word that both know is not enough.
    objects.filter(|names| *names > 1).sum::<usize>() + urls.sum::<usize>()
}
