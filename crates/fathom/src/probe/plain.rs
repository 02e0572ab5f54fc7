//! Lines for people without a live view: one a sample (`--plain`), one every ten seconds otherwise, and the events.

use super::live_state::LiveState;
use fathom_core::event::Event;
pub(super) use fathom_core::plain::{event, sample};
use fathom_core::sample::Sample;
use fathom_core::summary::{clock_time, number, unit_for};
use fathom_core::text::count;
use fathom_os::clock::mono_ns;
use std::fmt::Write;

/// Something to print.
#[derive(Debug)]
pub(super) enum Line {
    /// A sample of this path.
    Sample(u32, Sample),
    /// An event of this path, or of the run.
    Event(Option<u32>, Box<Event>),
    /// Recording of this path has stopped, and why.
    RecordingStopped(u32, String),
    /// A file of rows of this path is not written any more: which, and why.
    TableStopped(u32, String),
    /// Recording of this path waits for room on the disk, and the error that says so.
    RecordingWaits(u32, String),
    /// The disk is full, which ends the run, and the error that says so.
    EndsOnFull(u32, String),
}

/// A line for the state of a path, every ten seconds.
pub(super) fn state(label: &str, at: jiff::Timestamp, state: &LiveState) -> String {
    let s = &state.statistics;
    let mut out = format!("{} {label}: {}", clock_time(at), count(s.samples, "sample"));
    let (divisor, unit) = unit_for(s.rtt.quantile(0.5).unwrap_or(0));
    if let Some(rtt_ns) = state.last.and_then(|last| last.rtt_ns) {
        let _ = write!(out, ", last {} {unit}", number(rtt_ns as f64 / divisor));
    }
    for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
        if let Some(ns) = s.rtt.supported_quantile(q) {
            let _ = write!(out, ", {name} {} {unit}", number(ns as f64 / divisor));
        }
    }
    let _ = write!(out, ", {} unanswered", s.unanswered);
    if s.not_sent.total() > 0 {
        let _ = write!(out, ", {} not sent", s.not_sent.total());
    }
    if state.stalled > 0 {
        let _ = write!(out, ", STALLED ({})", count(state.stalled.into(), "connection"));
    }
    if let Some(since) = state.outage(mono_ns()) {
        let _ = write!(out, ", {since}");
    } else if state.open == 0 && state.last.is_none_or(|last| last.size > 0) {
        // A sample without a byte is a connection that was made and closed.
        out.push_str(", not connected");
    }
    out
}
