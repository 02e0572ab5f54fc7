//! Datagrams: any may be lost, overtaken or doubled, so each says by its content which sample it is.

use super::{Arrival, InFlight, ReadStamps, Receipt, Stream};
use crate::clock::ClockMap;
use crate::loss::{Fate, Losses};
use crate::sample::{Flags, Sample};
use fathom_wire::frame::IDENTITY_LEN;
use fathom_wire::{Checker, HEADER_LEN, Identity, Integrity};

/// After this long without its echo a datagram is taken as lost (a TCP sample never is, while its connection lives).
pub const DATAGRAM_LOST_NS: u64 = 60_000_000_000;

impl InFlight {
    /// What became of it, if that is final now.
    pub(super) fn fate(&self) -> Fate {
        if self.counted { self.fate } else { Fate::TooShort { lost: !self.resolved } }
    }
}

/// What an intact echo says of the reflector's count, or one that is not.
fn fate_of(verdict: Integrity) -> Fate {
    match verdict {
        Integrity::Intact(Some(stamps)) => Fate::Counted(stamps.frames),
        Integrity::Intact(None) => Fate::NotCounted,
        Integrity::Corrupted => Fate::Damaged,
    }
}

impl Stream {
    /// UDP: as [`Stream::oldest`], of those sent since anything last came. A datagram that is lost alone, with echoes of
    /// later ones coming back, is no silence.
    pub fn oldest_of_silence(&self) -> Option<(u64, u64)> {
        let since = self.last_received_ns.unwrap_or(0);
        let waits = |s: &&InFlight| !s.resolved && s.sent_ns >= since;
        self.in_flight.iter().find(waits).map(|s| (s.seq, s.sent_ns))
    }

    /// UDP: takes one datagram; gives the stamps in it.
    pub fn receive_datagram<'a>(
        &mut self,
        receipt: &Receipt<'_>,
        bytes: &'a [u8],
        mut sink: impl FnMut(Arrival<'a>),
    ) -> ReadStamps {
        let mut read = None;
        if self.stamp.is_some() {
            return self.receive_stamped(receipt, bytes, sink);
        }
        let Some(seq) = self.seq_of(bytes) else {
            sink(Arrival::Foreign(bytes));
            return read;
        };
        let at = self.in_flight.binary_search_by_key(&seq, |s| s.seq);
        match at {
            Ok(at) if self.in_flight[at].size as usize != bytes.len() => sink(Arrival::Foreign(bytes)),
            Ok(at) if !self.in_flight[at].resolved => {
                let verdict = self.verdict(seq, self.in_flight[at].size, bytes);
                let sample = self.take_echo(receipt, at, verdict, fate_of(verdict), &mut read);
                sink(Arrival::Resolved(sample));
            }
            _ if seq < self.next_seq => {
                let fate = fate_of(self.verdict(seq, bytes.len() as u32, bytes));
                self.echo_again(receipt, seq, at.ok(), fate);
                sink(Arrival::Duplicate(seq));
            }
            _ => sink(Arrival::Foreign(bytes)),
        }
        read
    }

    /// UDP: gives up datagrams that have been out for [`DATAGRAM_LOST_NS`], and those behind which the window is full.
    pub fn expire(&mut self, now_ns: u64, clock: &ClockMap, mut sink: impl FnMut(Sample)) {
        let is_lost = |s: &&InFlight, full: bool| full || now_ns.saturating_sub(s.sent_ns) > DATAGRAM_LOST_NS;
        while let Some(&sample) = self.in_flight.front().filter(|s| is_lost(s, self.is_full())) {
            self.in_flight.pop_front();
            self.losses.settled(sample.fate());
            sink(self.row(clock, &sample, Flags::UNANSWERED));
            self.settle();
        }
    }

    /// UDP: whether what the reflector says beside its stamps is known to be a count.
    pub(crate) fn is_counted(&self) -> bool {
        self.losses.is_counted()
    }

    /// UDP: what has become known of losses since this was last asked.
    pub fn take_losses(&mut self) -> Losses {
        self.losses.take()
    }

    /// The first echo of the sample at this place has come.
    pub(super) fn take_echo(
        &mut self,
        receipt: &Receipt<'_>,
        at: usize,
        verdict: Integrity,
        fate: Fate,
        read: &mut ReadStamps,
    ) -> Sample {
        let sample = self.in_flight[at];
        // What is no answer is no sign of life.
        self.last_received_ns = Some(receipt.mono_ns);
        (self.in_flight[at].resolved, self.in_flight[at].fate) = (true, fate);
        self.losses.came(sample.seq);
        self.settle();
        self.resolve(receipt, &sample, verdict, read)
    }

    /// An echo of a sample has come again; `at`: where that sample is, if it is not forgotten.
    pub(super) fn echo_again(&mut self, receipt: &Receipt<'_>, seq: u64, at: Option<usize>, again: Fate) {
        self.last_received_ns = Some(receipt.mono_ns);
        let count = |fate| if let Fate::Counted(count) = fate { Some(count) } else { None };
        let first = at.and_then(|at| count(self.in_flight[at].fate));
        self.losses.came_again(seq, count(again), first);
    }

    fn verdict(&self, seq: u64, size: u32, bytes: &[u8]) -> Integrity {
        let (_, verdict) = Checker::default().feed(self.key, seq, size, bytes);
        verdict.unwrap_or(Integrity::Corrupted)
    }

    fn settle(&mut self) {
        while let Some(sample) = self.in_flight.pop_front_if(|s| s.resolved) {
            self.losses.settled(sample.fate());
        }
    }

    /// Which sample a datagram says it is. A short one tells only the low bytes of its number: it is the youngest
    /// outstanding sample that has them.
    fn seq_of(&self, bytes: &[u8]) -> Option<u64> {
        if bytes.len() >= HEADER_LEN {
            let identity = Identity::decode(bytes.first_chunk::<IDENTITY_LEN>()?)?;
            let ours = identity.session == self.key.session && identity.connection == self.key.connection;
            let ours = ours && identity.length as usize == bytes.len();
            return ours.then_some(identity.sequence);
        }
        if self.short_sizes & 1 << bytes.len() == 0 {
            return None;
        }
        let known = bytes.len().min(8);
        let mut low = [0; 8];
        low[..known].copy_from_slice(&bytes[..known]);
        let low = u64::from_le_bytes(low);
        let mask = if known == 8 { u64::MAX } else { (1 << (8 * known)) - 1 };
        let unresolved = self
            .in_flight
            .iter()
            .rev()
            .find(|s| !s.resolved && s.size as usize == bytes.len() && s.seq & mask == low)
            .map(|s| s.seq);
        // None outstanding: the youngest number that has these low bytes, so that a repeated echo is known as one.
        let last = self.next_seq.checked_sub(1)?;
        unresolved.or_else(|| last.checked_sub(last.wrapping_sub(low) & mask))
    }
}
