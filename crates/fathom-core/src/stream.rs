//! The samples in flight on one connection: what was sent, what came back, and which belongs to which.
//!
//! TCP keeps order, so the bytes that come belong to the oldest sample without its echo; they are still checked
//! byte for byte. UDP keeps nothing, so each datagram says, by its content, which sample it is.

mod arrival;
mod datagram;
mod parts;
mod stamped;

use crate::clock::ClockMap;
use crate::loss::{Attribution, Fate, Reflector};
use crate::probe::protocol::{Echo, Protocol};
use crate::sample::{Flags, Sample};
use fathom_wire::{HEADER_LEN, Integrity, Key, ReflectorStamps, Secret};
use parts::split;
use stamped::Session;
use std::collections::VecDeque;

pub use arrival::{Arrival, Counted, KernelView, ReadStamps, Receipt, Stamped};
pub use datagram::DATAGRAM_LOST_NS;
pub use parts::pause_gained_ns;
pub use stamped::ClockBound;

/// Samples in flight on one connection at most. A connection that takes more without answering is blocked:
/// further dues wait, and are given up like those of a full send buffer.
pub const MAX_IN_FLIGHT: usize = 1 << 16;

#[derive(Debug, Clone, Copy)]
struct InFlight {
    seq: u64,
    /// Payload bytes each way.
    size: u32,
    /// Bytes sent on the connection up to its last one, by which the kernel counts.
    end: u64,
    due_ns: u64,
    sent_ns: u64,
    flags: Flags,
    /// How long nothing had passed either way when it was sent.
    quiet_ns: u64,
    /// Wall clock just before it was sent, where the kernel stamps.
    sent_utc_ns: Option<i64>,
    /// The kernel's stamp of its last byte at the driver, by the wall clock.
    transmitted_utc_ns: Option<i64>,
    /// UDP: its echo has come, out of order; kept until those before it are resolved.
    resolved: bool,
    /// UDP: whether a reflector can count it.
    counted: bool,
    /// UDP: what its echo said of the reflector's count.
    fate: Fate,
    /// STAMP: its timestamp as it was written; it comes back with the answer.
    written: u64,
}

/// The samples of one connection.
#[derive(Debug)]
pub struct Stream {
    key: Key,
    size: u32,
    timeout_ns: u64,
    in_flight: VecDeque<InFlight>,
    protocol: Box<dyn Protocol>,
    next_seq: u64,
    sent_bytes: u64,
    /// Bit n: messages of n bytes, too few for a header, have been sent.
    short_sizes: u64,
    answered: u64,
    last_answered_seq: Option<u64>,
    last_received_ns: Option<u64>,
    /// When the connection was established.
    opened_ns: Option<u64>,
    total_retrans: u32,
    corrupted_in_a_row: u32,
    last_sent_ns: Option<u64>,
    idle_survived_ns: u64,
    /// The reflector's pause counter when it was last read, µs.
    remote_pause_us: Option<u32>,
    /// What it has gained since [`Stream::take_remote_pause`].
    remote_pause_gained_us: u64,
    /// When the reflector ran again after its latest pause, by the monotonic clock, in ns; 0: it never paused.
    remote_ran_again_ns: u64,
    /// UDP: which way samples were lost.
    losses: Attribution,
    /// STAMP: what its packets say besides their number.
    stamp: Option<Session>,
}

/// Samples among which a send stamp is sought: it is there before the echo, so its sample is among the oldest.
const STAMPS_SOUGHT: usize = 256;

impl Stream {
    /// A new connection, whose messages are of `size` bytes until [`Stream::set_size`]. An echo later than `timeout_ns` is flagged late.
    pub fn new(key: Key, size: u32, timeout_ns: u64) -> Self {
        Self::speaking(Box::new(Echo::new(key)), key, size, timeout_ns)
    }

    /// The same, whose messages bear the code of a secret; none: they bear none.
    pub fn sealed(secret: Option<Secret>, key: Key, size: u32, timeout_ns: u64) -> Self {
        Self::speaking(Box::new(Echo::sealed(key, secret)), key, size, timeout_ns)
    }

    /// The same, of requests and answers of another protocol.
    pub fn speaking(protocol: Box<dyn Protocol>, key: Key, size: u32, timeout_ns: u64) -> Self {
        Self {
            key,
            size,
            timeout_ns,
            in_flight: VecDeque::new(),
            protocol,
            next_seq: 0,
            sent_bytes: 0,
            short_sizes: 0,
            answered: 0,
            last_answered_seq: None,
            last_received_ns: None,
            opened_ns: None,
            total_retrans: 0,
            corrupted_in_a_row: 0,
            last_sent_ns: None,
            idle_survived_ns: 0,
            remote_pause_us: None,
            remote_ran_again_ns: 0,
            remote_pause_gained_us: 0,
            losses: Attribution::new(Reflector::Stateful),
            stamp: None,
        }
    }

