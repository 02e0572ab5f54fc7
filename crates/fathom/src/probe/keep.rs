//! Where a run is kept: its recordings and its CSV file.

use super::config::{Config, Path, Record};
use super::effective;
use super::live_state::{LiveState, LiveStates, lock};
use super::sinks::Sinks;
use super::start::Granted;
use super::tables::{self, Table};
use crate::exit::Failure;
use crate::output::tell;
use crate::version::{REVISION, VERSION};
use fathom_core::clock::Anchor;
use fathom_core::host_port::ipv6_in_file_name;
use fathom_core::rotation::Ages;
use fathom_os::clock::anchor;
use fathom_os::host::HostFacts;
use fathom_recording::{
    ClockAnchor, Error, Manifest, Options, PathLabels, Recorder, ReflectorFacts, Rotation, Tool,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::path::PathBuf;

/// This program.
pub(crate) fn tool() -> Tool {
    Tool { version: VERSION.to_owned(), revision: REVISION.map(str::to_owned) }
}

/// The user's words for the path.
pub(super) fn labels(config: &Config) -> PathLabels {
    PathLabels {
        from: config.from.clone(),
        to: config.to.clone(),
        via: config.via.clone(),
        tags: config.tags.clone(),
    }
}

/// Makes the recordings and the files of rows, or says why they cannot be made, before anything is sent. Where one cannot,
/// none is left behind.
pub(super) fn open_sinks(
    config: &Config,
    granted: &Granted,
    cpu_latency: Option<&str>,
    live: &LiveStates,
) -> Result<Vec<Sinks>, Failure> {
    let (started_at, ages) = (Timestamp::now(), Ages::new(anchor()));
    // The files of rows are made first: they are easier to take back.
    let tables = tables::open(config, started_at)?;
    let recorder = |(p, path): (usize, &Path)| {
        let manifest = || manifest(config, path, started_at, granted, cpu_latency);
        let recorder = record(config, path, &ages, started_at, manifest)?;
        let mut live = lock(live);
        live[p].recording = recorder.as_ref().map(|recorder| recorder.dir().to_owned());
        live[p].recorded_ns.0 =
            recorder.as_ref().and_then(|recorder| Some(recorder.manifest().clock_anchors.first()?.mono_ns));
        Ok(recorder)
    };
    match config.paths.iter().enumerate().map(recorder).collect::<Result<Vec<_>, Failure>>() {
        Ok(recorders) => {
            let tables = std::iter::once(tables).chain(std::iter::repeat_with(Vec::new));
            Ok(recorders
                .into_iter()
                .zip(tables)
                .map(|(recorder, tables)| Sinks { recorder, tables })
                .collect())
        }
        Err(failure) => {
            tables.into_iter().for_each(Table::take_back);
            discard(config, &lock(live));
            Err(failure)
        }
    }
}

/// Removes this run's empty recordings, which would be in the way next time.
pub(super) fn discard(config: &Config, live: &[LiveState]) {
    for dir in live.iter().filter_map(|state| state.recording.as_ref()) {
        discard_directory(config, dir);
    }
}

/// Takes back one recording in which nothing has been recorded.
pub(super) fn discard_directory(config: &Config, dir: &std::path::Path) {
    fathom_recording::discard_empty(dir);
    // The directory above is the run's own too, but for one recording in a named one; one that holds anything stays.
    let alone = matches!(config.record, Record::Into(_))
        && config.paths.len() == 1
        && config.operate.rotation.is_none();
    if let Some(above) = dir.parent().filter(|_| !alone) {
        let _ = std::fs::remove_dir(above);
    }
}

/// Begins the recording of a path; `None`: none is wanted. Where another run of the same second has the
/// directory of that name already, a number follows. A disk that is full is made room on, as far as `--keep` allows.
pub(super) fn record(
    config: &Config,
    path: &Path,
    ages: &Ages,
    started_at: Timestamp,
    manifest: impl FnOnce() -> Manifest,
) -> Result<Option<Recorder>, Failure> {
    let Some(wanted) = directory(config, path, started_at) else { return Ok(None) };
    let (mut dir, mut next, mut manifest) = (wanted.clone(), 2, manifest());
    let options = Options { readable: config.readable, ..Options::default() };
    let mut has_room = false;
    loop {
        Rotation::place(&mut manifest, &dir);
        match Recorder::create_with(&dir, manifest.clone(), options) {
            Err(Error::Exists { .. } | Error::Running { .. })
                if (config.record == Record::Default || config.operate.rotation.is_some())
                    && next < 1_000 =>
            {
                dir = PathBuf::from(format!("{}-{next}", wanted.display()));
                next += 1;
            }
            Err(error) if error.is_full() && !std::mem::replace(&mut has_room, true) => {
                remove_old(&manifest, &dir, ages);
            }
            made => return made.map(Some).map_err(|e| Failure::run(e.to_string())),
        }
    }
}

fn directory(config: &Config, path: &Path, started_at: Timestamp) -> Option<PathBuf> {
    let name = file_name(&path.label);
    let timed = || format!("{name}-{}", started_at.strftime("%Y%m%dT%H%M%SZ"));
    match &config.record {
        Record::No => None,
        Record::Into(dir) if config.operate.rotation.is_some() => Some(dir.join(timed())),
        Record::Into(dir) if config.paths.len() == 1 => Some(dir.clone()),
        Record::Into(dir) => Some(dir.join(name)),
        Record::Default => Some(PathBuf::from("recordings").join(timed())),
    }
}

/// A label as part of a file name: what a shell or another system would trip over becomes a dash.
fn file_name(label: &str) -> String {
    let label = &ipv6_in_file_name(label).unwrap_or_else(|| label.to_owned());
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = label.chars().map(safe).collect();
    let name = name.trim_matches(['.', '-']);
    if name.is_empty() { "path".to_owned() } else { name.to_owned() }
}

pub(super) fn manifest(
    config: &Config,
    path: &Path,
    started_at: Timestamp,
    granted: &Granted,
    cpu_latency: Option<&str>,
) -> Manifest {
    let mut manifest = Manifest::new(path.label.as_str(), started_at, tool());
    manifest.path = labels(config);
    manifest.marks.clone_from(&config.marks);
    if let Some(rotation) = config.operate.rotation {
        Rotation::begin(&mut manifest, rotation.every, rotation.keep);
    }
    manifest.command = Some(crate::command_line::to_run_again());
    manifest.probe = effective::of_probe(config);
    manifest.probe["granted"] = json!(granted);
    if let Some(words) = cpu_latency {
        manifest.probe["granted"]["cpu_latency"] = json!(words);
    }
    // The interface follows when the first connection has left by it.
    manifest.host = serde_json::to_value(HostFacts::gather(None)).unwrap_or(Value::Null);
    manifest.clock_anchors.push(ClockAnchor::new(anchor(), false));
    manifest.reflector = ReflectorFacts { address: path.target.to_string(), ..ReflectorFacts::default() };
    manifest
}

/// Begins the recording in which the run of a path goes on.
pub(super) fn next(
    config: &Config,
    path: &Path,
    before: &Manifest,
    ages: &Ages,
    anchor: Anchor,
) -> Result<Option<Recorder>, Failure> {
    let started = ClockAnchor::new(anchor, false);
    let tool = before.tool.clone();
    let fresh = Manifest::new(path.label.as_str(), started.utc, tool);
    let manifest = || Manifest {
        id: fresh.id,
        started_at: started.utc,
        ended_at: None,
        events: None,
        clock_anchors: vec![started],
        ..before.clone()
    };
    record(config, path, ages, started.utc, manifest)
}

/// Removes what `--keep` does not keep any more, of this run, which goes on in this recording, and of earlier ones. What was removed.
pub(super) fn remove_old(current: &Manifest, dir: &std::path::Path, ages: &Ages) -> Vec<PathBuf> {
    let (removed, left) = fathom_recording::remove_old(current, dir, ages, anchor());
    for dir in &removed {
        tracing::info!(dir = %dir.display(), "removed: older than --keep");
    }
    for (dir, why) in left {
        tell!("fathom: --keep leaves {}: {why}", dir.display());
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_make_safe_names() {
        assert_eq!(file_name("same zone/1"), "same-zone-1");
        assert_eq!(file_name("::1"), "0--1");
        assert_eq!(file_name("[fe80::1%eth0]:7"), "fe80--1.eth0_7");
        assert_eq!(file_name("../../etc"), "etc");
        assert_eq!(file_name("///"), "path");
        assert_eq!(file_name("zürich_1.a"), "zürich_1.a");
    }
}
