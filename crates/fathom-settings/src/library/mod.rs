//! What is known of each library: one file each. Every default names its source: the library's own. `newer` is what the histories of
//! their sources tell (tags of `HikariCP`, npgsql, pgx, node-postgres and mysql2).

mod adonet;
mod hikari;
mod layers;
mod mysql2;
mod node_postgres;
mod npgsql;
mod pgx;
mod sqlalchemy;
mod sysctl;

use crate::group::{Entry, Flavour, Group};
use crate::kind::Kind;
use crate::syntax::{Document, Format, Mapped, is_sysctl};
use crate::unit::{MIN, MS, S, Unit};
use crate::version::{FIRST, Version};
use std::collections::BTreeMap;

/// A default, since a version.
pub(crate) struct Default {
    pub(crate) since: Version,
    pub(crate) value: i64,
    /// Where the library says so.
    pub(crate) source: &'static str,
}

/// A default in every version that is known.
pub(crate) const fn always(value: i64, source: &'static str) -> Default {
    Default { since: FIRST, value, source }
}

/// A setting that something depends on.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// Other names of it.
    pub(crate) also: &'static [&'static str],
    pub(crate) unit: Unit,
    /// From the oldest.
    pub(crate) defaults: &'static [Default],
}

/// A setting that exists since a version.
pub(crate) struct Newer {
    pub(crate) name: &'static str,
    pub(crate) since: Version,
    /// Advised only if the user names such a version: it is not released yet, and all others refuse it.
    pub(crate) only_named: bool,
}

/// A setting that every version from this one on has.
pub(crate) const fn since(name: &'static str, since: Version) -> Newer {
    Newer { name, since, only_named: false }
}

/// How long something may last: at the most so many ns, by this setting. `None`: without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Longest {
    pub(crate) ns: Option<i64>,
    /// In words: what ends it.
    pub(crate) by: &'static str,
}

