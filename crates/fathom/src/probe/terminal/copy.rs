//! What is copied out of the live states. Each function takes the lock once, for one path or for a glance at all of
//! them, and computes under it the few figures it needs instead of copying histograms.

use super::bars::Bars;
use super::inks::Alarm;
use super::plan::Plan;
use super::state::State;
use super::view::View;
use crate::probe::live_state::{LiveState, LiveStates, lock};
use crate::probe::plain;
use fathom_core::strip::Second;
use fathom_core::units::narrow::supported;
use jiff::Timestamp;
use std::path::PathBuf;

/// What tells whether a path has changed: everything else in its live state changes with one of these.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    samples: u64,
    events: usize,
    last_event_ns: Option<u64>,
}

/// All paths at a glance.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Glance {
    marks: Vec<Mark>,
    /// The state of each path.
    pub(super) states: Vec<State>,
    /// Paths that are being recorded.
    pub(super) recorded: usize,
    /// Recordings, and files of rows, that are not written any more.
    pub(super) errors: Vec<Alarm>,
    /// Since when the figures are, where they began anew.
    pub(super) since: Option<Timestamp>,
    /// Columns that the longest address of a reflector takes.
    pub(super) remote_width: usize,
}

impl Glance {
    /// Of the paths that are shown; what became of the recordings is always told as it is now.
    pub(super) fn of(shown: &LiveStates, now: &LiveStates) -> Self {
        let errors = |(path, b): (usize, &LiveState)| {
            let alarm = move |what| move |why: &String| Alarm { path, what, why: why.clone() };
            let recording = b.recording_error.iter().map(alarm("RECORDING STOPPED"));
            recording.chain(b.table_errors.iter().map(alarm("FILE OF ROWS STOPPED"))).collect::<Vec<_>>()
        };
        let (recorded, errors) = {
            let now = lock(now);
            let recorded = now.iter().filter(|b| b.recording.is_some() && b.recording_error.is_none());
            (recorded.count(), now.iter().enumerate().flat_map(errors).collect())
        };
        let live = lock(shown);
        let mark = |b: &LiveState| Mark {
            samples: b.statistics.samples,
            events: b.events.len(),
            last_event_ns: b.events.back().map(|e| e.mono_ns),
        };
        Self {
            marks: live.iter().map(mark).collect(),
            states: live.iter().map(State::of).collect(),
            recorded,
            errors,
            since: live.iter().find_map(LiveState::shown_since),
            remote_width: live.iter().filter_map(|b| b.remote.as_ref()).map(String::len).max().unwrap_or(0),
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) path: usize,
    pub(super) state: State,
    pub(super) remote: Option<String>,
    pub(super) open: u32,
    pub(super) samples: u64,
    pub(super) unanswered: u64,
    pub(super) late: u64,
    /// Round trip of the latest sample, ns; `None` where it has none.
    pub(super) now_ns: Option<u64>,
    /// In the order of [`QUANTILES`](fathom_core::units::narrow::QUANTILES), ns; `None` where the count does not support it.
    pub(super) quantiles_ns: [Option<u64>; 4],
    pub(super) max_ns: Option<u64>,
}

impl Row {
    pub(super) fn of(live: &LiveStates, path: usize) -> Self {
        let live = lock(live);
        let state = &live[path];
        let s = state.shown();
        Self {
            path,
            state: State::of(state),
            remote: state.remote.clone(),
            open: state.open,
            samples: s.samples,
            unanswered: s.unanswered,
            late: s.late,
            now_ns: state.last.and_then(|sample| sample.rtt_ns).map(|ns| ns.max(0) as u64),
            quantiles_ns: supported(&s.rtt),
            max_ns: s.rtt.max(),
        }
    }
}

/// More of the selected path.
#[derive(Debug, Default)]
pub(super) struct Detail {
    pub(super) remote: Option<String>,
    pub(super) open: u32,
    pub(super) samples: u64,
    pub(super) unanswered: u64,
    pub(super) late: u64,
    pub(super) corrupt: u64,
    pub(super) skipped: u64,
    /// Since when there is no connection, in words.
    pub(super) outage: Option<String>,
    pub(super) connections: u64,
    pub(super) recording: Option<PathBuf>,
    pub(super) recording_stopped: bool,
    /// Empty where the strip is not shown.
    pub(super) strip: Vec<Second>,
    /// The first second of a strip of all seconds.
    pub(super) first_s: Option<i64>,
    /// `None` where the bars are not shown, or nothing was answered yet.
    pub(super) bars: Option<Bars>,
    /// The latest events in words, oldest first: as many as there is room for.
    pub(super) events: Vec<String>,
    /// In the order of [`QUANTILES`](fathom_core::units::narrow::QUANTILES).
    pub(super) quantiles_ns: [Option<u64>; 4],
    pub(super) max_ns: Option<u64>,
}

impl Detail {
    pub(super) fn of(live: &LiveStates, view: &View, plan: &Plan, mono_ns: u64) -> Self {
        let live = lock(live);
        let Some(state) = live.get(view.selected) else { return Self::default() };
        let s = state.shown();
        let of_the_run = &state.statistics;
        let step_s = view.zoom.step_s().unwrap_or(1);
        let room = usize::from(plan.events.height).saturating_sub(1);
        // The label stands above; without it more of the words fit.
        let events =
            folded(state.events.iter().rev().filter_map(|event| plain::event(Some(""), event)), room);
        Self {
            remote: state.remote.clone(),
            open: state.open,
            samples: s.samples,
            unanswered: s.unanswered,
            late: s.late,
            corrupt: s.corrupt,
            skipped: s.not_sent.total(),
            outage: state.outage(mono_ns),
            connections: of_the_run.connections.len() as u64 + of_the_run.connections_omitted,
            recording: state.recording.clone(),
            recording_stopped: state.recording_error.is_some(),
            strip: if plan.strip.is_empty() {
                Vec::new()
            } else {
                state.strips.of(step_s).seconds().collect()
            },
            first_s: state.strips.of(1).seconds().next().map(|second| second.utc_s),
            bars: if plan.bars.is_empty() { None } else { Bars::of(&s.rtt, usize::from(plan.bars.width)) },
            events,
            quantiles_ns: supported(&s.rtt),
            max_ns: s.rtt.max(),
        }
    }
}

/// So many lines, latest first as given, oldest first as returned; the same thing told again and again (ten
/// thousand connections refused, say) takes one line, with the latest time and how often.
fn folded(latest_first: impl Iterator<Item = String>, room: usize) -> Vec<String> {
    /// The time of day at the start of every line, `10:00:00`.
    const TIME: usize = 8;
    let mut lines: Vec<(String, usize)> = Vec::new();
    for text in latest_first {
        if let Some((latest, times)) = lines.last_mut()
            && latest.get(TIME..) == text.get(TIME..)
        {
            *times += 1;
        } else if lines.len() < room {
            lines.push((text, 1));
        } else {
            break;
        }
    }
    let told = |(text, times): (String, usize)| match text.split_at_checked(TIME) {
        Some((time, what)) if times > 1 => format!("{time}  {times} times: {}", what.trim_start()),
        _ => text,
    };
    lines.into_iter().rev().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_takes_one_line() {
        let lines = [
            "10:00:05  refused",
            "10:00:04  refused",
            "10:00:02  #1 closed",
            "10:00:01  refused",
            "10:00:00  old",
        ];
        let of = |room| folded(lines.iter().map(|&line| line.to_owned()), room);
        assert_eq!(of(3), ["10:00:01  refused", "10:00:02  #1 closed", "10:00:05  2 times: refused"]);
        assert_eq!(of(1), ["10:00:05  2 times: refused"]);
        assert_eq!(of(0), Vec::<String>::new());
    }
}
