//! Which flows a host has, and since when: a migration's redirect serves only those that are older than it.

use std::collections::HashMap;

use crate::packet::{Flow, Packet, Protocol};

/// Flows remembered per host. Beyond it the half that was idle for longest is forgotten, and counts as new if it returns.
const FLOWS_MAX: usize = 65_536;

/// The flows of a host, as the host sends them.
#[derive(Debug, Default)]
pub(super) struct Flows(HashMap<Flow, Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    first_ns: u64,
    last_ns: u64,
}

impl Flows {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Since when the flow of this packet is there, ns. A SYN begins it anew. None for what is no flow of TCP or UDP.
    pub(super) fn saw(&mut self, now_ns: u64, packet: &Packet, outbound: bool) -> Option<u64> {
        let flow = if outbound { packet.flow() } else { packet.flow().reversed() };
        if !matches!(flow.protocol, Protocol::Tcp | Protocol::Udp) {
            return None;
        }
        if self.0.len() >= FLOWS_MAX && !self.0.contains_key(&flow) {
            self.forget_half();
        }
        let seen = self.0.entry(flow).or_insert(Seen { first_ns: now_ns, last_ns: now_ns });
        if packet.segment().is_some_and(|segment| segment.flags.opens()) {
            seen.first_ns = now_ns;
        }
        seen.last_ns = now_ns;
        Some(seen.first_ns)
    }

    /// Since when, without having seen a packet.
    pub(super) fn since_ns(&self, packet: &Packet, outbound: bool) -> Option<u64> {
        let flow = if outbound { packet.flow() } else { packet.flow().reversed() };
        self.0.get(&flow).map(|seen| seen.first_ns)
    }

    fn forget_half(&mut self) {
        let mut last: Vec<u64> = self.0.values().map(|seen| seen.last_ns).collect();
        let middle = last.len() / 2;
        let median_ns = *last.select_nth_unstable(middle).1;
        self.0.retain(|_, seen| seen.last_ns > median_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_latest_stay() {
        let packet = |i: u32| {
            let [_, a, b, c] = i.to_be_bytes();
            Packet::udp(([10, a, b, c], 1).into(), ([10, 255, 0, 1], 2).into(), &[]).unwrap()
        };
        let mut flows = Flows::default();
        for i in 0..FLOWS_MAX as u32 + 10 {
            assert_eq!(flows.saw(u64::from(i), &packet(i), true), Some(u64::from(i)));
            assert!(flows.len() <= FLOWS_MAX);
        }
        assert_eq!(flows.since_ns(&packet(0), true), None);
        let last = FLOWS_MAX as u32 + 9;
        assert_eq!(flows.since_ns(&packet(last), true), Some(u64::from(last)));
    }
}