/// The shortest of what ends it; each is `None` where it is off.
pub(crate) fn shortest(all: &[(Option<i64>, &'static str)]) -> Longest {
    let found = all.iter().filter_map(|(ns, by)| ns.map(|ns| (ns, *by))).min_by_key(|(ns, _)| *ns);
    found.map_or(Longest { ns: None, by: "nothing" }, |(ns, by)| Longest { ns: Some(ns), by })
}

/// What ends a silence where a library asks for keepalives and gives them no time.
pub(crate) const KERNELS: &str = "the kernel's own TCP keepalive";

/// True if it also ends the silence of a connection that a caller holds, as TCP keepalives and Npgsql's own do. A
/// pool's treatment of connections that wait in it does not.
pub(crate) fn reaches_lent(by: &str) -> bool {
    by != "keepaliveTime" && by.to_ascii_lowercase().contains("keepalive")
}

/// `Some` where it is on.
pub(crate) fn on(ns: i64) -> Option<i64> {
    (ns > 0).then_some(ns)
}

/// Settings to write together.
pub(crate) type Remedy = Vec<(&'static str, i64)>;

/// When a library takes two names for one.
pub(crate) struct Names {
    /// Whether `A` is `a`.
    pub(crate) any_case: bool,
    /// These may stand anywhere in a name.
    pub(crate) passed_over: &'static [char],
    /// A name of several words may be written as one.
    pub(crate) as_one_word: bool,
}

impl Names {
    pub(crate) const EXACT: Self = Self { any_case: false, passed_over: &[], as_one_word: false };
    pub(crate) const ANY_CASE: Self = Self { any_case: true, ..Self::EXACT };

    /// Whether a known name is meant by this one.
    fn same(&self, known: &str, name: &str) -> bool {
        let folded = || self.folded(name);
        self.folded(known).eq(folded())
            || (self.as_one_word && self.folded(known).filter(|c| *c != ' ').eq(folded()))
    }

    fn folded(&self, name: &str) -> impl Iterator<Item = char> {
        let all = name.chars().filter(|c| !self.passed_over.contains(c));
        all.map(|c| if self.any_case { c.to_ascii_lowercase() } else { c })
    }
}

/// See the module.
pub(crate) struct Library {
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [Key],
    /// Names of settings that nothing here depends on.
    pub(crate) other: &'static [&'static str],
    /// A name that is not known is a mistake. Otherwise only one that is nearly a known one.
    pub(crate) strict: fn(&str) -> bool,
    /// When two names are one.
    pub(crate) names: Names,
    /// Settings that its oldest versions lack.
    pub(crate) newer: &'static [Newer],
    /// The setting that should bound idleness, and the one for the age.
    pub(crate) idle_by: &'static str,
    pub(crate) age_by: Option<&'static str>,
    /// For how long a connection that it keeps may be silent.
    pub(crate) idle: fn(&Values<'_>) -> Longest,
    /// How old it may be when it is used. Without `age_by` this is not asked.
    pub(crate) age: fn(&Values<'_>) -> Longest,
    /// What could be written against a limit of so many ns, the best first.
    pub(crate) idle_remedies: fn(&Values<'_>, i64) -> Vec<Remedy>,
    pub(crate) age_remedies: fn(&Values<'_>, i64) -> Vec<Remedy>,
    /// What contradicts itself: a setting, and why.
    pub(crate) contradictions: fn(&Values<'_>) -> Vec<(&'static str, String)>,
    /// What it costs when a dead connection is used.
    pub(crate) cost: &'static str,
    /// What to do against an idle and an age limit that is shorter than any value that it takes: the step or the least in
    /// brackets, then what else helps. Empty: `elsewhere` says it.
    pub(crate) too_short: [&'static str; 2],
    /// What to do where the file cannot say it, or nothing can.
    pub(crate) elsewhere: [&'static str; 2],
    /// What cannot be known from a file.
    pub(crate) notes: &'static [&'static str],
}

impl Library {
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        let same = |other: &&str| self.names.same(other, name);
        self.keys.iter().find(|key| same(&key.name) || key.also.iter().any(&same))
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.key(name).is_some() || self.other.iter().any(|other| self.names.same(other, name))
    }

    /// The known name that this one is nearly.
    pub(crate) fn nearest(&self, name: &str) -> Option<&'static str> {
        if name.len() > 64 {
            return None;
        }
        let folded = |name: &str| self.names.folded(name).collect::<String>();
        let wanted = folded(name);
        let names = self.keys.iter().flat_map(|key| key.also.iter().chain(std::iter::once(&key.name)));
        let all =
            names.chain(self.other).map(|known| (strsim::osa_distance(&folded(known), &wanted), *known));
        let (distance, known) = all.min_by_key(|(distance, _)| *distance)?;
        let few = if wanted.len() < 8 { 1 } else { 3 };
        (distance <= few).then_some(known)
    }

    /// The first version, and those at which a default changes or a setting is new. Versions that lack a setting named
    /// by `is_set` are left out.
    pub(crate) fn versions(&self, is_set: impl Fn(&str) -> bool) -> Vec<Version> {
        let defaults = self.keys.iter().flat_map(|key| key.defaults).map(|default| default.since);
        let mut all: Vec<_> = defaults.chain(self.newer.iter().map(|newer| newer.since)).collect();
        all.push(FIRST);
        all.sort_unstable();
        all.dedup();
        let least = self.newer.iter().filter(|newer| is_set(newer.name)).map(|newer| newer.since).max();
        all.retain(|version| least.is_none_or(|least| *version >= least));
        all
    }

    /// The version that introduced a setting. `None`: every known version has it.
    pub(crate) fn since(&self, name: &str) -> Option<&'static Newer> {
        self.newer.iter().find(|newer| newer.name == name)
    }
}

/// What holds in one version: what is set, and defaults.
#[derive(Clone)]
pub(crate) struct Values<'a> {
    pub(crate) library: &'a Library,
    pub(crate) set: BTreeMap<&'static str, i64>,
    pub(crate) version: Version,
    pub(crate) flavour: Flavour,
}

impl Values<'_> {
    /// What a setting is; 0 for one that there is none of in this version.
    pub(crate) fn get(&self, name: &str) -> i64 {
        if let Some(value) = self.set.get(name).filter(|_| self.has(name)) {
            return *value;
        }
        let key = self.library.keys.iter().find(|key| key.name == name);
        let default = key.and_then(|key| key.defaults.iter().rfind(|default| default.since <= self.version));
        default.map_or(0, |default| default.value)
    }

    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.set.contains_key(name)
    }

    /// Whether this version has such a setting.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.library.newer.iter().all(|newer| newer.name != name || newer.since <= self.version)
    }
}

