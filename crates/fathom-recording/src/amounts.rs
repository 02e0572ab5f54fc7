//! What a summary says of a recording besides its figures.

use crate::manifest::{ClockAnchor, utc_ns};
use crate::{Manifest, Recording};
use fathom_core::statistics::Statistics;
use fathom_core::summary::{Heading, Load};
use serde_json::Value;

/// Between two clock anchors of a running probe: they are a minute apart, and a busy host takes its time.
const ANCHORS_APART_NS: u64 = 120_000_000_000;

impl Manifest {
    /// The silences of a run with such, in ns; empty: it has none.
    pub fn idle_gaps_ns(&self) -> Vec<u64> {
        numbers(&self.probe["idle_gaps_ns"])
    }
}

impl Recording {
    /// What was measured, of which `statistics` are the figures: all its events and samples.
    pub fn heading(&self, statistics: &Statistics) -> Heading {
        let manifest = self.manifest();
        let probe = &manifest.probe;
        let reflector = manifest.reflector.resolved.as_ref().unwrap_or(&manifest.reflector.address);
        Heading {
            label: manifest.label.clone(),
            marks: manifest.marks(),
            path: manifest.path.clone(),
            reflector: reflector.clone(),
            mode: probe["mode"].as_str().unwrap_or("unknown").to_owned(),
            size: probe["size"].as_u64().map(|size| size as u32),
            sizes: numbers(&probe["sizes"]).into_iter().map(|n| n as u32).collect(),
            interval_ns: probe["interval_ns"].as_u64(),
            load: probe["load"]["connections"].as_u64().map(|connections| Load {
                asked_bits_per_s: probe["load"]["bits_per_s"].as_u64(),
                connections: connections as u32,
            }),
            duration_ns: duration_ns(manifest, statistics),
            recording: Some(self.dir().display().to_string()),
            queries: None,
        }
    }
}

/// How long the run took, by the monotonic clock: the wall clock may have been set meanwhile. The last moment is that of the
/// last event; of a run that did not end in order, or goes on, that of its last sample if that is later.
fn duration_ns(manifest: &Manifest, statistics: &Statistics) -> u64 {
    let anchors = &manifest.clock_anchors;
    let last_sample = statistics.last_sent_ns.filter(|_| !statistics.ended);
    let sample_ns = last_sample.and_then(|sent_ns| mono_of(anchors, sent_ns)).unwrap_or(0);
    let lasted_ns = statistics.mono_ns.map_or(0, |(first_ns, last_ns)| {
        let first_ns = anchors.first().map_or(first_ns, |anchor| anchor.mono_ns.min(first_ns));
        last_ns.max(sample_ns) - first_ns
    });
    if lasted_ns > 0 {
        return lasted_ns;
    }
    // Other programs may write recordings whose events have no monotonic time.
    let last_ns = manifest.ended_at.map(utc_ns).or(statistics.last_sent_ns);
    last_ns.map_or(0, |last_ns| last_ns.saturating_sub(utc_ns(manifest.started_at)).max(0) as u64)
}

/// The monotonic time of a sample by the latest anchor in whose time it can lie.
fn mono_of(anchors: &[ClockAnchor], sent_utc_ns: i64) -> Option<u64> {
    let mut until_ns = anchors.last()?.mono_ns.saturating_add(ANCHORS_APART_NS);
    for anchor in anchors.iter().rev() {
        let since = i128::from(sent_utc_ns) - i128::from(utc_ns(anchor.utc));
        let at = u64::try_from(i128::from(anchor.mono_ns) + since).ok();
        if let Some(at) = at.filter(|at| (anchor.mono_ns..=until_ns).contains(at)) {
            return Some(at);
        }
        until_ns = anchor.mono_ns;
    }
    None
}

/// A list of numbers of the manifest; empty where it has none.
fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tool;
    use fathom_core::event::{Event, EventKind};
    use fathom_core::sample::Sample;
    use jiff::Timestamp;

    const S: u64 = 1_000_000_000;
    const START_S: i64 = 1_750_000_000;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_second(s).unwrap()
    }

    /// A run that began at 100 s of its monotonic clock; the wall clock was set back by an hour after 30 s of it.
    fn set_back(rows_until_s: u64, ended: bool) -> u64 {
        let mut manifest = Manifest::new("x", at(START_S), Tool::default());
        let anchor =
            |mono_s: u64, utc_s, stepped| ClockAnchor { mono_ns: mono_s * S, utc: at(utc_s), stepped };
        manifest.clock_anchors = vec![anchor(100, START_S, false), anchor(130, START_S + 30 - 3_600, true)];
        let mut statistics = Statistics::default();
        let mut event = |mono_s: u64, kind| {
            let utc_s = START_S + mono_s as i64 - 100 - if mono_s >= 130 { 3_600 } else { 0 };
            statistics.event(&Event { at: at(utc_s), mono_ns: mono_s * S, connection: None, kind });
        };
        event(100, EventKind::RecordingStarted {});
        event(130, EventKind::ClockStepped { step_ns: -3_600 * S as i64 });
        if ended {
            event(150, EventKind::RecordingEnded { samples: 1, error: None });
            manifest.ended_at = Some(at(START_S + 50 - 3_600));
        }
        for s in 0..rows_until_s {
            let utc_s = START_S + s as i64 - if s >= 30 { 3_600 } else { 0 };
            statistics.sample(&Sample { sent_ns: utc_s * S as i64, ..Sample::default() });
        }
        duration_ns(&manifest, &statistics)
    }

    /// "for 0 ns": the wall clock had been set back.
    #[test]
    fn clock_step_back_keeps_duration() {
        assert_eq!(set_back(49, true), 50 * S);
        // Killed: the last sample is the last evidence, whichever anchor it is of.
        assert_eq!(set_back(46, false), 45 * S);
        assert_eq!(set_back(30, false), 30 * S);
    }

    #[test]
    fn duration_falls_back_to_wall_clock() {
        let mut manifest = Manifest::new("x", at(START_S), Tool::default());
        manifest.ended_at = Some(at(START_S + 7));
        assert_eq!(duration_ns(&manifest, &Statistics::default()), 7 * S);
    }
}
