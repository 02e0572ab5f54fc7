//! What an application under a policy (`fathom probe --as-client`) did, in words.

use crate::event::{BreakerChanged, Circuit, Interrupted};
use crate::text::count;
use serde_json::Value;

/// A breaker that opened, or closed again. Those of its trials that opened it again are passed over.
pub(super) fn breaker(changed: BreakerChanged) -> Option<String> {
    let statement = match (changed.from, changed.to) {
        (Circuit::Closed, Circuit::Open) => "the circuit breaker opened: requests are shed from here on",
        (_, Circuit::Closed) => "the circuit breaker closed: requests are tried again",
        _ => return None,
    };
    Some(statement.to_owned())
}

/// How its requests ended.
pub(super) fn ended(result: &Value) -> String {
    let n = |name: &str| result[name].as_u64().unwrap_or(0);
    let all = [
        (n("failed"), "failed (never sent)"),
        (n("ambiguous"), "ambiguous (sent, and no answer came)"),
        (n("shed"), "shed (the breaker was open)"),
        (n("fallback"), "served by the fallback"),
    ];
    let others: Vec<String> =
        all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
    format!("of {} {} answered{}", count(n("due"), "request"), n("answered"), others.concat())
}

/// What is not known of the requests of one that was killed.
pub(super) fn interrupted(interrupted: Interrupted) -> String {
    let Interrupted { due, not_known } = interrupted;
    format!(
        "the client was killed: of {} that had been due, {not_known} have no end here; in its last second more may have been due",
        count(due, "request")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn line_explains_each_kind_of_end() {
        let result = json!({"due": 9, "answered": 5, "failed": 0, "ambiguous": 1, "shed": 3, "fallback": 0});
        let text =
            "of 9 requests 5 answered, 1 ambiguous (sent, and no answer came), 3 shed (the breaker was open)";
        assert_eq!(ended(&result), text);
        // A recording that is not ours may hold anything.
        assert_eq!(ended(&json!([])), "of 0 requests 0 answered");
    }

    #[test]
    fn a_breaker_that_stays_open_is_one_line() {
        use Circuit::{Closed, HalfOpen, Open};
        let told = |from, to| breaker(BreakerChanged { from, to }).is_some();
        assert!(told(Closed, Open) && told(HalfOpen, Closed));
        assert!(!told(Open, HalfOpen) && !told(HalfOpen, Open));
    }
}