/// A round time that is not above this one, in steps of the unit; at the least one step.
pub(crate) fn round_below(ns: i64, unit: Unit) -> i64 {
    let step = match ns {
        _ if ns >= 10 * MIN => MIN,
        _ if ns >= MIN => 10 * S,
        _ if ns >= 5 * S => S,
        _ => 100 * MS,
    }
    .max(unit.step());
    let rounded = ns - ns % step;
    if rounded > 0 { rounded } else { (ns - ns % unit.step()).max(unit.step()) }
}

/// A keepalive this often leaves room for one that is lost.
pub(crate) fn half(limit: i64, unit: Unit) -> i64 {
    round_below(limit / 2, unit)
}

/// A life this long leaves room for the last request.
pub(crate) fn most_of(limit: i64, unit: Unit) -> i64 {
    round_below(limit / 10 * 9, unit)
}

pub(crate) fn of(kind: Kind) -> &'static Library {
    match kind {
        Kind::Hikari => &hikari::LIBRARY,
        Kind::Npgsql => &npgsql::LIBRARY,
        Kind::Adonet => &adonet::LIBRARY,
        Kind::Pgx => &pgx::LIBRARY,
        Kind::Sqlalchemy => &sqlalchemy::LIBRARY,
        Kind::NodePostgres => &node_postgres::LIBRARY,
        Kind::Mysql2 => &mysql2::LIBRARY,
        Kind::Sysctl => &sysctl::LIBRARY,
    }
}

/// The sets of settings of this library in a file. A file that .NET reads may have connection strings of both of its
/// libraries: where the user has not said whose they are, each is taken for itself.
pub(crate) fn groups(kind: Kind, forced: bool, document: &Document<'_>) -> Vec<(&'static Library, Group)> {
    let groups = match kind {
        Kind::Npgsql | Kind::Adonet if !forced => return npgsql::of_each(of(kind), document),
        Kind::Npgsql | Kind::Adonet => npgsql::groups(of(kind), document),
        Kind::Hikari => hikari::groups(document),
        Kind::Pgx => pgx::groups(document),
        Kind::Sqlalchemy => sqlalchemy::groups(document),
        Kind::NodePostgres => node_postgres::groups(document),
        Kind::Mysql2 => mysql2::groups(document),
        Kind::Sysctl => sysctl::groups(document),
    };
    groups.into_iter().map(|group| (of(kind), group)).collect()
}

/// How much in a file speaks for this library.
pub(crate) fn evidence(kind: Kind, document: &Document<'_>, name: &str) -> usize {
    match kind {
        Kind::Hikari => hikari::evidence(document),
        Kind::Npgsql | Kind::Adonet => npgsql::evidence(of(kind), document),
        Kind::Pgx => pgx::evidence(document),
        Kind::Sqlalchemy => sqlalchemy::evidence(document),
        Kind::NodePostgres => node_postgres::evidence(document),
        Kind::Mysql2 => mysql2::evidence(document),
        Kind::Sysctl => usize::from(document.format == Format::Sysctl || is_sysctl(name)) * 10,
    }
}

/// Every value of a file as a text of its own, with the entry that holds it.
pub(crate) fn texts<'a>(document: &'a Document<'_>) -> impl Iterator<Item = (&'a Entry, Mapped)> {
    let entries = document.scopes.iter().flat_map(|scope| &scope.entries);
    entries.map(|entry| {
        let quoted = document.text[..entry.span.start].ends_with('"');
        let escapes = quoted && !matches!(document.format, Format::Properties | Format::Ini | Format::Sysctl);
        (entry, Mapped::of(document.text, entry.span.clone(), escapes))
    })
}
