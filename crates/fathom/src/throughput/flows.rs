//! All streams of a test at one end: begun together, read together, ended together.

use super::stream::{Stream, Work};
use fathom_core::event::TcpInfo;
use fathom_core::throughput::account::{Account, Interval, Reading};
use fathom_core::throughput::pacer::Pacer;
use fathom_os::clock::mono_ns;
use fathom_os::process::cpu_times_ns;
use fathom_wire::iperf3::{CpuUse, Results};
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

/// How the streams are to run.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    /// Bytes of a block.
    pub(crate) block: u32,
    /// Bits a second of each stream that sends; none: as fast as it goes.
    pub(crate) bitrate: Option<u64>,
    /// What does not count at the beginning.
    pub(crate) omit_ns: u64,
}

/// One stream's interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// The stream, counted from 0.
    pub(crate) stream: u32,
    /// Whether this end sends on it.
    pub(crate) sends: bool,
    pub(crate) interval: Interval,
    /// When it ended.
    pub(crate) at_ns: u64,
    /// It is of the part that does not count.
    pub(crate) omitted: bool,
}

#[derive(Debug)]
struct Flow {
    stream: Stream,
    account: Account,
    /// The kernel's view when it was last taken: of a connection that broke it tells nothing any more.
    tcp: Option<TcpInfo>,
}

/// The streams of a test.
#[derive(Debug)]
pub(crate) struct Flows {
    all: Vec<Flow>,
    congestion: Option<String>,
    begun_ns: u64,
    /// From when on it counts; none: not yet.
    counted_from_ns: Option<u64>,
    omit_until_ns: u64,
    next_interval_ns: u64,
    cpu_at_first: Option<(u64, u64)>,
    stopped_ns: Option<u64>,
}

