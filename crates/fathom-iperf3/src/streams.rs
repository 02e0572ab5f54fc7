//! All streams of a test at one end: begun together, read together, ended together.

use crate::account::{Account, Interval, Reading};
use crate::codec::{CpuUse, Results};
use crate::pacer::Pacer;
use crate::stream::{Stream, Work};
use fathom_core::event::TcpInfo;
use fathom_os::clock::mono_ns;
use fathom_os::process::cpu_times_ns;
use socket2::SockRef;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// Intervals end so often.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The kernel's view is taken so often: ten readings of cwnd and RTT an interval cost nothing that shows.
pub(crate) const LOOK_NS: u64 = 100_000_000;

/// What is under way when the senders stop is read for so long at the most.
const DRAIN_NS: u64 = 5_000_000_000;
/// While it is, it is looked so often whether all of it has come.
pub(crate) const DRAIN_LOOK_NS: u64 = 2_000_000;

/// Memory of all buffers into which a test receives. A stream reads up to a block at a time, or less where its share is
/// less: the count does not change, and a client that asks for 128 streams of 1 MiB gets no more memory than others.
const RECEIVE_MEMORY: usize = 16 << 20;

/// How the streams run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of a block.
    pub block: u32,
    /// Bits a second of each stream that sends; none: as fast as it goes.
    pub bitrate: Option<u64>,
    /// What does not count at the beginning.
    pub omit_ns: u64,
}

/// One stream's interval.
#[derive(Debug, Clone, Copy)]
pub struct StreamInterval {
    /// The stream, counted from 0.
    pub stream: u32,
    /// Whether this end sends on it.
    pub sends: bool,
    /// What happened in it.
    pub interval: Interval,
    /// When it ended, by the monotonic clock.
    pub at_ns: u64,
    /// It is of the part that does not count.
    pub omitted: bool,
}

/// A stream and its account.
#[derive(Debug)]
struct Member {
    stream: Stream,
    account: Account,
    /// The kernel's view when it was last taken: of a connection that broke it tells nothing any more.
    tcp: Option<TcpInfo>,
}

/// The streams of a test at one end.
///
/// [`Streams::begin`] starts them. From then on call [`Streams::tick`] by [`Streams::next_tick_ns`], and look whether one
/// is [`Streams::broken`]. When the time is over call [`Streams::stop_sending`], wait until they are
/// [`Streams::is_drained`], and take the results with [`Streams::finish`]. [`Streams::finish`] may be called at any time
/// and ends the test there.
#[derive(Debug)]
pub(crate) struct Streams {
    all: Vec<Member>,
    congestion: Option<String>,
    begun_ns: u64,
    /// From when on it counts; none: not yet.
    counted_from_ns: Option<u64>,
    omit_until_ns: u64,
    next_interval_ns: u64,
    cpu_at_first: Option<(u64, u64)>,
    stopped_ns: Option<u64>,
}

impl Streams {
    /// Begins on connected, blocking sockets; of each, whether this end sends on it.
    pub(crate) fn begin(sockets: Vec<(TcpStream, bool)>, traffic: &Traffic) -> io::Result<Self> {
        let begun_ns = mono_ns();
        let block: Arc<[u8]> = noise(traffic.block as usize).into();
        let receivers = sockets.iter().filter(|(_, sends)| !sends).count();
        let read_at_most = block.len().min(RECEIVE_MEMORY / receivers.max(1));
        let congestion = sockets.first().and_then(|(socket, _)| congestion(socket));
        let member = |(socket, sends): (TcpStream, bool)| {
            let pacer = traffic.bitrate.map(|rate| Pacer::new(begun_ns, rate));
            let work =
                if sends { Work::Send(Arc::clone(&block), pacer) } else { Work::Receive(read_at_most) };
            let tcp = fathom_os::socket::tcp_info(&socket);
            let account = Account::new(sends, Reading { at_ns: begun_ns, bytes: 0, tcp });
            Ok(Member { stream: Stream::begin(socket, work)?, account, tcp })
        };
        Ok(Self {
            all: sockets.into_iter().map(member).collect::<io::Result<_>>()?,
            congestion,
            begun_ns,
            counted_from_ns: (traffic.omit_ns == 0).then_some(begun_ns),
            omit_until_ns: begun_ns + traffic.omit_ns,
            next_interval_ns: begun_ns + INTERVAL_NS,
            cpu_at_first: cpu_times_ns(),
            stopped_ns: None,
        })
    }

    /// From when on it counts; none: it is still warming up.
    pub(crate) fn counted_from_ns(&self) -> Option<u64> {
        self.counted_from_ns
    }

    pub(crate) fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// When to call [`Streams::tick`] next.
    pub(crate) fn next_tick_ns(&self) -> u64 {
        let look = mono_ns() + LOOK_NS;
        let due = self.next_interval_ns.min(look);
        if self.counted_from_ns.is_none() { due.min(self.omit_until_ns) } else { due }
    }

