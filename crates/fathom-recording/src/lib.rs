//! The recording: one probe run on disk, written so that nothing acknowledged is lost and read so that nothing is
//! guessed. The contract is `schema/recording.md`; what the disk is assumed to do is
//! `docs/decisions/0001-recording-durability.md`.
//!
//! A recording is a directory. [`Recorder`] writes it, [`Recording`] reads it (a running one too), [`recover()`]
//! puts an interrupted one in order, [`verify()`] checks every law of the format, [`export()`] hands the samples to
//! other programs. No clock is read here: times are arguments.

mod amounts;
mod asked;
mod begun;
mod checksum;
mod client;
mod columns;
mod convert;
mod damage;
mod discard;
mod disk;
mod encoding;
mod error;
mod events;
mod export;
mod keeper;
mod layout;
mod manifest;
mod packed;
pub mod peers;
mod plain;
mod queries;
mod recorder;
mod recording;
mod recover;
mod remains;
mod rotation;
mod shape;
mod stream;
mod verify;

#[cfg(test)]
mod tests;

pub use begun::Begun;
pub use checksum::LogSum;
pub use columns::{COLUMNS, Column, Kind};
pub use damage::Damage;
pub use discard::discard_empty;
pub use error::Error;
pub use events::{Entry, Events};
pub use export::{Format, export, run};
pub use fathom_core::query::Query;
pub use fathom_core::summary::PathLabels;
pub use keeper::Keeper;
pub use manifest::{ClockAnchor, Manifest, ReflectorFacts, Tool};
pub use packed::{AT_ONCE, Packed, Packer};
pub use queries::Queries;
pub use recorder::{Gaps, Options, Recorder};
pub use recording::{Recording, Samples, recordings_in};
pub use recover::{Recovery, recover};
pub use rotation::{Rotation, remove_old};
pub use verify::{Finding, Verification, verify};

/// The format this program writes; it reads every one before.
pub const FORMAT_VERSION: u64 = 2;
/// The manifest's file name.
pub(crate) const MANIFEST: &str = "recording.json";
/// The event log's file name.
pub(crate) const EVENTS: &str = "events.jsonl";
/// Held with an advisory lock for as long as somebody writes.
pub(crate) const LOCK: &str = ".lock";
/// Blocks kept back for the last words on a full disk.
pub(crate) const RESERVE: &str = ".reserve";

/// What had fallen due when samples were last out for long, while a probe writes and after it was killed.
pub(crate) const PROGRESS: &str = ".progress";

/// The last event of a run that goes on in another recording, while that is decided and after a kill then.
pub(crate) const SEAM: &str = ".seam";

/// The manifest of a recording that is being removed (`--keep`), and of what an interrupted removal left.
pub(crate) const REMOVED: &str = "recording.json.removed";

/// The name of a segment's file.
pub(crate) fn segment_name(ordinal: u32, extension: &str) -> String {
    format!("samples-{ordinal:05}.{extension}")
}

/// The ordinal in a segment's file name, where it is one.
pub(crate) fn segment_ordinal(name: &str, extension: &str) -> Option<u32> {
    let digits = name.strip_prefix("samples-")?.strip_suffix(extension)?.strip_suffix('.')?;
    let ordinal = digits.parse().ok()?;
    (segment_name(ordinal, extension) == name).then_some(ordinal)
}
