//! `SQLAlchemy` (Python): keywords as `engine_from_config` takes them (alembic.ini, Pyramid), a table of TOML or JSON, or a URL
//! alone. What `create_engine` is given in code is not seen.

use super::{Key, Library, Names, always, half, most_of, on, shortest, texts};
use crate::group::{Entry, Flavour, Group, Insert, Style};
use crate::syntax::{Document, Format, Mapped, Scope, url};
use crate::unit::{H, S, Unit};

const ENGINE: &str = "SQLAlchemy 2.1.0b4, engine/create.py and pool/base.py";
const LIBPQ: &str = "libpq of PostgreSQL: on, with the kernel's time";

pub(super) static LIBRARY: Library = Library {
    name: "SQLAlchemy",
    keys: &[
        Key { name: "pool_recycle", also: &[], unit: Unit::Seconds, defaults: &[always(-S, ENGINE)] },
        Key { name: "pool_pre_ping", also: &[], unit: Unit::Bool, defaults: &[always(0, ENGINE)] },
        Key { name: "pool_timeout", also: &[], unit: Unit::Seconds, defaults: &[always(30 * S, ENGINE)] },
        Key { name: "pool_size", also: &[], unit: Unit::Count, defaults: &[always(5, ENGINE)] },
        Key { name: "max_overflow", also: &[], unit: Unit::Count, defaults: &[always(10, ENGINE)] },
        Key { name: "keepalives", also: &[], unit: Unit::Bool, defaults: &[always(1, LIBPQ)] },
        Key { name: "keepalives_idle", also: &[], unit: Unit::Seconds, defaults: &[always(0, LIBPQ)] },
    ],
    other: &[
        "url",
        "echo",
        "echo_pool",
        "pool_logging_name",
        "pool_reset_on_return",
        "pool_use_lifo",
        "pool_events",
        "poolclass",
        "pool",
        "connect_args",
        "execution_options",
        "isolation_level",
        "json_serializer",
        "json_deserializer",
        "hide_parameters",
        "logging_name",
        "future",
        "encoding",
        "paramstyle",
        "module",
        "plugins",
        "query_cache_size",
        "insertmanyvalues_page_size",
        "use_insertmanyvalues",
        "label_length",
        "max_identifier_length",
        "enable_from_linting",
        "creator",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
    ],
    strict: |name| name.starts_with("pool_"),
    names: Names::EXACT,
    newer: &[],
    idle_by: "pool_recycle",
    age_by: Some("pool_recycle"),
    idle: |values| {
        let kernel = values.flavour == Flavour::Libpq && values.get("keepalives") != 0;
        let idle = on(values.get("keepalives_idle")).filter(|_| kernel);
        let kernels = (kernel && idle.is_none()).then_some(2 * H);
        shortest(&[(recycled(values), "pool_recycle"), (idle, "keepalives_idle"), (kernels, super::KERNELS)])
    },
    age: |values| shortest(&[(recycled(values), "pool_recycle")]),
    idle_remedies: |values, limit| {
        let mut all = vec![vec![("pool_recycle", most_of(limit, Unit::Seconds))]];
        if values.flavour == Flavour::Libpq {
            let idle = ("keepalives_idle", half(limit, Unit::Seconds));
            all.push(vec![idle]);
            all.push(vec![idle, ("keepalives", 1)]);
        }
        all
    },
    age_remedies: |_, limit| vec![vec![("pool_recycle", most_of(limit, Unit::Seconds))]],
    contradictions: |values| {
        let mut all = Vec::new();
        if values.get("pool_size") < 0 {
            all.push(("pool_size", "pool_size is below 0; 0 is without a bound".to_owned()));
        }
        all
    },
    cost: "pool_pre_ping (off by default) finds a dead connection before it is lent, but waits for TCP to give up on one that was dropped silently",
    too_short: [
        "(whole seconds): give create_engine(…, poolclass=NullPool), which opens a connection for each use",
        "(whole seconds): give create_engine(…, poolclass=NullPool), which opens a connection for each use",
    ],
    elsewhere: [
        "a URL cannot say it: give create_engine(…, pool_recycle=SECONDS) less than the limit",
        "a URL cannot say it: give create_engine(…, pool_recycle=SECONDS) less than the limit",
    ],
    notes: &["what create_engine() is given in code is not judged"],
};

/// What is older is replaced when it is lent.
fn recycled(values: &super::Values<'_>) -> Option<i64> {
    let recycle = values.get("pool_recycle");
    (recycle >= 0).then_some(recycle)
}

