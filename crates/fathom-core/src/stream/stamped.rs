//! STAMP packets (RFC 8762): what they say when they are sent, and whose answer has come.

use super::{Arrival, ReadStamps, Receipt, Stream};
use crate::loss::{Attribution, Fate, Reflector};
use crate::sample::Sample;
use fathom_wire::Integrity;
use fathom_wire::ReflectorStamps;
use fathom_wire::rfc8762::{ErrorEstimate, Reflected, Sent, TimeFormat};

/// How far the difference of the two ends' clocks may be from the truth: their Error Estimates, by which both say that
/// they follow UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockBound {
    /// This end's, ns.
    pub local_ns: u64,
    /// The reflector's, ns.
    pub remote_ns: u64,
}

impl ClockBound {
    /// The bound of a difference of the two clocks, ns.
    pub fn error_ns(self) -> u64 {
        self.local_ns.saturating_add(self.remote_ns)
    }
}

/// What the packets of a session say besides their number.
#[derive(Debug)]
pub(super) struct Session {
    id: u16,
    error: ErrorEstimate,
    written: u64,
    bound: Option<ClockBound>,
}

impl Session {
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn fill(&self, seq: u64, out: &mut [u8]) {
        let (timestamp, error, session) = (self.written, self.error, self.id);
        Sent { sequence: seq as u32, timestamp, error, session }.encode(out);
    }
}

impl Stream {
    /// The same, of STAMP packets: with this session identifier, against such a reflector.
    #[must_use]
    pub fn of_stamp(mut self, session: u16, reflector: Reflector) -> Self {
        let error = ErrorEstimate::of(None);
        self.stamp = Some(Session { id: session, error, written: 0, bound: None });
        self.losses = Attribution::new(reflector);
        self
    }

    /// STAMP: writes into a packet what this host's clock says, and how far from the truth it may be (`None`: nobody
    /// knows), just before it is sent. Other messages stay as they are.
    pub fn stamp_at(&mut self, utc_ns: i64, error_ns: Option<u64>, packet: &mut [u8]) {
        let Some(session) = &mut self.stamp else { return };
        session.written = TimeFormat::Ntp.encode(utc_ns);
        session.error = ErrorEstimate::of(error_ns);
        Sent::stamp_again(packet, session.written, session.error);
    }

    /// STAMP: the error of differences of the two clocks, by the latest answer; `None`: nobody knows, and samples have
    /// no such differences.
    pub fn clock_bound(&self) -> Option<ClockBound> {
        self.stamp.as_ref()?.bound
    }

    /// Takes one answer. It is that of a sample if it repeats its number and its timestamp.
    pub(super) fn receive_stamped<'a>(
        &mut self,
        receipt: &Receipt<'_>,
        bytes: &'a [u8],
        mut sink: impl FnMut(Arrival<'a>),
    ) -> ReadStamps {
        let mut read = None;
        // An answer bears the timestamp of its packet; a packet that comes back as it was sent has zeros there.
        let answer = Reflected::decode(bytes).filter(|answer| answer.sender_timestamp != 0);
        let Some((answer, session)) = answer.zip(self.stamp.as_mut()) else {
            sink(Arrival::Foreign(bytes));
            return read;
        };
        // The number whose low 32 bits these are, of those sent.
        let last = self.next_seq.wrapping_sub(1);
        let seq = last.wrapping_sub(u64::from((last as u32).wrapping_sub(answer.sender_sequence)));
        let known = self.in_flight.binary_search_by_key(&seq, |s| s.seq).ok();
        let fate = Fate::Counted(answer.sequence);
        match known {
            Some(at) if self.in_flight[at].written != answer.sender_timestamp => {
                sink(Arrival::Foreign(bytes));
            }
            Some(at) if !self.in_flight[at].resolved => {
                session.bound = bound(session.error, answer.error);
                let bounded = session.bound.is_some();
                let verdict = Integrity::Intact(stamps_of(&answer));
                let sample = self.take_echo(receipt, at, verdict, fate, &mut read);
                sink(Arrival::Resolved(if bounded { sample } else { one_clock(sample) }));
            }
            _ if seq < self.next_seq => {
                self.echo_again(receipt, seq, known, fate);
                sink(Arrival::Duplicate(seq));
            }
            _ => sink(Arrival::Foreign(bytes)),
        }
        read
    }
}

/// The bound of a difference of the two clocks. By PTP's timescale, which is not UTC, it has none.
fn bound(local: ErrorEstimate, remote: ErrorEstimate) -> Option<ClockBound> {
    let utc = remote.format == TimeFormat::Ntp;
    let (local_ns, remote_ns) = (local.bound_ns()?, remote.bound_ns().filter(|_| utc)?);
    Some(ClockBound { local_ns, remote_ns })
}

/// The reflector's times, where they are in order.
fn stamps_of(answer: &Reflected) -> Option<ReflectorStamps> {
    let Reflected { received_ns, sent_ns, sequence: frames, .. } = *answer;
    (sent_ns >= received_ns).then_some(ReflectorStamps {
        received_ns,
        sent_ns,
        frames,
        ..ReflectorStamps::default()
    })
}

/// A sample without the differences of two clocks.
fn one_clock(sample: Sample) -> Sample {
    Sample { forward_ns: None, backward_ns: None, ..sample }
}

#[cfg(test)]
mod tests;
