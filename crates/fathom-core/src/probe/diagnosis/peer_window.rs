//! Whether the peer's kernel could send an echo as soon as its service wrote it.

use crate::verdict::Room;

/// Linux's initial window (RFC 6928), segments: so many echoes it sends before any is acknowledged.
const SEGMENTS: usize = 10;
/// A segment carries so many bytes at the least, on any network that is in use.
const SEGMENT: u32 = 1_000;
/// A round trip that is longer than the shortest by this may have been one of an echo that was sent again, and the window
/// small ever after (Linux sends again after 200 ms at the earliest, and the window of who sends little does not grow).
const SENT_AGAIN_NS: u64 = 150_000_000;

/// After a segment that came twice, and when a connection is new, a Linux kernel acknowledges at once and alone, until its
/// service has answered so many times at once (three: `TCP_PINGPONG_THRESH`), and one more.
const IN_TIME: u32 = 4;
/// What was sent so shortly before an echo came, and two round trips, may be answered by the next.
const JUST_SENT_NS: u64 = 10_000_000;

/// What one connection's echoes tell of it.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::probe) struct PeerWindow {
    shortest_ns: Option<u64>,
    may_be_small: bool,
    /// Echoes in a row that were not late.
    in_time: u32,
}

impl PeerWindow {
    /// An echo came after so long.
    pub(in crate::probe) fn came(&mut self, rtt_ns: u64) {
        let shortest = self.shortest_ns.map_or(rtt_ns, |shortest| shortest.min(rtt_ns));
        self.shortest_ns = Some(shortest);
        let late = rtt_ns >= shortest + SENT_AGAIN_NS;
        self.may_be_small |= late;
        self.in_time = if late { 0 } else { self.in_time.saturating_add(1) };
    }

    /// Whether there was room for the echoes of so many samples that are out, each of so many bytes.
    pub(in crate::probe) fn room(&self, out: usize, size: u32) -> Room {
        let segments = out.saturating_mul(size.div_ceil(SEGMENT) as usize);
        match out {
            _ if self.in_time < IN_TIME => Room::NotKnown,
            1 if segments <= 1 => Room::Sure,
            _ if !self.may_be_small && segments <= SEGMENTS => Room::Likely,
            _ => Room::NotKnown,
        }
    }

    /// Whether the echo that ended a silence came alone though others waited: as one does that is sent again after it was
    /// lost, while those behind it are held back. `oldest`: the sample that waits now, and when it was sent.
    pub(in crate::probe) fn came_alone(&self, now: u64, missing: u64, oldest: Option<(u64, u64)>) -> bool {
        let just_sent_ns = JUST_SENT_NS + 2 * self.shortest_ns.unwrap_or(0);
        oldest.is_some_and(|(seq, sent_ns)| seq == missing + 1 && now.saturating_sub(sent_ns) > just_sent_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn calm() -> PeerWindow {
        let mut window = PeerWindow::default();
        for ms in [30, 31, 60, 29] {
            window.came(ms * MS);
        }
        window
    }

    #[test]
    fn room_ends_at_full_window_or_retransmission() {
        let mut window = calm();
        assert_eq!([10, 11].map(|out| window.room(out, 64)), [Room::Likely, Room::NotKnown]);
        assert_eq!(
            [2, 3].map(|out| window.room(out, 4_096)),
            [Room::Likely, Room::NotKnown],
            "five segments each"
        );
        assert_eq!([64, 4_096].map(|size| window.room(1, size)), [Room::Sure, Room::Likely]);
        window.came(178 * MS);
        assert_eq!(window.room(5, 64), Room::Likely, "a queue is no loss");
        window.came(179 * MS);
        for _ in 0..4 {
            window.came(30 * MS);
        }
        assert_eq!(window.room(2, 64), Room::NotKnown, "it stays as it was");
        assert_eq!(window.room(1, 64), Room::Sure, "nothing before it is held back");
    }

    /// At a sample a second an echo was lost right after another: "whoever acknowledged it had no echo to send".
    #[test]
    fn acknowledgements_that_are_sent_at_once_show_nothing() {
        let mut window = PeerWindow::default();
        let mut rooms = |ms: u64| {
            window.came(ms * MS);
            [1, 5].map(|out| window.room(out, 64))
        };
        let unknown = [Room::NotKnown; 2];
        assert_eq!([1, 1, 1].map(&mut rooms), [unknown; 3], "it is new");
        assert_eq!(rooms(1), [Room::Sure, Room::Likely]);
        assert_eq!([201, 1, 1, 1].map(&mut rooms), [unknown; 4], "a segment may have come twice");
        assert_eq!(rooms(1), [Room::Sure, Room::NotKnown]);
    }

    #[test]
    fn echo_leaving_a_waiting_request_came_alone() {
        let (window, now) = (calm(), 5_000 * MS);
        let alone = |oldest| window.came_alone(now, 7, oldest);
        assert!(alone(Some((8, now - 69 * MS))));
        assert!(!alone(Some((8, now - 68 * MS))), "it was sent a moment ago");
        assert!(!alone(Some((9, now - 400 * MS))), "another came with it");
        assert!(!alone(None));
    }
}
