//! Medians and sums of queries that count.

use super::{Confidence, PARTIES, Part, Party, Query, Verdict};
use crate::histogram::Histogram;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Fewer queries have no p95.
pub(super) const FOR_P95: u64 = 20;
/// Queries of a run that does not say how many: with the first, which finds nothing warm, enough for that.
pub const COUNT: u64 = FOR_P95 + 1;

/// Of the queries that count.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) wall: Histogram,
    pub(super) first_row: Histogram,
    pub(super) transfer: Histogram,
    pub(super) parts: [Histogram; 3],
    pub(super) turns: Histogram,
    pub(super) rtt: Histogram,
    pub(super) verdict: Verdict,
    pub(super) looks: u64,
    /// Queries during which there was one.
    pub(super) looked_at: u64,
    /// For how long this machine kept the threads that ask from running; `None`: nobody knows.
    pub(super) kept_ns: Option<u64>,
    pub(super) waits: BTreeMap<String, u64>,
    pub(super) no_split: BTreeMap<&'static str, u64>,
}

pub(super) fn median(figure: &Histogram) -> Option<u64> {
    figure.quantile(0.5)
}

pub(super) fn p95(figure: &Histogram) -> Option<u64> {
    (figure.count() >= FOR_P95).then(|| figure.quantile(0.95)).flatten()
}

impl Figures {
    pub(super) fn add(&mut self, query: &Query) {
        let put = |figure: &mut Histogram, ns: u64| figure.record(i64::try_from(ns).unwrap_or(i64::MAX));
        put(&mut self.wall, query.split.wall_ns);
        put(&mut self.turns, query.turns);
        if let Some(first) = query.first_row_ns {
            put(&mut self.first_row, first);
            put(&mut self.transfer, query.split.wall_ns.saturating_sub(first));
        }
        if let Some(rtt) = query.rtt_ns {
            put(&mut self.rtt, rtt);
        }
        self.verdict.add(&query.split);
        if let Some(ns) = query.kept_ns {
            self.kept_ns = Some(self.kept_ns.unwrap_or(0).saturating_add(ns));
        }
        self.looks = self.looks.saturating_add(query.looks);
        self.looked_at += u64::from(query.looks > 0);
        match (query.split.estimates(), query.split.why_not()) {
            (Some(estimates), _) => self.parts.iter_mut().zip(estimates).for_each(|(part, ns)| put(part, ns)),
            (None, why) => *self.no_split.entry(why.unwrap_or("")).or_default() += 1,
        }
        if let Some(wait) = &query.server_wait {
            *self.waits.entry(wait.clone()).or_default() += 1;
        }
    }

    pub(super) fn named(&self) -> [(&'static str, &Histogram); 6] {
        let [server, path, client] = &self.parts;
        [
            ("wall", &self.wall),
            ("first row", &self.first_row),
            ("transfer", &self.transfer),
            ("server", server),
            ("path", path),
            ("client", client),
        ]
    }

    /// As a program reads it (docs/databases.md).
    pub(super) fn json(&self) -> Map<String, Value> {
        let figure = |figure: &Histogram| json!({ "count": figure.count(), "p50": median(figure), "p95": p95(figure) });
        let (party, confidence) = self.verdict.most();
        let mean = self.verdict.mean();
        let share = |party: Party| {
            // Of no time nobody has a share.
            let (low, estimate, high) = mean
                .map(|_| self.verdict.share(party))
                .map_or((None, None, None), |(low, estimate, high)| (Some(low), estimate, Some(high)));
            (party.to_string(), json!({ "low": low, "estimate": estimate, "high": high }))
        };
        let mean = mean.map(|(wall_ns, parts)| {
            let part = |(party, part): (Party, Part)| {
                (party.to_string(), json!({ "low": part.low_ns, "high": part.high_ns }))
            };
            let mut mean: Map<String, Value> = PARTIES.into_iter().zip(parts).map(part).collect();
            mean.insert("wall".to_owned(), wall_ns.into());
            mean
        });
        let confidence = match confidence {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::None => "none",
        };
        let name = |party: Option<Party>| party.map(|party| party.to_string());
        let figures = self.named().map(|(name, of)| (format!("{}_ns", name.replace(' ', "_")), figure(of)));
        let others = [
            ("turns", json!(median(&self.turns))),
            ("rtt_ns", json!(median(&self.rtt))),
            ("verdict", json!({ "party": name(party), "confidence": confidence })),
            ("greatest", json!(name(self.verdict.greatest()))),
            ("shares", PARTIES.map(share).into_iter().collect::<Map<_, _>>().into()),
            ("mean_ns", json!(mean)),
        ];
        others.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(figures).collect()
    }
}

/// The same of a run or of a setting, of which first queries (of the run, of a setting, of a login) count only where there are no
/// others.
#[derive(Debug, Clone, Default)]
pub(super) struct Warm {
    pub(super) figures: Figures,
    /// There are others.
    is_warm: bool,
}

impl Warm {
    /// Takes a query that was answered.
    pub(super) fn add(&mut self, query: &Query) {
        if query.is_first && self.is_warm {
            return;
        }
        if !query.is_first && !std::mem::replace(&mut self.is_warm, true) {
            self.figures = Figures::default();
        }
        self.figures.add(query);
    }
}
