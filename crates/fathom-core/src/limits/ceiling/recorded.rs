//! What the events of a recording of a search for the rate ceiling amount to.

use super::laws::contradictions;
use super::outcome::Ceiling;
use super::search::{Asked, CeilingSearch};
use crate::event::{CeilingStepped, Event, EventKind};
use crate::limits::Verdict;
use crate::text::count;

/// Takes the events of a recording one after the other; [`CeilingRecorded::outcome`] then says what they amount to.
#[derive(Debug, Clone, Default)]
pub struct CeilingRecorded {
    asked: Option<Asked>,
    /// Searches that began here: a recording is of one.
    began: u32,
    steps: Vec<CeilingStepped>,
    first_ns: Option<u64>,
    last_ns: u64,
    ended: Option<Box<Ceiling>>,
    /// Its result cannot be understood.
    strange: bool,
}

impl CeilingRecorded {
    /// Takes note of an event.
    pub fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::CeilingBegan(asked) => {
                (self.asked, self.first_ns) = (Some(*asked), Some(event.mono_ns));
                self.began += 1;
            }
            EventKind::CeilingStepped(step) => self.steps.push((**step).clone()),
            EventKind::LimitsEnded { result } if self.asked.is_some() => {
                self.ended = serde_json::from_value(result.clone()).ok();
                self.strange = self.ended.is_none();
            }
            _ if self.asked.is_none() => return,
            _ => {}
        }
        self.last_ns = self.last_ns.max(event.mono_ns);
    }

    /// What was asked for. `None`: no such search is recorded here.
    pub fn asked(&self) -> Option<Asked> {
        self.asked
    }

    /// Its steps.
    pub fn steps(&self) -> &[CeilingStepped] {
        &self.steps
    }

    /// What it amounts to. `None`: no such search is recorded here, or no step of one.
    pub fn outcome(&self) -> Option<Ceiling> {
        let took_ns = self.last_ns.saturating_sub(self.first_ns?);
        let known = || {
            let mut search = CeilingSearch::resumed(self.asked?, &self.steps);
            search.stop(None);
            (!self.steps.is_empty()).then(|| search.outcome(took_ns))
        };
        self.ended.as_deref().cloned().or_else(known)
    }

    /// Why a search with these settings cannot go on from here; `None`: it can. `of` is the target of this one, `target` that of the
    /// other.
    pub fn why_not(&self, of: &str, target: &str, asked: Asked) -> Option<String> {
        let Some(recorded) = self.asked.filter(|_| !self.steps.is_empty()) else {
            return Some("it holds no step of a search for the rate ceiling; leave out --resume".to_owned());
        };
        let settled = |ended: &Ceiling| matches!(ended.verdict, Verdict::Found | Verdict::NotFound);
        if CeilingSearch::resumed(recorded, &self.steps).is_over()
            || self.ended.as_deref().is_some_and(settled)
        {
            return Some("its search came to its end; see it with `fathom recording summary`".to_owned());
        }
        if of != target {
            return Some(format!("it was a search of {of}, not of {target}"));
        }
        if recorded.up_to_per_s != asked.up_to_per_s {
            let up_to = recorded.up_to_per_s;
            return Some(format!("it was a search up to {up_to}/s; give --rate-ceiling {up_to} too"));
        }
        (recorded.connections != asked.connections).then(|| {
            let (connections, over) =
                (recorded.connections, count(recorded.connections.into(), "connection"));
            format!("its packets went over {over}; give --connections {connections} too")
        })
    }

    /// What in it does not agree, each with its law. `whole`: no event of it was lost, so that its steps must lead to its result.
    pub fn contradictions(&self, whole: bool) -> Vec<(&'static str, String)> {
        let Some(asked) = self.asked else { return Vec::new() };
        let mut all = contradictions(asked, &self.steps, self.ended.as_deref(), whole);
        if self.began > 1 {
            all.push(("a recording is of one search", format!("{} began", self.began)));
        }
        if self.strange {
            all.push(("the result of a search has the keys of docs/limits.md", "it has others".to_owned()));
        }
        all
    }
}
