//! `recording.json`: what was measured, from where, with what, and when.

use crate::checksum::LogSum;
use crate::disk::Disk;
use crate::{Begun, Error, FORMAT_VERSION, MANIFEST};
use fathom_core::clock::Anchor;
use fathom_core::marks;
use fathom_core::summary::PathLabels;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;

/// Clock anchors kept; with one a minute the first thinning comes after 17 hours.
const MAX_ANCHORS: usize = 1_024;
/// A larger manifest is not one of ours: 1,024 anchors and all host facts stay below 200 KiB.
const MAX_BYTES: u64 = 16 << 20;

/// The manifest of a recording. Fields this version does not know survive a rewrite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the recording's format.
    pub format_version: u64,
    /// `UUIDv7`, hyphenated.
    pub id: String,
    /// The scenario's name.
    pub label: String,
    /// From where to where.
    #[serde(default)]
    pub path: PathLabels,
    /// When the run began, by this host's wall clock.
    pub started_at: Timestamp,
    /// When it ended; absent while it runs and after an interruption.
    pub ended_at: Option<Timestamp>,
    /// What wrote it.
    pub tool: Tool,
    /// What no figure of it may be taken for, as `emulated` ([`fathom_core::marks`]); empty: it is of a real network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// The command line to make such a recording again, quoted for a shell and without secrets; absent in older
    /// recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The probe's effective configuration.
    #[serde(default)]
    pub probe: Value,
    /// Facts about the probe's host.
    #[serde(default)]
    pub host: Value,
    /// Facts from the cloud's metadata service; absent outside a cloud.
    #[serde(default)]
    pub cloud: Option<Value>,
    /// What answered.
    #[serde(default)]
    pub reflector: ReflectorFacts,
    /// Simultaneous readings of both clocks, oldest first, at most 1,024.
    #[serde(default)]
    pub clock_anchors: Vec<ClockAnchor>,
    /// The event log as it was when the recording ended; absent before, and in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<LogSum>,
    /// Whatever else stands in the file.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The program that wrote a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tool {
    /// Its version.
    pub version: String,
    /// The revision of its source, where the build knew it.
    #[serde(default)]
    pub revision: Option<String>,
}

/// What is known of the reflector.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReflectorFacts {
    /// Target as the user named it.
    #[serde(default)]
    pub address: String,
    /// Address and port it resolved to at the start.
    #[serde(default)]
    pub resolved: Option<String>,
    /// What it says it is, where it says.
    #[serde(default)]
    pub software: Option<String>,
    /// Whether it stamps our frames; absent until the first echo.
    #[serde(default)]
    pub stamps: Option<bool>,
}

/// One simultaneous reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockAnchor {
    /// Monotonic clock of the run, ns.
    pub mono_ns: u64,
    /// Wall clock.
    pub utc: Timestamp,
    /// Whether the wall clock was set between this anchor and the one before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stepped: bool,
}

impl ClockAnchor {
    /// An anchor as a probe takes it; readings outside the years jiff knows are clamped to them.
    pub fn new(anchor: Anchor, stepped: bool) -> Self {
        Self { mono_ns: anchor.mono_ns, utc: timestamp(anchor.utc_ns), stepped }
    }

    /// The UTC of a monotonic stamp by this anchor.
    pub(crate) fn at(&self, mono_ns: u64) -> Timestamp {
        timestamp(Anchor { mono_ns: self.mono_ns, utc_ns: utc_ns(self.utc) }.utc_of(mono_ns))
    }
}

