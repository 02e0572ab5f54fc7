//! The reflector's side: a filter that lets a byte stream through unchanged, but for the stamps it writes into
//! frames of ours.

use crate::frame::{HEADER_LEN, IDENTITY_LEN, Identity, MAGIC, ReflectorStamps};
use crate::question::{Question, Reply};

/// What a reflector knows at the moment it passes bytes on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionView {
    /// When the bytes were read: ns since the Unix epoch.
    pub received_ns: i64,
    /// Just before they are written: the same clock.
    pub sent_ns: i64,
    /// Microseconds for which this reflector could not run since it started, wrapping.
    pub pause_us: u32,
    /// As [`ReflectorStamps::identity`].
    pub identity: u32,
    /// As [`ReflectorStamps::waited`].
    pub waited: bool,
    /// As [`ReflectorStamps::epoch`].
    pub epoch: u8,
    /// As [`ReflectorStamps::tells_pauses`].
    pub tells_pauses: bool,
}

/// Follows one connection's stream and stamps the frames in it, in place and without holding a byte back.
///
/// The first bytes decide: a stream that is not a sequence of frames is plain for good, and is echoed byte for
/// byte (RFC 862: "any data received is sent back").
#[derive(Debug, Clone)]
pub struct Stamper {
    plain: bool,
    /// Position in the current frame.
    position: u32,
    /// Length of the current frame, known once the identity is read.
    length: u32,
    identity: [u8; IDENTITY_LEN],
    /// What the current frame asks, if it is a question.
    question: Option<Question>,
    /// The reflector's part, fixed when its first byte passes; `None`: it stays as it came.
    part: Option<[u8; HEADER_LEN - IDENTITY_LEN]>,
    /// When the current frame's first byte was read.
    received_ns: i64,
    frames: u32,
    /// The latest frame that asks for an echo.
    latest: Option<Identity>,
}

impl Default for Stamper {
    fn default() -> Self {
        Self {
            plain: false,
            position: 0,
            length: 0,
            identity: [0; IDENTITY_LEN],
            question: None,
            part: None,
            received_ns: 0,
            frames: 0,
            latest: None,
        }
    }
}

impl Stamper {
    /// A stamper for one datagram of a connection on which `frames` frames came before it (UDP has no stream to follow).
    pub fn after(frames: u32) -> Self {
        Self { frames, ..Self::default() }
    }

    /// Passes the next bytes of the stream, stamping what belongs to a frame header. Questions get no answer.
    pub fn pass(&mut self, view: ConnectionView, bytes: &mut [u8]) {
        self.pass_answering(view, bytes, |_| None);
    }

    /// As [`Stamper::pass`], and writes what `answer` gives into questions; where it gives nothing they stay as they
    /// came.
    pub fn pass_answering(
        &mut self,
        view: ConnectionView,
        bytes: &mut [u8],
        mut answer: impl FnMut(&Question) -> Option<Reply>,
    ) {
        let mut rest = bytes;
        while !self.plain && !rest.is_empty() {
            let taken = self.step(view, rest, &mut answer);
            rest = &mut rest[taken..];
        }
    }

    /// The latest frame whose identity was whole, questions aside.
    pub fn latest(&self) -> Option<Identity> {
        self.latest
    }

    /// Frames recognised so far, questions aside, the unfinished one included once its identity is whole; wraps at 2^32.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Whether the stream turned out not to consist of frames.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Handles the bytes up to the next boundary (identity, header, frame); returns how many.
    fn step(
        &mut self,
        view: ConnectionView,
        bytes: &mut [u8],
        answer: &mut impl FnMut(&Question) -> Option<Reply>,
    ) -> usize {
        let at = self.position as usize;
        let taken = if at < IDENTITY_LEN {
            if at == 0 {
                self.received_ns = view.received_ns;
            }
            // Whole, as a rule; and of a known length it is copied without a call.
            let taken = if at == 0
                && let Some(whole) = bytes.first_chunk()
            {
                self.identity = *whole;
                IDENTITY_LEN
            } else {
                let taken = bytes.len().min(IDENTITY_LEN - at);
                self.identity[at..at + taken].copy_from_slice(&bytes[..taken]);
                taken
            };
            self.read_identity(at + taken);
            taken
        } else if at < HEADER_LEN {
            if at == IDENTITY_LEN {
                self.part = match &self.question {
                    Some(question) => answer(question).map(|reply| reply.encode()),
                    None => Some(self.stamps(view).encode()),
                };
            }
            let taken = bytes.len().min(HEADER_LEN - at);
            if let Some(part) = &self.part {
                if at == IDENTITY_LEN
                    && let Some(whole) = bytes.first_chunk_mut()
                {
                    *whole = *part;
                } else {
                    bytes[..taken].copy_from_slice(&part[at - IDENTITY_LEN..at - IDENTITY_LEN + taken]);
                }
            }
            taken
        } else {
            bytes.len().min((self.length - self.position) as usize)
        };
        self.position += taken as u32;
        if !self.plain && self.position >= HEADER_LEN as u32 && self.position == self.length {
            self.position = 0;
        }
        taken
    }

    fn stamps(&self, view: ConnectionView) -> ReflectorStamps {
        ReflectorStamps {
            received_ns: self.received_ns,
            sent_ns: view.sent_ns.max(self.received_ns),
            pause_us: view.pause_us,
            frames: self.frames.wrapping_sub(1),
            identity: view.identity,
            waited: view.waited,
            epoch: view.epoch,
            tells_pauses: view.tells_pauses,
        }
    }

