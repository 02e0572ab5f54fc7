//! What a search for the rate ceiling found, and what it means.

use super::compare::usual;
use super::step::Step;
use super::tally::Seen;
use crate::event::{Began, CeilingStepped, Delays, Judged};
use crate::limits::{Verdict, wilson};
use crate::text::count;
use crate::units::{duration_compact, duration_text as duration};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;

/// One end of the bracket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Packets a second, of all connections together.
    pub rate_per_s: u32,
    /// Segments that were sent again or could not be sent, of those that were due.
    pub lost: u64,
    /// Packets that were due.
    pub due: u64,
    /// The share of such packets that is lost: an interval of 95 % (Wilson).
    pub share_95: (f64, f64),
    /// Segments with data that were sent a second, those that were sent again too; fewer than packets where TCP joined some. Absent:
    /// the kernel does not tell, or the search is of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments_per_s: Option<u32>,
    /// Time to the echo in ns: the mean of the windows' medians without the worst quarter. Absent: most had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<u64>,
}

/// What became of one step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The step.
    #[serde(flatten)]
    pub bound: Bound,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were answered by a second after it.
    pub answered: u64,
    /// Packets that were not.
    pub outstanding: u64,
    /// Times to the echo. Absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
    /// How it was judged.
    pub judged: Judged,
    /// What was worse than below. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worse: Option<Began>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// `rate`.
    pub limit: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Why it is unclear, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The highest rate that was as good as those below it. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<Bound>,
    /// The rate above it at which something began. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad: Option<Bound>,
    /// What began there. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Began>,
    /// The highest rate that was to be tried.
    pub up_to_per_s: u32,
    /// Over so many connections.
    pub connections: u32,
    /// Steps that were worse once and as good as those below when they were tried again.
    pub moments: u32,
    /// How long it took, in ns.
    pub took_ns: u64,
    /// Steps of an earlier search, with which this one went on.
    #[serde(default)]
    pub earlier: u64,
    /// Each step, in the order in which they were tried.
    pub steps: Vec<Row>,
}

impl Bound {
    pub(super) fn of(step: Step, seen: &Seen) -> Self {
        let delays: Vec<f64> = seen.measured().iter().map(|window| window.delay_ns as f64).collect();
        let delay = usual(&delays);
        // What was never answered is longer than any.
        let delay_ns = (!delays.is_empty() && delay < 1e18).then_some(delay as u64);
        let (lost, due) = (seen.lost(), seen.due());
        let trials = u32::try_from(due).unwrap_or(u32::MAX);
        let hits = u32::try_from(lost).unwrap_or(u32::MAX).min(trials);
        let a_second = |segments: u64| {
            let rate = u128::from(segments) * 1_000_000_000 / u128::from(step.lasts_ns.max(1));
            u32::try_from(rate).unwrap_or(u32::MAX)
        };
        let (segments_per_s, share_95) = (seen.segments().map(a_second), wilson(hits, trials));
        Self { rate_per_s: step.rate_per_s, lost, due, share_95, segments_per_s, delay_ns }
    }

    fn text(&self) -> String {
        let (low, high) = self.share_95;
        let share = 100.0 * self.lost as f64 / self.due.max(1) as f64;
        let delay =
            self.delay_ns.map_or("no echo in time".to_owned(), |ns| format!("echo after {}", duration(ns)));
        let sent =
            self.segments_per_s.map_or_else(String::new, |n| format!(", {} sent as segments", rate(n)));
        format!("{share:.1} % lost (95 %: {:.1} % to {:.1} %), {delay}{sent}", low * 100.0, high * 100.0)
    }
}

/// `5000` as `5,000/s`.
pub(super) fn rate(per_s: u32) -> String {
    let digits = per_s.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    format!("{}/s", groups.join(","))
}

impl Ceiling {
    /// For people.
    pub fn text(&self, target: &str) -> String {
        let over = count(self.connections.into(), "connection");
        let so_far = match self.verdict {
            Verdict::Stopped => " (ended early: what is known so far)",
            Verdict::Unclear => " (unclear: what is known so far)",
            _ => "",
        };
        let mut out = match (&self.good, &self.bad) {
            (Some(good), Some(bad)) => {
                let began = match self.began {
                    Some(Began::Loss) => "loss begins",
                    Some(Began::Delay) => "delay begins",
                    Some(Began::HeldBack) => "TCP begins to hold packets back",
                    _ => "loss and delay begin",
                };
                format!(
                    "{target}: {began} between {} and {}, over {over}{so_far}\n",
                    rate(good.rate_per_s),
                    rate(bad.rate_per_s)
                )
            }
            (Some(good), None) => {
                format!("{target}: no rate ceiling up to {}, over {over}{so_far}\n", rate(good.rate_per_s))
            }
            _ => format!("{target}: nothing is known of a rate ceiling over {over}{so_far}\n"),
        };
        for (what, bound) in [("good", &self.good), ("bad", &self.bad)] {
            if let Some(bound) = bound {
                let _ = writeln!(out, "  {what} at {}: {}", rate(bound.rate_per_s), bound.text());
            }
        }
        if let Some(why) = &self.why {
            let _ = writeln!(out, "  why: {why}");
        }
        if self.moments > 0 {
            let steps = count(self.moments.into(), "step");
            let _ = writeln!(out, "  no ceiling: {steps} worse for a moment, and not when tried again");
        }
        let (took, steps) = (duration_compact(self.took_ns), count(self.steps.len() as u64, "step"));
        let earlier = match self.earlier {
            0 => String::new(),
            n => format!(", {n} of them by an earlier search"),
        };
        let _ = writeln!(out, "  took {took}, in {steps}{earlier}");
        out
    }

    /// One object, as docs/limits.md tells.
    pub fn json(&self, target: &str, remote: Option<SocketAddr>) -> Value {
        let mut object = json!({"format": 1, "kind": "limits", "target": target, "remote": remote});
        if let (Some(object), Ok(Value::Object(found))) = (object.as_object_mut(), serde_json::to_value(self))
        {
            object.extend(found);
        }
        object
    }
}

impl Row {
    /// Of a step that was judged.
    pub fn of(stepped: &CeilingStepped) -> Self {
        let CeilingStepped { sent, answered, outstanding, delays, judged, worse, .. } = *stepped;
        let bound = Bound::of(Step::of(stepped), &Seen::of(stepped));
        Self { bound, sent, answered, outstanding, delays, judged, worse }
    }

    /// How a step went, in a line.
    pub fn line(&self) -> String {
        let judged = match self.judged {
            Judged::Good => "",
            Judged::Doubtful => "; worse than below: the step below is tried again",
            Judged::Moment => "; it was worse for a moment",
            Judged::Beyond => "; worse again",
            Judged::Lossy => "; too much to look for a ceiling",
            Judged::HostLate => "; this host did not keep its schedule",
            Judged::NotReached => "; TCP joined packets: the rate was not reached",
        };
        format!("{}: {}{judged}", rate(self.bound.rate_per_s), self.bound.text())
    }
}
