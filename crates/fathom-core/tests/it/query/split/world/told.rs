//! What a client with these clocks and such looks tells of the tandem.

use super::super::{Room, Rtt, Served, ServerState, Since, Span, Split, Timeline};
use super::{
    ACKNOWLEDGES_AFTER_NS, CHUNK_BYTES, Run, SEGMENT_BYTES, SEGMENTS, SHORT_WAIT_NS, Trip, US, World,
};

impl World {
    /// What this side's kernel sent again, and the echoes.
    fn evidence(&self, end: u64) -> (u64, Vec<Span>) {
        let first = self.again_ns() * ((1 << self.lost_requests) - 1);
        let (mut sent, mut again, mut times) = (first, self.again_ns(), u64::from(self.lost_requests));
        while sent < self.asked() - self.rtt_ns / 2 {
            (sent, again, times) = (sent + again, again * 2, times + 1);
        }
        let echo = |echo: &Trip| Span { from_ns: echo.asked, to_ns: echo.back.min(end) };
        (times, self.echoes(end).iter().map(echo).collect())
    }

    /// What the client's kernel says.
    fn room(&self, run: &Run, segments: &[u64], at: u64) -> Room {
        let received = |at| segments.partition_point(|&came| came <= at) as u64 * SEGMENT_BYTES;
        let taken = run.taken.partition_point(|&taken| taken <= at);
        let edge = (taken + self.window) as u64 * CHUNK_BYTES;
        let announced = taken.checked_sub(1).map_or(0, |last| run.taken[last]);
        let acknowledged = at - (at - announced).checked_rem(self.ack_every_ns).unwrap_or(0);
        let window = edge.saturating_sub(received(acknowledged));
        Room { received: received(at), window, segment: SEGMENT_BYTES }
    }

    /// What is known of the path's round trip.
    fn rtt(&self) -> Rtt {
        let rtt =
            Rtt::of(if self.beside.is_empty() { std::slice::from_ref(&self.rtt_ns) } else { &self.beside })
                .unwrap();
        Rtt { high_ns: rtt.high_ns.max(self.slow_echo_ns), ..rtt }
    }

    /// When the client's kernel has that the server's has the request: of one that is not answered it waits for its process before it says so.
    fn acknowledged(&self) -> u64 {
        self.through(self.asked() + ACKNOWLEDGES_AFTER_NS, false) + self.rtt_ns / 2
    }

    /// What the server does, as a look says, and is believed.
    fn state(&self, run: &Run, look: &Trip) -> ServerState {
        let is_there =
            self.tells_acknowledged && look.asked >= self.acknowledged() && look.back <= run.segments[0];
        let at = match self.servers_pause {
            // What it says is of the query before.
            Some((from, ns)) if (from..from + ns).contains(&look.there) && from < self.asked() => {
                let since = self.says_since.then_some(Since { earliest_ns: 0, latest_ns: 0 });
                return ServerState::Done.believed(since, 1, is_there);
            }
            Some((from, ns)) if (from..from + ns).contains(&look.there) => from,
            _ => look.there,
        };
        let state = match run.put.iter().position(|&put| put > at) {
            _ if at < self.asked() => ServerState::Done,
            None => ServerState::Done,
            Some(i) if run.made[i] <= at => ServerState::Sending,
            Some(_) => ServerState::Working,
        };
        if self.says_since { state } else { state.believed(None, 0, is_there) }
    }

    /// What a client with these clocks tells, and what comes of it.
    pub(in super::super) fn split(&self) -> Split {
        self.split_by(SHORT_WAIT_NS)
    }

    /// The same of one that knows when the first bytes came of waits that are no shorter than this.
    pub(in super::super) fn split_by(&self, short_wait_ns: u64) -> Split {
        let run = self.run();
        let end = *run.done.last().unwrap();
        let mut looks = self.looks(end).into_iter().peekable();
        let mut line = Timeline::new(0);
        line.request(0, Some(self.rtt()));
        let mut pause = self.pause.map(|(from, ns)| (from, from + ns));
        if let Some((from, to)) = pause {
            line.stood(from, to);
        }
        // What the kernel says when it runs again, before it reads.
        let mut run_again = |line: &mut Timeline, at: u64| {
            if let Some((_, to)) = pause.take_if(|&mut (_, to)| to <= at).filter(|_| self.is_window_known) {
                let came = run.segments.partition_point(|&came| came < to);
                let quiet = came.checked_sub(1).map_or(0, |last| run.segments[last]);
                line.room_after_pause(to, self.room(&run, &run.segments, to - 1), quiet);
            }
        };
        let (mut now, mut reads) = (0, run.reads.iter());
        for i in 0..self.chunks {
            let mut unread = SEGMENTS;
            while unread > 0 {
                let read = reads.next().unwrap();
                unread -= read.segments;
                let bytes = read.segments as u64 * SEGMENT_BYTES;
                // Of a short wait it is known when its last bytes came, and when the client ran again.
                let exact = read.waited.is_none_or(|(since, woke)| woke - since >= short_wait_ns);
                let came = if exact { read.first } else { read.last };
                while let Some(look) = looks.next_if(|look| look.back <= came) {
                    if look.back > now {
                        line.still_waiting(now, look.back);
                        now = look.back;
                    }
                    line.look(look.asked, look.back, self.state(&run, &look));
                }
                line.received((came > now).then_some((now, came)), bytes);
                match read.waited {
                    Some((since, _)) if !exact => line.arrived_since(since, read.last, bytes),
                    _ => line.arrived((came > now).then_some(came), read.last, bytes),
                }
                now = now.max(came);
                run_again(&mut line, read.waited.map_or(now, |(_, woke)| woke));
            }
            line.busy_until(run.taken[i]);
            now = run.taken[i];
            let works = |k: u64| (self.process_ns * k / 4).min(self.process_ns.saturating_sub(1));
            for at in (0..=4).map(|k| self.ran(now, works(k))) {
                while let Some(look) = looks.next_if(|look| look.back <= at) {
                    line.busy_until(look.back);
                    line.look(look.asked, look.back, self.state(&run, &look));
                }
                run_again(&mut line, at);
                if self.is_window_known {
                    line.room(at, self.room(&run, &run.segments, at));
                }
            }
            now = now.max(run.done[i]);
            line.busy_until(now);
        }
        if self.lost_chunk.is_some_and(|lost| lost + 1 < self.chunks) {
            line.disordered();
        }
        line.late_within(self.wake_ns * run.reads.iter().filter(|read| read.waited.is_some()).count() as u64);
        // The one that is under way is the last.
        if let Some(look) = looks.find(|look| look.back > end) {
            line.unlooked(look.asked, end);
        }
        let (retransmits, echoes) = self.evidence(end);
        let mut split = line.end(end, Some(retransmits), &echoes);
        if self.asks_after {
            split.served(0, &self.served(&run, end));
        }
        split
    }

    /// What a look says that is asked for once the answer is whole.
    fn served(&self, run: &Run, end: u64) -> Served {
        let (asked, half) = (end + US, self.rtt_ns / 2);
        let done = *run.put.last().unwrap();
        let since = Since::of_look(asked, asked + 2 * half, (asked + half - done) as i64).unwrap();
        let blocked_ns = run.put.iter().zip(&run.made).map(|(put, made)| put - made).sum();
        let rtt = self.rtt();
        Served {
            since,
            least_rtt_ns: rtt.low_ns.min(2 * half),
            rtt_ns: rtt.ns,
            look_ns: 2 * half,
            most_rtt_ns: rtt.high_ns,
            blocked_ns: self.counts_waits.then_some(blocked_ns),
        }
    }
}
