//! How many retries all requests together may have.

use super::settings::BudgetRule;

/// Tokens are counted in millionths, so that shares add up exactly.
const WHOLE: u64 = 1_000_000;

/// See [`BudgetRule`].
#[derive(Debug, Clone)]
pub struct Budget {
    rule: Option<BudgetRule>,
    tokens: u64,
}

impl Budget {
    /// A full one. Without a rule everything may be retried.
    pub fn new(rule: Option<BudgetRule>) -> Self {
        Self { rule, tokens: rule.map_or(0, |rule| capacity(&rule)) }
    }

    /// A request is due.
    pub fn due(&mut self) {
        if let Some(BudgetRule::Share { share, .. }) = self.rule {
            self.put(share);
        }
    }

    /// A try was answered.
    pub fn answered(&mut self) {
        if let Some(BudgetRule::Throttle { ratio, .. }) = self.rule {
            self.put(ratio);
        }
    }

    /// A try failed.
    pub fn failed(&mut self) {
        if let Some(BudgetRule::Throttle { .. }) = self.rule {
            self.tokens = self.tokens.saturating_sub(WHOLE);
        }
    }

    /// Whether a failed try may be repeated; if so, that is paid for.
    pub fn take(&mut self) -> bool {
        match self.rule {
            None => true,
            Some(BudgetRule::Share { .. }) => {
                let enough = self.tokens >= WHOLE;
                self.tokens -= if enough { WHOLE } else { 0 };
                enough
            }
            Some(rule @ BudgetRule::Throttle { .. }) => self.tokens > capacity(&rule) / 2,
        }
    }

    fn put(&mut self, tokens: f64) {
        let most = self.rule.map_or(0, |rule| capacity(&rule));
        self.tokens = (self.tokens + (tokens * WHOLE as f64).round() as u64).min(most);
    }
}

fn capacity(rule: &BudgetRule) -> u64 {
    WHOLE
        * u64::from(match rule {
            BudgetRule::Share { burst, .. } => *burst,
            BudgetRule::Throttle { tokens, .. } => *tokens,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Over any span, not only from the beginning.
        #[test]
        fn a_share_is_never_exceeded(
            hundredths in 0..=100_u32, burst in 0..20_u32, steps in prop::collection::vec(any::<bool>(), 1..300)
        ) {
            let share = f64::from(hundredths) / 100.0;
            let mut budget = Budget::new(Some(BudgetRule::Share { share, burst }));
            let mut sums = vec![(0_u32, 0_u32)];
            for due in steps {
                let (mut requests, mut retries) = sums[sums.len() - 1];
                if due {
                    budget.due();
                    requests += 1;
                } else if budget.take() {
                    retries += 1;
                }
                sums.push((requests, retries));
            }
            for (i, from) in sums.iter().enumerate() {
                for to in &sums[i..] {
                    let (requests, retries) = (to.0 - from.0, to.1 - from.1);
                    prop_assert!(retries * 100 <= burst * 100 + hundredths * requests, "{retries} {requests}");
                }
            }
        }

        /// Against the rule of gRFC A6 in exact thousandths.
        #[test]
        fn a_throttle_is_grpcs(
            tokens in 1..50_u32, ratio in 0..=1_000_u32, steps in prop::collection::vec(any::<bool>(), 1..300)
        ) {
            let mut budget = Budget::new(Some(BudgetRule::Throttle { tokens, ratio: f64::from(ratio) / 1e3 }));
            let most = i64::from(tokens) * 1_000;
            let mut left = most;
            for answered in steps {
                if answered {
                    budget.answered();
                    left = (left + i64::from(ratio)).min(most);
                } else {
                    budget.failed();
                    left = (left - 1_000).max(0);
                }
                prop_assert_eq!(budget.take(), 2 * left > most);
            }
        }
    }

    #[test]
    fn without_a_rule_everything_may_be_retried() {
        assert!(Budget::new(None).take());
        assert!(!Budget::new(Some(BudgetRule::Share { share: 1.0, burst: 0 })).take());
    }
}
