//! What no policy could have done: requests that nobody could have served, by the truth of what the fabric did.

use std::collections::{BTreeMap, BTreeSet};

use fathom_core::units::duration_ns;

use crate::scenario::Scenario;
use crate::stage::StageConfig;
use crate::truth::{Truth, What};

/// The times at which nothing could be served over one path, whoever asked: the path was cut, a host at one of its ends
/// stood still, nothing listened there, or a gateway on it was changing over.
///
/// It is a bound, not a count: what only some requests met (a flow forgotten, packets lost by chance, a backend of several
/// that was gone) is left out. So of `n` requests no policy answers more than `n` less [`Unservable::requests`].
#[derive(Debug, Clone, Default)]
pub struct Unservable {
    places: BTreeSet<String>,
    /// How many of each place and event go on, and since when the first of them does.
    going_on: BTreeMap<(String, String), (u32, u64)>,
    /// From, to, in no order; they may overlap.
    spans: Vec<(u64, u64)>,
}

impl Unservable {
    /// Over the path of this label.
    pub fn of(scenario: &Scenario, label: &str) -> Self {
        let Some(path) = scenario.path(label) else { return Self::default() };
        let mut places: BTreeSet<String> =
            path.via.iter().chain([&path.label, &path.from]).cloned().collect();
        // Behind a balancer of several backends another may serve.
        let many = |name: &String| {
            let config = scenario.middleboxes().iter().find(|m| m.name == *name).map(|m| &m.config);
            matches!(config, Some(StageConfig::LoadBalancer(config)) if config.backends.len() > 1)
        };
        if !path.via.iter().any(many) {
            places.insert(path.to.clone());
        }
        Self { places, ..Self::default() }
    }

    /// Takes what the fabric did.
    pub fn truth(&mut self, truth: &Truth) {
        if !self.places.contains(&truth.place) {
            return;
        }
        match &truth.what {
            What::EventBegan { event, parameters } if event == "switchover" => {
                let outage = parameters["outage"].as_str().and_then(|text| duration_ns(text).ok());
                let outage_ns = outage.unwrap_or(0);
                self.spans.push((truth.at_ns, truth.at_ns.saturating_add(outage_ns)));
            }
            What::EventBegan { event, .. } if stops(event) => {
                let key = (truth.place.clone(), event.clone());
                self.going_on.entry(key).or_insert((0, truth.at_ns)).0 += 1;
            }
            What::EventEnded { event } if stops(event) => {
                let key = (truth.place.clone(), event.clone());
                if let Some((count, since_ns)) = self.going_on.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        self.spans.push((*since_ns, truth.at_ns));
                        self.going_on.remove(&key);
                    }
                }
            }
            _ => {}
        }
    }

    /// Of requests that are due at 0 and every `interval_ns` until `end_ns`, and for whose answers callers wait for
    /// `deadline_ns`: how many nobody could have answered.
    pub fn requests(&self, interval_ns: u64, deadline_ns: u64, end_ns: u64) -> u64 {
        let ends = |span: &(u64, u64)| (span.0, span.1.min(end_ns));
        let open = self.going_on.values().map(|(_, since_ns)| (*since_ns, end_ns));
        let mut spans: Vec<(u64, u64)> = self.spans.iter().map(ends).chain(open).collect();
        spans.sort_unstable();
        let mut sum = 0;
        let mut spans = spans.into_iter().peekable();
        while let Some((from, mut to)) = spans.next() {
            while let Some((_, end)) = spans.next_if(|(begin, _)| *begin <= to) {
                to = to.max(end);
            }
            // Those that are due at `from` or later, and whose callers have given up by `to`; at the end all have.
            let last = if to >= end_ns {
                end_ns.saturating_sub(1)
            } else {
                let Some(last) = to.checked_sub(deadline_ns) else { continue };
                last
            };
            let before = |ns: u64| ns.div_ceil(interval_ns.max(1));
            sum += before(last.saturating_add(1)).saturating_sub(before(from));
        }
        sum
    }
}

/// Whether nothing gets through while this goes on.
fn stops(event: &str) -> bool {
    matches!(event, "link-cut" | "host-pause" | "live-migration freeze" | super::RESTART)
}
