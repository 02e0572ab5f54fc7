//! `--rotate`: the recording thread goes on in another recording when a boundary has been crossed.

use super::config::{Config, Rotation};
use super::keep;
use super::live_state::{LiveStates, lock};
use super::sinks::Sinks;
use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};
use fathom_core::rotation::{Boundaries, Tally};
use fathom_core::sample::Sample;
use fathom_os::clock::anchor;
use fathom_recording::{Manifest, Recorder};
use jiff::Timestamp;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The rotation of a run's recordings.
pub(super) struct Rotating<'a> {
    config: &'a Config,
    boundaries: Boundaries,
    tallies: Vec<Tally>,
    /// Closes the recordings before, which are here when it has.
    closing: Option<JoinHandle<()>>,
    ends: Ends,
}

impl<'a> Rotating<'a> {
    /// None: it is not asked for.
    pub(super) fn of(config: &'a Config) -> Option<Self> {
        let every_ns = config.operate.rotation?.every.as_nanos() as u64;
        let tallies = config.paths.iter().map(|_| Tally::default()).collect();
        let boundaries = Boundaries::new(every_ns, anchor().utc_ns);
        Some(Self { config, boundaries, tallies, closing: None, ends: Ends::default() })
    }

    /// A sample that the recorder of this path is given.
    pub(super) fn sample(&mut self, path: usize, sample: &Sample) {
        self.tallies[path].sample(sample);
    }

    /// An event that the recorder of this path is given.
    pub(super) fn event(&mut self, path: usize, event: &Event) {
        self.tallies[path].event(event);
    }

    /// Whether a boundary has been crossed and nothing is in the way: the recordings before are closed one rotation at a time, so
    /// that a host which is too slow for the period has longer recordings, and not ever more that are being closed.
    pub(super) fn is_due(&mut self) -> bool {
        let closing = self.closing.as_ref().is_some_and(|thread| !thread.is_finished());
        !closing && self.boundaries.is_crossed(anchor().utc_ns)
    }

    /// Goes on in new recordings. Those before are closed by another thread ([`Rotating::closed`]): that takes seconds on a loaded
    /// host, and meanwhile there is a recording to be written. One that cannot be followed goes on until the next boundary.
    pub(super) fn rotate(&mut self, sinks: &mut [Sinks], live: &LiveStates) {
        let now = anchor();
        let mut ends = Vec::new();
        for (p, (sink, tally)) in sinks.iter_mut().zip(&self.tallies).enumerate() {
            let Some(recorder) = &mut sink.recorder else { continue };
            match seam(self.config, p, recorder, tally, now) {
                Ok((next, error)) => {
                    lock(live)[p].recording = Some(next.dir().to_owned());
                    let (current, dir) = (next.manifest().clone(), next.dir().to_owned());
                    let recorder = std::mem::replace(recorder, next);
                    ends.push(Ending { path: p, recorder, error, current, dir });
                }
                Err(error) => {
                    let path = &self.config.paths[p].label;
                    crate::output::tell!(
                        "fathom: {path}: no new recording could be begun, and the old one goes on: {error}"
                    );
                }
            }
        }
        let rotation = self.config.operate.rotation;
        let ends = Arc::new(Mutex::new(ends));
        let (theirs, mono_ns) = (Arc::clone(&ends), now.mono_ns);
        match thread::Builder::new()
            .name("close".into())
            .spawn(move || close(&mut lock_ends(&theirs), rotation, mono_ns))
        {
            Ok(thread) => self.closing = Some(thread),
            // Without room for a thread, here and now.
            Err(e) => {
                tracing::warn!(error = %e, "no thread closes the recordings before");
                close(&mut lock_ends(&ends), rotation, mono_ns);
            }
        }
        self.ends = ends;
    }

    /// Recordings that have been closed since this was last asked; with `wait`, those that are being closed, too.
    pub(super) fn closed(&mut self, wait: bool) -> Vec<Ended> {
        if let Some(thread) = self.closing.take_if(|thread| wait || thread.is_finished())
            && thread.join().is_err()
        {
            tracing::error!("a recording could not be closed; this is a bug");
        }
        if self.closing.is_some() {
            return Vec::new();
        }
        let ended = |ending: Ending| (ending.path, ending.recorder, ending.error);
        std::mem::take(&mut *lock_ends(&self.ends)).into_iter().map(ended).collect()
    }
}

/// A recorder that has ended, by path, for what it had to tell, and the error of one that could not be ended in order.
pub(super) type Ended = (usize, Recorder, Option<String>);

/// A recording that is to be closed.
struct Ending {
    path: usize,
    recorder: Recorder,
    error: Option<String>,
    /// The one in which the run goes on, and where it is.
    current: Manifest,
    dir: PathBuf,
}

type Ends = Arc<Mutex<Vec<Ending>>>;

fn lock_ends(ends: &Ends) -> MutexGuard<'_, Vec<Ending>> {
    ends.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes recordings in order, and removes those that are not to be kept any more.
fn close(ends: &mut [Ending], rotation: Option<Rotation>, mono_ns: u64) {
    for Ending { recorder, error, current, dir, .. } in ends {
        let finished = recorder.finish_with(current.started_at, mono_ns, None);
        if let Err(e) = finished {
            error.get_or_insert_with(|| e.to_string());
        }
        keep::remove_old(rotation, current, dir, Timestamp::now());
    }
}

/// Begins the next recording, and writes the last of this one: what the one says of the other, both say alike.
fn seam(
    config: &Config,
    path: usize,
    recorder: &mut Recorder,
    tally: &Tally,
    now: Anchor,
) -> Result<(Recorder, Option<String>), String> {
    // A kill must not take what has been handed over, and it may be a while until the recording is closed. What cannot be written
    // now is tried again then.
    let _ = recorder.flush(now.mono_ns);
    let next = keep::next(config, &config.paths[path], recorder.manifest(), now);
    let mut next = next.map_err(|e| e.to_string())?.ok_or("nothing is recorded")?;
    let (at, mono_ns) = (next.manifest().started_at, now.mono_ns);
    let carried = tally.carried();
    let event = |kind| Event { at, mono_ns, connection: None, kind };
    let (previous, following) = (recorder.manifest().id.clone(), next.manifest().id.clone());
    let continues = EventKind::RecordingContinues { previous, carried: carried.clone() };
    if let Err(e) = next.event(&event(continues)) {
        let dir = next.dir().to_owned();
        drop(next);
        keep::discard_directory(config, &dir);
        return Err(e.to_string());
    }
    next.goes_on_from(recorder);
    let rotated = recorder.event(&event(EventKind::RecordingRotated { next: following, carried }));
    Ok((next, rotated.err().map(|e| e.to_string())))
}
