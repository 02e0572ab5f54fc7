//! The summary of a throughput test, for people and for machines (`schema/throughput.md`).

use fathom_core::event::{Event, EventKind, THROUGHPUT_MODE};
use fathom_core::text::{cleaned, count};
use fathom_core::units::duration_compact as duration;
use fathom_core::units::{rate_text, size_text};
use fathom_iperf3::outcome::{Flow, Outcome};
use fathom_iperf3::replay::Replay;
use fathom_iperf3::{Direction, Traffic};
use fathom_recording::{Manifest, PathLabels};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write;

/// What was measured, on which path, and where it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    format: u32,
    #[serde(default)]
    marks: Vec<String>,
    mode: String,
    label: String,
    path: PathLabels,
    reflector: String,
    #[serde(flatten)]
    outcome: Outcome,
    recording: Option<String>,
}

/// The summary of a recording, event by event: as it was summed up in the end, or, where the recording breaks off, what
/// this end had counted until then.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    ended: Option<Value>,
    replay: Replay,
}

impl Recorded {
    /// Takes note of an event.
    pub(crate) fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ThroughputEnded { summary } => self.ended = Some(summary.clone()),
            _ => self.replay.event(event),
        }
    }

    /// The summary; none: the recording is of another mode, or cannot be understood.
    pub(crate) fn summary(self, manifest: &Manifest, recording: String) -> Option<Summary> {
        let probe = &manifest.probe;
        if probe["mode"] != THROUGHPUT_MODE {
            return None;
        }
        if let Some(ended) = self.ended {
            let summary: Summary = serde_json::from_value(ended).ok()?;
            return Some(Summary { recording: Some(recording), marks: manifest.marks(), ..summary });
        }
        let direction = Direction::deserialize(&probe["direction"]).ok()?;
        let parallel = u32::try_from(probe["connections"].as_u64()?).ok()?;
        let number = |key: &str| probe[key].as_u64();
        let traffic = Traffic {
            block: number("block_bytes").and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0),
            bitrate: number("bitrate_bits_per_second"),
            omit_ns: number("omit_ns").unwrap_or(0),
        };
        let early = "the recording breaks off; this is what this end had counted".to_owned();
        let ours = self.replay.results();
        let outcome = Outcome::new(direction, parallel, &traffic, &ours, None, Some(early));
        let reflector = manifest.reflector.resolved.as_ref().unwrap_or(&manifest.reflector.address);
        let (label, path) = (manifest.label.clone(), manifest.path.clone());
        Some(Summary::new(label, manifest.marks(), path, reflector.clone(), outcome, Some(recording)))
    }
}

impl Summary {
    /// A test's outcome on its path.
    pub(crate) fn new(
        label: String,
        marks: Vec<String>,
        path: PathLabels,
        reflector: String,
        outcome: Outcome,
        recording: Option<String>,
    ) -> Self {
        let mode = THROUGHPUT_MODE.to_owned();
        Self { format: 1, marks, mode, label, path, reflector, outcome, recording }
    }

    /// One line for machines.
    pub(crate) fn json(&self) -> String {
        // Plain data with string keys: nothing that serde_json could refuse.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The table for people.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{}", cleaned(&text.to_string()));
        };
        let via = self.path.via.as_ref().map_or(String::new(), |via| format!(" via {via}"));
        let route = match (&self.path.from, &self.path.to) {
            (None, None) => String::new(),
            (from, to) => format!("  {} -> {}", word(from.as_ref()), word(to.as_ref())),
        };
        for mark in &self.marks {
            line(format_args!("{}", fathom_core::marks::in_words(mark)));
        }
        line(format_args!("{}  {}{route}{via}", self.label, self.reflector));
        let streams = count(self.outcome.parallel.into(), "stream");
        let each_way = if self.outcome.direction == Direction::Bidirectional { " each way" } else { "" };
        let limit = self
            .outcome
            .bitrate_bits_per_second
            .map_or(String::new(), |r| format!(", at {} each", rate_text(r)));
        let omitted = if self.outcome.omit_ns > 0 {
            format!(", the first {} left out", duration(self.outcome.omit_ns))
        } else {
            String::new()
        };
        let block = size_text(u64::from(self.outcome.block_bytes));
        line(format_args!(
            "  {streams}{each_way}, blocks of {block}{limit}, for {}{omitted}",
            duration(self.outcome.duration_ns)
        ));
        if let Some(why) = &self.outcome.ended_early {
            line(format_args!("  ended early: {why}"));
        }
        line(format_args!(
            "  {:<16} {:>12} {:>14} {:>14} {:>8} {:>10}  srtt min/mean/max",
            "", "received", "as received", "as sent", "resent", "cwnd mean"
        ));
        for way in &self.outcome.ways {
            for stream in way.streams.iter().filter(|_| way.streams.len() > 1) {
                line(format_args!("  {}", row(&format!("{} {}", way.name, stream.stream), &stream.flow)));
            }
            let name = if way.streams.len() > 1 { format!("{} in all", way.name) } else { way.name.clone() };
            line(format_args!("  {}", row(&name, &way.total)));
        }
        if let (Some(here), Some(there)) = (&self.outcome.congestion_here, &self.outcome.congestion_there) {
            line(format_args!("  congestion   {here} here, {there} there"));
        }
        if let Some(recording) = &self.recording {
            line(format_args!("  recording    {recording}"));
        }
        out
    }
}

fn word(text: Option<&String>) -> &str {
    text.map_or("?", String::as_str)
}

fn row(name: &str, flow: &Flow) -> String {
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    format!(
        "{name:<16} {:>12} {:>14} {:>14} {:>8} {:>10}  {}",
        known(flow.received.map(|c| size_text(c.bytes))),
        known(flow.received.map(|c| rate_text(c.bits_per_second))),
        known(flow.sent.map(|c| rate_text(c.bits_per_second))),
        known(flow.retransmits.map(|n| n.to_string())),
        known(flow.cwnd_bytes.map(|r| size_text(r.mean))),
        known(
            flow.srtt_us
                .map(|r| [r.min, r.mean, r.max].map(|us| duration(us.saturating_mul(1_000))).join("/"))
        ),
    )
}
