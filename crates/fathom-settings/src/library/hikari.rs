//! `HikariCP` (Java): its own properties file, and `….hikari.…` of Spring's properties and YAML.

use super::layers::{Layer, conditions, layered};
use super::{Default, Key, Library, Names, Remedy, Values, always, half, most_of, on, shortest, since};
use crate::group::{Entry, Flavour, Group, Insert};
use crate::syntax::{Document, Format, Scope};
use crate::unit::{MIN, MS, S, Unit};
use crate::version::{FIRST, Version};
use std::collections::HashMap;

const CONFIG: &str = "HikariCP 2.4.0 to 7.1.0, HikariConfig.java";

/// Prefix of the settings of Spring's own pool.
const SPRINGS: &str = "spring.datasource.hikari.";

/// Below this it ignores both `maxLifetime` and `keepaliveTime`.
const LEAST: i64 = 30 * S;

pub(super) static LIBRARY: Library = Library {
    name: "HikariCP",
    keys: &[
        Key {
            name: "keepaliveTime",
            also: &[],
            unit: Unit::MillisOrSuffix,
            defaults: &[
                Default {
                    since: FIRST,
                    value: 0,
                    source: "HikariCP 4.0.0, 5.1.0 and 6.2.0, HikariConfig.java: DEFAULT_KEEPALIVE_TIME",
                },
                Default {
                    since: Version(6, 2, 1),
                    value: 2 * MIN,
                    source: "HikariCP 6.2.1 and 7.1.0, HikariConfig.java: DEFAULT_KEEPALIVE_TIME",
                },
            ],
        },
        Key {
            name: "maxLifetime",
            also: &[],
            unit: Unit::MillisOrSuffix,
            defaults: &[always(30 * MIN, "HikariCP 2.4.0 to 7.1.0, HikariConfig.java: MAX_LIFETIME")],
        },
        Key {
            name: "idleTimeout",
            also: &[],
            unit: Unit::MillisOrSuffix,
            defaults: &[always(10 * MIN, "HikariCP 2.4.0 to 7.1.0, HikariConfig.java: IDLE_TIMEOUT")],
        },
        Key { name: "minimumIdle", also: &[], unit: Unit::Count, defaults: &[always(-1, CONFIG)] },
        Key { name: "maximumPoolSize", also: &[], unit: Unit::Count, defaults: &[always(10, CONFIG)] },
        Key {
            name: "connectionTimeout",
            also: &[],
            unit: Unit::MillisOrSuffix,
            defaults: &[always(30 * S, CONFIG)],
        },
        Key {
            name: "validationTimeout",
            also: &[],
            unit: Unit::MillisOrSuffix,
            defaults: &[always(5 * S, CONFIG)],
        },
    ],
    other: &[
        "allowPoolSuspension",
        "autoCommit",
        "catalog",
        "connectionInitSql",
        "connectionTestQuery",
        "credentials",
        "credentialsProvider",
        "credentialsProviderClassName",
        "dataSource",
        "dataSourceClassName",
        "dataSourceJNDI",
        "dataSourceProperties",
        "driverClassName",
        "exceptionOverride",
        "exceptionOverrideClassName",
        "healthCheckProperties",
        "healthCheckRegistry",
        "initializationFailTimeout",
        "isolateInternalQueries",
        "jdbcUrl",
        "leakDetectionThreshold",
        "metricRegistry",
        "metricsTrackerFactory",
        "password",
        "poolName",
        "readOnly",
        "registerMbeans",
        "scheduledExecutor",
        "schema",
        "threadFactory",
        "transactionIsolation",
        "username",
    ],
    strict: |_| true,
    // Spring's relaxed binding.
    names: Names { passed_over: &['-', '_'], ..Names::ANY_CASE },
    newer: &[since("keepaliveTime", Version(4, 0, 0))],
    idle_by: "keepaliveTime",
    age_by: Some("maxLifetime"),
    idle: |values| {
        let (life, keepalive) = (life(values), keepalive(values));
        // Its housekeeper looks every 30 s, and leaves the minimum of idle connections alone.
        let (idle, minimum, _) = eviction(values);
        let evicted = on(idle).filter(|_| minimum == 0).map(|idle| idle.saturating_add(30 * S));
        shortest(&[(on(keepalive), "keepaliveTime"), (on(life), "maxLifetime"), (evicted, "idleTimeout")])
    },
    age: |values| shortest(&[(on(life(values)), "maxLifetime")]),
    idle_remedies: |values, limit| {
        let keepalive = ("keepaliveTime", half(limit, Unit::Millis).max(LEAST));
        with_life(values, vec![vec![keepalive]], limit)
    },
    age_remedies: |values, limit| with_life(values, Vec::new(), limit),
    contradictions,
    cost: "before it lends a connection that was unused for more than 500 ms HikariCP tests it, and waits up to validationTimeout for one that was dropped silently",
    too_short: [
        "(none below 30 s): have the kernel send TCP keepalives, from 1 s on (tcpKeepAlive=true in the URL of PostgreSQL and MySQL, and net.ipv4.tcp_keepalive_time), or send a request on each connection more often than that",
        "(none below 30 s): call softEvictConnections() of its HikariPoolMXBean more often than that",
    ],
    elsewhere: ["", ""],
    notes: &[],
};

