//! Putting an interrupted recording in order: open segments become Parquet, torn tails are cut and reported.

use crate::asked::mend::mend;
use crate::begun::Begun;
use crate::convert::{convert, last_moment};
use crate::damage::Damage;
use crate::disk::{self, Disk};
use crate::events::{Entry, lines_of};
use crate::layout::Layout;
use crate::manifest::{timestamp, utc_ns};
use crate::recorder::appender::Appender;
use crate::recorder::directory::{lock, tidy};
use crate::recorder::reserve::has_given_way;
use crate::recorder::{progress, seam};
use crate::recording::Recording;
use crate::remains::{Remains, SET_ASIDE, damage_of};
use crate::verify::conservation::Conservation;
use crate::verify::{Finding, verify};
use crate::{EVENTS, Error, MANIFEST, Manifest, RESERVE, queries, segment_name};
use fathom_core::event::{
    CLIENT_MODE, Event, EventKind, Interrupted, KILLED_WITHOUT_ROOM, LOST_CRASH, LOST_UNREADABLE,
    tells_killed_without_room,
};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::HashSet;
use std::path::Path;

/// What a recovery did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// Whether there was anything to do.
    pub needed: bool,
    /// Rows that were saved from open segments.
    pub rows: u64,
    /// Rows that are missing, and that are now told as lost.
    pub lost: u64,
    /// Queries of a database that are missing between others, and that are now told as lost.
    pub queries_lost: u64,
    /// There was no room for the recording when its probe was killed: what was sent meanwhile may be missing, and nobody counted it.
    pub without_room: bool,
    /// Bytes at the end of files that were no whole record, and are gone.
    pub torn_bytes: u64,
    /// When the recording ended, by the last evidence in it; `None`: its probe ended before it recorded anything.
    pub ended_at: Option<Timestamp>,
    /// What could not be read, of what there was and of what is there now.
    pub damage: Vec<Damage>,
    /// Laws that it breaks, as it is now.
    pub findings: Vec<Finding>,
}

impl Recovery {
    fn of(ended_at: Option<Timestamp>) -> Self {
        let (damage, findings, without_room) = (Vec::new(), Vec::new(), false);
        let (rows, lost, queries_lost, torn_bytes) = (0, 0, 0, 0);
        Self { needed: false, rows, lost, queries_lost, without_room, torn_bytes, ended_at, damage, findings }
    }

    /// Whether the recording is in order now, and nothing but torn ends could not be read.
    pub fn is_in_order(&self) -> bool {
        self.findings.is_empty() && self.damage.iter().all(|damage| damage.torn)
    }
}

/// Puts the recording in `dir` in order. Refuses one that a probe is writing; does nothing to one that ended in
/// order, so that a second call changes nothing. Who could read the recording can read what
/// is made of it. `now` is the wall clock, for the events it adds.
pub fn recover(dir: &Path, now: Timestamp) -> Result<Recovery, Error> {
    recover_on(disk::like(&dir.join(MANIFEST)).as_ref(), dir, now)
}

pub(crate) fn recover_on(disk: &dyn Disk, dir: &Path, now: Timestamp) -> Result<Recovery, Error> {
    if Begun::of(dir).is_some() {
        clear_begun(disk, dir)?;
        return Ok(Recovery::of(None));
    }
    // Read first: nothing is written into a directory that holds no recording.
    let manifest = Recording::open(dir)?.manifest().clone();
    let held = lock(disk, dir)?;
    let mut unsealed = false;
    let recovered = recover_locked(disk, dir, now, &manifest, &mut unsealed);
    if recovered.is_err() && unsealed {
        // The disk is full, it may be. What has been done to the log was done here: its sum is that of now, so that nobody else changes it
        // unseen until the recovery that succeeds.
        let events = Recording::open(dir)?.log_sum()?;
        _ = Manifest { events: Some(events), ..manifest }.write(disk, dir);
    }
    drop(held);
    let mut recovery = recovered?;
    // That it ended is one thing, and that nothing is wrong with it another.
    let found = verify(dir, |_| {})?;
    let known: HashSet<Damage> = recovery.damage.iter().cloned().collect();
    recovery.damage.extend(found.damage.into_iter().filter(|damage| !known.contains(damage)));
    recovery.findings = found.findings;
    Ok(recovery)
}

