//! What no policy could have done: requests that nobody could have served, by the truth of what the fabric did.

use fathom_core::spans::joined;
use fathom_core::units::duration_ns;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::stage::StageConfig;
use crate::truth::{Truth, What};

/// What a request needs, one after the other. Whoever runs at a host needs the host too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// The host that asks, to send it and to see its answer.
    Caller,
    /// The way there.
    There,
    /// The process that answers.
    Server,
    /// The host that this one runs at. Its kernel sends again what was answered, when the process has long been gone.
    ServersHost,
    /// The way back.
    Back,
}

/// The times at which something that each request over one path needs was not to be had, whoever asked: the path was cut, a
/// host at one of its ends stood still, nothing listened there, or a gateway on it was changing over.
///
/// It is a bound, not a count: what only some requests met (a flow forgotten, packets lost by chance, a backend of several
/// that was gone) is left out, and so is how long the path takes. So of `n` requests no policy answers more than `n` less
/// [`Unservable::requests`].
#[derive(Debug, Clone, Default)]
pub struct Unservable {
    path: String,
    via: Vec<String>,
    from: String,
    /// `None`: behind a balancer of several backends another may serve.
    to: Option<String>,
    /// What there was none of, from, to; in no order, and they may overlap.
    without: Vec<(Need, u64, u64)>,
}

impl Unservable {
    /// Over the path of this label.
    pub fn of(scenario: &Scenario, label: &str) -> Self {
        let Some(path) = scenario.path(label) else { return Self::default() };
        let many = |name: &String| {
            let config = scenario.middleboxes().iter().find(|m| m.name == *name).map(|m| &m.config);
            matches!(config, Some(StageConfig::LoadBalancer(config)) if config.backends.len() > 1)
        };
        Self {
            path: path.label.clone(),
            via: path.via.clone(),
            from: path.from.clone(),
            to: (!path.via.iter().any(many)).then(|| path.to.clone()),
            without: Vec::new(),
        }
    }

    /// Takes what the fabric did. What begins says how long it lasts.
    pub fn truth(&mut self, truth: &Truth) {
        let What::EventBegan { event, parameters } = &truth.what else { return };
        let (place, to) = (&truth.place, self.to.as_ref());
        let (lasts, needs) = match event.as_str() {
            "link-cut" if *place == self.path => {
                let needs: &[Need] = match parameters["direction"].as_str() {
                    Some("forward") => &[Need::There],
                    Some("backward") => &[Need::Back],
                    _ => &[Need::There, Need::Back],
                };
                ("duration_ns", needs)
            }
            "host-pause" | "live-migration freeze" if *place == self.from => {
                ("duration_ns", &[Need::Caller][..])
            }
            "host-pause" | "live-migration freeze" if Some(place) == to => {
                ("duration_ns", &[Need::ServersHost][..])
            }
            super::RESTART if Some(place) == to => ("down_ns", &[Need::Server][..]),
            "switchover" if self.via.contains(place) => ("outage", &[Need::There, Need::Back][..]),
            _ => return,
        };
        let to_ns = match &parameters[lasts] {
            Value::String(text) => duration_ns(text).map_or(truth.at_ns, |ns| truth.at_ns.saturating_add(ns)),
            Value::Number(ns) => truth.at_ns.saturating_add(ns.as_u64().unwrap_or(0)),
            // For good.
            _ => u64::MAX,
        };
        self.without.extend(needs.iter().map(|&need| (need, truth.at_ns, to_ns)));
    }

    /// Of requests that are due at 0 and every `interval_ns` until `end_ns`, and for whose answers callers wait for
    /// `deadline_ns`: how many nobody could have answered.
    pub fn requests(&self, interval_ns: u64, deadline_ns: u64, end_ns: u64) -> u64 {
        let without = |needs: &[Need]| {
            Spans::of(
                self.without
                    .iter()
                    .filter(|(need, ..)| needs.contains(need))
                    .map(|&(_, from, to)| (from, to)),
            )
        };
        let sending = without(&[Need::Caller, Need::There]);
        let serving = without(&[Need::Server, Need::ServersHost]);
        let answering = without(&[Need::ServersHost, Need::Back]);
        let seeing = without(&[Need::Caller]);
        let is_lost = |due_ns: u64| {
            let answered_ns = answering.next_out(serving.next_out(sending.next_out(due_ns)));
            // A caller that stands still gives up when it runs again, and looks first at what has come.
            answered_ns >= seeing.next_out(due_ns.saturating_add(deadline_ns))
        };
        let every_ns = interval_ns.max(1);
        let any = Spans::of(self.without.iter().map(|&(_, from, to)| (from, to)));
        let due =
            any.0.iter().flat_map(|&(from, to)| from.div_ceil(every_ns)..to.min(end_ns).div_ceil(every_ns));
        due.filter(|n| is_lost(n * every_ns)).count() as u64
    }
}

/// Spans of time, in order and apart from each other: from (which is in it), to (which is not).
#[derive(Debug)]
struct Spans(Vec<(u64, u64)>);

impl Spans {
    fn of(all: impl Iterator<Item = (u64, u64)>) -> Self {
        Self(joined(all))
    }

    /// The first moment from this one on that is in none of them.
    fn next_out(&self, at_ns: u64) -> u64 {
        let next = self.0.partition_point(|(_, to)| *to <= at_ns);
        self.0.get(next).filter(|(from, _)| *from <= at_ns).map_or(at_ns, |(_, to)| *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_joined_where_they_meet() {
        let spans = Spans::of([(20, 30), (0, 5), (25, 27), (30, 31), (40, u64::MAX)].into_iter());
        assert_eq!(spans.0, [(0, 5), (20, 31), (40, u64::MAX)]);
        let out = [0, 4, 5, 19, 20, 30, 31, 40].map(|at| spans.next_out(at));
        assert_eq!(out, [5, 5, 5, 19, 31, 31, 31, u64::MAX]);
    }
}
