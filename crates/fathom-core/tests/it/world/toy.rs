//! A protocol of one's own in one file: a request of 10 bytes, an answer of 1,000. And the server of it.

use fathom_core::probe::protocol::Protocol;
use fathom_wire::{Integrity, Key};

pub(crate) const REQUEST: usize = 10;
pub(crate) const ANSWER: usize = 1_000;

/// The request is its number and two letters; the answer repeats the number, over and over.
#[derive(Debug)]
struct Toy {
    /// Bytes of the current answer that have come, and whether all were right.
    taken: usize,
    wrong: bool,
    canary_may_ask: bool,
}

fn answer_byte(seq: u64, at: usize) -> u8 {
    seq.to_be_bytes()[at % 8]
}

impl Protocol for Toy {
    fn request_len(&self, _size: u32) -> usize {
        REQUEST
    }

    fn fill(&self, seq: u64, _size: u32, offset: usize, out: &mut [u8]) {
        let mut request = [b'G'; REQUEST];
        request[..8].copy_from_slice(&seq.to_be_bytes());
        out.copy_from_slice(&request[offset..offset + out.len()]);
    }

    fn owed(&self, _seq: u64, _size: u32) -> Option<usize> {
        Some(ANSWER - self.taken)
    }

    fn feed(&mut self, seq: u64, _size: u32, bytes: &[u8]) -> (usize, Option<Integrity>) {
        let n = bytes.len().min(ANSWER - self.taken);
        self.wrong |= (0..n).any(|i| bytes[i] != answer_byte(seq, self.taken + i));
        self.taken += n;
        if self.taken < ANSWER {
            return (n, None);
        }
        let integrity = if self.wrong { Integrity::Corrupted } else { Integrity::Intact(None) };
        (self.taken, self.wrong) = (0, false);
        (n, Some(integrity))
    }

    fn is_off_track(&self) -> bool {
        self.wrong
    }

    fn canary_may_ask(&self) -> bool {
        self.canary_may_ask
    }
}

/// The protocol.
pub(crate) fn toy(_: Key) -> Box<dyn Protocol> {
    Box::new(Toy { taken: 0, wrong: false, canary_may_ask: true })
}

/// The same, where a fresh connection cannot be asked.
pub(crate) fn shy_toy(_: Key) -> Box<dyn Protocol> {
    Box::new(Toy { taken: 0, wrong: false, canary_may_ask: false })
}

/// Its server: what it answers to the bytes that came, of which it keeps those of a request that is not whole.
///
/// # Panics
/// If what came is no request of this protocol.
pub(crate) fn serve(kept: &mut Vec<u8>, bytes: &[u8]) -> Vec<u8> {
    kept.extend_from_slice(bytes);
    let mut answers = Vec::new();
    while kept.len() >= REQUEST {
        let request: Vec<u8> = kept.drain(..REQUEST).collect();
        assert_eq!(request[8..], *b"GG", "a request of another protocol: {request:?}");
        let seq = u64::from_be_bytes(*request.first_chunk().expect("ten bytes"));
        answers.extend((0..ANSWER).map(|at| answer_byte(seq, at)));
    }
    answers
}
