//! `--rotate`: the recording thread goes on in another recording when a boundary has been crossed.

mod closing;
mod unclosed;

use super::config::Config;
use super::keep;
use super::live_state::{LiveStates, lock};
use super::sinks::Sinks;
use closing::{Closing, Ended, Ending};
use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};
use fathom_core::rotation::{Ages, Boundaries, Tally};
use fathom_core::sample::Sample;
use fathom_core::schedule::Pace;
use fathom_core::units::duration_compact as duration;
use fathom_os::clock::anchor;
use fathom_recording::Recorder;
use jiff::Timestamp;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unclosed::Unclosed;

/// For so long a rotation waits for rows that wait behind a ring.
const CATCHES_UP_FOR_NS: u64 = 5_000_000_000;

/// The rotation of a run's recordings: while [`Rotating::is_due`] and not [`Rotating::waits_for_rows`], [`Rotating::rotate`]; and
/// [`Rotating::closed`] now and then, and at the end.
pub(super) struct Rotating<'a> {
    config: &'a Config,
    /// When the run began.
    begun: Timestamp,
    boundaries: Boundaries,
    tallies: Vec<Tally>,
    /// Ages for `--keep`, shared with the thread that removes recordings.
    ages: Arc<Mutex<Ages>>,
    /// True if the wall clock was set, so that `--keep` leaves recordings of earlier runs.
    spares_earlier: bool,
    /// When a boundary was crossed, by the monotonic clock.
    due_since_ns: Option<u64>,
    /// The recordings before.
    closing: Closing,
    /// Those of them that could not be closed.
    unclosed: Unclosed,
}

impl<'a> Rotating<'a> {
    /// None: it is not asked for.
    pub(super) fn of(config: &'a Config) -> Option<Self> {
        let every_ns = config.operate.rotation?.every.as_nanos() as u64;
        let tallies = config.paths.iter().map(|_| Tally::default()).collect();
        let now = anchor();
        let boundaries = Boundaries::new(every_ns, now.utc_ns);
        let ages = Arc::new(Mutex::new(Ages::new(now)));
        let (closing, unclosed) = (Closing::default(), Unclosed::default());
        let begun = Timestamp::now();
        let (due_since_ns, spares_earlier) = (None, false);
        Some(Self {
            config,
            begun,
            boundaries,
            tallies,
            ages,
            spares_earlier,
            due_since_ns,
            closing,
            unclosed,
        })
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
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        if self.due_since_ns.is_none()
            && !self.closing.is_busy()
            && self.boundaries.is_crossed(anchor().utc_ns)
        {
            self.due_since_ns = Some(now_ns);
        }
        self.due_since_ns.is_some()
    }

    /// As if a boundary had been crossed just now.
    #[cfg(test)]
    pub(super) fn cross_a_boundary(&mut self) {
        self.boundaries = Boundaries::new(1_000_000_000, 0);
    }

    /// Whether the run goes on in another recording before it ends, as far as its options say when it does.
    pub(super) fn begins_another(&self) -> bool {
        let is_before = |lasts_ns: u128| {
            i128::from(self.boundaries.next_ns())
                < self.begun.as_nanosecond().saturating_add_unsigned(lasts_ns)
        };
        self.due_since_ns.is_some() || lasts_ns(self.config).is_none_or(is_before)
    }

    /// Whether it waits yet for rows behind a ring: they belong to the recordings before.
    pub(super) fn waits_for_rows(&self, is_behind: bool, now_ns: u64) -> bool {
        let due_for_ns = self.due_since_ns.map_or(0, |since| now_ns.saturating_sub(since));
        is_behind && due_for_ns < CATCHES_UP_FOR_NS
    }

