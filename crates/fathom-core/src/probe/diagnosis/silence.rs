//! One connection's silence: samples are out and nothing comes back. What is seen while it lasts is kept, because after
//! an error the kernel's view reads zero.

use crate::event::TcpInfo;
use crate::stall::{Change, Stall, Watch};
use crate::verdict::Reported;

/// What the peer reported so shortly before the echo may have crossed it on the way: what was lost is sent again after
/// 200 ms at the earliest (Linux, `TCP_RTO_MIN`).
const CAUGHT_UP_NS: u64 = 200_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::probe) struct Silence {
    watch: Watch,
    /// The kernel's latest view beyond the threshold.
    info: Option<TcpInfo>,
    /// The most retransmission timeouts in a row that it told of.
    timeouts: u8,
    /// How long the reflector says that it did not run.
    remote_pause_ns: u64,
    /// The peer report on this connection, and when it came.
    reported: Option<(Reported, u64)>,
    /// Whether the reflector has been asked.
    asked: bool,
}

impl Silence {
    /// Looks whether a stall begins. `missing`: the sample that is missed, and since when nothing came.
    pub(in crate::probe) fn look(
        &mut self,
        now: u64,
        threshold_ns: u64,
        missing: Option<(u64, u64)>,
        retransmits: Option<u32>,
    ) -> Change {
        self.watch.look(now, threshold_ns, missing, retransmits)
    }

    /// The stall that goes on.
    pub(in crate::probe) fn stall(&self) -> Option<Stall> {
        self.watch.current()
    }

    /// The stall is over: what it was.
    pub(in crate::probe) fn stall_ended(&mut self) -> Option<Stall> {
        self.watch.ended()
    }

    /// An echo came: nothing of what was seen concerns the next silence.
    pub(in crate::probe) fn over(&mut self) {
        *self = Self::default();
    }

    /// The kernel's view beyond the threshold.
    pub(in crate::probe) fn saw(&mut self, info: Option<TcpInfo>) {
        self.info = info;
        self.timeouts = self.timeouts.max(info.map_or(0, |info| info.retransmits));
    }

    pub(in crate::probe) fn remote_paused(&mut self, duration_ns: u64) {
        self.remote_pause_ns += duration_ns;
    }

    pub(in crate::probe) fn peer_reported(&mut self, reported: Reported, now: u64) {
        self.reported = Some((reported, now));
    }

    /// Whether the reflector is to be asked about this silence: once.
    pub(in crate::probe) fn asks(&mut self) -> bool {
        !std::mem::replace(&mut self.asked, true)
    }

    pub(in crate::probe) fn remote_pause_ns(&self) -> Option<u64> {
        (self.remote_pause_ns > 0).then_some(self.remote_pause_ns)
    }

    /// Segments not acknowledged; what could not even be sent is not with the peer either.
    pub(in crate::probe) fn unacked(&self) -> Option<u32> {
        self.info.map(|info| info.unacked + u32::from(info.notsent_bytes > 0))
    }

    pub(in crate::probe) fn timeouts(&self) -> u8 {
        self.timeouts
    }

    /// The peer report, unless the echo of a silence that is over may have crossed it.
    pub(in crate::probe) fn reported(&self, now: u64, recovered: bool) -> Option<Reported> {
        let crossed = |at: u64| recovered && now.saturating_sub(at) < CAUGHT_UP_NS;
        self.reported.filter(|(_, at)| !crossed(*at)).map(|(reported, _)| reported)
    }
}
