//! What a round trip beside the queries says of the path: what one takes of a path that is well, and for how long this one was held up.
//! Both by the kernel, where it tells: what this side, or a server's process, was late with is none of the path's.

use fathom_core::event::TcpInfo;
use fathom_core::query::AGAIN_NS;

/// A kernel acknowledges without an answer, that its process has not given, after this (`TCP_DELACK_MIN`).
const DELAYED_NS: u64 = 40_000_000;
/// An answer came with its acknowledgement, if it came no later.
const TOGETHER_NS: u64 = 1_000_000;

/// An answer.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// When it came, where the kernel says so.
    pub(crate) came_ns: Option<u64>,
    /// What the kernel said of the connection before and after, where a process of the server answers.
    pub(crate) kernel: Option<(TcpInfo, TcpInfo)>,
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// A round trip of the path.
    pub(crate) ns: u64,
    /// This one took so long.
    pub(crate) held_ns: u64,
}

impl Measured {
    /// Of nothing but how long it took.
    pub(crate) fn of(took_ns: u64) -> Self {
        Self { ns: took_ns, held_ns: took_ns }
    }

    /// A connection was set up in so long, and its kernel says this of it: by its own measure there is nobody's wake-up in it, but of a
    /// set-up that was lost only the last try.
    pub(crate) fn of_set_up(took_ns: u64, info: Option<&TcpInfo>) -> Self {
        let Some(info) = info.filter(|info| info.srtt_us > 0) else { return Self::of(took_ns) };
        let ns = u64::from(info.srtt_us) * 1_000;
        let was_lost = info.total_retrans > 0 || took_ns >= ns.saturating_add(AGAIN_NS);
        Self { ns, held_ns: if was_lost { took_ns } else { ns } }
    }

