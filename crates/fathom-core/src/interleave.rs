//! The order of a sweep: each round has every value once, in an order of its own.
//!
//! A fixed order would let anything periodic on the path (a timer, another round-robin) fall upon the same value again
//! and again; one value after another would confuse values with the time of day.

use fathom_wire::pattern::mix;

/// An endless order of values, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Interleave {
    round: Vec<u32>,
    at: usize,
    state: u64,
}

impl Interleave {
    /// `values` in random rounds.
    pub fn new(values: &[u32], seed: u64) -> Self {
        let mut order = Self { round: values.to_vec(), at: 0, state: mix(seed) };
        order.shuffle();
        order
    }

    /// The value whose turn it is; `None`: there are none.
    pub fn current(&self) -> Option<u32> {
        self.round.get(self.at).copied()
    }

    /// Goes on to the next.
    pub fn advance(&mut self) {
        self.at += 1;
        if self.at >= self.round.len() {
            self.at = 0;
            self.shuffle();
        }
    }

    /// Fisher and Yates's shuffle (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm P).
    fn shuffle(&mut self) {
        for last in (1..self.round.len()).rev() {
            self.state = mix(self.state);
            // The bias of the remainder is below 2^-58 for the few values of a sweep.
            let other = (self.state % (last as u64 + 1)) as usize;
            self.round.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(order: &mut Interleave, n: usize) -> Vec<u32> {
        let next = |_| {
            let value = order.current().unwrap();
            order.advance();
            value
        };
        (0..n).map(next).collect()
    }

    proptest! {
        #[test]
        fn every_round_has_each_value_once(n in 1u32..30, seed: u64, rounds in 1usize..10) {
            let values: Vec<u32> = (1..=n).collect();
            let mut order = Interleave::new(&values, seed);
            for _ in 0..rounds {
                let mut round = take(&mut order, n as usize);
                round.sort_unstable();
                prop_assert_eq!(&round, &values);
            }
        }
    }

    #[test]
    fn order_is_uniform_and_reproducible() {
        let mut order = Interleave::new(&[1, 2, 3, 4], 7);
        let mut first = [0; 4];
        for _ in 0..4_000 {
            first[take(&mut order, 4)[0] as usize - 1] += 1;
        }
        // 1,000 expected; the standard deviation is sqrt(4000 x 1/4 x 3/4) = 27, and this is more than five of them.
        assert!(first.iter().all(|n| (850..1_150).contains(n)), "{first:?}");
        assert_eq!(
            take(&mut Interleave::new(&[5, 6, 7], 3), 30),
            take(&mut Interleave::new(&[5, 6, 7], 3), 30)
        );
    }

    #[test]
    fn nothing_to_order_is_no_trouble() {
        let mut none = Interleave::new(&[], 1);
        none.advance();
        assert_eq!(none.current(), None);
    }
}