    /// What makes this connection's messages its own.
    pub fn key(&self) -> Key {
        self.key
    }

    /// Payload bytes of the message that was begun last, or is to be sent next.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Bytes of a request of the size that is to be sent next.
    pub fn request_len(&self) -> usize {
        if self.stamp.is_some() { self.size as usize } else { self.protocol.request_len(self.size) }
    }

    /// Sets the size of the messages sent from here on. Those that are out keep theirs; a message that the kernel has
    /// only the beginning of must be written to its end first.
    pub fn set_size(&mut self, size: u32) {
        self.size = size;
    }

    /// Writes the bytes `offset..offset + out.len()` of message `seq`. A STAMP packet is written as a whole.
    pub fn fill(&self, seq: u64, offset: usize, out: &mut [u8]) {
        match &self.stamp {
            Some(session) => session.fill(seq, out),
            None => self.protocol.fill(seq, self.size, offset, out),
        }
    }

    /// The number of the sample to be sent next, which is how many have been sent.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Samples answered.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// The last sample whose echo came.
    pub fn last_answered_seq(&self) -> Option<u64> {
        self.last_answered_seq
    }

    /// When bytes last came.
    pub fn last_received_ns(&self) -> Option<u64> {
        self.last_received_ns
    }

    /// Echoes in a row that were not what was sent: a peer that does not echo, or a stream that lost its step.
    pub fn corrupted_in_a_row(&self) -> u32 {
        self.corrupted_in_a_row
    }

    /// Whether the very first bytes that came are not what was sent, though too few to be a whole echo: a server that
    /// speaks first (a greeting, a banner).
    pub fn begins_otherwise(&self) -> bool {
        self.answered == 0 && self.corrupted_in_a_row == 0 && self.protocol.is_off_track()
    }