/// A shorter life, and what must then be shorter too.
fn with_life(values: &Values<'_>, mut all: Vec<Remedy>, limit: i64) -> Vec<Remedy> {
    let life = most_of(limit, Unit::Millis);
    if life < LEAST {
        return all;
    }
    let mut remedy = vec![("maxLifetime", life)];
    all.push(remedy.clone());
    if values.is_set("keepaliveTime") && values.get("keepaliveTime") >= life {
        let half = half(life, Unit::Millis);
        remedy.push(("keepaliveTime", if half < LEAST { 0 } else { half }));
        all.push(remedy.clone());
    }
    if values.is_set("idleTimeout") && values.get("idleTimeout").saturating_add(S) > life {
        remedy.push(("idleTimeout", half(life, Unit::Millis).max(10 * S)));
        all.push(remedy);
    }
    all
}

/// As its validation of the configuration has it.
fn life(values: &Values<'_>) -> i64 {
    match values.get("maxLifetime") {
        life if life != 0 && life < LEAST => 30 * MIN,
        life => life,
    }
}

fn keepalive(values: &Values<'_>) -> i64 {
    let (keepalive, life) = (values.get("keepaliveTime"), life(values));
    if keepalive < LEAST || (life != 0 && keepalive >= life) { 0 } else { keepalive }
}

/// After how long an idle connection is closed (0: never), beyond how many, and of how many.
fn eviction(values: &Values<'_>) -> (i64, i64, i64) {
    let most = match values.get("maximumPoolSize") {
        most if most < 1 => 10,
        most => most,
    };
    let least = match values.get("minimumIdle") {
        least if least < 0 || least > most => most,
        least => least,
    };
    let (idle, life) = (values.get("idleTimeout"), life(values));
    let idle = match idle {
        _ if least >= most || idle == 0 => 0,
        _ if life > 0 && idle.saturating_add(S) > life => 0,
        _ if idle < 10 * S => 10 * MIN,
        _ => idle,
    };
    (idle, least, most)
}

fn contradictions(values: &Values<'_>) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let get = |name| values.get(name);
    let [life, keepalive, idle] = ["maxLifetime", "keepaliveTime", "idleTimeout"].map(get);
    if life != 0 && life < LEAST {
        all.push(("maxLifetime", "maxLifetime is below 30 s: HikariCP takes 30 minutes instead".to_owned()));
    }
    if values.is_set("keepaliveTime") && keepalive != 0 {
        if keepalive < LEAST {
            all.push(("keepaliveTime", "keepaliveTime is below 30 s: HikariCP turns it off".to_owned()));
        } else if life >= LEAST && keepalive >= life {
            let why = "keepaliveTime is not below maxLifetime: HikariCP turns it off";
            all.push(("keepaliveTime", why.to_owned()));
        }
    }
    let (_, least, most) = eviction(values);
    if values.is_set("idleTimeout") && idle != 0 && least < most {
        if life >= LEAST && idle.saturating_add(S) > life {
            let why = "idleTimeout is not a second below maxLifetime: HikariCP turns it off";
            all.push(("idleTimeout", why.to_owned()));
        } else if idle < 10 * S {
            all.push((
                "idleTimeout",
                "idleTimeout is below 10 s: HikariCP takes 10 minutes instead".to_owned(),
            ));
        }
    }
    for (name, why) in [
        ("connectionTimeout", "connectionTimeout is below 250 ms: HikariCP takes 30 s instead"),
        ("validationTimeout", "validationTimeout is below 250 ms: HikariCP takes 5 s instead"),
    ] {
        if get(name) < 250 * MS {
            all.push((name, why.to_owned()));
        }
    }
    if values.is_set("validationTimeout") && get("validationTimeout") > get("connectionTimeout") {
        let why = "validationTimeout is above connectionTimeout: a request has given up before its connection was tested";
        all.push(("validationTimeout", why.to_owned()));
    }
    all
}

/// Where the name of a setting begins within the whole dotted name, and whether it stands behind `hikari.`.
fn behind_hikari(whole: &str) -> Option<usize> {
    let at = whole.to_ascii_lowercase().rfind("hikari.")?;
    let begins = at == 0 || whole.as_bytes()[at - 1] == b'.';
    begins.then_some(at + "hikari.".len())
}

