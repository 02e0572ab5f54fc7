//! When a silent connection is abandoned. Without such a policy it never is: the kernel, the peer or the path ends it.

/// When a connection is to be abandoned whose oldest unanswered sample was sent at `sent_ns`; `None`: never.
pub(in crate::probe) fn at_ns(give_up_ns: Option<u64>, sent_ns: u64) -> Option<u64> {
    give_up_ns.map(|limit| sent_ns.saturating_add(limit))
}

/// The words for the recording.
pub(in crate::probe) fn words(waited_ns: u64) -> String {
    format!("no echo for {:.1} s, and --give-up says not to wait longer", waited_ns as f64 / 1e9)
}
