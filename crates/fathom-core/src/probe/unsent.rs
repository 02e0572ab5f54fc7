//! When samples that fall due without a connection are told as not sent: while it goes on, so that whoever looks at the run,
//! or a kill, finds them counted; and seldom enough that an outage of a day is no flood of events.

/// Not later than this after they fell due...
const MOST_NS: u64 = 3_000_000_000;
/// ...and after an eighth of the time that there has been no connection.
const PART: u64 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    /// Since when there is no connection, as far as it was looked at, and when it was last told.
    without: Option<(u64, u64)>,
}

impl Unsent {
    /// There is a connection.
    pub(super) fn connected(&mut self) {
        self.without = None;
    }

    /// There is none, and it is looked at (once a second): whether what fell due is to be told.
    pub(super) fn is_to_be_told(&mut self, now: u64) -> bool {
        let (since, told) = *self.without.get_or_insert((now, 0));
        let due = now.saturating_sub(told) >= (now.saturating_sub(since) / PART).min(MOST_NS);
        if due {
            self.without = Some((since, now));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn outage_reports_become_less_frequent() {
        let mut unsent = Unsent::default();
        let told: Vec<u64> = (1_000..1_400).filter(|second| unsent.is_to_be_told(second * S)).collect();
        assert_eq!(told[..9], [1_000, 1_001, 1_002, 1_003, 1_004, 1_005, 1_006, 1_007, 1_008]);
        for (&before, &after) in told.iter().zip(&told[1..]) {
            assert!(after - before <= 1 + ((before - 1_000) / 7).min(3), "{before} {after}");
        }
        assert!(told.len() < 150, "{}", told.len());
        unsent.connected();
        assert!(unsent.is_to_be_told(1_400 * S) && unsent.is_to_be_told(1_401 * S));
    }
}
