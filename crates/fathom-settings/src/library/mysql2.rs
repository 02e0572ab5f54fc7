//! mysql2 (Node): the object that `createPool(…)` takes, as JSON, or a URL, whose query is read as that object.

use super::node_postgres::{evidence_of, objects_and_urls};
use super::{Default, Key, Library, Names, always, half, on, shortest, since};
use crate::group::Group;
use crate::syntax::Document;
use crate::unit::{H, MIN, S, Unit};
use crate::version::{FIRST, Version};

const POOL: &str = "mysql2 3.0.0 to 3.23.4, lib/pool_config.js";

pub(super) static LIBRARY: Library = Library {
    name: "mysql2",
    keys: &[
        Key {
            name: "enableKeepAlive",
            also: &[],
            unit: Unit::Bool,
            defaults: &[
                Default { since: FIRST, value: 0, source: "mysql2 2.0.2, which has no keepalive" },
                // Before 3.3.2 keepalive was on, whatever the setting.
                Default {
                    since: Version(2, 1, 0),
                    value: 1,
                    source: "mysql2 2.1.0 to 3.3.1, lib/connection.js, and 3.3.2, lib/connection_config.js",
                },
            ],
        },
        Key {
            name: "keepAliveInitialDelay",
            also: &[],
            unit: Unit::Millis,
            defaults: &[always(0, "mysql2 3.0.0 to 3.23.4, lib/connection_config.js")],
        },
        Key { name: "idleTimeout", also: &[], unit: Unit::Millis, defaults: &[always(MIN, POOL)] },
        Key {
            name: "maxIdle",
            also: &[],
            unit: Unit::Count,
            defaults: &[always(-1, "mysql2 3.0.0 to 3.23.4, lib/pool_config.js: as connectionLimit")],
        },
        Key { name: "connectionLimit", also: &[], unit: Unit::Count, defaults: &[always(10, POOL)] },
        Key {
            name: "connectTimeout",
            also: &[],
            unit: Unit::Millis,
            defaults: &[
                always(10 * S, "mysql2 3.0.0 to 3.23.4, lib/connection_config.js"),
                // Since then all idle connections are closed by idleTimeout, where maxIdle is below connectionLimit.
                Default {
                    since: EVICTS_ALL,
                    value: 10 * S,
                    source: "mysql2 3.11.1, lib/connection_config.js",
                },
            ],
        },
    ],
    other: &[
        "host",
        "port",
        "user",
        "password",
        "password1",
        "password2",
        "password3",
        "passwordSha1",
        "database",
        "uri",
        "ssl",
        "socketPath",
        "charset",
        "timezone",
        "waitForConnections",
        "queueLimit",
        "resetOnRelease",
        "namedPlaceholders",
        "multipleStatements",
        "dateStrings",
        "decimalNumbers",
        "bigNumberStrings",
        "supportBigNumbers",
        "maxPreparedStatements",
        "flags",
        "compress",
        "debug",
        "trace",
        "rowsAsArray",
        "insecureAuth",
        "stringifyObjects",
        "localAddress",
        "connectAttributes",
        "jsonStrings",
        "gracefulEnd",
        "enableCleartextPlugin",
        "disableEval",
        "nestTables",
        "typeCast",
        "authPlugins",
        "charsetNumber",
    ],
    strict: |_| false,
    names: Names::EXACT,
    newer: &[since("enableKeepAlive", Version(2, 1, 0)), since("keepAliveInitialDelay", Version(2, 1, 0))],
    idle_by: "keepAliveInitialDelay",
    age_by: Some("a highest age"),
    idle: |values| {
        let get = |name| values.get(name);
        let limit = get("connectionLimit");
        let most = if get("maxIdle") < 0 { limit } else { get("maxIdle") };
        let evicts = most < limit && (values.version >= EVICTS_ALL || most == 0);
        // It looks every second.
        let evicted = evicts.then(|| get("idleTimeout").max(0).saturating_add(S));
        let delay = get("keepAliveInitialDelay");
        let always_on = (KEEPS_ALIVE..HEEDS_SWITCH).contains(&values.version);
        let is_on = always_on || get("enableKeepAlive") != 0;
        let keepalive = (is_on && delay >= S).then_some(delay);
        let kernels = (is_on && delay < S).then_some(2 * H);
        shortest(&[(keepalive, "keepAliveInitialDelay"), (kernels, super::KERNELS), (evicted, "idleTimeout")])
    },
    age: |_| shortest(&[(on(0), "nothing")]),
    idle_remedies: |_, limit| {
        let delay = ("keepAliveInitialDelay", half(limit, Unit::Seconds));
        vec![vec![delay], vec![("enableKeepAlive", 1), delay]]
    },
    age_remedies: |_, _| Vec::new(),
    contradictions: |values| {
        let mut all = Vec::new();
        if values.is_set("keepAliveInitialDelay")
            && values.is_set("enableKeepAlive")
            && values.get("enableKeepAlive") == 0
        {
            let why = "keepAliveInitialDelay without enableKeepAlive does nothing";
            all.push(("keepAliveInitialDelay", why.to_owned()));
        }
        if values.is_set("maxIdle") && values.get("maxIdle") > values.get("connectionLimit") {
            all.push((
                "maxIdle",
                "maxIdle is above connectionLimit: idle connections are never closed".to_owned(),
            ));
        }
        all
    },
    cost: "mysql2 does not test a connection before it lends it",
    too_short: [
        "(it hands whole seconds to the kernel): send a request on each connection more often than that",
        "",
    ],
    elsewhere: [
        "",
        "mysql2 has no highest age: destroy connections in code when they come back and are older than the limit",
    ],
    notes: &[],
};

/// Versions since which sockets have TCP keepalives, and since which enableKeepAlive can turn them off.
const KEEPS_ALIVE: Version = Version(2, 1, 0);
const HEEDS_SWITCH: Version = Version(3, 3, 2);
const EVICTS_ALL: Version = Version(3, 11, 1);
const SCHEMES: [&str; 1] = ["mysql"];

pub(super) fn groups(document: &Document<'_>) -> Vec<Group> {
    objects_and_urls(&LIBRARY, document, &SCHEMES, true)
}

pub(super) fn evidence(document: &Document<'_>) -> usize {
    evidence_of(&LIBRARY, document, &SCHEMES, "3306")
}
