//! Reading what comes back, and what follows from it.

use super::config::Transport;
use super::driver::Driver;
use super::lane::{Kind, Link};
use fathom_core::event::EventKind;
use fathom_core::gaps::GapPlan;
use fathom_core::schedule::Pace;
use fathom_core::stream::{Arrival, KernelView, Receipt};
use fathom_os::clock::{mono_ns, utc_ns};
use std::io;

/// The kernel's view of a connection is asked for with every sample of a schedule this slow...
const INFO_EVERY_SAMPLE_NS: u64 = 10_000_000;
/// ...and otherwise this often: a call costs about 0.6 µs, which a back-to-back round trip would feel.
const INFO_GAP_NS: u64 = 100_000_000;
/// Echoes in a row that are not what was sent, after which the peer is taken not to be an echo server.
const CORRUPTED_LIMIT: u32 = 8;

impl Driver<'_> {
    /// Reads what has come on a lane's connection. `closed`: the peer's end is known to have come too.
    pub(super) fn read(&mut self, i: usize, closed: bool) {
        while let Some(n) = self.read_once(i, false) {
            // Edge-triggered: less than asked for means that nothing is left, and what comes later, an end
            // of the stream included, is a new edge (epoll(7)); an end that came before is not.
            if n < self.scratch.len() && self.config.transport == Transport::Tcp && !closed {
                return;
            }
        }
    }

    /// Reads once, `wait`ing for something to come if so told; how many bytes came, or `None`: nothing is left, or the
    /// connection is over.
    pub(super) fn read_once(&mut self, i: usize, wait: bool) -> Option<usize> {
        loop {
            let (lane, scratch) = (&mut self.lanes[i], &mut self.scratch);
            let open = lane.open()?;
            let result = match (open.stamped, wait) {
                (true, _) => open.socket.read_stamped(scratch),
                (false, true) => open.socket.read_waiting(scratch).map(|n| (n, None)),
                (false, false) => open.socket.read(scratch).map(|n| (n, None)),
            };
            // The clock is read where something came, and not after each of a spinning probe's tries.
            match result {
                Ok((0, _)) if self.config.transport == Transport::Tcp => self.closed_by_peer(i, mono_ns()),
                Ok((n, arrived_utc_ns)) => {
                    let now = mono_ns();
                    // The wall clock is read only here, beside the kernel's stamps, which are its readings.
                    let stamps = arrived_utc_ns.map(|arrived| (arrived, utc_ns()));
                    self.send_ahead(i, now, n);
                    self.take(i, now, n, stamps);
                    return Some(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                    if !wait {
                        continue;
                    }
                }
                Err(e) => self.close_by(i, mono_ns(), &e),
            }
            return None;
        }
    }

    /// Takes the `n` bytes just read into the scratch buffer.
    fn take(&mut self, i: usize, now: u64, n: usize, stamps: Option<(i64, i64)>) {
        let info_gap = match self.config.pace {
            Pace::Every(every) if every >= INFO_EVERY_SAMPLE_NS => 0,
            _ => INFO_GAP_NS,
        };
        let transport = self.config.transport;
        let lane = &mut self.lanes[i];
        let (path_index, path) = (lane.path as u32, &mut self.paths[lane.path]);
        let Link::Open(open) = &mut lane.link else { return };
        let kernel = (now >= open.ask_info_ns).then(|| {
            open.ask_info_ns = now + info_gap;
            open.info = open.socket.tcp_info();
            open.info.map(|info| KernelView { srtt_us: info.srtt_us, total_retrans: info.total_retrans })
        });
        if open.stamped && open.stream.awaits_stamp() {
            open.socket.take_send_stamps(&mut open.stream);
        }
        let local_pause = self.pauses.as_mut().and_then(|pauses| pauses.latest(now));
        let receipt =
            Receipt { mono_ns: now, clock: &self.clock, kernel: kernel.flatten(), local_pause, stamps };
        let connection = open.stream.key().connection;
        let (outbox, bytes) = (&mut self.outbox, &self.scratch[..n]);
        let (mut resolved, mut foreign) = (0, 0);
        let (mut first_delays, mut last_delays) = (None, None);
        let sink = |arrival: Arrival<'_>| match arrival {
            Arrival::Resolved(sample) => {
                resolved += 1;
                match sample.rtt_ns {
                    Some(rtt_ns) => {
                        path.ever_answered = true;
                        path.rtt.record(rtt_ns);
                        let delays = sample.forward_ns.zip(sample.backward_ns);
                        first_delays = first_delays.or(delays);
                        last_delays = delays;
                    }
                    None => path.corrupted.add(connection, sample.seq, 1),
                }
                outbox.sample(path_index, sample);
            }
            Arrival::Foreign(bytes) => {
                foreign += 1;
                if path.foreign.count == 0 {
                    path.foreign_first = excerpt(bytes);
                }
                let count = if transport == Transport::Udp { 1 } else { bytes.len() as u64 };
                path.foreign.add(connection, 0, count);
            }
            Arrival::Duplicate(seq) => path.duplicated.add(connection, seq, 1),
        };
        match transport {
            Transport::Tcp => open.stream.receive(&receipt, bytes, sink),
            Transport::Udp => open.stream.receive_datagram(&receipt, bytes, sink),
        }
        // A server that speaks first may never say enough to be a whole echo.
        let greeted = transport == Transport::Tcp && open.stream.begins_otherwise();
        if greeted && path.foreign.count == 0 {
            path.foreign_first = excerpt(bytes);
        }
        let no_echo = transport == Transport::Tcp
            && (foreign > 0 || greeted || open.stream.corrupted_in_a_row() >= CORRUPTED_LIMIT);
        if no_echo {
            return self.not_an_echo(i, now);
        }
        if resolved > 0 {
            // Against the usual differences of the two clocks, whatever those are, a stall's first echo tells which way
            // was late.
            let late = |usual: (i64, i64), first: (i64, i64)| (first.0 - usual.0, first.1 - usual.1);
            let delays = open.usual_delays_ns.zip(first_delays).map(|(usual, first)| late(usual, first));
            if open.watch.current().is_none() && last_delays.is_some() {
                open.usual_delays_ns = last_delays;
            }
            self.remote_pause(i, now);
            self.clock_bound(i, now);
            self.stall_over(i, now, delays);
            self.after_echo(i, now);
        }
    }

    /// Records a pause that the reflector reports, once, however many connections lead to it.
    fn remote_pause(&mut self, i: usize, now: u64) {
        let lane = &mut self.lanes[i];
        let p = lane.path;
        let Some((gained_ns, counter)) = lane.open().and_then(|open| open.stream.take_remote_pause()) else {
            return;
        };
        if gained_ns == 0 {
            return;
        }
        if let Some(open) = lane.open() {
            open.silence.remote_pause_ns += gained_ns;
        }
        if self.member.is_new_pause(p, counter) {
            let kind = EventKind::Pause { host: "remote".to_owned(), duration_ns: gained_ns, reason: None };
            self.event(now, Some(p), None, kind);
        }
    }

    pub(super) fn after_echo(&mut self, i: usize, now: u64) {
        let lane = &mut self.lanes[i];
        let idle = lane.open().is_some_and(|open| open.stream.is_idle());
        if self.config.pace == Pace::PingPong && !self.stopping && idle {
            let silence_ns = lane.gaps.as_mut().map_or(0, GapPlan::after_echo);
            if let Some(schedule) = &mut lane.schedule {
                schedule.resolved(now + silence_ns);
            }
            self.pump(i);
        } else if lane.is_over() && idle {
            self.finish_lane(i, now);
        } else if lane.armed[Kind::Due as usize].is_none() && self.config.pace != Pace::PingPong {
            // Room again after a full connection.
            self.pump(i);
        }
    }
}

/// The beginning of bytes that nobody asked for, as text with escapes.
fn excerpt(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(64)].escape_ascii().to_string()
}