    /// Samples without their echo.
    pub fn outstanding(&self) -> usize {
        self.in_flight.iter().filter(|s| !s.resolved).count()
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether one echo is owed, and its end is so many bytes away.
    pub fn owes_just(&self, bytes: usize) -> bool {
        self.in_flight.len() == 1
            && self.in_flight.front().is_some_and(|s| self.protocol.owed(s.seq, s.size) == Some(bytes))
    }

    /// Whether no more may be sent until something comes back.
    pub fn is_full(&self) -> bool {
        self.in_flight.len() >= MAX_IN_FLIGHT
    }

    /// The oldest sample without its echo: number and send stamp.
    pub fn oldest(&self) -> Option<(u64, u64)> {
        // The front is never resolved: `settle` removes resolved samples from the front.
        self.in_flight.front().map(|s| (s.seq, s.sent_ns))
    }

    /// How long nothing had passed either way when the oldest sample without its echo was sent, in ns.
    pub fn oldest_quiet_ns(&self) -> Option<u64> {
        self.in_flight.front().map(|s| s.quiet_ns)
    }

    /// How long nothing has passed either way, in ns.
    pub fn quiet_ns(&self, now_ns: u64) -> u64 {
        let since = self.last_sent_ns.max(self.last_received_ns).max(self.opened_ns);
        since.map_or(0, |since| now_ns.saturating_sub(since))
    }

    /// Counts a connection's quiet from when it was opened.
    pub fn opened(&mut self, now_ns: u64) {
        self.opened_ns = Some(now_ns);
    }

    /// The size of the oldest sample without its echo.
    pub fn oldest_size(&self) -> Option<u32> {
        self.in_flight.front().map(|s| s.size)
    }

    /// Bytes sent up to the end of the oldest sample without its echo, by which the kernel counts what is acknowledged.
    pub fn oldest_end(&self) -> Option<u64> {
        self.in_flight.front().map(|s| s.end)
    }

    /// The reflector's pause counter when it was last read, µs; `None`: it does not stamp.
    pub fn remote_pause_us(&self) -> Option<u32> {
        self.remote_pause_us
    }

    /// The longest such quiet before a sample that was answered, in ns.
    pub fn idle_survived_ns(&self) -> u64 {
        self.idle_survived_ns
    }

    /// How long the reflector says that it did not run since this was last asked, in ns, and its counter; `None`: it
    /// does not stamp.
    pub fn take_remote_pause(&mut self) -> Option<(u64, u32)> {
        let counter = self.remote_pause_us?;
        Some((std::mem::take(&mut self.remote_pause_gained_us) * 1_000, counter))
    }

    /// Samples that have waited longer than the timeout.
    pub fn overdue(&self, now_ns: u64) -> usize {
        let waits = |s: &&InFlight| now_ns.saturating_sub(s.sent_ns) > self.timeout_ns;
        self.in_flight.iter().take_while(waits).filter(|s| !s.resolved).count()
    }

    /// A sample was handed to the kernel, `sent_ns` just before.
    pub fn sent(&mut self, due_ns: u64, sent_ns: u64, flags: Flags) {
        let first = if self.next_seq == 0 { Flags::FIRST_ON_CONNECTION } else { Flags::default() };
        let quiet_ns = self.quiet_ns(sent_ns);
        self.sent_bytes += self.request_len() as u64;
        if (self.size as usize) < HEADER_LEN {
            self.short_sizes |= 1 << self.size;
        }
        self.in_flight.push_back(InFlight {
            seq: self.next_seq,
            size: self.size,
            end: self.sent_bytes,
            due_ns,
            sent_ns,
            flags: flags | first,
            quiet_ns,
            sent_utc_ns: None,
            transmitted_utc_ns: None,
            resolved: false,
            counted: self.stamp.is_some() || self.size as usize >= HEADER_LEN,
            fate: Fate::Lost,
            written: self.stamp.as_ref().map_or(0, Session::written),
        });
        self.last_sent_ns = Some(sent_ns);
        self.next_seq += 1;
    }

    /// Adds flags to every sample that is out.
    pub fn flag_outstanding(&mut self, flags: Flags) {
        for sample in &mut self.in_flight {
            sample.flags |= flags;
        }
    }

    /// Notes the wall clock at the latest [`Stream::sent`], to which the kernel's send stamp will be compared.
    pub fn sent_at_utc(&mut self, utc_ns: i64) {
        if let Some(sample) = self.in_flight.back_mut() {
            sample.sent_utc_ns = Some(utc_ns);
        }
    }

    /// The kernel says when a byte or a datagram came to the driver. A sample's stamp is that of its last byte; others
    /// mean nothing here. The first counts: what is sent again is stamped again, and its wait was not in this host's
    /// stack.
    pub fn transmitted(&mut self, id: u32, counted: Counted, utc_ns: i64) {
        let last = |s: &InFlight| match counted {
            Counted::Bytes => s.end.wrapping_sub(1) as u32,
            Counted::Datagrams => s.seq as u32,
        };
        if let Some(sample) = self.in_flight.iter_mut().take(STAMPS_SOUGHT).find(|s| last(s) == id) {
            sample.transmitted_utc_ns.get_or_insert(utc_ns);
        }
    }

    /// Whether the oldest sample without its echo has no send stamp yet.
    pub fn awaits_stamp(&self) -> bool {
        self.in_flight.front().is_some_and(|s| s.transmitted_utc_ns.is_none())
    }

    /// TCP: takes the bytes of one read; gives the stamps in it.
    pub fn receive<'a>(
        &mut self,
        receipt: &Receipt<'_>,
        bytes: &'a [u8],
        mut sink: impl FnMut(Arrival<'a>),
    ) -> ReadStamps {
        let mut read = None;
        self.last_received_ns = Some(receipt.mono_ns);
        // A read has one stamp, that of its last segment: with several echoes in it, it would be a guess for each.
        let expected = self.in_flight.front().and_then(|s| self.protocol.owed(s.seq, s.size));
        let single = bytes.len() <= expected.unwrap_or(0);
        let receipt = &Receipt { stamps: receipt.stamps.filter(|_| single), ..*receipt };
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(&sample) = self.in_flight.front() else {
                sink(Arrival::Foreign(rest));
                return read;
            };
            let (taken, verdict) = self.protocol.feed(sample.seq, sample.size, rest);
            rest = &rest[taken..];
            if let Some(verdict) = verdict {
                self.in_flight.pop_front();
                sink(Arrival::Resolved(self.resolve(receipt, &sample, verdict, &mut read)));
            }
        }
        read
    }

    /// Ends the connection in order at the end of the run: releases the samples in flight, and returns their number.
    /// They have waited for less than the timeout, and no later sample has come back.
    pub fn let_go(&mut self, now_ns: u64) -> u64 {
        let in_flight = |s: &mut InFlight| !s.resolved && now_ns.saturating_sub(s.sent_ns) < self.timeout_ns;
        std::iter::from_fn(|| self.in_flight.pop_back_if(in_flight)).count() as u64
    }

