//! What the reflector served, counted.

use fathom_core::text::count;
use serde::Serialize;

/// Counts since the start. The names are those of `--json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    /// TCP connections served.
    pub(crate) connections: u64,
    /// Of these, still open.
    pub(crate) connections_open: u64,
    /// Of these, closed by `--idle-timeout`.
    pub(crate) connections_idle_closed: u64,
    /// Of these, closed to make room, because nothing had come on them.
    pub(crate) connections_silent_closed: u64,
    /// Of these, ended by an error: reset, no longer reachable.
    pub(crate) connections_failed: u64,
    /// Connections closed as they came.
    pub(crate) refused: Refused,
    /// Frames of probes, TCP and UDP, that got the reflector's stamps.
    pub(crate) messages_stamped: u64,
    /// Questions about connections that were answered, TCP and UDP.
    pub(crate) questions: u64,
    /// Payload bytes echoed, TCP and UDP.
    pub(crate) bytes: u64,
    /// UDP datagrams echoed.
    pub(crate) datagrams: u64,
    /// Of these, STAMP packets.
    pub(crate) stamp_packets: u64,
    /// UDP datagrams that got no answer.
    pub(crate) datagrams_refused: DatagramsRefused,
    /// Time this process could not run while it had peers, in ns (a lower bound; see `clock`).
    pub(crate) paused_ns: u64,
    /// From the start to now, in ns.
    pub(crate) uptime_ns: u64,
}

/// Why connections were refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    /// Not in a network of `--allow`.
    pub(crate) not_allowed: u64,
    /// Beyond `--max-connections`.
    pub(crate) too_many: u64,
    /// Without the key of `--key`; these were among those served until they sent something.
    pub(crate) key: u64,
}

/// Why datagrams got no answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DatagramsRefused {
    /// Not in a network of `--allow`.
    pub(crate) not_allowed: u64,
    /// From a port where another echo server may listen.
    pub(crate) port: u64,
    /// From, or to, an address that stands for many hosts or none.
    pub(crate) address: u64,
    /// An echo already, not a request: a reflector has stamped it, or it was sent from here a moment ago.
    pub(crate) echo: u64,
    /// Beyond `--udp-max-rate`, or its sender's share of that.
    pub(crate) rate: u64,
    /// To a STAMP port, and shorter than a STAMP packet.
    pub(crate) short: u64,
    /// Without the key of `--key`.
    pub(crate) key: u64,
    /// The host would not send the answer.
    pub(crate) unsent: u64,
}

impl Refused {
    pub(crate) fn total(&self) -> u64 {
        self.not_allowed + self.too_many + self.key
    }
}

impl DatagramsRefused {
    pub(crate) fn total(&self) -> u64 {
        let ours = self.rate + self.short + self.key + self.unsent;
        self.not_allowed + self.port + self.address + self.echo + ours
    }
}

/// The reasons that occurred, in words: ` (3 not allowed, 1 over the rate)`, or nothing.
fn reasons(counts: &[(u64, &str)]) -> String {
    let told: Vec<_> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

impl Tally {
    /// The line for people.
    pub(crate) fn sentence(&self) -> String {
        let Self { connections, messages_stamped, bytes, datagrams, refused, datagrams_refused: udp, .. } =
            self;
        let ends = reasons(&[
            (self.connections_open, "still open"),
            (self.connections_idle_closed, "closed idle"),
            (self.connections_silent_closed, "closed to make room, having sent nothing"),
            (self.connections_failed, "failed"),
        ]);
        let why = reasons(&[
            (refused.not_allowed, "not allowed"),
            (refused.too_many, "too many"),
            (refused.key, "without the key"),
        ]);
        let udp_why = reasons(&[
            (udp.not_allowed, "not allowed"),
            (udp.port, "from a port of another echo server"),
            (udp.address, "no single host's address"),
            (udp.echo, "echoes already"),
            (udp.rate, "over the rate"),
            (udp.short, "too short for STAMP"),
            (udp.key, "without the key"),
            (udp.unsent, "not sent by this host"),
        ]);
        let stamp = reasons(&[(self.stamp_packets, "STAMP packets")]);
        let uptime = fathom_core::units::duration_exact(self.uptime_ns / 1_000_000 * 1_000_000);
        format!(
            "served {}{ends}, refused {}{why}; {}{stamp}, refused {}{udp_why}; {} stamped, {} echoed, in {uptime}",
            count(*connections, "connection"),
            refused.total(),
            count(*datagrams, "datagram"),
            udp.total(),
            count(*messages_stamped, "message"),
            count(*bytes, "byte"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_only_what_happened() {
        let mut tally = Tally { connections: 3, bytes: 128, uptime_ns: 61_000_000_000, ..Tally::default() };
        assert_eq!(
            tally.sentence(),
            "served 3 connections, refused 0; 0 datagrams, refused 0; 0 messages stamped, 128 bytes echoed, in 1m 1s"
        );
        tally.refused.too_many = 2;
        tally.datagrams_refused.port = 5;
        let sentence = tally.sentence();
        assert!(sentence.contains("refused 2 (2 too many);"), "{sentence}");
        assert!(sentence.contains("refused 5 (5 from a port of another echo server);"), "{sentence}");
    }
}
