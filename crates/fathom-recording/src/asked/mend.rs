//! What recovery has to say of the queries of a run that was killed.

use super::files::Files;
use super::laws::{Run, check};
use crate::damage::Damage;
use crate::{Error, Recording};
use fathom_core::event::EventKind;

/// What the event log does not say yet.
#[derive(Debug, Default)]
pub(crate) struct Mended {
    pub(crate) events: Vec<EventKind>,
    /// Queries that it is told now that they are missing.
    pub(crate) lost: u64,
    /// When the last query was over, ns since the Unix epoch.
    pub(crate) over_ns: Option<i64>,
    pub(crate) damage: Vec<Damage>,
}

/// Looks at the files of a recording that nobody writes. `is_interrupted`: it has no end yet, and its files are as the run left them.
pub(crate) fn mend(recording: &Recording, is_interrupted: bool) -> Result<Mended, Error> {
    let files = Files::of(recording)?;
    let mut mended = Mended::default();
    if files.is_empty() {
        return Ok(mended);
    }
    if is_interrupted {
        for unlisted in files.unlisted() {
            match unlisted {
                Ok(closed) => mended.events.push(closed),
                Err(damage) => mended.damage.push(damage),
            }
        }
    }
    let checked = check(&files, Run::default(), |_, _, _| {});
    mended.over_ns = checked.rows.over_ns;
    for damage in checked.damage {
        if !mended.damage.contains(&damage) {
            mended.damage.push(damage);
        }
    }
    let told = told(recording)?;
    // What cannot be read may be read one day.
    if mended.damage.is_empty() && checked.rows.missing > told {
        mended.lost = checked.rows.missing - told;
        mended.events.push(EventKind::QueriesLost { queries: mended.lost });
    }
    Ok(mended)
}

/// How many queries are told to be in no file.
fn told(recording: &Recording) -> Result<u64, Error> {
    let told = recording.events()?.flatten().map(|entry| match entry.known().map(|event| &event.kind) {
        Some(EventKind::SqlEnded { result }) => result["unrecorded"].as_u64().unwrap_or(0),
        Some(EventKind::QueriesLost { queries }) => *queries,
        _ => 0,
    });
    Ok(told.fold(0, u64::saturating_add))
}