    /// Takes the kernel's view, and ends the interval where it is time.
    pub(crate) fn tick(&mut self) -> Vec<StreamInterval> {
        let now_ns = mono_ns();
        let warm = self.counted_from_ns.is_none() && now_ns >= self.omit_until_ns;
        if now_ns < self.next_interval_ns && !warm {
            for member in &mut self.all {
                member.tcp = member.stream.tcp_info().or(member.tcp);
                member.account.look(member.tcp);
            }
            return Vec::new();
        }
        // After a hold-up one interval is long; the next ends on the grid again.
        while self.next_interval_ns <= now_ns {
            self.next_interval_ns += INTERVAL_NS;
        }
        let intervals = self.intervals(|_| now_ns);
        if warm {
            self.counted_from_ns = Some(now_ns);
            self.cpu_at_first = cpu_times_ns();
            for member in &mut self.all {
                member.account.omit(Reading { at_ns: now_ns, ..member.account.last() });
            }
        }
        intervals
    }

    fn intervals(&mut self, at_ns: impl Fn(&Stream) -> u64) -> Vec<StreamInterval> {
        let omitted = self.counted_from_ns.is_none();
        let mut intervals = Vec::new();
        for (member, stream) in self.all.iter_mut().zip(0..) {
            let before = member.tcp;
            // What was sent again never becomes less, except in the kernel's view of a connection that is over.
            let resent = |tcp: &TcpInfo| before.is_none_or(|b| tcp.total_retrans >= b.total_retrans);
            member.tcp = member.stream.tcp_info().filter(resent).or(before);
            let at_ns = at_ns(&member.stream);
            let reading = Reading { at_ns, bytes: member.stream.bytes(), tcp: member.tcp };
            let interval = member.account.interval(reading);
            intervals.push(StreamInterval { stream, sends: member.stream.sends(), interval, at_ns, omitted });
        }
        intervals
    }

    /// When any stream last wrote or read a byte, by the monotonic clock; 0: none has.
    pub(crate) fn last_ns(&self) -> u64 {
        self.all.iter().map(|member| member.stream.last_ns()).max().unwrap_or(0)
    }

    /// The first stream that ended before it was asked to, and how.
    pub(crate) fn broken(&mut self) -> Option<(u32, io::Error)> {
        if self.stopped_ns.is_some() {
            return None;
        }
        let (member, stream) = self.all.iter_mut().zip(0..).find(|(member, _)| member.stream.is_over())?;
        let error = member.stream.end().err();
        Some((stream, error.unwrap_or_else(|| io::Error::other("the other end closed it"))))
    }

    /// The time is over: senders stop, receivers read what is still under way.
    pub(crate) fn stop_sending(&mut self) {
        self.stopped_ns.get_or_insert_with(mono_ns);
        for member in &self.all {
            member.stream.stop_sending();
        }
    }

    /// Whether everything that was under way when the senders were stopped has been read: to the end of each stream, or
    /// until nothing has come for `quiet_ns`, or for [`DRAIN_NS`] at the most.
    pub(crate) fn is_drained(&self, quiet_ns: u64) -> bool {
        let Some(stopped_ns) = self.stopped_ns else { return false };
        let mut receivers = self.all.iter().map(|member| &member.stream).filter(|stream| !stream.sends());
        let now_ns = mono_ns();
        let last_ns = receivers.clone().map(Stream::last_ns).max().unwrap_or(0).max(stopped_ns);
        receivers.all(Stream::is_over) || now_ns >= last_ns + quiet_ns || now_ns >= stopped_ns + DRAIN_NS
    }

    /// Ends all streams; the last intervals and the results. What a stream measured ends when the senders were stopped,
    /// or with what was read after that.
    pub(crate) fn finish(mut self) -> (Vec<StreamInterval>, Results) {
        let stopped_ns = self.stopped_ns.unwrap_or_else(mono_ns);
        self.stop_sending();
        // A sender's last write may still be counted by its thread.
        for member in self.all.iter_mut().filter(|member| member.stream.sends()) {
            member.tcp = member.stream.tcp_info().or(member.tcp);
            let _ = member.stream.end();
        }
        let intervals = self.intervals(|stream| stopped_ns.max(stream.last_ns()));
        let streams =
            self.all.iter().zip(0..).map(|(member, i)| member.account.result(i, member.account.last()));
        let results = Results {
            cpu: self.cpu(stopped_ns),
            congestion: self.congestion.clone(),
            streams: streams.collect(),
        };
        (intervals, results)
    }

    fn cpu(&self, until_ns: u64) -> CpuUse {
        let from_ns = self.counted_from_ns.unwrap_or(self.begun_ns);
        let wall = u128::from(until_ns.saturating_sub(from_ns).max(1));
        let (Some(before), Some(now)) = (self.cpu_at_first, cpu_times_ns()) else { return CpuUse::default() };
        let ppm = |before: u64, now: u64| (u128::from(now.saturating_sub(before)) * 1_000_000 / wall) as u64;
        CpuUse { user_ppm: ppm(before.0, now.0), system_ppm: ppm(before.1, now.1) }
    }
}

/// The congestion control in force by name.
fn congestion(socket: &TcpStream) -> Option<String> {
    #[cfg(target_os = "linux")]
    {
        let name = SockRef::from(socket).tcp_congestion().ok()?;
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        Some(String::from_utf8_lossy(&name[..end]).into_owned())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = SockRef::from(socket);
        None
    }
}

/// Bytes that nothing on the way can compress.
fn noise(length: usize) -> Vec<u8> {
    (0..length.div_ceil(8) as u64)
        .flat_map(|i| fathom_wire::pattern::mix(i).to_le_bytes())
        .take(length)
        .collect()
}
