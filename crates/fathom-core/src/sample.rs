//! One request and its echo, as the recording keeps it.

use std::ops::{BitOr, BitOrAssign};

/// The facts of one sample. Columns of the recording (`schema/recording.md`); absent values are `None`, never a
/// stand-in number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Ordinal of the connection in its recording.
    pub connection: u32,
    /// Ordinal of the sample on its connection, from 0.
    pub seq: u64,
    /// Payload bytes each way.
    pub size: u32,
    /// Monotonic stamp before `send()`, mapped to ns since the Unix epoch by the clock anchor in force.
    pub sent_ns: i64,
    /// Sent minus due: how late the probe was against its own schedule.
    pub lateness_ns: i64,
    /// From before `send()` to the whole echo read, in user space. `None`: never answered, or not intact.
    pub rtt_ns: Option<i64>,
    /// User space to driver, by the kernel's software stamps.
    pub send_stack_ns: Option<i64>,
    /// Driver to user space, by the kernel's software stamps.
    pub recv_stack_ns: Option<i64>,
    /// Time in a stamping reflector.
    pub reflector_ns: Option<i64>,
    /// Reflector's receive stamp minus `sent_ns`: a difference of two clocks, meaningless without their error.
    pub forward_ns: Option<i64>,
    /// Receive stamp here minus the reflector's send stamp: as `forward_ns`.
    pub backward_ns: Option<i64>,
    /// The kernel's smoothed RTT at receipt.
    pub srtt_us: Option<u32>,
    /// Segments the kernel sent again since the previous sample of this connection.
    pub retransmits: Option<u16>,
    /// What else is known of the sample.
    pub flags: Flags,
}

impl Sample {
    /// From due to the whole echo read: what a user who wanted it on time would have waited.
    pub fn latency_ns(&self) -> Option<i64> {
        self.rtt_ns.map(|rtt| rtt + self.lateness_ns)
    }
}

/// A set of facts about a sample; bit values are part of the recording format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// The first sample of its connection: slow start, cold caches, address resolution.
    pub const FIRST_ON_CONNECTION: Self = Self(1);
    /// Sent before the run's warm-up was over; kept, and left out of the summary's statistics.
    pub const WARM_UP: Self = Self(1 << 1);
    /// The echo came after the timeout; `rtt_ns` is its true round trip.
    pub const ANSWERED_LATE: Self = Self(1 << 2);
    /// No intact echo came before the connection or the recording ended.
    pub const UNANSWERED: Self = Self(1 << 3);
    /// This host did not run for a while between due and received: it delayed the sending, the receipt, or both.
    pub const OVERLAPS_LOCAL_PAUSE: Self = Self(1 << 4);
    /// The reflector's host did not run for a while between sent and received.
    pub const OVERLAPS_REMOTE_PAUSE: Self = Self(1 << 5);
    /// Sent while a background flow of ours was running.
    pub const UNDER_LOAD: Self = Self(1 << 6);
    /// An echo came whose bytes differ from what was sent; it is not timed (the sample is also unanswered).
    pub const CORRUPTED: Self = Self(1 << 7);

    /// Names of the bits, lowest first, as `schema/` lists them.
    pub const NAMES: [&'static str; 8] = [
        "first_on_connection",
        "warm_up",
        "answered_late",
        "unanswered",
        "overlaps_local_pause",
        "overlaps_remote_pause",
        "under_load",
        "corrupted",
    ];

    /// Whether every bit of `other` is set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