fn whole(scope: &Scope, entry: &Entry) -> String {
    let path = scope.path.iter().map(String::as_str);
    path.chain(std::iter::once(entry.key.as_str())).collect::<Vec<_>>().join(".")
}

pub(super) fn groups(document: &Document<'_>) -> Vec<Group> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut of: HashMap<(String, usize), usize> = HashMap::new();
    let mut source = None;
    for scope in &document.scopes {
        for entry in &scope.entries {
            let whole = whole(scope, entry);
            if let Some(at) = behind_hikari(&whole) {
                // What the driver gets, and what HikariCP itself does not read.
                let name = &whole[at..];
                if name.contains('.') || name.contains('[') {
                    continue;
                }
                let lead = format!("{}{}", entry.lead, &entry.key[..entry.key.len() - name.len()]);
                let prefix = whole[..at].to_owned();
                let layer = *of.entry((prefix.clone(), scope.at)).or_insert_with(|| {
                    let group = beside(scope, entry, lead.clone(), true);
                    layers.push(Layer { prefix, document: scope.document, group });
                    layers.len() - 1
                });
                layers[layer].group.entries.push(Entry { key: name.to_owned(), lead, ..entry.clone() });
            } else if whole.to_ascii_lowercase().starts_with("spring.datasource.") && source.is_none() {
                let within = scope.path.len().min(2);
                source = (within == 0 || within == 2).then(|| {
                    let prefix = if within == 0 { SPRINGS } else { "hikari." };
                    let group = beside(scope, entry, prefix.to_owned(), true);
                    Layer { prefix: SPRINGS.to_owned(), document: scope.document, group }
                });
            }
        }
    }
    for layer in &mut layers {
        // As the others are written.
        let in_humps = |entry: &Entry| entry.key.contains(|c: char| c.is_ascii_uppercase());
        layer.group.kebab = !layer.group.entries.iter().any(in_humps);
    }
    let conditions = conditions(document, |at, entry| whole(&document.scopes[at], entry));
    // A pool whose settings exist only in some profiles.
    let in_some = |source: &Layer| {
        conditions[source.document].is_empty()
            && layers.iter().all(|layer| !conditions[layer.document].is_empty())
    };
    let source = source.filter(|source| layers.is_empty() || in_some(source));
    if let Some(source) = source.filter(|_| !has_other_pool(document)) {
        layers.insert(0, source);
    }
    let mut groups = layered(&LIBRARY, &conditions, layers);
    // Its own file, or a part of one of other software.
    if groups.is_empty() {
        for scope in &document.scopes {
            let own = |entry: &&Entry| !entry.key.contains('.');
            let known = scope.entries.iter().filter(own).filter(|entry| LIBRARY.knows(&entry.key)).count();
            let yaml = document.format == Format::Yaml;
            if let Some(first) = scope.entries.first().filter(|_| known > usize::from(yaml)) {
                // Beside them stands what is other software's; what is nearly ours is a mistake.
                let ours = |entry: &&Entry| {
                    !yaml || LIBRARY.knows(&entry.key) || LIBRARY.nearest(&entry.key).is_some()
                };
                let entries = scope.entries.iter().filter(own).filter(ours).cloned().collect();
                let group = beside(scope, first, first.lead.clone(), false);
                groups.push(Group { entries, flavour: Flavour::Own, ..group });
            }
        }
    }
    groups
}

/// Whether Spring is told of another pool than its own first choice.
fn has_other_pool(document: &Document<'_>) -> bool {
    let mut entries =
        document.scopes.iter().flat_map(|scope| scope.entries.iter().map(move |entry| (scope, entry)));
    entries.any(|(scope, entry)| {
        let name = whole(scope, entry).to_ascii_lowercase();
        name.strip_prefix("spring.datasource.").is_some_and(|name| {
            let other = ["tomcat.", "dbcp2.", "oracleucp."].iter().any(|pool| name.starts_with(pool));
            other || (name == "type" && !entry.value.contains("Hikari"))
        })
    })
}

/// A group without settings, to which some are added before this one.
fn beside(scope: &Scope, first: &Entry, prefix: String, kebab: bool) -> Group {
    let insert = Insert::Before { at: first.key_at, style: scope.style, prefix };
    Group { kebab, ..Group::new(Vec::new(), first.key_at, insert) }
}

pub(super) fn evidence(document: &Document<'_>) -> usize {
    let entries = document.scopes.iter().flat_map(|s| s.entries.iter().map(move |e| (s, e)));
    let of = |(scope, entry): (&Scope, &Entry)| {
        let whole = whole(scope, entry);
        let own = matches!(document.format, Format::Properties | Format::Yaml);
        if behind_hikari(&whole).is_some() || whole.to_ascii_lowercase().starts_with("spring.datasource.") {
            10
        } else {
            usize::from(own && LIBRARY.key(&entry.key).is_some()) * 5
        }
    };
    entries.map(of).sum()
}
