//! When settings that have a connection each log in anew.
//!
//! One connection is not like another: its port, and so its queue, its way through a balancer and its thread at the server, are
//! of chance. Whoever asks with one connection a setting compares connections. So each setting logs in anew every few rounds, all
//! of them in the same rounds, and what they were asked between two logins is one unit ([`super::ratio`]). The first query of a
//! connection finds nothing warm and counts for nothing, which is why a login lasts two rounds at least.

use super::figures::FOR_P95;
use super::ratio::needed;

/// Rounds of a login, at first.
const ROUNDS: u64 = 3;
/// Later a twentieth of all, so that a long run has some hundreds of logins, but no more than so many.
const SHARE: u64 = 20;
const MOST: u64 = 1_000;

/// See the module.
#[derive(Debug, Clone)]
pub struct Logins {
    least: u64,
    login: u64,
    until: u64,
}

impl Logins {
    /// How often each of so many settings is asked where nobody says it: so that it has enough logins for an interval, and enough
    /// queries that count for a p95.
    pub fn usual_count(settings: usize) -> u64 {
        ROUNDS * needed(settings).max(FOR_P95.div_ceil(ROUNDS - 1))
    }

    /// Of so many settings, each of which is asked so often; `None`: nobody knows.
    pub fn new(settings: usize, count: Option<u64>) -> Self {
        // Few rounds have twice as many logins of two as are needed before they have enough of three.
        let is_enough = count.is_none_or(|count| count / ROUNDS >= needed(settings));
        let least = if is_enough { ROUNDS } else { ROUNDS - 1 };
        Self { least, login: 0, until: least }
    }

    /// Which login a round belongs to, from 0. Rounds come in their order.
    pub fn of(&mut self, round: u64) -> u64 {
        if round >= self.until {
            self.login += 1;
            self.until = round.saturating_add((round / SHARE).clamp(self.least, MOST));
        }
        self.login
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rounds each login lasts.
    fn lengths(settings: usize, count: Option<u64>, rounds: u64) -> Vec<usize> {
        let mut logins = Logins::new(settings, count);
        let of: Vec<_> = (0..rounds).map(|round| logins.of(round)).collect();
        of.chunk_by(|a, b| a == b).map(<[u64]>::len).collect()
    }

    /// 21 rounds are enough logins of three rounds for four settings, and of two for seven.
    #[test]
    fn there_are_as_many_as_an_interval_needs() {
        assert_eq!(lengths(2, Some(21), 21), [3; 7]);
        assert_eq!(lengths(4, Some(21), 21), [3; 7]);
        assert_eq!(lengths(7, Some(21), 21), [vec![2; 10], vec![1]].concat());
        assert_eq!(lengths(2, Some(12), 12), [2; 6]);
    }

    /// Whatever the number of settings, nothing that it is there for is missing: as many logins as an interval needs, and 20
    /// queries of each that are not the first of theirs.
    #[test]
    fn the_usual_count_is_enough_and_no_more() {
        assert_eq!([2, 4, 7, 20, 30].map(Logins::usual_count), [30, 30, 30, 30, 33]);
        for settings in 2..=60 {
            let count = Logins::usual_count(settings);
            let lengths = lengths(settings, Some(count), count);
            let warm: usize = lengths.iter().map(|rounds| rounds - 1).sum();
            assert!(lengths.len() as u64 >= needed(settings) && warm >= 20, "{settings}: {lengths:?}");
        }
    }

    #[test]
    fn long_run_limits_its_logins() {
        let lengths = lengths(4, None, 100_000);
        assert!(lengths.is_sorted() || lengths[..lengths.len() - 1].is_sorted(), "{lengths:?}");
        assert_eq!((lengths[0], lengths[lengths.len() - 2]), (3, 1_000));
        assert!((200..300).contains(&lengths.len()), "{}", lengths.len());
    }
}