/// Of a recording that is locked. Tells when the log's sum is no longer stated.
fn recover_locked(
    disk: &dyn Disk,
    dir: &Path,
    now: Timestamp,
    manifest: &Manifest,
    is_unsealed: &mut bool,
) -> Result<Recovery, Error> {
    let recording = Recording::open(dir)?;
    let mut recovery = Recovery::of(manifest.ended_at);
    recovery.damage.extend_from_slice(recording.event_damage());

    // A log that is not what it was when the recording ended was torn by no kill. That stays to be seen: the manifest keeps the sum.
    let altered = match manifest.events {
        Some(stated) => recording.log_sum().is_ok_and(|sum| sum != stated),
        None => false,
    };
    let has_end = manifest.ended_at.is_some() && !recording.has_open_segments();
    let torn = recording.event_damage().last().filter(|d| d.torn && !(altered && has_end));
    if manifest.events.is_some() && !altered && (torn.is_some() || recording.has_open_segments()) {
        // What follows changes the log. Interrupted in between, it must not look as if somebody else had.
        let unsealed = Manifest { events: None, ..manifest.clone() };
        unsealed.write(disk, dir)?;
        *is_unsealed = true;
    }
    let mut evidence = Evidence::gather(&recording)?;
    let mut events = Appender::open(disk, dir.join(EVENTS))?;
    if let Some(torn) = torn {
        events.truncate(disk, torn.offset)?;
        recovery.needed = true;
        recovery.torn_bytes += torn.bytes;
    }
    if evidence.empty && !altered {
        // Interrupted between its manifest and its first event.
        let mono_ns = manifest.clock_anchors.first().map_or(0, |anchor| anchor.mono_ns);
        let kind = EventKind::RecordingStarted {};
        events.line(disk, &Event { at: manifest.started_at, mono_ns, connection: None, kind })?;
    }
    if manifest.ended_at.is_none()
        && !evidence.rotated
        && let Some(rotated) = seam::left(dir)
    {
        // Interrupted between the step by which the run went on in another recording, and its event.
        events.line(disk, &rotated)?;
        evidence.event(&rotated);
    }
    seam::remove(disk, dir);
    if manifest.ended_at.is_none() && (evidence.without_room || has_given_way(dir)) {
        recovery.without_room = true;
        if !evidence.without_room {
            let kind = EventKind::Note { text: KILLED_WITHOUT_ROOM.to_owned() };
            events.line(disk, &Event { at: now, mono_ns: evidence.mono_ns, connection: None, kind })?;
        }
    }
    let mut last_ns = evidence.last_ns;
    // Segments are as the version says that the recording began with.
    let layout = Layout::of_version(manifest.format_version);
    for &ordinal in recording.ordinals() {
        let old = dir.join(segment_name(ordinal, "arrows"));
        if old.exists() && !recording.is_closed(ordinal) {
            let closed = convert(disk, dir, ordinal, layout, false)?;
            recovery.needed = true;
            recovery.rows += closed.rows;
            last_ns = last_ns.max(closed.last_ns);
            events.line(disk, &closed.event(now, evidence.mono_ns))?;
            retire(disk, dir, ordinal, closed.damage.as_ref())?;
            if let Some(damage) = closed.damage {
                recovery.torn_bytes += if damage.torn { damage.bytes } else { 0 };
                recovery.damage.push(damage);
            }
        } else if old.exists() {
            // Interrupted between listing the Parquet file and removing its source.
            recovery.needed = true;
            let damage = damage_of(&old).map_err(Error::io("read", &old))?;
            retire(disk, dir, ordinal, damage.as_ref())?;
            recovery.damage.extend(damage.filter(|damage| !damage.torn));
        }
        let leftover = dir.join(format!("{}.tmp", segment_name(ordinal, "parquet")));
        disk.remove(&leftover).map_err(Error::io("remove", &leftover))?;
    }
    let leftover = dir.join(format!("{MANIFEST}.tmp"));
    disk.remove(&leftover).map_err(Error::io("remove", &leftover))?;
    if let Some(leftover) = queries::leftover(dir)? {
        disk.remove(&leftover).map_err(Error::io("remove", &leftover))?;
    }

    let mut manifest = recording.manifest().clone();
    recovery.needed |= manifest.ended_at.is_none();
    // Earlier versions recovered a recording without telling what it lacks.
    if recovery.needed || (evidence.recovered && !altered) {
        let unread = recovery.damage.iter().any(|damage| !damage.torn);
        let (untold, reason) = untold(dir, unread)?;
        for (connection, lost) in untold {
            recovery.needed = true;
            recovery.lost += lost;
            let kind = EventKind::RecordingOverflowed { lost, reason: Some(reason.to_owned()) };
            let event = Event { at: now, mono_ns: evidence.mono_ns, connection, kind };
            events.append(disk, &lines_of(&events.path, &event)?)?;
        }
        let queries = mend(&recording, manifest.ended_at.is_none())?;
        recovery.needed |= !queries.events.is_empty();
        recovery.queries_lost = queries.lost;
        recovery.damage.extend(queries.damage);
        last_ns = last_ns.max(queries.over_ns);
        for kind in queries.events {
            events.line(disk, &Event { at: now, mono_ns: evidence.mono_ns, connection: None, kind })?;
        }
    }
    if manifest.ended_at.is_none()
        && let Some(amounts) = Recording::open(dir)?.requests()?
    {
        let (due, not_known) = (amounts.counts.due, amounts.not_known);
        let kind = EventKind::ClientInterrupted(Interrupted { due, not_known });
        events.line(disk, &Event { at: now, mono_ns: evidence.mono_ns, connection: None, kind })?;
    }
    if recovery.needed {
        let kind = EventKind::RecordingRecovered { rows: recovery.rows, torn_bytes: recovery.torn_bytes };
        events.line(disk, &Event { at: now, mono_ns: evidence.mono_ns, connection: None, kind })?;
        if manifest.ended_at.is_none() {
            if last_ns.is_none() {
                last_ns = last_of_closed(&recording);
            }
            manifest.ended_at = Some(last_ns.map_or(manifest.started_at, timestamp));
        }
        if !altered {
            manifest.events = Some(recording.log_sum()?);
        }
        manifest.write(disk, dir)?;
    }
    recovery.ended_at = manifest.ended_at;
    tidy(disk, dir);
    Ok(recovery)
}