    /// The connection is over: every sample still out is unanswered.
    pub fn close(&mut self, clock: &ClockMap, mut sink: impl FnMut(Sample)) {
        while let Some(sample) = self.in_flight.pop_front() {
            self.losses.settled(sample.fate());
            if !sample.resolved {
                sink(self.row(clock, &sample, Flags::UNANSWERED));
            }
        }
        self.losses.finish();
    }

    fn resolve(
        &mut self,
        receipt: &Receipt<'_>,
        sent: &InFlight,
        verdict: Integrity,
        read: &mut ReadStamps,
    ) -> Sample {
        let Integrity::Intact(stamps) = verdict else {
            self.corrupted_in_a_row += 1;
            return self.row(receipt.clock, sent, Flags::UNANSWERED | Flags::CORRUPTED);
        };
        self.corrupted_in_a_row = 0;
        self.answered += 1;
        self.last_answered_seq = self.last_answered_seq.max(Some(sent.seq));
        let rtt_ns = receipt.mono_ns.saturating_sub(sent.sent_ns);
        // Between opening and the first sample there is no quiet to speak of: nothing could have been forgotten.
        if sent.seq > 0 {
            self.idle_survived_ns = self.idle_survived_ns.max(sent.quiet_ns);
        }
        let mut flags = Flags::default();
        if rtt_ns > self.timeout_ns {
            flags |= Flags::ANSWERED_LATE;
        }
        if receipt.local_pause.is_some_and(|(from, to)| from < receipt.mono_ns && to > sent.due_ns) {
            flags |= Flags::OVERLAPS_LOCAL_PAUSE;
        }
        let remote_pause_ns = stamps.map_or(0, |s| self.remote_pause(s.pause_us));
        // The counter says how long, not when: a sample whose round trip is too short did not wait for it.
        if remote_pause_ns > 0 && rtt_ns >= remote_pause_ns / 2 {
            flags |= Flags::OVERLAPS_REMOTE_PAUSE;
            // What this round trip took besides was at the most the way: before that the reflector did not run.
            let besides_ns = rtt_ns.saturating_sub(remote_pause_ns);
            self.remote_ran_again_ns = receipt.mono_ns.saturating_sub(besides_ns);
        } else if sent.sent_ns < self.remote_ran_again_ns {
            // Under way at that time too; the counter grew for the first of them alone.
            flags |= Flags::OVERLAPS_REMOTE_PAUSE;
        }
        if let Some(stamps) = stamps {
            let this = Stamped { seq: sent.seq, sent_ns: sent.sent_ns, read_ns: receipt.mono_ns, stamps };
            *read = Some((read.map_or(this, |(first, _)| first), this));
        }
        let retransmits = receipt.kernel.map(|kernel| {
            let since = kernel.total_retrans.saturating_sub(self.total_retrans);
            self.total_retrans = kernel.total_retrans;
            since.min(u32::from(u16::MAX)) as u16
        });
        let (send_stack_ns, recv_stack_ns) = split(receipt, sent, rtt_ns, stamps).unzip();
        let sent_utc_ns = receipt.clock.utc_of(sent.sent_ns);
        let received_utc_ns = receipt.clock.utc_of(receipt.mono_ns);
        Sample {
            rtt_ns: Some(rtt_ns as i64),
            send_stack_ns,
            recv_stack_ns,
            reflector_ns: stamps.map(|s| s.residence_ns()),
            forward_ns: stamps.and_then(|s: ReflectorStamps| s.received_ns.checked_sub(sent_utc_ns)),
            backward_ns: stamps.and_then(|s| received_utc_ns.checked_sub(s.sent_ns)),
            srtt_us: receipt.kernel.and_then(|kernel| kernel.srtt_us),
            retransmits,
            ..self.row(receipt.clock, sent, flags)
        }
    }

    /// What the reflector's pause counter gained since the previous frame, in ns.
    fn remote_pause(&mut self, pause_us: u32) -> u64 {
        let before = self.remote_pause_us.replace(pause_us);
        let gained_ns = before.map_or(0, |before| pause_gained_ns(before, pause_us));
        self.remote_pause_gained_us += gained_ns / 1_000;
        gained_ns
    }

    fn row(&self, clock: &ClockMap, sent: &InFlight, flags: Flags) -> Sample {
        Sample {
            connection: self.key.connection,
            seq: sent.seq,
            size: sent.size,
            sent_ns: clock.utc_of(sent.sent_ns),
            lateness_ns: sent.sent_ns.wrapping_sub(sent.due_ns) as i64,
            flags: sent.flags | flags,
            ..Sample::default()
        }
    }
}

#[cfg(test)]
mod tests;
