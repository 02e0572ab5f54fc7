//! A frame that asks for no echo: traffic in one direction, so that a probe can find out what that does to a connection.
//!
//! It is a frame of kind 2 (see [`crate::frame`]). A reflector of ours takes it out of the stream and sends nothing back
//! for it but, where it asks for that, a byte of 0 now and then; any other echo server sends it back as it came, by which
//! a probe knows that traffic one way cannot be had there.
//!
//! ```text
//!  offset size field          written by
//!   0     12   as in any frame probe      kind 2, length: 64 or, if that is more, 128 for each segment
//!  12      4   connection     probe       as in any frame
//!  16      4   every_ms       probe       time from this frame's end to the first segment, and from each to the next
//!  20      4   segments       probe       how many the reflector is to send, 0 ..= 128: of one byte, 0
//!  24      4   session        probe       as in any frame
//!  28      4   check          probe       CRC-32 of bytes 0..28
//!  32     32   code           probe       zero, or the code of [`crate::secret`]
//!  64          padding        probe       anything; nobody reads it
//! ```
//!
//! It counts once its last byte has come. What comes next on the connection, other than such a frame, ends it: no further segment
//! is sent. A segment of one byte is 73 bytes with the headers of IPv6 and TCP, and 128 came for it: nothing is amplified.

use crate::frame::{HEADER_LEN, IDENTITY_LEN, Identity, MAGIC, VERSION, decode_head, encode_head};
use crate::question::Question;
use crate::secret::Secret;

const KIND_ONE_WAY: u8 = 2;
/// Segments that one frame may ask for, at the most.
pub const SEGMENTS_MOST: u32 = 128;
/// Bytes of the frame for each of them.
const BYTES_A_SEGMENT: u32 = 128;
/// The shortest time between two of them, in ms.
pub const EVERY_LEAST_MS: u32 = 100;
/// The longest, in ms: eight days. Nobody looks for limits that are longer.
pub const EVERY_MOST_MS: u32 = 8 * 24 * 3_600 * 1_000;
/// What a segment of the reflector's consists of. No frame begins so.
pub const SEGMENT: u8 = 0;
/// How such a frame begins.
const BEGINNING: [u8; 6] = [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], VERSION, KIND_ONE_WAY];

/// A frame that asks for no echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneWay {
    /// Session of the connection that it comes on.
    pub session: u32,
    /// Ordinal of that connection.
    pub connection: u32,
    /// Segments that the reflector is to send, [`SEGMENTS_MOST`] at the most. 0: none.
    pub segments: u32,
    /// From this frame to the first segment, and from each to the next, in ms: [`EVERY_LEAST_MS`] to [`EVERY_MOST_MS`].
    pub every_ms: u32,
}

impl OneWay {
    /// Bytes of the whole frame.
    pub fn length(&self) -> u32 {
        (self.segments * BYTES_A_SEGMENT).max(HEADER_LEN as u32)
    }

    /// The whole frame.
    pub fn encode(&self, secret: Option<&Secret>) -> Vec<u8> {
        let asked = u64::from(self.every_ms) << 32 | u64::from(self.segments);
        let head = encode_head(KIND_ONE_WAY, self.length(), self.connection, asked, self.session);
        let mut header = [0; HEADER_LEN];
        header[..IDENTITY_LEN].copy_from_slice(&head);
        if let Some(secret) = secret {
            secret.seal(&mut header);
        }
        let mut out = header.to_vec();
        out.resize(self.length() as usize, 0);
        out
    }

    /// Reads the first half of a header; `None` where these bytes are not the start of such a frame.
    pub fn decode(bytes: &[u8; IDENTITY_LEN]) -> Option<Self> {
        let (length, connection, asked, session) = decode_head(KIND_ONE_WAY, bytes)?;
        let frame = Self { session, connection, segments: asked as u32, every_ms: (asked >> 32) as u32 };
        let is_bounded = frame.segments == 0
            || (frame.segments <= SEGMENTS_MOST
                && (EVERY_LEAST_MS..=EVERY_MOST_MS).contains(&frame.every_ms));
        (is_bounded && length == frame.length()).then_some(frame)
    }
}

/// What a [`Sieve`] did with some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sifted {
    /// So many of them, now at the beginning, are to be echoed.
    pub kept: usize,
    /// Something else than such a frame was among them.
    pub other: bool,
    /// The last such frame whose last byte has come, if nothing else came after it.
    pub asked: Option<OneWay>,
}

