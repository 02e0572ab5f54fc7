//! `[[event]]`: what happens when, in the words of [`crate::event`].

use toml::de::DeTable;

use super::error::{ScenarioError, Source};
use super::read::{Table, Value, unknown};
use super::{Scenario, TimedEvent};
use crate::event::{Direction, Event, RedirectEnd, StageEvent};

/// The kinds that concern a host or a path; every other kind is a middlebox's.
const KINDS: [&str; 4] = ["live-migration", "host-pause", "path-change", "link-cut"];

/// So often one event may be repeated: a year of one every five minutes.
const MOST_TIMES: u64 = 105_120;

/// An event as often as it happens: with `every` and `times` more than once.
pub(super) fn timed(scenario: &Scenario, mut table: Table<'_>) -> Result<Vec<TimedEvent>, ScenarioError> {
    table.call("an [[event]]".to_owned());
    let at_ns = table.require("at", "\"30s\"")?.duration_ns()?;
    let (mut every_ns, mut times) = (0, 1);
    if let Some(every) = table.take("every") {
        every_ns = every.duration_ns()?;
        if every_ns == 0 {
            return Err(every.error("must be longer than 0"));
        }
        let value = table.require("times", "60")?;
        times = value.integer()?;
        if !(1..=MOST_TIMES).contains(&times) {
            return Err(value.error(format_args!("must lie between 1 and {MOST_TIMES}, not {times}")));
        }
    } else if let Some(times) = table.take("times") {
        return Err(times.error("says how often, and not how long between; add every = \"12h\""));
    }
    let event = event(scenario, table)?;
    let at = |n: u64| at_ns.saturating_add(every_ns.saturating_mul(n));
    Ok((0..times).map(|n| TimedEvent { at_ns: at(n), event: event.clone() }).collect())
}

/// One event without its time, as a table of its own.
pub(super) fn single(scenario: &Scenario, text: &str) -> Result<Event, ScenarioError> {
    let source = Source { file: "event", text };
    let root = DeTable::parse(text).map_err(|e| source.foreign(&e, &(0..0)))?;
    event(scenario, Table::new(source, "the event".to_owned(), 0..0, root.into_inner()))
}

fn event(scenario: &Scenario, mut table: Table<'_>) -> Result<Event, ScenarioError> {
    let kind_value = table.require("kind", "\"path-change\"")?;
    let kind = kind_value.text()?.value;
    table.call(format!("event \"{kind}\""));
    let event = match kind.as_str() {
        "live-migration" => Event::LiveMigration {
            host: host(scenario, &mut table)?,
            brownout_ns: duration(&mut table, "brownout")?.unwrap_or(0),
            brownout_added_ns: duration(&mut table, "brownout-added")?.unwrap_or(0),
            freeze_ns: required(&mut table, "freeze", "\"3s\"")?,
            redirect_ns: duration(&mut table, "redirect")?.unwrap_or(0),
            redirect_added_ns: duration(&mut table, "redirect-added")?.unwrap_or(0),
            then: redirect_end(&mut table)?,
        },
        "host-pause" => Event::HostPause {
            host: host(scenario, &mut table)?,
            duration_ns: required(&mut table, "duration", "\"2s\"")?,
        },
        "path-change" => Event::PathChange {
            path: path(scenario, &mut table)?,
            added_ns: table.require("added", "\"250us\" or \"-250us\"")?.signed_duration_ns()?,
            duration_ns: duration(&mut table, "duration")?,
        },
        "link-cut" => Event::LinkCut {
            path: path(scenario, &mut table)?,
            direction: direction(&mut table)?,
            duration_ns: duration(&mut table, "duration")?,
        },
        _ if table.has("middlebox") => {
            let value = table.require("middlebox", "\"firewall\"")?;
            let node = value.text()?.value;
            if !scenario.middleboxes.iter().any(|m| m.name == node) {
                let boxes = scenario.middleboxes.iter().map(|m| &m.name);
                return Err(value.error(unknown(
                    "a middlebox",
                    &node,
                    boxes,
                    "add a [[middlebox]] of that name",
                )));
            }
            return Ok(Event::Stage { node, event: stage_event(table, &kind)? });
        }
        _ => {
            let known: Vec<String> = KINDS.iter().map(|k| (*k).to_owned()).collect();
            let remedy = "or add middlebox = \"NAME\" for an event of a middlebox";
            return Err(kind_value.error(unknown("a kind of event", &kind, known.iter(), remedy)));
        }
    };
    table.finish()?;
    Ok(event)
}

/// What serde makes of an event of a middlebox; keys that it passed over are mistakes.
fn stage_event(table: Table<'_>, kind: &str) -> Result<StageEvent, ScenarioError> {
    let keys = table.keys();
    let (source, what) = (table.source, table.what.clone());
    let event: StageEvent = table.serde(&[("what", kind)])?;
    let known = serde_json::to_value(&event).unwrap_or_default();
    let known = |key: &str| known.get(key).is_some() || known.get(format!("{key}_ns")).is_some();
    match keys.iter().find(|key| !known(&key.value)) {
        Some(key) => {
            Err(source.error(&key.span, format!("unknown key `{}` in {what}; leave it out", key.value)))
        }
        None => Ok(event),
    }
}

fn required(table: &mut Table<'_>, key: &'static str, example: &str) -> Result<u64, ScenarioError> {
    table.require(key, example)?.duration_ns()
}

fn duration(table: &mut Table<'_>, key: &'static str) -> Result<Option<u64>, ScenarioError> {
    table.take(key).map(|v| v.duration_ns()).transpose()
}

pub(super) fn host(scenario: &Scenario, table: &mut Table<'_>) -> Result<String, ScenarioError> {
    let value = table.require("host", "\"server\"")?;
    let name = value.text()?.value;
    if scenario.host(&name).is_some() {
        return Ok(name);
    }
    Err(value.error(unknown(
        "a host",
        &name,
        scenario.hosts.iter().map(|h| &h.name),
        "add a [[host]] of that name",
    )))
}

fn path(scenario: &Scenario, table: &mut Table<'_>) -> Result<String, ScenarioError> {
    let value = table.require("path", "\"same-zone\"")?;
    let label = value.text()?.value;
    if scenario.path(&label).is_some() {
        return Ok(label);
    }
    Err(value.error(unknown(
        "a path",
        &label,
        scenario.paths.iter().map(|p| &p.label),
        "add a [[path]] of that label",
    )))
}

/// One of a few words.
fn choice<T: Copy>(value: &Value<'_>, choices: &[(&str, T)]) -> Result<T, ScenarioError> {
    let word = value.text()?.value;
    choices.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice).ok_or_else(|| {
        let known: Vec<String> = choices.iter().map(|(name, _)| (*name).to_owned()).collect();
        value.error(unknown("one of its words", &word, known.iter(), "use one of them"))
    })
}

fn redirect_end(table: &mut Table<'_>) -> Result<RedirectEnd, ScenarioError> {
    let ends =
        [("direct", RedirectEnd::Direct), ("silent", RedirectEnd::Silent), ("reset", RedirectEnd::Reset)];
    table.take("then").map_or(Ok(RedirectEnd::Direct), |value| choice(&value, &ends))
}

fn direction(table: &mut Table<'_>) -> Result<Direction, ScenarioError> {
    let ways =
        [("forward", Direction::Forward), ("backward", Direction::Backward), ("both", Direction::Both)];
    table.take("direction").map_or(Ok(Direction::Both), |value| choice(&value, &ways))
}
