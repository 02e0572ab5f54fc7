//! What becomes of a connection that was begun: established, closed in order, or given up.

use super::{CLOSING_NS, Dialed, Dialer};
use crate::probe::lane::connect_advice;
use crate::probe::tls::Trouble;
use fathom_core::cause::ClosingCause;
use fathom_core::event::{EventKind, Evidence};
use fathom_core::sample::{Flags, Sample};
use fathom_core::schedule::Schedule;
use fathom_os::clock::mono_ns;
use fathom_os::socket;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};

impl Dialer<'_> {
    /// A socket has something to tell.
    pub(super) fn ready(&mut self, token: usize) {
        let now = mono_ns();
        let Some(dialed) = self.dialed.get_mut(&token) else { return };
        if dialed.opened_ns.is_some() {
            return self.closing(token, now);
        }
        if dialed.securing.is_some() {
            return self.secure(token);
        }
        match socket::connect_result(&dialed.socket) {
            Ok(false) => {}
            Ok(true) if self.config.tls.is_some() => self.begin_to_secure(token, now),
            Ok(true) => self.done(token, now, None),
            Err(e) => self.not_established(token, &e),
        }
    }

    /// The sample: from before `connect()` to the moment this process learns that it is established, or secured if it
    /// was established at `established_ns`.
    pub(super) fn done(&mut self, token: usize, now: u64, established_ns: Option<u64>) {
        let Some(dialed) = self.dialed.get_mut(&token) else { return };
        dialed.opened_ns = Some(now);
        let (way, connection, remote) = (dialed.way, dialed.connection, dialed.remote);
        let (due_ns, sent_ns) = (dialed.due_ns, dialed.sent_ns);
        let mut flags = dialed.flags;
        let local = dialed.socket.local_addr().map_or_else(|_| String::new(), |a| a.to_string());
        // Our FIN. The peer's is waited for: a socket that is closed with bytes unread (a greeting) would send a RST.
        let _ = dialed.socket.shutdown(Shutdown::Write);
        let kernel = socket::tcp_info(&dialed.socket);
        let rtt_ns = now - sent_ns;
        if rtt_ns > self.config.timeout.as_nanos() as u64 {
            flags |= Flags::ANSWERED_LATE;
        }
        let pause = self.pauses.as_mut().and_then(|pauses| pauses.latest(now));
        if pause.is_some_and(|(from, to)| from < now && to > due_ns) {
            flags |= Flags::OVERLAPS_LOCAL_PAUSE;
        }
        let target = self.config.paths[way].target.to_string();
        self.event(
            now,
            Some(way),
            Some(connection),
            EventKind::ConnectionOpened {
                target,
                local,
                remote: remote.to_string(),
                connect_ns: (established_ns.unwrap_or(now) - sent_ns) as i64,
                tls_ns: established_ns.map(|at| (now - at) as i64),
                interface: None,
                lane: None,
            },
        );
        let sample = Sample {
            rtt_ns: Some(rtt_ns as i64),
            srtt_us: kernel.map(|info| info.srtt_us),
            retransmits: kernel.map(|info| info.total_retrans.min(u32::from(u16::MAX)) as u16),
            ..self.row(connection, due_ns, sent_ns, flags)
        };
        self.outbox.sample(way as u32, sample);
        self.closing(token, mono_ns());
    }

    /// Reads away what a peer says until it closes its side too.
    fn closing(&mut self, token: usize, now: u64) {
        let Some(dialed) = self.dialed.get_mut(&token) else { return };
        let mut buffer = [0; 4_096];
        // A peer that talks on is cut off with the time for closing; no turn reads more than this.
        for _ in 0..16 {
            match dialed.socket.read(&mut buffer) {
                Ok(0) => return self.close(token, now, None),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return self.close(token, now, Some(&e)),
            }
        }
    }

    fn close(&mut self, token: usize, now: u64, error: Option<&io::Error>) {
        let Some(dialed) = self.dialed.remove(&token) else { return };
        self.ways[dialed.way].at_once -= 1;
        let age_ns = now.saturating_sub(dialed.opened_ns.unwrap_or(now));
        let tcp = socket::tcp_info(&dialed.socket);
        let error = error.map(ToString::to_string);
        let evidence = Evidence { error, tcp, ..Evidence::default() };
        let (way, connection) = (dialed.way, dialed.connection);
        drop(dialed);
        // It had been measured and closed here: however the peer takes that, it is no loss.
        let cause = ClosingCause::Finished;
        let kind = EventKind::ConnectionClosed { cause, verdict: None, errno: None, age_ns, evidence };
        self.event(now, Some(way), Some(connection), kind);
    }

    /// Closes connections whose peer does not close its side.
    pub(super) fn close_late(&mut self, now: u64) {
        let late = |d: &Dialed| d.opened_ns.is_some_and(|at| now >= at + CLOSING_NS);
        let late: Vec<usize> = self.dialed.iter().filter(|(_, d)| late(d)).map(|(&token, _)| token).collect();
        for token in late {
            self.close(token, now, None);
        }
    }

    /// Gives up attempts that have taken so long; with 0, closes the rest too: the run is over.
    pub(super) fn give_up_older_than(&mut self, now: u64, age_ns: u64) {
        let old = |d: &Dialed| match d.opened_ns {
            None => now.saturating_sub(d.sent_ns) >= age_ns,
            Some(_) => age_ns == 0,
        };
        let old: Vec<usize> = self.dialed.iter().filter(|(_, d)| old(d)).map(|(&token, _)| token).collect();
        for token in old {
            if self.dialed[&token].opened_ns.is_some() {
                self.close(token, now, None);
            } else if self.dialed[&token].securing.is_some() {
                self.not_secured(token, &Trouble::Silence);
            } else {
                self.not_established(token, &io::Error::from(io::ErrorKind::TimedOut));
            }
        }
    }

    /// What `--connect` was for did not happen: the row of the sample.
    pub(super) fn take_failed(&mut self, token: usize) -> Option<(Dialed, Sample)> {
        let dialed = self.dialed.remove(&token)?;
        self.ways[dialed.way].at_once -= 1;
        let flags = dialed.flags | Flags::UNANSWERED;
        let row = self.row(dialed.connection, dialed.due_ns, dialed.sent_ns, flags);
        Some((dialed, row))
    }

    fn not_established(&mut self, token: usize, error: &io::Error) {
        let Some((dialed, row)) = self.take_failed(token) else { return };
        self.failed(dialed.way, row, dialed.remote, error);
    }

    /// An attempt came to nothing: a sample without its time, an event that says why, and the next address's turn.
    pub(super) fn failed(&mut self, way: usize, row: Sample, remote: SocketAddr, error: &io::Error) {
        let target = self.config.paths[way].target.to_string();
        let advice = connect_advice(&target, Some(remote), error);
        self.failed_because(way, row, remote, error.raw_os_error(), advice);
    }

    pub(super) fn failed_because(
        &mut self,
        way: usize,
        row: Sample,
        remote: SocketAddr,
        errno: Option<i32>,
        advice: String,
    ) {
        let now = mono_ns();
        self.outbox.sample(way as u32, row);
        self.end.refused = Some(advice.clone());
        let state = &mut self.ways[way];
        state.next_address = (state.next_address + 1) % state.addresses.len().max(1);
        let next_due = state.schedule.as_ref().and_then(Schedule::next_due_ns);
        let next_ns = next_due.filter(|_| self.drain_ns.is_none()).map(|due| due.saturating_sub(now));
        self.refused(way, now, Some(remote), errno, advice, next_ns);
        if next_ns.is_some() {
            self.ask(way, now);
        }
    }

    pub(super) fn refused(
        &mut self,
        way: usize,
        now: u64,
        remote: Option<SocketAddr>,
        errno: Option<i32>,
        error: String,
        retry_in_ns: Option<u64>,
    ) {
        let target = self.config.paths[way].target.to_string();
        let remote = remote.map(|remote| remote.to_string());
        let kind = EventKind::ConnectionRefused { target, remote, errno, error, retry_in_ns, lane: None };
        self.event(now, Some(way), None, kind);
    }
}