const DIALECTS: [&str; 6] = ["postgresql", "postgres", "mysql", "mariadb", "mssql", "oracle"];

/// Whether the URL is one of a database on the network, and its driver is libpq's.
fn dialect(scheme: &str) -> Option<Flavour> {
    let (dialect, driver) = scheme.split_once('+').unwrap_or((scheme, ""));
    let libpq = dialect.starts_with("postgres") && (driver.is_empty() || driver.starts_with("psycopg"));
    DIALECTS.contains(&dialect).then_some(if libpq { Flavour::Libpq } else { Flavour::Plain })
}

/// Keywords that stand together, without what stands before their names; and where more are added.
fn keywords(document: &Document<'_>, scope: &Scope) -> Option<(Vec<Entry>, Insert)> {
    if let Some(prefix) = scope.entries.iter().find_map(|entry| prefix(document, entry)) {
        let entries = scope.entries.iter().filter_map(|entry| {
            let key = entry.key.strip_prefix(prefix)?.to_owned();
            Some(Entry { key, lead: format!("{}{prefix}", entry.lead), ..entry.clone() })
        });
        let entries: Vec<Entry> = entries.collect();
        let first = entries.first()?;
        // In TOML a name with a dot in it is one in quotes.
        let style = if document.format == Format::Toml { Style::Quoted } else { scope.style };
        let insert = Insert::Before { at: first.key_at, style, prefix: first.lead.clone() };
        return Some((entries, insert));
    }
    let named = scope.path.last().is_some_and(|name| name.to_ascii_lowercase().contains("sqlalchemy"));
    let has = |known: &dyn Fn(&str) -> bool| scope.entries.iter().any(|entry| known(&entry.key));
    let pool = |key: &str| key.starts_with("pool_") && LIBRARY.knows(key);
    let of_an_engine = has(&|key| key == "url") && has(&pool);
    (!scope.entries.is_empty() && (named || of_an_engine))
        .then(|| (scope.entries.clone(), scope.insert.clone()))
}

/// What stands before the names of keywords: `sqlalchemy.`, or in an .ini whatever `url` of a database has before it, because
/// `engine_from_config` takes any.
fn prefix<'a>(document: &Document<'_>, entry: &'a Entry) -> Option<&'a str> {
    const USUAL: &str = "sqlalchemy.";
    if entry.key.starts_with(USUAL) {
        return Some(&entry.key[..USUAL.len()]);
    }
    let prefix = entry.key.strip_suffix("url").filter(|prefix| prefix.ends_with('.'))?;
    let database = || {
        url(&Mapped::of(document.text, entry.span.clone(), false))
            .is_some_and(|url| dialect(&url.scheme).is_some())
    };
    (document.format == Format::Ini && database()).then_some(prefix)
}

pub(super) fn groups(document: &Document<'_>) -> Vec<Group> {
    let mut groups = Vec::new();
    for scope in &document.scopes {
        let Some((mut entries, insert)) = keywords(document, scope) else { continue };
        let at = entries[0].key_at;
        let found = entries.iter().find(|entry| entry.key == "url");
        let found = found.and_then(|entry| url(&Mapped::of(document.text, entry.span.clone(), false)));
        let mut flavour = Flavour::Plain;
        if let Some(found) = found {
            match dialect(&found.scheme) {
                Some(of) => flavour = of,
                // SQLite has no connections that anything could forget.
                None => continue,
            }
            entries.extend(found.entries);
        }
        groups.push(Group { addable: &["pool_recycle"], flavour, ..Group::new(entries, at, insert) });
    }
    if !groups.is_empty() {
        return groups;
    }
    for (_, mapped) in texts(document) {
        let Some(found) = url(&mapped) else { continue };
        let Some(flavour) = dialect(&found.scheme) else { continue };
        let insert = if flavour == Flavour::Libpq { found.insert } else { Insert::Nowhere };
        let group = Group::new(found.entries, found.at, insert);
        groups.push(Group { addable: &["keepalives", "keepalives_idle"], flavour, ..group });
    }
    groups
}

pub(super) fn evidence(document: &Document<'_>) -> usize {
    let keywords = document.scopes.iter().filter_map(|scope| keywords(document, scope));
    let keywords = keywords.map(|(entries, _)| entries.len() * 10);
    let urls = texts(document).filter_map(|(_, mapped)| url(&mapped)).map(|url| match dialect(&url.scheme) {
        Some(_) if url.scheme.contains('+') => 10,
        Some(_) => 4,
        None => 0,
    });
    keywords.sum::<usize>() + urls.sum::<usize>()
}
