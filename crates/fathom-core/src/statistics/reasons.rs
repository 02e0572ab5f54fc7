//! Samples counted by the reason why something became of them.

use std::collections::BTreeMap;

/// Reasons that are kept apart; there are fewer, but for damaged recordings.
const KEPT: usize = 16;

/// Counts by reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reasons(BTreeMap<String, u64>);

impl Reasons {
    /// Adds so many samples.
    pub fn add(&mut self, reason: &str, samples: u64) {
        let known = self.0.contains_key(reason) || self.0.len() < KEPT;
        let count = self.0.entry(if known { reason } else { "other" }.to_owned()).or_default();
        *count = count.saturating_add(samples);
    }

    /// Of all reasons together.
    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Of one reason.
    pub fn of(&self, reason: &str) -> u64 {
        self.0.get(reason).copied().unwrap_or(0)
    }

    /// Each reason and its count, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(reason, count)| (reason.as_str(), *count))
    }

    /// The counts by name.
    pub fn by_name(&self) -> &BTreeMap<String, u64> {
        &self.0
    }
}