    /// A session's process answered within so long, and its connection's kernel says this of the time before and after. Where the
    /// server's kernel had acknowledged the request before, the rest is the server's: it waits for a processor as queries do.
    pub(crate) fn of_ping(took_ns: u64, kernel: Option<&(TcpInfo, TcpInfo)>) -> Self {
        let Some((before, after)) = kernel.filter(|(before, after)| {
            before.srtt_us > 0
                && after.total_retrans == before.total_retrans
                && after.bytes_acked > before.bytes_acked
        }) else {
            return Self::of(took_ns);
        };
        // Of the latest the kernel takes an eighth into its mean (RFC 6298, 2.3).
        let acknowledged_us = (8 * u64::from(after.srtt_us)).saturating_sub(7 * u64::from(before.srtt_us));
        let acknowledged_ns = acknowledged_us * 1_000;
        if took_ns <= acknowledged_ns.saturating_add(TOGETHER_NS) {
            return Self::of(took_ns);
        }
        let least_ns = u64::from(after.min_rtt_us) * 1_000;
        // It waits for its process before it acknowledges alone.
        let waited_ns = if acknowledged_ns < DELAYED_NS { 0 } else { DELAYED_NS };
        Self::of((acknowledged_ns - waited_ns).max(least_ns).min(took_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stop;
    use crate::channel::set_up;
    use crate::limit::Limit;
    use crate::stood::Clock;
    use fathom_core::query::{Party, Rtt, Span, Timeline, Verdict};
    use fathom_os::clock::mono_ns;
    use fathom_os::socket;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    /// A connection whose server answers a ping after so long, over a path of such a round trip, as the two kernels have it.
    struct Pinged {
        srtt_times_8_us: u64,
        info: TcpInfo,
    }

    impl Pinged {
        fn new(rtt_ns: u64) -> Self {
            let us = rtt_ns / 1_000;
            let info =
                TcpInfo { srtt_us: us as u32, min_rtt_us: us as u32, bytes_acked: 100, ..TcpInfo::default() };
            Self { srtt_times_8_us: us * 8, info }
        }

        fn ping(&mut self, rtt_ns: u64, server_ns: u64) -> (u64, Measured) {
            let before = self.info;
            let acknowledged_us = (rtt_ns + server_ns.min(DELAYED_NS)) / 1_000;
            self.srtt_times_8_us = self.srtt_times_8_us - self.srtt_times_8_us / 8 + acknowledged_us;
            self.info.srtt_us = (self.srtt_times_8_us / 8) as u32;
            self.info.bytes_acked += 5;
            let took_ns = rtt_ns + server_ns;
            (took_ns, Measured::of_ping(took_ns, Some(&(before, self.info))))
        }
    }

    /// A server whose processor is busy with others answers pings as late as queries: "most of it is the path", over 2 ms of it.
    #[test]
    fn a_server_that_starves_is_no_path() {
        let (mut connection, rtt_ns) = (Pinged::new(2 * MS), 2 * MS);
        let late = [60, 150, 90, 0, 400, 45, 70, 250, 0, 130, 43, 95, 55, 310, 80, 120];
        let pings: Vec<_> = late.iter().map(|ms| connection.ping(rtt_ns, ms * MS).1).collect();
        for (ping, ms) in pings.iter().zip(late) {
            assert!(ping.ns.abs_diff(rtt_ns) <= MS / 10 && ping.held_ns == ping.ns, "{ms}: {ping:?}");
        }
        let rtt = Rtt::of(&pings.iter().map(|ping| ping.ns).collect::<Vec<_>>()).unwrap();
        let mut run = Verdict::default();
        for query in 0..20 {
            let mut line = Timeline::new(0);
            line.request(0, Some(rtt));
            let wall_ns = rtt_ns + (20 + 13 * query) * MS;
            line.received(Some((0, wall_ns)), 100);
            let slowest =
                pings.iter().map(|ping| Span { from_ns: 0, to_ns: ping.held_ns }).collect::<Vec<_>>();
            let split = line.end(wall_ns, Some(0), &slowest);
            let [server_ns, path_ns, _] = split.estimates().unwrap();
            assert!(path_ns <= rtt_ns + MS && server_ns + rtt_ns + MS >= wall_ns, "{split:?}");
            run.add(&split);
        }
        assert_eq!(run.most().0, Some(Party::Server));
    }

    /// A path that is slow for a while, or loses a ping, is the path.
    #[test]
    fn a_path_that_is_slow_is_the_path() {
        let mut connection = Pinged::new(2 * MS);
        for rtt_ms in [2, 9, 30, 3, 80, 500, 2] {
            for server_us in [0, 100, 900] {
                let (took_ns, measured) = connection.ping(rtt_ms * MS, server_us * 1_000);
                assert_eq!(measured, Measured::of(took_ns), "{rtt_ms} {server_us}");
            }
        }
        // What was sent again was on the way for nobody knows how much of it.
        let before = connection.info;
        let after = TcpInfo { total_retrans: 1, bytes_acked: 1_000, ..before };
        let lost = Measured::of_ping(900 * MS, Some(&(before, after)));
        assert_eq!(lost, Measured::of(900 * MS));
        assert_eq!(Measured::of_ping(900 * MS, None), Measured::of(900 * MS));
    }

    /// Where the first SYN is lost the kernel tells how long the second took: a way back that was cut for a second was a quick set-up. This
    /// listener's queue is full, so that its kernel drops the first one, until it is seen to be under way.
    #[cfg(target_os = "linux")]
    #[test]
    fn lost_syn_counts_as_path_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let remote = listener.local_addr().unwrap();
        let first = TcpStream::connect(remote).unwrap();
        let accepts = std::thread::spawn(move || {
            // `SYN_SENT` to this port.
            let under_way = format!(":{:04X} 02 ", remote.port());
            while !std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&under_way) {
                std::thread::yield_now();
            }
            listener.accept().unwrap();
            listener
        });
        let limit = Limit::within(Duration::from_secs(30), &Stop::default(), &Clock::default());
        let since_ns = mono_ns();
        let stream = set_up(remote, &limit).unwrap();
        let took_ns = mono_ns() - since_ns;
        let info = socket::tcp_info(&stream).unwrap();
        let measured = Measured::of_set_up(took_ns, Some(&info));
        assert_eq!(measured.held_ns, took_ns, "{info:?}");
        assert!(measured.ns < took_ns / 10, "{measured:?}");
        drop((first, accepts.join().unwrap()));
        // This side may have been late to see it, which is no path.
        let quick = TcpInfo { srtt_us: 1_000, ..TcpInfo::default() };
        assert_eq!(Measured::of_set_up(30 * MS, Some(&quick)), Measured::of(MS));
        // Nor is it told everywhere what was sent again.
        assert_eq!(Measured::of_set_up(1_001 * MS, Some(&quick)).held_ns, 1_001 * MS);
        assert_eq!(Measured::of_set_up(1_001 * MS, None), Measured::of(1_001 * MS));
    }
}
