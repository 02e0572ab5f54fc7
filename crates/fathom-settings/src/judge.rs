//! What loses, and the first remedy after which nothing does.

use crate::group::{Flavour, Group, Written};
use crate::library::{Library, Remedy, Values};
use crate::limits::Limits;
use crate::place::{Edit, Places, Position, Wrong};
use crate::placeholder::{Dialect, is_filled_in};
use crate::unit::{SUFFIXES, Unit};
use crate::version::Version;
use crate::why::why;
use fathom_core::limits::Limit;
use std::collections::BTreeMap;

/// What to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub at: Position,
    /// Something stands there now; otherwise it is added there.
    pub instead: bool,
    /// It is added between others on their line, not as a line of its own.
    pub within: bool,
    /// The version that introduced the setting, if the user names no version.
    pub since: Option<Version>,
    /// The line, with the comma that stands behind it where others follow within braces; of a connection string or a URL the part of it, because the rest may hold a password.
    pub text: String,
}

/// One set of settings against one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Whose setting.
    pub library: &'static str,
    /// Where the setting stands; where it is not set, where its set of settings begins.
    pub at: Position,
    /// Which limit.
    pub limit: Limit,
    /// The limit, in ns.
    pub limit_ns: u64,
    /// Whether connections can reach it.
    pub loses: bool,
    /// The setting that decides, or should.
    pub setting: String,
    /// What it is, in words. By version where its default depends on that.
    pub value: String,
    /// Where the library says so. Absent: the file sets it.
    pub default: Vec<String>,
    /// For how long, at the most, and by what.
    pub why: String,
    /// The version since which its defaults lose no more. Absent: they lose in all of them, or in none.
    pub holds_since: Option<Version>,
    /// What it costs where it loses.
    pub cost: Option<String>,
    /// What to write instead; for all limits together. Empty: nothing, or `otherwise` says what.
    pub write: Vec<Write>,
    /// What to do where no line can be written.
    pub otherwise: Option<String>,
}

/// What was made of one group.
pub(crate) struct Judged {
    pub(crate) judgements: Vec<Judgement>,
    pub(crate) wrongs: Vec<Wrong>,
    /// Writes what all judgements advise.
    pub(crate) edits: Vec<Edit>,
    /// What cannot be known of it.
    pub(crate) notes: Vec<String>,
}

/// What a group sets: the value and the entry of each setting.
struct Set {
    /// Those that could be read.
    values: BTreeMap<&'static str, i64>,
    entries: BTreeMap<&'static str, usize>,
}

/// Judges one group.
pub(crate) fn group(
    library: &'static Library,
    group: &Group,
    version: Option<Version>,
    limits: &Limits,
    places: &Places<'_>,
) -> Judged {
    let mut wrongs = Vec::new();
    let dialect = dialect(library);
    let set = read(library, group, version, &mut wrongs);
    wrongs.extend(group.wrongs.iter().map(|wrong| Wrong { at: wrong.at, what: wrong.what.clone() }));
    // A file that has the setting belongs to a version that knows it.
    let is_set = |name: &str| set.entries.contains_key(name);
    let versions = version.map_or_else(|| library.versions(is_set), |version| vec![version]);
    let of = |version| Values { library, set: set.values.clone(), version, flavour: group.flavour };
    let all: Vec<Values<'_>> = versions.into_iter().map(of).collect();
    for (name, what) in all.iter().flat_map(|values| (library.contradictions)(values)) {
        let entry = set.entries.get(name).and_then(|at| group.entries.get(*at));
        wrongs.push(Wrong { at: entry.map_or(group.at, |entry| entry.key_at), what });
    }
    // Asked for by name, a version that lacks a setting is one that refuses it.
    for newer in library.newer.iter().filter(|newer| version.is_some_and(|version| version < newer.since)) {
        if let Some(entry) = set.entries.get(newer.name).and_then(|at| group.entries.get(*at)) {
            let what = format!("{} has {} since {}", library.name, newer.name, newer.since);
            wrongs.push(Wrong { at: entry.key_at, what });
        }
    }
    let remedies = remedies(group, &set, &all, version.is_some(), limits);
    let since = |name: &str| library.since(name).filter(|_| version.is_none() && !is_set(name));
    let judged = limits.all().filter(|(limit, _)| *limit == Limit::Idle || library.age_by.is_some());
    let lines = |remedy: &Remedy| -> Vec<_> {
        let line = |(name, value): &(&'static str, i64)| {
            (*name, set.entries.get(name).copied(), unit(library, name).spell(*value))
        };
        remedy.iter().map(line).collect()
    };
    let judgements = judged.map(|(limit, limit_ns)| {
        let mut judgement = judge(group, &set, &all, limit, limit_ns, places);
        if judgement.loses {
            judgement.cost = Some(library.cost.to_owned()).filter(|_| limit == Limit::Idle);
            let (written, _) = group.write(places, dialect, &lines(&remedies.against(limit, limit_ns)));
            judgement.otherwise = written.is_empty().then(|| otherwise(group, &all, limit, limit_ns));
            judgement.write = written
                .into_iter()
                .map(|Written { at, instead, within, name, text }| Write {
                    at: places.of(at),
                    instead,
                    within,
                    since: since(name).map(|newer| newer.since),
                    text,
                })
                .collect();
        }
        judgement
    });
    let judgements = judgements.collect();
    let edits = group.write(places, dialect, &lines(&remedies.all())).1;
    let notes = set.entries.iter().filter_map(|(name, at)| {
        let entry = group.entries.get(*at).filter(|entry| is_filled_in(&entry.value))?;
        let line = places.of(entry.key_at).line;
        entry.known(dialect)?;
        Some(format!(
            "line {line}: {name} is filled in from elsewhere, and judged by the default that stands there"
        ))
    });
    Judged { judgements, wrongs, edits, notes: notes.collect() }
}

