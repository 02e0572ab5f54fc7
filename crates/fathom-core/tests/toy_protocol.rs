//! A protocol of one's own in one file: a request of 10 bytes, an answer of 1,000.

mod world;

use fathom_core::probe::Settings;
use fathom_core::probe::protocol::Protocol;
use fathom_core::schedule::Pace;
use fathom_wire::{Integrity, Key};
use world::{Fault, MS, S, World};

const REQUEST: usize = 10;
const ANSWER: usize = 1_000;

/// The request is its number and two letters; the answer repeats the number, over and over.
#[derive(Debug, Default)]
struct Toy {
    /// Bytes of the current answer that have come, and whether all were right.
    taken: usize,
    wrong: bool,
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
        *self = Self::default();
        (n, Some(integrity))
    }

    fn is_off_track(&self) -> bool {
        self.wrong
    }
}

fn toy(_: Key) -> Box<dyn Protocol> {
    Box::new(Toy::default())
}

#[test]
fn requests_and_answers_of_different_lengths_are_samples_like_others() {
    for pace in [Pace::Every(20 * MS), Pace::PingPong] {
        let settings = Settings { pace, duration_ns: Some(10 * S), ..Settings::new(vec!["toy:1".into()]) };
        let mut world =
            World::speaking(settings, 1, Some(toy)).with([(3 * S, Fault::Silence(S)), (6 * S, Fault::Reset)]);
        world.rtt_ns = 2 * MS;
        world.answer = Some(|request| {
            assert_eq!(request.len(), REQUEST);
            let seq = u64::from_be_bytes(*request.first_chunk().expect("ten bytes"));
            (0..ANSWER).map(|at| answer_byte(seq, at)).collect()
        });
        let outcome = world.run();
        outcome.check_laws();
        let answered = outcome.samples.iter().filter(|(_, s)| s.rtt_ns.is_some()).count();
        assert!(answered >= 400 && outcome.samples.len() <= answered + 2, "{answered} answered");
        assert_eq!(outcome.stalls(), 1);
    }
}