/// A timestamp from ns since the Unix epoch; every `i64` is within jiff's range (1677 to 2262).
pub(crate) fn timestamp(utc_ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(utc_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Ns since the Unix epoch, clamped to what an `i64` holds.
pub(crate) fn utc_ns(at: Timestamp) -> i64 {
    at.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl Manifest {
    /// A manifest with a fresh id for a run that begins now.
    pub fn new(label: impl Into<String>, started_at: Timestamp, tool: Tool) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            id: uuid::Uuid::now_v7().to_string(),
            label: label.into(),
            path: PathLabels::default(),
            started_at,
            ended_at: None,
            tool,
            marks: Vec::new(),
            command: None,
            probe: Value::Null,
            host: Value::Null,
            cloud: None,
            reflector: ReflectorFacts::default(),
            clock_anchors: Vec::new(),
            events: None,
            extra: Map::new(),
        }
    }

    /// What its figures may not be taken for; also where it is older than the field and says it in another.
    pub fn marks(&self) -> Vec<String> {
        let mut marks = self.marks.clone();
        let older = [
            (marks::SIMULATED, self.extra.contains_key("simulated")),
            (marks::QUICK, self.path.tags.get("quick").is_some_and(|quick| quick == "true")),
        ];
        for (mark, _) in older.into_iter().filter(|&(_, is)| is) {
            if !marks.iter().any(|known| known == mark) {
                marks.push(mark.to_owned());
            }
        }
        marks
    }

    /// Adds an anchor. When the list is full every second interior one goes, but for those that mark a step.
    pub(crate) fn add_anchor(&mut self, anchor: ClockAnchor) {
        let list = &mut self.clock_anchors;
        if list.len() >= MAX_ANCHORS {
            let last = list.len() - 1;
            let mut index = 0;
            list.retain(|a| {
                let keep = index == 0 || index == last || a.stepped || index % 2 == 0;
                index += 1;
                keep
            });
            // A clock that was set a thousand times: the oldest steps go, the start stays.
            while list.len() >= MAX_ANCHORS {
                list.remove(1);
            }
        }
        list.push(anchor);
    }

    /// Reads the manifest of the recording in `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        Self::read_file(dir, MANIFEST)
    }

    /// As [`Manifest::read`], of a file of this name.
    pub(crate) fn read_file(dir: &Path, name: &str) -> Result<Self, Error> {
        serde_json::from_value(Self::read_value(dir, name)?)
            .map_err(|e| Error::Manifest { path: dir.join(name), reason: e.to_string() })
    }

    /// The content of a manifest of a known version.
    pub(crate) fn read_value(dir: &Path, name: &str) -> Result<Value, Error> {
        let path = dir.join(name);
        let file = crate::plain::open(&path).map_err(|e| {
            if dir.is_dir() && e.kind() == std::io::ErrorKind::NotFound {
                match Begun::of(dir) {
                    Some(begun) => Error::Begun { dir: dir.to_owned(), begun },
                    None => Error::NotARecording { dir: dir.to_owned() },
                }
            } else if dir.is_file() {
                Error::File { path: dir.to_owned() }
            } else {
                Error::io("open", &path)(e)
            }
        })?;
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(Error::io("read", &path))?;
        let bad = |reason: String| Error::Manifest { path: path.clone(), reason };
        if text.len() as u64 > MAX_BYTES {
            return Err(bad(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
        }
        // The version is looked at before anything else: a later format need not have the same fields.
        let value: Value = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
        match value.get("format_version").and_then(Value::as_u64) {
            Some(1..=FORMAT_VERSION) => Ok(value),
            Some(found) if found > FORMAT_VERSION => Err(Error::FutureVersion { path, found }),
            _ => Err(bad("it names no format_version that ever was".to_owned())),
        }
    }

    /// Replaces the manifest in one step: a reader sees the old one or the new one, whole.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
        let path = dir.join(MANIFEST);
        let temporary = dir.join(format!("{MANIFEST}.tmp"));
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::Manifest { path: path.clone(), reason: e.to_string() })?;
        text.push(b'\n');
        let written = (|| {
            let file = disk.create(&temporary).map_err(Error::io("create", &temporary))?;
            disk.write(&file, &[&text]).map_err(Error::io("write", &temporary))?;
            disk.sync(&file).map_err(Error::io("sync", &temporary))?;
            disk.rename(&temporary, &path).map_err(Error::io("replace", &path))?;
            disk.sync_dir(dir).map_err(Error::io("sync", dir))
        })();
        if written.is_err() {
            // Its blocks may be the ones a full disk needs; a leftover does no harm but to tidiness.
            let _ = disk.remove(&temporary);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest::new("x", Timestamp::UNIX_EPOCH, Tool::default())
    }

    fn anchor(minute: u64, stepped: bool) -> ClockAnchor {
        ClockAnchor { mono_ns: minute, utc: Timestamp::UNIX_EPOCH, stepped }
    }

    #[test]
    fn bounded_anchors_keep_first_last_and_steps() {
        let mut m = manifest();
        for minute in 0..30_240 {
            m.add_anchor(anchor(minute, minute == 777 || minute == 20_001));
            assert!(m.clock_anchors.len() <= MAX_ANCHORS);
            assert_eq!(m.clock_anchors.last().unwrap().mono_ns, minute);
        }
        let kept: Vec<u64> = m.clock_anchors.iter().map(|a| a.mono_ns).collect();
        assert_eq!(kept[0], 0);
        assert!(kept.contains(&777) && kept.contains(&20_001));
        assert!(kept.is_sorted());
    }

    #[test]
    fn even_nothing_but_steps_stays_bounded() {
        let mut m = manifest();
        (0..3_000).for_each(|i| m.add_anchor(anchor(i, true)));
        assert_eq!(m.clock_anchors.len(), MAX_ANCHORS);
        assert_eq!((m.clock_anchors[0].mono_ns, m.clock_anchors[MAX_ANCHORS - 1].mono_ns), (0, 2_999));
    }

    #[test]
    fn older_recordings_are_marked_by_what_they_say() {
        let text = r#"{"format_version":1,"id":"i","label":"l","started_at":"2026-01-02T03:04:05Z","ended_at":null,
            "tool":{"version":"9"},"path":{"tags":{"quick":"true"}},"simulated":{"seed":1}}"#;
        let mut m: Manifest = serde_json::from_str(text).unwrap();
        assert_eq!((m.marks(), &m.command), (vec!["simulated".to_owned(), "quick".to_owned()], &None));
        m.marks = vec!["quick".to_owned(), "emulated".to_owned()];
        assert_eq!(m.marks(), ["quick", "emulated", "simulated"]);
        assert!(manifest().marks().is_empty());
    }

    #[test]
    fn what_it_does_not_know_survives() {
        let text = r#"{"format_version":1,"id":"i","label":"l","started_at":"2026-01-02T03:04:05.000000006Z","ended_at":null,
            "tool":{"version":"9"},"cloud":{"provider":"azure","rack":7},"mood":["calm"]}"#;
        let m: Manifest = serde_json::from_str(text).unwrap();
        let again: Value = serde_json::to_value(&m).unwrap();
        assert_eq!(again["mood"][0], "calm");
        assert_eq!(again["cloud"]["rack"], 7);
        assert_eq!(again["started_at"], "2026-01-02T03:04:05.000000006Z");
    }
}
