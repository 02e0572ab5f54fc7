//! `--rotate`: the recording thread goes on in another recording when a boundary has been crossed.

use super::config::Config;
use super::keep;
use super::live_state::{LiveStates, lock};
use super::sinks::Sinks;
use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};
use fathom_core::rotation::{Boundaries, Tally};
use fathom_core::sample::Sample;
use fathom_os::clock::anchor;
use fathom_recording::Recorder;
use jiff::Timestamp;

/// The rotation of a run's recordings.
pub(super) struct Rotating<'a> {
    config: &'a Config,
    boundaries: Boundaries,
    tallies: Vec<Tally>,
}

impl<'a> Rotating<'a> {
    /// None: it is not asked for.
    pub(super) fn of(config: &'a Config) -> Option<Self> {
        let every_ns = config.operate.rotation?.every.as_nanos() as u64;
        let tallies = config.paths.iter().map(|_| Tally::default()).collect();
        Some(Self { config, boundaries: Boundaries::new(every_ns, anchor().utc_ns), tallies })
    }

    /// A sample that the recorder of this path is given.
    pub(super) fn sample(&mut self, path: usize, sample: &Sample) {
        self.tallies[path].sample(sample);
    }

    /// An event that the recorder of this path is given.
    pub(super) fn event(&mut self, path: usize, event: &Event) {
        self.tallies[path].event(event);
    }

    /// Where a boundary has been crossed: the recorders that have ended, by path, for what they had to tell, and the error of
    /// one that could not be followed or ended. One that cannot be followed goes on until the next boundary.
    pub(super) fn rotate(
        &mut self,
        sinks: &mut [Sinks],
        live: &LiveStates,
    ) -> Vec<(usize, Recorder, Option<String>)> {
        let now = anchor();
        if !self.boundaries.is_crossed(now.utc_ns) {
            return Vec::new();
        }
        let mut ended = Vec::new();
        for (p, (sink, tally)) in sinks.iter_mut().zip(&self.tallies).enumerate() {
            let Some(recorder) = &mut sink.recorder else { continue };
            match seam(self.config, p, recorder, tally, now) {
                Ok((next, error)) => {
                    lock(live)[p].recording = Some(next.dir().to_owned());
                    keep::remove_old(self.config, next.manifest(), next.dir(), Timestamp::now());
                    ended.push((p, std::mem::replace(recorder, next), error));
                }
                Err(error) => {
                    let path = &self.config.paths[p].label;
                    crate::output::tell!(
                        "fathom: {path}: no new recording could be begun, and the old one goes on: {error}"
                    );
                }
            }
        }
        ended
    }
}

/// Begins the next recording and ends this one: what the one says of the other, both say alike.
fn seam(
    config: &Config,
    path: usize,
    recorder: &mut Recorder,
    tally: &Tally,
    now: Anchor,
) -> Result<(Recorder, Option<String>), String> {
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
    let rotated = recorder.event(&event(EventKind::RecordingRotated { next: following, carried }));
    let finished = recorder.finish_with(at, mono_ns, None).map(drop);
    Ok((next, rotated.and(finished).err().map(|e| e.to_string())))
}
