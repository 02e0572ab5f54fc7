//! One connection's silence: samples are out and nothing comes back. What is seen while it lasts is kept, because after
//! an error the kernel's view reads zero.

use super::canary::Doubted;
use crate::event::TcpInfo;
use crate::peer_report::{Asked, PeerReport};
use crate::stall::{Change, Stall, Watch};
use crate::verdict::{Acknowledged, Reported, Room};

/// What the peer reported so shortly before the echo may have crossed it on the way: what was lost is sent again after
/// 200 ms at the earliest (Linux, `TCP_RTO_MIN`).
const CAUGHT_UP_NS: u64 = 200_000_000;
/// A silence of so long, and a round trip, is the time for the first look: an echo that was lost cannot have been sent
/// again before...
const FIRST_LOOK_NS: u64 = 200_000_000;
/// ...nor, and that is what counts, can the acknowledgement have come that its sender's kernel delays then (40 ms, Linux
/// `TCP_DELACK_MIN`).
const ALONE_BEFORE_NS: u64 = 230_000_000;

/// See the module. Nearly every silence is over before anything is seen of it: then there is nothing to forget.
#[derive(Debug, Default)]
pub(in crate::probe) struct Silence {
    seen: Option<Box<Seen>>,
}

/// What was seen of a silence.
#[derive(Debug, Clone, Default)]
struct Seen {
    watch: Watch,
    /// The kernel's view when the silence had begun: the one before the first look, unless more came after that; else the
    /// first look itself.
    before: Option<TcpInfo>,
    /// Its view at the latest look.
    latest: Option<TcpInfo>,
    /// The kernel was asked.
    looked: bool,
    /// Segments that came during the silence and had come before. `None`: the kernel does not tell.
    came_again: Option<u32>,
    /// How often something had been sent when a fresh connection was first known to have been echoed.
    passed_at: Option<u64>,
    /// Something was sent after that.
    sent_since: bool,
    acknowledged: Acknowledged,
    room: Room,
    out_of_order: bool,
    /// The most retransmission timeouts in a row that it told of.
    timeouts: u8,
    /// How long the reflector says that it did not run.
    remote_pause_ns: u64,
    /// The peer report on this connection.
    reported: Option<Reported>,
    /// What was known when the reflector was first to be asked.
    doubted: Option<Doubted>,
    /// True if this host did not have the connection's own address.
    address_gone: bool,
}

/// The sample that is missed, as the kernel counts it.
#[derive(Debug, Clone, Copy)]
pub(in crate::probe) struct Missing {
    pub(in crate::probe) sent_ns: u64,
    /// Bytes sent up to its end.
    pub(in crate::probe) end: u64,
    /// Whether the peer's kernel could have sent its echo.
    pub(in crate::probe) room: Room,
}

fn round_trip_ns(info: Option<TcpInfo>) -> u64 {
    info.map_or(0, |info| u64::from(info.srtt_us) * 1_000)
}

impl Silence {
    fn seen(&mut self) -> &mut Seen {
        self.seen.get_or_insert_default()
    }

    /// Looks whether a stall begins. `missing`: the sample that is missed, and since when nothing came.
    pub(in crate::probe) fn look(
        &mut self,
        now: u64,
        threshold_ns: u64,
        missing: Option<(u64, u64)>,
        retransmits: Option<u32>,
    ) -> Change {
        self.seen().watch.look(now, threshold_ns, missing, retransmits)
    }

    /// How long a silence lasts before the kernel is asked about it, which may be sooner than it counts as a stall.
    pub(in crate::probe) fn asks_after_ns(&self, threshold_ns: u64, info: Option<TcpInfo>) -> u64 {
        if self.was_looked_at() {
            threshold_ns
        } else {
            threshold_ns.min(FIRST_LOOK_NS + round_trip_ns(info))
        }
    }