/// Placeholder syntax of its files.
fn dialect(library: &Library) -> Dialect {
    if library.name == "HikariCP" { Dialect::Spring } else { Dialect::Shell }
}

/// What to do against a limit where no line can be written.
fn otherwise(group: &Group, all: &[Values<'_>], limit: Limit, limit_ns: u64) -> String {
    let library = all[0].library;
    let index = usize::from(limit == Limit::Age);
    let (elsewhere, too_short) = (library.elsewhere[index], library.too_short[index]);
    let main = if limit == Limit::Idle { library.idle_by } else { library.age_by.unwrap_or_default() };
    match first_that_holds(all, limit, limit_ns, false, &|_| true) {
        None if !too_short.is_empty() => {
            format!("no {main} that {} takes is short enough {too_short}", library.name)
        }
        Some(_) if !group.wrongs.is_empty() => {
            format!("mend what is wrong in it first: then {main} can be added to it")
        }
        // Not the main one's fault: the file can say that.
        Some((remedy, _)) if elsewhere.is_empty() || group.may_add(main) => {
            let all: Vec<_> = remedy
                .iter()
                .map(|(name, value)| format!("{name} to {}", unit(library, name).spell(*value)))
                .collect();
            format!("no line can be shown here: set {}", all.join(" and "))
        }
        _ => elsewhere.to_owned(),
    }
}

/// What is set, and what is wrong with it. Nothing that stands in the file is repeated: a name that is not known may be the
/// rest of a password.
fn read(library: &'static Library, group: &Group, version: Option<Version>, wrongs: &mut Vec<Wrong>) -> Set {
    let suffixes = version.is_none_or(|version| version >= SUFFIXES);
    let mut set = Set { values: BTreeMap::new(), entries: BTreeMap::new() };
    for (index, entry) in group.entries.iter().enumerate() {
        let Some(key) = library.key(&entry.key) else {
            if !library.knows(&entry.key) {
                let nearest = library.nearest(&entry.key);
                if let Some(what) = unknown(library, &entry.key, nearest) {
                    wrongs.push(Wrong { at: entry.key_at, what });
                }
            }
            continue;
        };
        // The time of a variable that stands for it, or that something fills in later.
        let Some(known) = entry.known(dialect(library)) else {
            set.entries.insert(key.name, index);
            wrongs.push(Wrong {
                at: entry.key_at,
                what: format!(
                    "{} is filled in from elsewhere: write the value into a copy to have it judged",
                    key.name
                ),
            });
            continue;
        };
        let unit = match (key.unit, group.flavour) {
            (Unit::MillisOrSuffix, Flavour::Own) if suffixes => Unit::MillisOrSuffix,
            (Unit::MillisOrSuffix, _) => Unit::Millis,
            (unit, _) => unit,
        };
        match unit.read(known) {
            Ok(value) => {
                if set.entries.contains_key(key.name) {
                    let what = format!("{} is set twice; the last one counts", key.name);
                    wrongs.push(Wrong { at: entry.key_at, what });
                }
                set.values.insert(key.name, value);
                set.entries.insert(key.name, index);
            }
            Err(right) => {
                // What is advised for it is written over it.
                set.entries.insert(key.name, index);
                wrongs.push(Wrong { at: entry.key_at, what: format!("{}: write {right}", key.name) });
            }
        }
    }
    set
}

fn unknown(library: &Library, name: &str, nearest: Option<&str>) -> Option<String> {
    let of = library.name;
    match nearest {
        _ if name.ends_with(".tcp_user_timeout") => {
            Some("there is no such sysctl: TCP_USER_TIMEOUT is an option that each socket sets".to_owned())
        }
        Some(known) => Some(format!("{of} has no setting of this name; the nearest is {known}")),
        None if (library.strict)(name) => Some(format!("{of} has no setting of this name")),
        None => None,
    }
}

/// A remedy, and against which limit it is.
struct Found {
    limit: Limit,
    remedy: Remedy,
}

/// What is to be written, and what holds then.
struct Remedies<'a> {
    found: Vec<Found>,
    after: Vec<Values<'a>>,
}