/// Removes an open segment whose rows stand in Parquet. One with bytes that are not merely torn is kept under another
/// name: somebody may want to look at what could not be read.
fn retire(disk: &dyn Disk, dir: &Path, ordinal: u32, damage: Option<&Damage>) -> Result<(), Error> {
    let old = dir.join(segment_name(ordinal, "arrows"));
    if damage.is_some_and(|d| !d.torn) {
        disk.rename(&old, &dir.join(segment_name(ordinal, SET_ASIDE))).map_err(Error::io("set aside", &old))
    } else {
        disk.remove(&old).map_err(Error::io("remove", &old))
    }
}

/// Samples by connection; without one: of several.
type Losses = Vec<(Option<u32>, u64)>;

/// What the recording lacks and its log does not count, by connection, and why it is lost: nothing, where rows that cannot be read may be read one day.
fn untold(dir: &Path, unread: bool) -> Result<(Losses, &'static str), Error> {
    let recording = Recording::open(dir)?;
    let mut conservation = Conservation::of(recording.manifest(), false);
    for entry in recording.events()?.flatten() {
        if let Entry::Known(event) = entry {
            conservation.event(&event);
        }
    }
    // An application's requests are no rows: each of its tries that was sent is one.
    let of_rows = recording.manifest().probe["mode"] != CLIENT_MODE;
    if let Some(progress) = progress::read(dir).filter(|_| of_rows) {
        conservation.progress(&progress);
    }
    let remains = Remains::set_aside(dir)?;
    let damaged = unread || !remains.is_empty();
    conservation.remains(remains);
    let mut samples = recording.samples();
    samples.by_ref().flatten().for_each(|sample| conservation.row(&sample));
    let reason = if damaged { LOST_UNREADABLE } else { LOST_CRASH };
    let untold = if samples.damage().is_empty() { conservation.untold(damaged) } else { Vec::new() };
    Ok((untold, reason))
}

