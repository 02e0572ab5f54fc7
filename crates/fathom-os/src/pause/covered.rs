//! Times that have been told as pauses: of a longer time that one of them lies in, the rest is still to be told.

use std::collections::VecDeque;

/// Times remembered. What lies before the oldest of so many counts as told.
const REMEMBERED: usize = 1_024;

/// Times that do not overlap, the latest of them: see [`Covered::add`].
#[derive(Debug, Default)]
pub struct Covered {
    /// From, to; oldest first.
    spans: VecDeque<(u64, u64)>,
    /// What began before is not known any more.
    from: u64,
}

impl Covered {
    /// Adds what of a time is in none yet, as far as a piece of it is longer than `threshold_ns`: these pieces, oldest first. A
    /// shorter one is no time of its own: after a pause threads wake one after another, and each reckons its begin otherwise.
    pub fn add(&mut self, began: u64, ended: u64, threshold_ns: u64) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        let mut from = began.max(self.from);
        let first = self.spans.partition_point(|span| span.1 <= from);
        for &(next, until) in self.spans.range(first..).take_while(|span| span.0 < ended) {
            pieces.push((from, next.max(from)));
            from = until;
        }
        pieces.push((from, ended));
        pieces.retain(|piece| piece.1.saturating_sub(piece.0) > threshold_ns);
        for piece in &pieces {
            let at = self.spans.partition_point(|span| span.1 <= piece.0);
            self.spans.insert(at, *piece);
        }
        while self.spans.len() > REMEMBERED {
            self.from = self.spans.pop_front().map_or(self.from, |(_, until)| until);
        }
        pieces
    }

    /// The whole of a time that was told in pieces: this one, and those that it touches.
    pub fn whole(&self, piece: (u64, u64)) -> (u64, u64) {
        let at = self.spans.partition_point(|span| span.0 < piece.0);
        let before = self.spans.range(..at).rev();
        let began = before.fold(piece.0, |began, span| if span.1 == began { span.0 } else { began });
        let ended =
            self.spans.range(at..).fold(piece.0, |ended, span| if span.0 == ended { span.1 } else { ended });
        (began, ended.max(piece.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn uncovered_time_is_returned_in_pieces() {
        let mut covered = Covered::default();
        assert_eq!(covered.add(100, 200, 20), [(100, 200)]);
        assert_eq!(covered.add(300, 400, 20), [(300, 400)]);
        assert_eq!(covered.add(90, 410, 20), [(200, 300)], "ends of 10 are too short");
        assert_eq!(covered.add(0, 1_000, 20), [(0, 100), (400, 1_000)]);
        assert_eq!(covered.add(0, 1_000, 20), []);
        assert_eq!(covered.add(1_100, 1_200, 20), [(1_100, 1_200)]);
        assert_eq!(covered.whole((200, 300)), (0, 1_000));
        assert_eq!(covered.whole((1_100, 1_200)), (1_100, 1_200));
    }

    proptest! {
        /// No moment is told twice, and of each time at most pieces as short as the threshold are in none.
        #[test]
        fn every_moment_is_returned_once(times in prop::collection::vec((0u64..3_000, 1u64..300), 1..200), threshold in 0u64..40) {
            let mut covered = Covered::default();
            let mut told = [0_u8; 3_300];
            for &(began, length) in &times {
                for (from, to) in covered.add(began, began + length, threshold) {
                    prop_assert!(to - from > threshold);
                    told[from as usize..to as usize].iter_mut().for_each(|count| *count += 1);
                }
                let untold = told[began as usize..(began + length) as usize].split(|count| *count > 0);
                prop_assert!(untold.map(<[u8]>::len).max() <= Some(threshold as usize));
            }
            prop_assert!(told.iter().all(|count| *count <= 1));
        }

        /// Nor with more times than are remembered.
        #[test]
        fn forgotten_times_are_returned_once(extra in 1u64..50) {
            let mut covered = Covered::default();
            let times = REMEMBERED as u64 + extra;
            for n in 0..times {
                covered.add(100 * n, 100 * n + 50, 20);
            }
            let pieces = covered.add(0, 100 * times, 20);
            prop_assert_eq!(pieces.len(), REMEMBERED + 1);
            prop_assert_eq!(pieces[0], (100 * extra - 50, 100 * extra));
        }
    }
}
