//! A scenario's file.

use crate::error::Error;
use fathom_core::histogram::Histogram;
use fathom_fabric::scenario::Scenario;
use fathom_recording::Recording;
use std::fs;
use std::path::Path;

/// Reads a scenario, with the recordings that its jitter comes from.
pub fn read(file: &Path) -> Result<Scenario, Error> {
    let text = fs::read_to_string(file).map_err(|e| {
        Error::Asked(format!("cannot read the scenario {}: {e}; name one, as in scenarios/", file.display()))
    })?;
    Scenario::parse_with(&text, &file.display().to_string(), &round_trips)
        .map_err(|e| Error::Asked(e.to_string()))
}

/// The round trips of a recording, for a scenario's empirical jitter.
pub fn round_trips(dir: &str) -> Result<Histogram, String> {
    let recording = Recording::open(Path::new(dir)).map_err(|e| e.to_string())?;
    let mut histogram = Histogram::default();
    // What is damaged is left out; what reads is what was measured.
    for sample in recording.samples().flatten() {
        if let Some(rtt_ns) = sample.rtt_ns {
            histogram.record(rtt_ns);
        }
    }
    Ok(histogram)
}
