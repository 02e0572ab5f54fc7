//! Sets of options under one name: what other tools do by default, as their own documentation has it.

use super::Args;
use std::time::Duration;

/// A name for a set of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// So seldom that nobody notices
    Polite,
    /// The articles' echo client
    Article,
    /// latte, Microsoft's latency tool for Windows
    Latte,
    /// sockperf ping-pong
    Sockperf,
    /// `PsPing`'s latency test
    Psping,
    /// qperf's `tcp_lat`
    Qperf,
}

/// What a profile sets.
struct Set {
    /// `None`: back to back.
    every: Option<Duration>,
    udp: bool,
    size: u64,
    count: Option<u64>,
    duration: Option<Duration>,
    warm_up: u64,
}

/// Back to back over TCP, without an end.
const PING_PONG: Set = Set { every: None, udp: false, size: 64, count: None, duration: None, warm_up: 0 };

impl Profile {
    fn set(self) -> Set {
        match self {
            Self::Polite => Set { every: Some(Duration::from_secs(10)), ..PING_PONG },
            Self::Article => Set {
                every: Some(Duration::from_secs(1)),
                duration: Some(Duration::from_hours(11)),
                ..PING_PONG
            },
            // 65,100 iterations are those of Microsoft's page on testing latency between Azure VMs, whose outputs elsewhere
            // have 4 bytes a message. Their histograms count as many as there are iterations: none is left out as warm-up.
            Self::Latte => Set { size: 4, count: Some(65_100), ..PING_PONG },
            // sockperf 3.7, ping-pong --help: UDP, 14 bytes, 1 second.
            Self::Sockperf => {
                Set { udp: true, size: 14, duration: Some(Duration::from_secs(1)), ..PING_PONG }
            }
            // 8 KiB, 10,000 times, is the example of Microsoft's page on PsPing, as neither has a default. The 5 of warm-up
            // (psping -? l, version 2.10) come before them.
            Self::Psping => Set { size: 8 << 10, count: Some(10_005), warm_up: 5, ..PING_PONG },
            // qperf 0.4.11 prints them of a run without options, with -vvu: msg_size 1 byte, time 2 s.
            Self::Qperf => Set { size: 1, duration: Some(Duration::from_secs(2)), ..PING_PONG },
        }
    }
}

impl Args {
    /// Fills in what the profile sets and nothing said otherwise: a pace, a transport, a size or an end that is given
    /// takes the place of the profile's.
    pub(crate) fn apply_profile(&mut self) {
        let Some(set) = self.profile.map(Profile::set) else { return };
        if self.every.is_none() && !self.ping_pong && !self.connect && self.idle_gap.is_none() {
            (self.every, self.ping_pong) = (set.every, set.every.is_none());
        }
        self.udp |= set.udp && !self.tcp && !self.connect;
        if self.sizes.is_none() && !self.connect {
            self.size = self.size.or(Some(set.size));
        }
        if self.count.is_none() && self.duration.is_none() {
            (self.count, self.duration) = (set.count, set.duration);
        }
        self.warm_up = self.warm_up.or(Some(set.warm_up));
    }
}