    /// Goes on in new recordings. Those before are closed by another thread ([`Rotating::closed`]): that takes seconds on a loaded
    /// host, and meanwhile there is a recording to be written. One that cannot be followed goes on until the next boundary.
    pub(super) fn rotate(&mut self, sinks: &mut [Sinks], live: &LiveStates) {
        self.due_since_ns = None;
        let now = anchor();
        let mut ends = Vec::new();
        for (p, (sink, tally)) in sinks.iter_mut().zip(&self.tallies).enumerate() {
            let Some(recorder) = &mut sink.recorder else { continue };
            let mut ages = lock_ages(&self.ages);
            match seam((self.config, &ages), p, recorder, tally, now) {
                Ok((next, error)) => {
                    ages.ended(name_of(recorder.dir()), now.mono_ns);
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
        let mono_ns = now.mono_ns;
        let (unclosed, ages) = (self.unclosed.clone(), Arc::clone(&self.ages));
        self.closing.begin(ends, move |Ending { recorder, current, dir, .. }| {
            let finished = unclosed.close(recorder, current.started_at, mono_ns);
            let mut ages = lock_ages(&ages);
            for removed in keep::remove_old(current, dir, &ages) {
                ages.forget(&name_of(&removed));
            }
            finished
        });
    }

    /// A note about the wall clock, if it was set, or set right again, since the last call. `--keep` uses it only for
    /// recordings of earlier runs, and only while it is right.
    pub(super) fn clock_note(&mut self, now: Anchor) -> Option<String> {
        let keep_ns = self.config.operate.rotation?.keep?.as_nanos() as u64;
        let ages = lock_ages(&self.ages);
        let spares_earlier = !ages.is_plausible(keep_ns, now);
        if std::mem::replace(&mut self.spares_earlier, spares_earlier) == spares_earlier {
            return None;
        }
        if !spares_earlier {
            return Some(
                "the wall clock agrees with the time that has passed again: --keep removes recordings of earlier runs by it"
                    .to_owned(),
            );
        }
        let off_ns = ages.off_ns(now);
        let (off, way) = (duration(off_ns.unsigned_abs()), if off_ns < 0 { "behind" } else { "ahead of" });
        Some(format!(
            "the wall clock is {off} {way} the time that has passed: --keep counts elapsed time, and leaves recordings of earlier runs until the clock is plausible again"
        ))
    }

    /// The run is over, and the last recording closed: those that could not be closed are tried again.
    pub(super) fn close_the_rest(&self) {
        self.unclosed.try_again();
    }

    /// Recordings that have been closed since this was last asked; with `wait`, those that are being closed, too.
    pub(super) fn closed(&mut self, wait: bool) -> Vec<Ended> {
        self.closing.collect(wait)
    }
}

fn lock_ages(ages: &Mutex<Ages>) -> MutexGuard<'_, Ages> {
    ages.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// How long the run lasts at most, where its options say that.
fn lasts_ns(config: &Config) -> Option<u128> {
    let duration_ns = config.duration.map(|duration| duration.as_nanos());
    let counted_ns = match (config.count, config.pace) {
        (Some(count), Pace::Every(every_ns)) if config.idle_gaps_ns.is_empty() => {
            Some(u128::from(count) * u128::from(every_ns))
        }
        _ => None,
    };
    duration_ns.into_iter().chain(counted_ns).min()
}

/// Begins the next recording, and writes the last of this one: what the one says of the other, both say alike.
fn seam(
    (config, ages): (&Config, &Ages),
    path: usize,
    recorder: &mut Recorder,
    tally: &Tally,
    now: Anchor,
) -> Result<(Recorder, Option<String>), String> {
    let next = keep::next(config, &config.paths[path], recorder.manifest(), ages, now);
    let mut next = next.map_err(|e| e.to_string())?.ok_or("nothing is recorded")?;
    let (at, mono_ns) = (next.manifest().started_at, now.mono_ns);
    let carried = tally.carried(mono_ns);
    let event = |kind| Event { at, mono_ns, connection: None, kind };
    let (previous, following) = (recorder.manifest().id.clone(), next.manifest().id.clone());
    let continues = EventKind::RecordingContinues { previous, carried: carried.clone() };
    if let Err(e) = next.event(&event(continues)) {
        let dir = next.dir().to_owned();
        drop(next);
        keep::discard_directory(config, &dir);
        return Err(e.to_string());
    }
    // Rows before the seam say how far it came with those between them that have none. The next recording does not see them.
    let rotated = event(EventKind::RecordingRotated { next: following, carried });
    let rotated = recorder.goes_on_in(&mut next, &tally.sent_with_gaps(), &rotated);
    Ok((next, rotated.err().map(|e| e.to_string())))
}

#[cfg(test)]
mod tests {
    use super::super::config::from_line;
    use super::*;

    /// Of a recording that somebody had removed it was said that the next rotation begins another, in a run that was over before.
    #[test]
    fn rotation_needs_run_past_next_boundary() {
        for (line, expected) in [
            ("h --rotate 1d", true),
            ("h --rotate 1d --for 23h", false),
            ("h --rotate 1d --for 25h", true),
            ("h --rotate 1d --every 1s --count 3600", false),
            ("h --rotate 1d --every 1s --count 90000", true),
            ("h --rotate 1d --every 1s --count 90000 --for 1h", false),
            // Nobody knows how long that takes.
            ("h --rotate 1d --ping-pong --count 10", true),
        ] {
            let config = from_line(line).expect("it is valid");
            let mut rotating = Rotating::of(&config).expect("it is asked for");
            rotating.begun = Timestamp::UNIX_EPOCH;
            rotating.boundaries = Boundaries::new(86_400_000_000_000, 1);
            assert_eq!(rotating.begins_another(), expected, "{line}");
        }
    }

    #[test]
    fn clock_step_is_noted_once() {
        for (line, notes) in [("h --rotate 1s --keep 1m", true), ("h --rotate 1s", false)] {
            let config = from_line(line).expect("it is valid");
            let mut rotating = Rotating::of(&config).expect("it is asked for");
            let begun = lock_ages(&rotating.ages).begun();
            let mut noted = Vec::new();
            for set_s in [0, 3_600, 3_600, 0, 0, -7_200] {
                let utc_ns = begun.utc_ns + set_s * 1_000_000_000;
                noted.extend(rotating.clock_note(Anchor { utc_ns, ..begun }));
            }
            let says = |words: &str| noted.iter().filter(|note| note.contains(words)).count();
            let told = ["1h 0m ahead of", "agrees", "2h 0m behind"].map(says);
            assert_eq!(told, if notes { [1; 3] } else { [0; 3] }, "{line}: {noted:?}");
        }
    }

    #[test]
    fn rotation_waits_for_queued_rows_with_limit() {
        let config = from_line("h --rotate 1s").expect("it is valid");
        let mut rotating = Rotating::of(&config).expect("it is asked for");
        rotating.cross_a_boundary();
        assert!(rotating.is_due(7));
        assert!(rotating.is_due(8), "it stays so until it is done");
        assert!(!rotating.waits_for_rows(false, 8));
        assert!(rotating.waits_for_rows(true, 7 + CATCHES_UP_FOR_NS - 1), "since it was due first");
        assert!(!rotating.waits_for_rows(true, 7 + CATCHES_UP_FOR_NS));
    }
}