    /// Decides as early as the bytes allow whether this is a frame.
    fn read_identity(&mut self, seen: usize) {
        let prefix = seen.min(MAGIC.len());
        if self.identity[..prefix] != MAGIC[..prefix] {
            self.plain = true;
        } else if seen == IDENTITY_LEN {
            self.question = None;
            if let Some(identity) = Identity::decode(&self.identity) {
                self.length = identity.length;
                self.frames = self.frames.wrapping_add(1);
                self.latest = Some(identity);
            } else if let Some(question) = Question::decode(&self.identity) {
                self.length = HEADER_LEN as u32;
                self.question = Some(question);
            } else {
                self.plain = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Checker, Integrity, Key};
    use crate::question::{About, Answer};
    use proptest::prelude::*;

    const KEY: Key = Key { session: 1, connection: 2 };

    fn view(received_ns: i64, sent_ns: i64, pause_us: u32) -> ConnectionView {
        ConnectionView { received_ns, sent_ns, pause_us, ..ConnectionView::default() }
    }

    fn stream(sizes: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        for (sequence, &size) in sizes.iter().enumerate() {
            let start = out.len();
            out.resize(start + size as usize, 0);
            KEY.fill(sequence as u64, size, 0, &mut out[start..]);
        }
        out
    }

    #[test]
    fn stamps_carry_what_the_reflector_saw() {
        let mut bytes = stream(&[64, 100]);
        let mut stamper = Stamper::default();
        // The first frame arrives in two pieces: its receive stamp is that of the first.
        stamper.pass(view(10, 11, 0), &mut bytes[..20]);
        stamper.pass(view(30, 35, 9), &mut bytes[20..]);
        let (taken, verdict) = Checker::default().feed(KEY, 0, 64, &bytes);
        assert_eq!(taken, 64);
        let stamps =
            ReflectorStamps { received_ns: 10, sent_ns: 35, pause_us: 9, frames: 0, ..Default::default() };
        assert_eq!(verdict, Some(Integrity::Intact(Some(stamps))));
        let (_, verdict) = Checker::default().feed(KEY, 1, 100, &bytes[64..]);
        let stamps =
            ReflectorStamps { received_ns: 30, sent_ns: 35, pause_us: 9, frames: 1, ..Default::default() };
        assert_eq!(verdict, Some(Integrity::Intact(Some(stamps))));
    }

    #[test]
    fn question_is_answered_in_place_not_counted() {
        let question = Question { session: 1, connection: 9, number: 4, about: About::Connection };
        let answer = Answer { last_seq: 77, received_ns: 5, ..Answer::default() };
        let mut plain = stream(&[64]);
        plain.extend_from_slice(&question.encode());
        plain.extend_from_slice(&stream(&[64]));
        for cut in 0..=plain.len() {
            let mut bytes = plain.clone();
            let mut stamper = Stamper::default();
            let (one, two) = bytes.split_at_mut(cut);
            for piece in [one, two] {
                stamper.pass_answering(ConnectionView::default(), piece, |asked| {
                    assert_eq!(*asked, question);
                    Some(Reply::Connection(answer))
                });
            }
            assert_eq!(bytes[64..96], plain[64..96], "the question stays whole");
            assert_eq!(Answer::decode(bytes[96..128].as_array().expect("32 bytes")), Ok(Some(answer)));
            assert_eq!((stamper.frames(), stamper.latest().map(|id| id.sequence)), (2, Some(0)));
            // A reflector that does not answer lets it pass as it came.
            let mut bytes = plain.clone();
            Stamper::default().pass(ConnectionView::default(), &mut bytes);
            assert_eq!(bytes[64..128], plain[64..128]);
        }
    }

    #[test]
    fn stream_turns_plain_after_its_last_frame() {
        let mut bytes = stream(&[64]);
        bytes.extend_from_slice(
            b"hello, then 64 more bytes that are nobody's frame and stay as they are ....",
        );
        let tail = bytes[64..].to_vec();
        let mut stamper = Stamper::default();
        stamper.pass(ConnectionView::default(), &mut bytes);
        assert!(stamper.is_plain());
        assert_eq!(stamper.frames(), 1);
        assert_eq!(bytes[64..], tail);
    }

    proptest! {
        #[test]
        fn foreign_streams_pass_untouched(mut bytes: Vec<u8>, cut in 0usize..64) {
            let before = bytes.clone();
            let mut stamper = Stamper::default();
            let cut = cut.min(bytes.len());
            let (a, b) = bytes.split_at_mut(cut);
            stamper.pass(ConnectionView::default(), a);
            stamper.pass(ConnectionView::default(), b);
            prop_assert_eq!(bytes, before);
        }

        #[test]
        fn any_chunking_gives_the_same_stream(
            sizes in prop::collection::vec(64u32..200, 1..6),
            chunks in prop::collection::vec(1usize..90, 1..30),
        ) {
            let view = view(5, 8, 1);
            let mut whole = stream(&sizes);
            Stamper::default().pass(view, &mut whole);
            let mut pieces = stream(&sizes);
            let mut stamper = Stamper::default();
            let mut at = 0;
            for chunk in chunks.into_iter().cycle() {
                let end = (at + chunk).min(pieces.len());
                stamper.pass(view, &mut pieces[at..end]);
                at = end;
                if at == pieces.len() { break; }
            }
            prop_assert_eq!(stamper.frames() as usize, sizes.len());
            prop_assert_eq!(&pieces, &whole);
            // And every echo is intact to the probe.
            let mut rest = &whole[..];
            for (sequence, &size) in sizes.iter().enumerate() {
                let (taken, verdict) = Checker::default().feed(KEY, sequence as u64, size, rest);
                rest = &rest[taken..];
                prop_assert!(matches!(verdict, Some(Integrity::Intact(Some(_)))));
            }
        }
    }
}
