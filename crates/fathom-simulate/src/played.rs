//! A simulation played to its end, and where what comes of it goes.

use crate::error::Error;
use crate::recorded::at;
use crate::truths::Truths;
use fathom_core::clock::Anchor;
use fathom_core::event::Event;
use fathom_core::sample::Sample;
use fathom_fabric::simulate::{Item, Simulation};
use fathom_fabric::truth::Truth;
use fathom_recording::Recorder;
use std::path::PathBuf;

/// Between two looks at how far a simulation has come, in items.
const LOOK_EVERY: u64 = 4_096;

/// Who takes what comes of a simulation. `probe` is the number of a probe or a client.
pub(crate) trait Taker {
    fn sample(&mut self, probe: usize, sample: &Sample) -> Result<(), Error>;
    fn event(&mut self, probe: usize, event: &Event) -> Result<(), Error>;
    fn truth(&mut self, _: &Truth) {}
}

/// Plays it to its end, or until `tell` says no; whether it came to its end. `tell` is told now and then which share of it has
/// passed, and says whether it is to go on.
pub(crate) fn play(
    simulation: &mut Simulation,
    mut truths: Option<Truths>,
    taker: &mut impl Taker,
    mut tell: impl FnMut(f64) -> bool,
) -> Result<bool, Error> {
    let (mut items, mut goes_on) = (0_u64, true);
    while goes_on && let Some(item) = simulation.next() {
        match item {
            Item::Sample { probe, sample } => taker.sample(probe, &sample)?,
            Item::Event { probe, event } => taker.event(probe, &event)?,
            Item::Truth(what) => {
                taker.truth(&what);
                if let Some(truths) = &mut truths {
                    truths.line(what.at_ns, &what)?;
                }
            }
            Item::Packet(_) => {}
        }
        items += 1;
        if items.is_multiple_of(LOOK_EVERY) {
            goes_on = tell((simulation.now_ns() as f64 / simulation.end_ns().max(1) as f64).min(1.0));
        }
    }
    truths.map_or(Ok(()), |truths| truths.finish(simulation.now_ns()))?;
    Ok(goes_on)
}

/// The recording of one probe or client, where one is asked for.
#[derive(Default)]
pub(crate) struct Kept(Option<(Recorder, PathBuf)>);

impl Kept {
    pub(crate) fn new(recorder: Recorder, dir: PathBuf) -> Self {
        Self(Some((recorder, dir)))
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> Option<String> {
        self.0.as_ref().map(|(_, dir)| dir.display().to_string())
    }

    pub(crate) fn sample(&mut self, sample: &Sample) -> Result<(), Error> {
        self.0.as_mut().map_or(Ok(()), |(recorder, _)| recorder.push(sample)).map_err(Error::failed)
    }

    pub(crate) fn event(&mut self, event: &Event) -> Result<(), Error> {
        self.0.as_mut().map_or(Ok(()), |(recorder, _)| recorder.event(event)).map_err(Error::failed)
    }

    pub(crate) fn finish(self, clock: Anchor, now_ns: u64) -> Result<(), Error> {
        let Some((recorder, _)) = self.0 else { return Ok(()) };
        recorder.finish(at(clock, now_ns), now_ns).map(drop).map_err(Error::failed)
    }
}