impl Remedies<'_> {
    /// What helps against a limit: its own remedies, or those against the other where with them this one holds too.
    fn against(&self, limit: Limit, limit_ns: u64) -> Remedy {
        let own = self.found.iter().any(|found| found.limit == limit);
        if !own && !loses(&self.after, limit, limit_ns) {
            return self.all();
        }
        self.written(|found| found.limit == limit)
    }

    fn all(&self) -> Remedy {
        self.written(|_| true)
    }

    /// Each setting once, with its last value.
    fn written(&self, of: impl Fn(&Found) -> bool) -> Remedy {
        let mut names: Vec<&'static str> = Vec::new();
        for (name, _) in self.found.iter().filter(|found| of(found)).flat_map(|found| &found.remedy) {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let values = self.after.first();
        names.iter().filter_map(|name| Some((*name, *values?.set.get(name)?))).collect()
    }
}

/// What to write: for both limits such that each holds when both are written.
fn remedies<'a>(
    group: &Group,
    set: &Set,
    all: &[Values<'a>],
    is_named: bool,
    limits: &Limits,
) -> Remedies<'a> {
    let can_be_written = |name: &'static str| group.may_add(name) || set.entries.contains_key(name);
    let mut remedies = Remedies { found: Vec::new(), after: all.to_vec() };
    // The second limit's remedy may undo the first's, which is then looked for again.
    for _ in 0..2 {
        for (limit, limit_ns) in limits.all() {
            if !loses(&remedies.after, limit, limit_ns) {
                continue;
            }
            let found = first_that_holds(&remedies.after, limit, limit_ns, is_named, &can_be_written);
            if let Some((remedy, after)) = found {
                remedies.after = after;
                remedies.found.push(Found { limit, remedy });
            }
        }
    }
    remedies
}

