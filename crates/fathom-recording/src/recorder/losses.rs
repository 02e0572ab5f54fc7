//! Samples without a row whose loss is still to be told.

use std::collections::BTreeMap;

/// Connections whose losses are counted each by itself. A probe that opens a hundred connections a second beside a disk that
/// is full for days must not fill the memory.
const BY_CONNECTION: usize = 1 << 16;
/// On a disk that is full to the end there is room for so many counts, of some 150 bytes each.
const EACH_IN_LAST_WORDS: usize = 128;

/// Counts by connection; without one: of several.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<Option<u32>, u64>);

impl Losses {
    pub(super) fn add(&mut self, connection: Option<u32>, samples: u64) {
        let each = self.0.len() < BY_CONNECTION || self.0.contains_key(&connection);
        *self.0.entry(connection.filter(|_| each)).or_default() += samples;
    }

    /// Counts all of them together, where there is no room for more than one line each.
    pub(super) fn add_up(&mut self) {
        if self.0.len() > EACH_IN_LAST_WORDS {
            let all = self.0.values().sum();
            self.0 = BTreeMap::from([(None, all)]);
        }
    }

    /// Takes one count out.
    pub(super) fn take_one(&mut self) -> Option<(Option<u32>, u64)> {
        self.0.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_connections_share_one_loss_count() {
        let mut losses = Losses::default();
        let connections = BY_CONNECTION as u32 + 50;
        (0..connections).for_each(|connection| losses.add(Some(connection), 2));
        losses.add(Some(7), 1);
        assert!(losses.0.len() <= BY_CONNECTION + 1);
        let counts: Vec<_> = std::iter::from_fn(|| losses.take_one()).collect();
        assert_eq!(counts[0], (None, 100));
        assert!(counts.contains(&(Some(7), 3)));
        assert_eq!(counts.iter().map(|(_, samples)| samples).sum::<u64>(), u64::from(connections) * 2 + 1);
    }
}