/// The last moment of closed segments, for a recording of which nothing later is left.
fn last_of_closed(recording: &Recording) -> Option<i64> {
    recording.samples().flatten().map(|s| last_moment(&s)).max()
}

/// What the event log says about when the recording ended.
struct Evidence {
    last_ns: Option<i64>,
    mono_ns: u64,
    /// There is no event at all.
    empty: bool,
    /// It was recovered before, to its end.
    recovered: bool,
    /// The run goes on in another recording.
    rotated: bool,
    /// A recovery that was interrupted told that there was no room.
    without_room: bool,
}

impl Evidence {
    fn gather(recording: &Recording) -> Result<Self, Error> {
        let mut evidence = Self {
            last_ns: None,
            mono_ns: 0,
            empty: true,
            recovered: false,
            rotated: false,
            without_room: false,
        };
        let known = |entry| match entry {
            Ok(Entry::Known(event)) => Some(event),
            _ => None,
        };
        recording.events()?.filter_map(known).for_each(|event| evidence.event(&event));
        Ok(evidence)
    }

    fn event(&mut self, event: &Event) {
        self.mono_ns = self.mono_ns.max(event.mono_ns);
        self.empty = false;
        self.recovered |= matches!(event.kind, EventKind::RecordingRecovered { .. });
        self.rotated |= matches!(event.kind, EventKind::RecordingRotated { .. });
        let without_room = matches!(&event.kind, EventKind::Note { text } if tells_killed_without_room(text));
        self.without_room |= without_room;
        // An earlier, interrupted recovery is no evidence of when the probe stopped.
        let bookkeeping = match &event.kind {
            EventKind::SegmentClosed { .. }
            | EventKind::RecordingRecovered { .. }
            | EventKind::ClientInterrupted(_)
            | EventKind::QueriesClosed { .. }
            | EventKind::QueriesLost { .. } => true,
            EventKind::RecordingOverflowed { reason: Some(reason), .. } => {
                [LOST_CRASH, LOST_UNREADABLE].contains(&reason.as_str())
            }
            _ => without_room,
        };
        if !bookkeeping {
            self.last_ns = self.last_ns.max(Some(utc_ns(event.at)));
        }
    }
}

impl Appender {
    /// Appends an event, durably.
    fn line(&mut self, disk: &dyn Disk, event: &Event) -> Result<(), Error> {
        let line = lines_of(&self.path, event)?;
        self.append(disk, &line)?;
        self.sync(disk)
    }
}

/// Removes what a probe left that had only just begun, but for its lock, which says that it was there. Refuses where it is at work.
fn clear_begun(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let held = lock(disk, dir)?;
    for name in [RESERVE.to_owned(), format!("{MANIFEST}.tmp")] {
        let path = dir.join(name);
        disk.remove(&path).map_err(Error::io("remove", &path))?;
    }
    drop(held);
    Ok(())
}