/// The best remedy whose settings can be written, and the result in the versions that have them.
fn first_that_holds<'a>(
    now: &[Values<'a>],
    limit: Limit,
    limit_ns: u64,
    is_named: bool,
    can_be_written: &dyn Fn(&'static str) -> bool,
) -> Option<(Remedy, Vec<Values<'a>>)> {
    let library = now.first()?.library;
    let limit_as_ns = i64::try_from(limit_ns).unwrap_or(i64::MAX);
    let remedies = match limit {
        Limit::Idle => library.idle_remedies,
        Limit::Age => library.age_remedies,
    };
    let faults = |all: &[Values<'_>]| -> usize {
        all.iter().map(|values| (library.contradictions)(values).len()).sum()
    };
    for remedy in now.iter().flat_map(|values| remedies(values, limit_as_ns)) {
        let fits = remedy.iter().all(|(name, value)| {
            let unit = unit(library, name);
            let advised = is_named || library.since(name).is_none_or(|newer| !newer.only_named);
            // It must read back as what was meant.
            advised && unit.read(&unit.spell(*value)) == Ok(*value) && can_be_written(name)
        });
        let has = |values: &&Values<'_>| remedy.iter().all(|(name, _)| values.has(name));
        let mut after: Vec<_> = now.iter().filter(has).cloned().collect();
        if !fits || after.is_empty() {
            continue;
        }
        for values in &mut after {
            values.set.extend(remedy.iter().copied());
        }
        if !loses(&after, limit, limit_ns) && faults(&after) <= faults(now) {
            return Some((remedy, after));
        }
    }
    None
}

fn unit(library: &Library, name: &str) -> Unit {
    library.keys.iter().find(|key| key.name == name).map_or(Unit::Count, |key| key.unit)
}

fn longest(values: &Values<'_>, limit: Limit) -> crate::library::Longest {
    match limit {
        Limit::Idle => (values.library.idle)(values),
        Limit::Age => (values.library.age)(values),
    }
}

/// In any of the versions.
fn loses(all: &[Values<'_>], limit: Limit, limit_ns: u64) -> bool {
    all.iter().any(|values| reaches(longest(values, limit).ns, limit_ns))
}

fn reaches(ns: Option<i64>, limit_ns: u64) -> bool {
    ns.is_none_or(|ns| u64::try_from(ns).unwrap_or(0) >= limit_ns)
}

fn judge(
    group: &Group,
    set: &Set,
    all: &[Values<'_>],
    limit: Limit,
    limit_ns: u64,
    places: &Places<'_>,
) -> Judgement {
    let library = all[0].library;
    // The version in which it is worst: without end, or the longest.
    let worst = all.iter().max_by_key(|values| longest(values, limit).ns.unwrap_or(i64::MAX));
    let longest = longest(worst.unwrap_or(&all[0]), limit);
    let loses = reaches(longest.ns, limit_ns);
    let main = match limit {
        Limit::Idle => library.idle_by,
        Limit::Age => library.age_by.unwrap_or_default(),
    };
    // What the file sets and is to blame comes before what it could set.
    let by = library.keys.iter().map(|key| key.name).find(|name| *name == longest.by);
    let blamed = match by {
        Some(by) if !loses || (set.entries.contains_key(by) && !set.entries.contains_key(main)) => by,
        // None of these versions has the setting that would bound it.
        Some(by) if all.iter().all(|values| !values.has(main)) => by,
        _ => main,
    };
    let entry = set.entries.get(blamed).and_then(|at| group.entries.get(*at));
    let key = library.keys.iter().find(|key| key.name == blamed);
    let (value, default) = match (key, set.values.get(blamed)) {
        (Some(key), Some(value)) => (key.unit.show(*value), Vec::new()),
        (Some(key), None) if set.entries.contains_key(blamed) => {
            // What stands there is no number, or is filled in from elsewhere: a fault says so.
            (format!("not known, judged as its default of {}", defaults(key, all).0), Vec::new())
        }
        (Some(key), None) if all.iter().all(|values| !values.has(key.name)) => {
            let since =
                library.since(key.name).map_or_else(String::new, |newer| format!(" before {}", newer.since));
            (format!("there is no such setting{since}"), Vec::new())
        }
        (Some(key), None) => defaults(key, all),
        (None, _) => ("there is no such setting".to_owned(), Vec::new()),
    };
    let held = |values: &&Values<'_>| reaches(crate::judge::longest(values, limit).ns, limit_ns);
    let last_that_loses = all.iter().rposition(|values| held(&values));
    let holds_since = last_that_loses.and_then(|at| all.get(at + 1)).map(|values| values.version);
    Judgement {
        library: library.name,
        holds_since,
        at: places.of(entry.map_or(group.at, |entry| entry.key_at)),
        limit,
        limit_ns,
        loses,
        setting: blamed.to_owned(),
        value,
        default,
        why: why(limit, longest, limit_ns, loses),
        cost: None,
        write: Vec::new(),
        otherwise: None,
    }
}

/// A default in words, by version where it depends on that, and its sources.
fn defaults(key: &crate::library::Key, all: &[Values<'_>]) -> (String, Vec<String>) {
    let holds = |index: usize| {
        let next = key.defaults.get(index + 1).map(|default| default.since);
        let since = key.defaults[index].since;
        all.iter().any(|values| values.version >= since && next.is_none_or(|next| values.version < next))
    };
    let held: Vec<usize> = (0..key.defaults.len()).filter(|index| holds(*index)).collect();
    let words = held.iter().map(|index| {
        let default = &key.defaults[*index];
        let value = key.unit.show(default.value);
        match key.defaults.get(index + 1) {
            _ if held.len() == 1 => value,
            Some(next) => format!("{value} before {}", next.since),
            None => format!("{value} since {}", default.since),
        }
    });
    let words = words.collect::<Vec<_>>().join(", ");
    (words, held.iter().map(|index| key.defaults[*index].source.to_owned()).collect())
}
