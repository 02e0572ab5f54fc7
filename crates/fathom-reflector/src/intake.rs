//! What came on a TCP connection, and what of it is to be echoed: all of it, but for what the gate keeps out and for what asks for
//! no echo. No socket, no clock.

use crate::gate::{Gate, Stranger};
use crate::one_way::Segments;
use fathom_wire::{Secret, Sieve};

/// One connection's. Before each [`Intake::pass`] what is [held](Intake::held) is put before the bytes that came.
#[derive(Debug)]
pub(crate) struct Intake {
    /// With a key: what may be echoed. Boxed, since an idle connection should be small.
    gate: Option<Box<Gate>>,
    /// Takes out what asks for no echo.
    sieve: Sieve,
    /// What the peer has asked for instead.
    segments: Option<Segments>,
}

impl Intake {
    /// Where there is a secret, only of those who know it.
    pub(crate) fn new(secret: Option<Secret>) -> Self {
        let gate = secret.map(|secret| Box::new(Gate::new(secret)));
        Self { gate, sieve: Sieve::default(), segments: None }
    }

    /// Whether there is a key, and the peer has not shown that it knows it.
    pub(crate) fn is_unknown(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| !gate.proven)
    }

    /// What was held back. Behind a gate heads are whole, and the sieve holds nothing.
    pub(crate) fn held(&self) -> &[u8] {
        self.gate.as_deref().map_or(self.sieve.held(), Gate::held)
    }

    /// How many bytes, now the first of these, are to be echoed.
    pub(crate) fn pass(&mut self, bytes: &mut [u8], now_ns: u64) -> Result<usize, Stranger> {
        let mut ready = bytes.len();
        if let Some(gate) = &mut self.gate {
            ready = gate.pass(bytes)?;
        }
        if !self.sieve.is_plain() {
            let sifted = self.sieve.pass(&mut bytes[..ready]);
            ready = sifted.kept;
            let asked = sifted.asked.map(|frame| Segments::asked_for(&frame, now_ns));
            if sifted.other || asked.is_some() {
                self.segments = asked.flatten();
            }
        }
        Ok(ready)
    }

    /// When the next segment is due that the peer asked for.
    pub(crate) fn segment_due_ns(&self) -> Option<u64> {
        self.segments.map(|segments| segments.due_ns)
    }

    /// Takes the segment that is due; whether there is one.
    pub(crate) fn take_segment(&mut self, now_ns: u64) -> bool {
        let Some(due) = self.segments.filter(|segments| segments.due_ns <= now_ns) else { return false };
        self.segments = due.sent(now_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_wire::frame::IDENTITY_LEN;
    use fathom_wire::{About, ConnectionView, HEADER_LEN, Key, OneWay, Question, Stamper};
    use proptest::prelude::*;

    const KEY: Key = Key { session: 5, connection: 1 };
    const MS: u64 = 1_000_000;
    /// With the longest headers that a segment of one byte commonly has (IPv6, and TCP with time stamps).
    const SEGMENT_BYTES: usize = 40 + 32 + 1;
    /// Up to here a frame that asks for no echo is not known.
    const KNOWN: usize = 6;

    /// A part of a stream, and whether it is a frame that asks for an echo, one that asks for none, or neither.
    type Part = (Vec<u8>, Kind);

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Kind {
        Echo,
        OneWay,
        Neither,
    }

    fn echo(size: u32) -> Vec<u8> {
        let mut bytes = vec![0; size as usize];
        KEY.fill(3, size, 0, &mut bytes);
        bytes
    }

    fn one_way(segments: u32, every_ms: u32) -> Vec<u8> {
        OneWay { session: 5, connection: 1, segments, every_ms }.encode(None)
    }

    fn part() -> impl Strategy<Value = Part> {
        let ask = (0..5_u32, 100..400_u32).prop_map(|(segments, every_ms)| one_way(segments, every_ms));
        prop_oneof![
            4 => (64..300_u32).prop_map(|size| (echo(size), Kind::Echo)),
            1 => Just((
                Question { session: 5, connection: 1, number: 3, about: About::Connection }.encode().to_vec(),
                Kind::Echo
            )),
            6 => ask.clone().prop_map(|bytes| (bytes, Kind::OneWay)),
            // A bad check, or a bit that no frame has.
            1 => (prop_oneof![ask, (64..100_u32).prop_map(echo)], 0..IDENTITY_LEN * 8).prop_map(|(mut bytes, bit)| {
                bytes[bit / 8] ^= 1 << (bit % 8);
                (bytes, Kind::Neither)
            }),
            1 => (prop::collection::vec(any::<u8>(), 1..80)).prop_map(|bytes| (bytes, Kind::Neither)),
        ]
    }

    /// What is to be echoed of a stream that comes in pieces with these ends: everything but whole frames that ask for no echo, up to
    /// where it stops being frames. Said of the stream as a whole, byte by byte.
    fn echoed(parts: &[Part], ends: &[usize]) -> Vec<u8> {
        let (mut out, mut at, mut plain) = (Vec::new(), 0, false);
        for (bytes, kind) in parts {
            let in_pieces = ends.iter().any(|end| (at + 1..at + KNOWN).contains(end));
            plain |= *kind == Kind::Neither || (*kind == Kind::OneWay && in_pieces);
            if plain || *kind == Kind::Echo {
                out.extend_from_slice(bytes);
            }
            at += bytes.len();
        }
        out
    }

    /// The stream, cut into pieces of these lengths, again and again.
    fn pieces(parts: &[Part], lengths: &[usize]) -> Vec<Vec<u8>> {
        let stream: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let (mut rest, mut pieces) = (&stream[..], Vec::new());
        for length in lengths.iter().cycle() {
            let (piece, after) = rest.split_at((*length).min(rest.len()));
            pieces.push(piece.to_vec());
            rest = after;
            if rest.is_empty() {
                return pieces;
            }
        }
        pieces
    }

    proptest! {
        /// Bytes out are bytes in, less the frames taken out, however the stream is cut into reads: none twice, none lost but the
        /// beginning of a head at the end. And what stamps takes the stream for plain where this does.
        #[test]
        fn only_whole_one_way_frames_are_removed(
            mut parts in prop::collection::vec(part(), 1..8), breaks_off in 1..400_usize,
            lengths in prop::collection::vec(prop_oneof![1..8_usize, 1..500_usize], 1..12),
        ) {
            if let Some((bytes, _)) = parts.last_mut() {
                bytes.truncate(breaks_off);
            }
            let (mut intake, mut stamper, mut out) = (Intake::new(None), Stamper::default(), Vec::new());
            let (mut at, mut ends) = (0, Vec::new());
            for piece in pieces(&parts, &lengths) {
                let mut bytes = [intake.held(), &piece].concat();
                let ready = intake.pass(&mut bytes, 0).expect("there is no key");
                out.extend_from_slice(&bytes[..ready]);
                stamper.pass(ConnectionView::default(), &mut bytes[..ready]);
                prop_assert_eq!(stamper.is_plain(), intake.sieve.is_plain());
                prop_assert!(intake.held().len() < IDENTITY_LEN);
                at += piece.len();
                ends.push(at);
            }
            // At the end the head of a frame that is none may be held still, not being whole.
            if parts.last().is_some_and(|(_, kind)| *kind == Kind::Neither) {
                out.extend_from_slice(intake.held());
            }
            prop_assert_eq!(out, echoed(&parts, &ends));
        }

        /// At no moment has more gone out than came in, headers and all, wherever the stream is cut off and whatever time passes.
        #[test]
        fn nothing_is_amplified(
            parts in prop::collection::vec(part(), 1..8),
            lengths in prop::collection::vec(prop_oneof![1..40_usize, 1..500_usize], 1..12),
            rests_ms in prop::collection::vec(0..1_000_u64, 1..6),
        ) {
            let (mut intake, mut came, mut sent, mut now_ns) = (Intake::new(None), 0, 0, 0);
            for (piece, rest_ms) in pieces(&parts, &lengths).iter().zip(rests_ms.iter().cycle()) {
                let mut bytes = [intake.held(), piece].concat();
                came += piece.len();
                sent += intake.pass(&mut bytes, now_ns).expect("there is no key");
                prop_assert!(sent <= came, "{} of {}", sent, came);
                let until_ns = now_ns + rest_ms * MS;
                while let Some(due_ns) = intake.segment_due_ns().filter(|due_ns| *due_ns <= until_ns) {
                    prop_assert!(intake.take_segment(due_ns));
                    sent += SEGMENT_BYTES;
                    prop_assert!(sent <= came, "{} of {}", sent, came);
                }
                now_ns = until_ns;
            }
        }
    }

    /// A frame with a bad check makes the stream plain; what was held behind it went back with every read.
    #[test]
    fn bytes_behind_damaged_frame_return_once() {
        let mut damaged = echo(HEADER_LEN as u32);
        damaged[31] ^= 1;
        let first = [damaged, one_way(1, 100)[..IDENTITY_LEN - 1].to_vec()].concat();
        let (mut intake, mut stamper, mut out) = (Intake::new(None), Stamper::default(), 0);
        for piece in std::iter::once(&first[..]).chain([&b"x"[..]; 100]) {
            let mut bytes = [intake.held(), piece].concat();
            let ready = intake.pass(&mut bytes, 0).expect("there is no key");
            stamper.pass(ConnectionView::default(), &mut bytes[..ready]);
            out += ready;
        }
        assert_eq!(out, first.len() + 100);
    }
}