impl Flows {
    /// Begins on connected, blocking sockets; of each, whether this end sends on it.
    pub(crate) fn begin(sockets: Vec<(TcpStream, bool)>, manner: &Manner) -> io::Result<Self> {
        let begun_ns = mono_ns();
        let block: Arc<[u8]> = noise(manner.block as usize).into();
        let congestion = sockets.first().and_then(|(socket, _)| congestion(socket));
        let flow = |(socket, sends): (TcpStream, bool)| {
            let pacer = manner.bitrate.map(|rate| Pacer::new(begun_ns, rate));
            let work = if sends { Work::Send(Arc::clone(&block), pacer) } else { Work::Receive(block.len()) };
            let tcp = fathom_os::socket::tcp_info(&socket);
            let account = Account::new(sends, Reading { at_ns: begun_ns, bytes: 0, tcp });
            Ok(Flow { stream: Stream::begin(socket, work)?, account, tcp })
        };
        Ok(Self {
            all: sockets.into_iter().map(flow).collect::<io::Result<_>>()?,
            congestion,
            begun_ns,
            counted_from_ns: (manner.omit_ns == 0).then_some(begun_ns),
            omit_until_ns: begun_ns + manner.omit_ns,
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

    /// When to call [`Flows::tick`] next.
    pub(crate) fn next_tick_ns(&self) -> u64 {
        let look = mono_ns() + LOOK_NS;
        let due = self.next_interval_ns.min(look);
        if self.counted_from_ns.is_none() { due.min(self.omit_until_ns) } else { due }
    }

    /// Takes the kernel's view, and ends the interval where it is time.
    pub(crate) fn tick(&mut self) -> Vec<Told> {
        let now_ns = mono_ns();
        let warm = self.counted_from_ns.is_none() && now_ns >= self.omit_until_ns;
        if now_ns < self.next_interval_ns && !warm {
            for flow in &mut self.all {
                flow.tcp = flow.stream.tcp_info().or(flow.tcp);
                flow.account.look(flow.tcp);
            }
            return Vec::new();
        }
        // After a hold-up one interval is long; the next ends on the grid again.
        while self.next_interval_ns <= now_ns {
            self.next_interval_ns += INTERVAL_NS;
        }
        let told = self.intervals(|_| now_ns);
        if warm {
            self.counted_from_ns = Some(now_ns);
            self.cpu_at_first = cpu_times_ns();
            for flow in &mut self.all {
                flow.account.omit(Reading { at_ns: now_ns, ..flow.account.last() });
            }
        }
        told
    }

    fn intervals(&mut self, at_ns: impl Fn(&Stream) -> u64) -> Vec<Told> {
        let omitted = self.counted_from_ns.is_none();
        let mut told = Vec::new();
        for (flow, stream) in self.all.iter_mut().zip(0..) {
            let before = flow.tcp;
            // What was sent again never becomes less, except in the kernel's view of a connection that is over.
            let resent = |tcp: &TcpInfo| before.is_none_or(|b| tcp.total_retrans >= b.total_retrans);
            flow.tcp = flow.stream.tcp_info().filter(resent).or(before);
            let at_ns = at_ns(&flow.stream);
            let reading = Reading { at_ns, bytes: flow.stream.bytes(), tcp: flow.tcp };
            let interval = flow.account.interval(reading);
            told.push(Told { stream, sends: flow.stream.sends(), interval, at_ns, omitted });
        }
        told
    }

    /// The first stream that ended before it was told to, and how.
    pub(crate) fn broken(&mut self) -> Option<(u32, io::Error)> {
        if self.stopped_ns.is_some() {
            return None;
        }
        let (flow, stream) = self.all.iter_mut().zip(0..).find(|(flow, _)| flow.stream.is_over())?;
        let error = flow.stream.end().err();
        Some((stream, error.unwrap_or_else(|| io::Error::other("the other end closed it"))))
    }

    /// The time is over: senders stop, receivers read what is still under way.
    pub(crate) fn stop_sending(&mut self) {
        self.stopped_ns.get_or_insert_with(mono_ns);
        for flow in &self.all {
            flow.stream.stop_sending();
        }
    }

    /// Whether everything that was under way when the senders were stopped has been read: to the end of each stream, or
    /// until nothing has come for `quiet_ns`, or for [`DRAIN_NS`] at the most.
    pub(crate) fn is_drained(&self, quiet_ns: u64) -> bool {
        let Some(stopped_ns) = self.stopped_ns else { return false };
        let mut receivers = self.all.iter().map(|flow| &flow.stream).filter(|stream| !stream.sends());
        let now_ns = mono_ns();
        let last_ns = receivers.clone().map(Stream::last_ns).max().unwrap_or(0).max(stopped_ns);
        receivers.all(Stream::is_over) || now_ns >= last_ns + quiet_ns || now_ns >= stopped_ns + DRAIN_NS
    }

    /// Ends all streams; the last intervals and the results. What a stream measured ends when the senders were stopped,
    /// or with what was read after that.
    pub(crate) fn finish(mut self) -> (Vec<Told>, Results) {
        let stopped_ns = self.stopped_ns.unwrap_or_else(mono_ns);
        self.stop_sending();
        // A sender's last write may still be counted by its thread.
        for flow in self.all.iter_mut().filter(|flow| flow.stream.sends()) {
            flow.tcp = flow.stream.tcp_info().or(flow.tcp);
            let _ = flow.stream.end();
        }
        let told = self.intervals(|stream| stopped_ns.max(stream.last_ns()));
        let streams = self.all.iter().zip(0..).map(|(flow, i)| flow.account.result(i, flow.account.last()));
        let results = Results {
            cpu: self.cpu(stopped_ns),
            congestion: self.congestion.clone(),
            streams: streams.collect(),
        };
        (told, results)
    }

    fn cpu(&self, until_ns: u64) -> CpuUse {
        let from_ns = self.counted_from_ns.unwrap_or(self.begun_ns);
        let wall = u128::from(until_ns.saturating_sub(from_ns).max(1));
        let (Some(before), Some(now)) = (self.cpu_at_first, cpu_times_ns()) else { return CpuUse::default() };
        let ppm = |before: u64, now: u64| (u128::from(now - before) * 1_000_000 / wall) as u64;
        CpuUse { user_ppm: ppm(before.0, now.0), system_ppm: ppm(before.1, now.1) }
    }
}

/// The congestion control in force by name.
pub(crate) fn congestion(socket: &TcpStream) -> Option<String> {
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