    /// Whether the kernel was asked about it, as it is about each that lasts until the first look.
    pub(in crate::probe) fn was_looked_at(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.looked)
    }

    /// The stall that goes on.
    pub(in crate::probe) fn stall(&self) -> Option<Stall> {
        self.seen.as_ref()?.watch.current()
    }

    /// The stall is over: what it was.
    pub(in crate::probe) fn stall_ended(&mut self) -> Option<Stall> {
        self.seen.as_mut()?.watch.ended()
    }

    /// An echo came: nothing of what was seen concerns the next silence.
    pub(in crate::probe) fn over(&mut self) {
        self.seen = None;
    }

    /// The kernel's view of a silence, and the one before.
    pub(in crate::probe) fn saw(
        &mut self,
        now: u64,
        missing: Missing,
        before: Option<TcpInfo>,
        info: Option<TcpInfo>,
    ) {
        let seen = self.seen();
        seen.looked = true;
        let Some(info) = info else { return };
        seen.timeouts = seen.timeouts.max(info.retransmits);
        let nothing_new = |earlier: &TcpInfo| earlier.bytes_received == info.bytes_received;
        let begun = *seen.before.get_or_insert(before.filter(nothing_new).unwrap_or(info));
        seen.out_of_order |= info.rcv_ooopack > begun.rcv_ooopack;
        // What came between two looks, filled no gap and was not ahead of one, had come before.
        let earlier = seen.latest.replace(info).unwrap_or(begun);
        if info.data_segs_in > 0 && nothing_new(&earlier) {
            let came = info.data_segs_in.saturating_sub(earlier.data_segs_in);
            let ahead = info.rcv_ooopack.saturating_sub(earlier.rcv_ooopack);
            *seen.came_again.get_or_insert(0) += came.saturating_sub(ahead);
        }
        // The kernel counts the SYN among the bytes.
        let all = info.unacked == 0 && info.notsent_bytes == 0;
        let acknowledged = all || info.bytes_acked > missing.end;
        let alone = now.saturating_sub(missing.sent_ns) < ALONE_BEFORE_NS + round_trip_ns(Some(info));
        seen.acknowledged = match (acknowledged, seen.acknowledged) {
            (_, known @ (Acknowledged::Alone | Acknowledged::Late)) => known,
            (false, _) => Acknowledged::No,
            (true, _) if alone && info.retransmits == 0 && info.srtt_us > 0 => {
                seen.room = missing.room;
                Acknowledged::Alone
            }
            (true, _) => Acknowledged::Late,
        };
    }

    /// A look in which it is known whether a fresh connection was echoed during the silence. `transmissions`: how often
    /// anything has been sent.
    pub(in crate::probe) fn others_pass(&mut self, echoed: bool, transmissions: u64) {
        let seen = self.seen();
        match seen.passed_at {
            Some(passed_at) => seen.sent_since |= transmissions > passed_at,
            None if echoed => seen.passed_at = Some(transmissions),
            None => {}
        }
    }

    /// Whether anything was sent after a fresh connection had been echoed.
    pub(in crate::probe) fn sent_since_others_passed(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.sent_since)
    }

    /// Notes that this host no longer has the connection's own address.
    pub(in crate::probe) fn address_gone(&mut self) {
        self.seen().address_gone = true;
    }

    /// True if this host lacked the connection's own address in this silence.
    pub(in crate::probe) fn is_without_address(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.address_gone)
    }

    pub(in crate::probe) fn remote_paused(&mut self, duration_ns: u64) {
        self.seen().remote_pause_ns += duration_ns;
    }

    /// What the reflector said of this connection, when it was asked about this silence or about an earlier one.
    pub(in crate::probe) fn peer_reported(&mut self, now: u64, asked: Asked, report: PeerReport) {
        if let Some(reported) = self.doubted().and_then(|doubted| doubted.reported(asked, report, now)) {
            self.seen().reported = Some(reported);
        }
    }

    /// It is doubted, and this is known: whether the reflector is to be asked about it now, which is once.
    pub(in crate::probe) fn doubts(&mut self, doubted: Doubted) -> bool {
        let seen = self.seen();
        let first = seen.doubted.is_none();
        seen.doubted.get_or_insert(doubted);
        first
    }

    /// What was known when the reflector was first to be asked about it.
    pub(in crate::probe) fn doubted(&self) -> Option<Doubted> {
        self.seen.as_ref()?.doubted
    }

    pub(in crate::probe) fn remote_pause_ns(&self) -> Option<u64> {
        self.seen.as_ref().map(|seen| seen.remote_pause_ns).filter(|&ns| ns > 0)
    }

    pub(in crate::probe) fn acknowledged(&self) -> Acknowledged {
        self.seen.as_ref().map(|seen| seen.acknowledged).unwrap_or_default()
    }

    /// Where it was acknowledged alone: whether the echo could have been sent by then.
    pub(in crate::probe) fn room(&self) -> Room {
        self.seen.as_ref().map(|seen| seen.room).unwrap_or_default()
    }

    /// Segments that came during the silence and had come before: their sender had no acknowledgement of them.
    pub(in crate::probe) fn came_again(&self) -> Option<u32> {
        self.seen.as_ref()?.came_again
    }

    /// Whether later data came while earlier was missing. `info`: the kernel's latest view.
    pub(in crate::probe) fn out_of_order(&self, info: Option<TcpInfo>) -> bool {
        let grown = |(before, info): (TcpInfo, TcpInfo)| info.rcv_ooopack > before.rcv_ooopack;
        let seen = self.seen.as_ref();
        seen.is_some_and(|seen| seen.out_of_order || seen.before.zip(info).is_some_and(grown))
    }

    pub(in crate::probe) fn timeouts(&self) -> u8 {
        self.seen.as_ref().map_or(0, |seen| seen.timeouts)
    }

    /// The peer report, unless the echo of a silence that is over may have crossed it.
    pub(in crate::probe) fn reported(&self, now: u64, recovered: bool) -> Option<Reported> {
        let crossed = |at_ns: u64| recovered && now.saturating_sub(at_ns) < CAUGHT_UP_NS;
        self.seen.as_ref()?.reported.filter(|reported| !crossed(reported.at_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MISSING: Missing = Missing { sent_ns: 1_000 * MS, end: 640, room: Room::Sure };
    const OPEN: TcpInfo = TcpInfo { srtt_us: 1_000, ..none() };

    const fn none() -> TcpInfo {
        TcpInfo {
            srtt_us: 0,
            rttvar_us: 0,
            min_rtt_us: 0,
            rto_us: 0,
            retransmits: 0,
            backoff: 0,
            total_retrans: 0,
            unacked: 3,
            notsent_bytes: 0,
            snd_cwnd: 10,
            snd_mss: 1_448,
            reordering: 3,
            last_data_recv_ms: 0,
            last_ack_recv_ms: 0,
            bytes_acked: 600,
            rcv_ooopack: 5,
            bytes_received: 640,
            data_segs_in: 10,
        }
    }

    fn seen(looks: &[(u64, TcpInfo)]) -> Silence {
        let mut silence = Silence::default();
        for (at_ms, info) in looks {
            silence.saw(MISSING.sent_ns + at_ms * MS, MISSING, Some(OPEN), Some(*info));
        }
        silence
    }

    #[test]
    fn acknowledgement_is_alone_only_before_retransmission() {
        // A later request is still unacknowledged, as one is at any time (a delayed acknowledgement).
        let acked = TcpInfo { bytes_acked: 641, unacked: 1, ..OPEN };
        assert_eq!(seen(&[(201, OPEN)]).acknowledged(), Acknowledged::No);
        assert_eq!(seen(&[(201, acked)]).acknowledged(), Acknowledged::Alone);
        assert_eq!(seen(&[(201, acked)]).room(), Room::Sure);
        assert_eq!(seen(&[(201, OPEN), (450, acked)]).acknowledged(), Acknowledged::Late);
        assert_eq!(seen(&[(201, OPEN), (450, acked)]).room(), Room::NotKnown);
        assert_eq!(seen(&[(300, acked)]).acknowledged(), Acknowledged::Late);
        // The SYN counts as a byte: the missing request's last one is not acknowledged here.
        assert_eq!(seen(&[(201, TcpInfo { bytes_acked: 640, ..OPEN })]).acknowledged(), Acknowledged::No);
    }

    #[test]
    fn data_that_overtook_the_missing_echo_shows() {
        let overtaken = TcpInfo { rcv_ooopack: 6, ..OPEN };
        assert!(!seen(&[(201, OPEN)]).out_of_order(Some(OPEN)));
        assert!(seen(&[(201, OPEN), (450, overtaken)]).out_of_order(None));
        assert!(seen(&[(201, OPEN)]).out_of_order(Some(overtaken)), "by the view at the echo");
    }

    #[test]
    fn reordering_before_silence_is_ignored() {
        // The view before the first look is older than the last echo, whose gap was filled since.
        let filled = TcpInfo { rcv_ooopack: 6, bytes_received: 704, data_segs_in: 12, ..OPEN };
        let silence = seen(&[(201, filled), (450, filled)]);
        assert!(!silence.out_of_order(Some(filled)));
        assert_eq!(silence.came_again(), Some(0));
    }

    #[test]
    fn transmissions_count_after_others_pass() {
        let mut silence = Silence::default();
        for (echoed, transmissions, since) in [
            (false, 2, false),
            (true, 3, false),
            (true, 3, false),
            (false, 3, false),
            (true, 4, true),
            (true, 4, true),
        ] {
            silence.others_pass(echoed, transmissions);
            assert_eq!(silence.sent_since_others_passed(), since, "{echoed} {transmissions}");
        }
    }

    #[test]
    fn repeated_segments_exclude_new_data() {
        let again = |n: u32| TcpInfo { data_segs_in: 10 + n, ..OPEN };
        assert_eq!(seen(&[(201, again(1)), (450, again(1)), (700, again(3))]).came_again(), Some(3));
        // One that waits behind a gap is new, and one that fills it too.
        let ahead = TcpInfo { rcv_ooopack: 6, ..again(1) };
        assert_eq!(seen(&[(201, OPEN), (450, ahead)]).came_again(), Some(0));
        let new = TcpInfo { bytes_received: 704, ..again(1) };
        assert_eq!(seen(&[(201, OPEN), (450, new)]).came_again(), Some(0));
        // An older kernel counts none.
        let old = TcpInfo { data_segs_in: 0, ..OPEN };
        assert_eq!(seen(&[(201, old), (450, old)]).came_again(), None);
    }
}
