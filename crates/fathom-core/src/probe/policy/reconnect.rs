//! Whether, when and where to connect again after a connection was lost or an attempt came to nothing.

use crate::backoff::Backoff;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The longest wait before another attempt, unless the settings say otherwise: an outage is measured to this precision.
pub const AT_MOST_NS: u64 = 5_000_000_000;

/// Minimum time before an attempt to connect is given up, even with a shorter timeout: two retransmitted SYNs (1 s and
/// 3 s).
const LIMIT_NS: u64 = 5_000_000_000;

/// A timer this late shows that this host did not run. What arrived meanwhile is then read first...
pub(in crate::probe) const PAUSED_NS: u64 = 50_000_000;
/// ...for at most this long.
pub(in crate::probe) const READ_WITHIN_NS: u64 = 100_000_000;

/// Time limit of an attempt to connect before the next address is tried.
pub(in crate::probe) fn limit_ns(timeout_ns: u64) -> u64 {
    timeout_ns.max(LIMIT_NS)
}

/// The addresses of a target, and which of them to try next.
#[derive(Debug, Default)]
pub(in crate::probe) struct Addresses {
    all: Vec<SocketAddr>,
    next: usize,
    /// Those that failed before any had worked. Connections of one target share what they learn of its addresses.
    failed_first: BTreeSet<SocketAddr>,
    /// The one that worked last.
    last: Option<SocketAddr>,
    /// True if it has failed since.
    last_failed: bool,
}

impl Addresses {
    /// Takes the resolved addresses. The address that worked last is kept while the name still has it and it has not
    /// failed since. Otherwise the next address in turn is used.
    pub(in crate::probe) fn resolved(&mut self, all: Vec<SocketAddr>) {
        let same = |one: SocketAddr| all.iter().position(|a| a.ip() == one.ip());
        let kept = self.last.filter(|_| !self.last_failed).or(self.current());
        if let Some(at) = kept.and_then(same) {
            self.next = at;
        }
        self.all = all;
    }

    /// True if there are several addresses and none has worked so far.
    pub(in crate::probe) fn are_to_be_tried(&self) -> bool {
        self.all.len() > 1 && self.last.is_none()
    }

    /// Where to connect now; `None`: the name was never resolved.
    pub(in crate::probe) fn current(&self) -> Option<SocketAddr> {
        self.all.get(self.next % self.all.len().max(1)).copied()
    }

    /// A connection to this address was established; gives the one before it.
    pub(in crate::probe) fn worked(&mut self, remote: SocketAddr) -> Option<SocketAddr> {
        self.failed_first.clear();
        self.last_failed = false;
        self.last.replace(remote)
    }

    /// An attempt to connect to this address came to nothing. Whether there is an address that has not been tried, none
    /// having worked so far.
    pub(in crate::probe) fn failed(&mut self, remote: SocketAddr) -> bool {
        if self.last.is_none() {
            self.failed_first.insert(remote);
        }
        self.last_failed |= self.last == Some(remote);
        if self.current() == Some(remote) {
            let untried = |step: &usize| {
                let at = (self.next + step) % self.all.len();
                !self.failed_first.contains(&self.all[at])
            };
            self.next += (1..self.all.len()).find(untried).unwrap_or(1);
        }
        self.last.is_none() && self.all.iter().any(|a| !self.failed_first.contains(a))
    }

    /// A connection to this address is over that never got an answer, and that was established whatever is there (UDP):
    /// it did not work after all.
    pub(in crate::probe) fn never_answered(&mut self, remote: SocketAddr) {
        self.last = self.last.filter(|&last| last != remote);
        self.failed(remote);
    }

    /// The address that worked last.
    pub(in crate::probe) fn last(&self) -> Option<SocketAddr> {
        self.last
    }
}

/// When the attempts of one lane are made.
#[derive(Debug)]
pub(in crate::probe) struct Attempts {
    backoff: Backoff,
    at_most_ns: u64,
    /// Since the last success.
    made: u32,
}

impl Attempts {
    pub(in crate::probe) fn new(seed: u64, at_most_ns: u64) -> Self {
        Self { backoff: Backoff::new(seed), at_most_ns, made: 0 }
    }

    /// An attempt is made: its number since the last success, from 1.
    pub(in crate::probe) fn begin(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    pub(in crate::probe) fn succeeded(&mut self) {
        self.backoff.succeeded();
        self.made = 0;
    }

    /// How long to wait before the next one.
    pub(in crate::probe) fn wait_ns(&mut self) -> u64 {
        self.backoff.next_wait_ns(self.at_most_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 7))
    }

    #[test]
    fn lanes_share_one_address_failure() {
        let mut addresses = Addresses::default();
        addresses.resolved(vec![address(1), address(2)]);
        // Four lanes began with the same address before any failed.
        for _ in 0..4 {
            assert!(addresses.failed(address(1)), "there is another to try");
            assert_eq!(addresses.current(), Some(address(2)));
        }
        addresses.worked(address(2));
        assert!(!addresses.failed(address(2)), "it worked once: not a first failure");
    }

    #[test]
    fn no_address_remains_after_all_fail() {
        let mut addresses = Addresses::default();
        addresses.resolved(vec![address(1), address(2), address(3)]);
        assert!(addresses.failed(address(1)));
        assert!(addresses.failed(address(2)));
        assert!(!addresses.failed(address(3)));
    }

    #[test]
    fn working_address_is_kept_while_resolved() {
        let mut addresses = Addresses::default();
        addresses.resolved(vec![address(1), address(2)]);
        addresses.worked(address(2));
        addresses.resolved(vec![address(3), address(2)]);
        assert_eq!(addresses.current(), Some(address(2)));
        addresses.resolved(vec![address(3)]);
        assert_eq!(addresses.current(), Some(address(3)));
    }

    /// A server died silently: each attempt hung, and the look-up after it returned to the same address for ever.
    #[test]
    fn failed_address_loses_its_turn_after_lookup() {
        let mut addresses = Addresses::default();
        let name = || vec![address(1), address(2), address(3)];
        addresses.resolved(name());
        addresses.worked(address(1));
        let mut tried = Vec::new();
        for _ in 0..4 {
            let remote = addresses.current().expect("there are some");
            tried.push(remote);
            addresses.failed(remote);
            addresses.resolved(name());
        }
        assert_eq!(tried, [1, 2, 3, 1].map(address));
    }
}