/// The reflector's side: takes such frames out of a stream of frames. The other bytes pass as they come.
///
/// Before each [`Sieve::pass`] what is [held](Sieve::held) is put before the bytes that came. Where the bytes stop being frames the
/// stream is plain for good, from the byte at which a [`Stamper`](crate::Stamper) takes it for plain: then nothing is held
/// any more, and bytes need not be passed.
///
/// A frame whose first six bytes come in pieces is passed on, and the stream is plain from then on: nothing is held back
/// before its kind is known. A probe writes each of them at once.
#[derive(Debug, Clone, Default)]
pub struct Sieve {
    plain: bool,
    /// Position in the current frame, and its length, once that is known.
    position: u32,
    length: u32,
    /// The current frame, if it is taken out: it counts once all of it has come.
    taking: Option<OneWay>,
    /// The beginning of the current frame; at its boundary the beginning of one to be taken out, whose head is not whole yet.
    head: [u8; IDENTITY_LEN],
    /// So many bytes of the head are held back.
    held: usize,
}

impl Sieve {
    /// What was held back, to stand before the bytes that come next.
    pub fn held(&self) -> &[u8] {
        &self.head[..self.held]
    }

    /// Whether the stream turned out not to consist of frames. Nothing is held then.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Takes such frames out of the next bytes of the stream, what was held back before them.
    pub fn pass(&mut self, bytes: &mut [u8]) -> Sifted {
        let (mut sifted, mut at) = (Sifted::default(), 0);
        self.held = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if self.position == 0 && !self.plain && rest.starts_with(&BEGINNING) {
                let Some(head) = rest.first_chunk() else {
                    self.held = rest.len();
                    self.head[..rest.len()].copy_from_slice(rest);
                    break;
                };
                self.taking = OneWay::decode(head);
                self.plain = self.taking.is_none();
                self.length = self.taking.map_or(0, |frame| frame.length());
            }
            let taken = self.step(rest);
            if self.taking.is_none() {
                if at > sifted.kept {
                    bytes.copy_within(at..at + taken, sifted.kept);
                }
                sifted.kept += taken;
                (sifted.other, sifted.asked) = (true, None);
            }
            at += taken;
            if !self.plain && self.position == self.length {
                sifted.asked = self.taking.take().or(sifted.asked);
                (self.position, self.length) = (0, 0);
            }
        }
        sifted
    }

    /// Follows the stream to the next boundary; how many bytes that is.
    fn step(&mut self, rest: &[u8]) -> usize {
        let position = self.position as usize;
        if self.plain {
            return rest.len();
        }
        if self.taking.is_some() || position >= IDENTITY_LEN {
            let taken = rest.len().min((self.length - self.position) as usize);
            self.position += taken as u32;
            return taken;
        }
        let taken = rest.len().min(IDENTITY_LEN - position);
        self.head[position..position + taken].copy_from_slice(&rest[..taken]);
        let seen = position + taken;
        self.position = seen as u32;
        let prefix = seen.min(MAGIC.len());
        if self.head[..prefix] != MAGIC[..prefix] {
            self.plain = true;
        } else if seen == IDENTITY_LEN {
            let echo = Identity::decode(&self.head).map(|identity| identity.length);
            let length = echo.or_else(|| Question::decode(&self.head).map(|_| HEADER_LEN as u32));
            self.plain = length.is_none();
            self.length = length.unwrap_or(0);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::u32_at;
    use crate::message::Key;
    use crate::question::{About, Question};
    use proptest::prelude::*;

    const KEY: Key = Key { session: 1, connection: 2 };

    fn frame(segments: u32) -> OneWay {
        OneWay { session: 1, connection: 2, segments, every_ms: 1_000 }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = frame(3).encode(None);
        let head = [
            0xF5, 0x54, 0x48, 0x4D, 1, 2, 0, 0, 0, 0, 1, 128, 0, 0, 0, 2, 0, 0, 3, 232, 0, 0, 0, 3, 0, 0, 0,
            1,
        ];
        assert_eq!((bytes.len(), &bytes[..28]), (384, &head[..]));
        // CRC-32 of those 28 bytes by an independent implementation (Python's zlib.crc32).
        assert_eq!(u32_at(&bytes, 28), 0xDB49_9A2B);
        assert_eq!(frame(0).encode(None).len(), 64);
    }

    #[test]
    fn what_is_asked_is_bounded() {
        for segments in 0..=SEGMENTS_MOST {
            for every_ms in [EVERY_LEAST_MS, EVERY_MOST_MS] {
                let frame = OneWay { every_ms, ..frame(segments) };
                assert_eq!(OneWay::decode(frame.encode(None).first_chunk().expect("a head")), Some(frame));
            }
        }
        for wrong in [
            frame(SEGMENTS_MOST + 1),
            OneWay { every_ms: EVERY_LEAST_MS - 1, ..frame(1) },
            OneWay { every_ms: EVERY_MOST_MS + 1, ..frame(1) },
            frame(u32::MAX >> 8),
        ] {
            let asked = u64::from(wrong.every_ms) << 32 | u64::from(wrong.segments);
            let head = encode_head(KIND_ONE_WAY, wrong.length(), 2, asked, 1);
            assert_eq!(OneWay::decode(&head), None, "{wrong:?}");
        }
        // A length that is not what the segments need.
        let asked = u64::from(1_000_u32) << 32 | 0x64;
        assert_eq!(OneWay::decode(&encode_head(KIND_ONE_WAY, 64, 2, asked, 1)), None);
    }

    /// A frame counts once all of it has come: until then nothing may go out for it. A segment is 73 bytes with the longest headers
    /// that one of one byte commonly has (IPv6, and TCP with time stamps).
    #[test]
    fn answer_is_no_larger_than_complete_frame() {
        for segments in [0, 1, 3, SEGMENTS_MOST] {
            let bytes = frame(segments).encode(None);
            for breaks_off in 6..=bytes.len() {
                let (out, asked) = sifted(&bytes[..breaks_off], &[breaks_off]);
                let answer = asked.map_or(0, |frame| frame.segments as usize * (40 + 32 + 1));
                assert!(out.is_empty() && answer <= breaks_off, "{answer} for {breaks_off}");
                assert_eq!(asked.is_some(), breaks_off == bytes.len(), "{segments}: {breaks_off}");
            }
        }
    }

    /// The bytes of a stream, in pieces as they come: what is echoed, and what the last such frame asks for.
    fn sifted(stream: &[u8], pieces: &[usize]) -> (Vec<u8>, Option<OneWay>) {
        let (mut sieve, mut out, mut asked, mut at) = (Sieve::default(), Vec::new(), None, 0);
        let mut pieces = pieces.iter().copied().cycle();
        while at < stream.len() {
            let piece = pieces.next().unwrap_or(1).clamp(1, stream.len() - at);
            let mut bytes = [sieve.held(), &stream[at..at + piece]].concat();
            let sifted = sieve.pass(&mut bytes);
            assert!(sieve.held().len() < IDENTITY_LEN);
            out.extend_from_slice(&bytes[..sifted.kept]);
            if sifted.other {
                asked = None;
            }
            asked = sifted.asked.or(asked);
            at += piece;
        }
        (out, asked)
    }

    proptest! {
        /// Whatever the pieces, unless one ends within the first six bytes of such a frame: the rest passes as it is, and the
        /// last such frame counts only while nothing else came.
        #[test]
        fn only_such_frames_are_taken_out(
            kinds in prop::collection::vec((0..4_u32, 64..400_u32), 1..12), pieces in prop::collection::vec(6..700_usize, 1..9),
        ) {
            let (mut stream, mut others, mut last, mut starts) = (Vec::new(), Vec::new(), None, Vec::new());
            for (seq, (kind, size)) in kinds.into_iter().enumerate() {
                let bytes = match kind {
                    0 | 1 => {
                        last = Some(frame(size % 5));
                        starts.push(stream.len());
                        frame(size % 5).encode(None)
                    }
                    2 => Question { session: 1, connection: 2, number: 3, about: About::Connection }.encode().to_vec(),
                    _ => {
                        let mut echo = vec![0; size as usize];
                        KEY.fill(seq as u64, size, 0, &mut echo);
                        echo
                    }
                };
                if kind > 1 {
                    others.extend_from_slice(&bytes);
                    last = None;
                }
                stream.extend(bytes);
            }
            let mut ends = pieces.iter().copied().cycle().scan(0, |at, piece| { *at += piece; Some(*at) });
            let ends: Vec<usize> = ends.by_ref().take_while(|end| *end < stream.len()).collect();
            prop_assume!(!starts.iter().any(|start| ends.iter().any(|end| (start + 1..start + 6).contains(end))));
            prop_assert_eq!(sifted(&stream, &pieces), (others, last));
        }

        /// What is not a sequence of frames is echoed byte for byte (RFC 862).
        #[test]
        fn what_is_no_frame_passes(stream in prop::collection::vec(any::<u8>(), 1..400), pieces in prop::collection::vec(1..50_usize, 1..5)) {
            prop_assert_eq!(sifted(&stream, &pieces), (stream, None));
        }

        #[test]
        fn a_damaged_one_is_echoed(bit in 48..256_usize, pieces in prop::collection::vec(6..50_usize, 1..5)) {
            let mut stream = frame(2).encode(None);
            stream[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(sifted(&stream, &pieces), (stream, None));
        }
    }
}
