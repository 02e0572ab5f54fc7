//! Making a message, and checking an echo of it while it arrives in pieces.

use crate::frame::{HEADER_LEN, IDENTITY_LEN, Identity, ReflectorStamps};
use crate::pattern;
use crate::secret::Secret;

/// What makes the messages of one connection its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Random number of the recording.
    pub session: u32,
    /// Ordinal of the connection in its recording.
    pub connection: u32,
}

impl Key {
    fn seed(self, sequence: u64) -> u64 {
        pattern::mix(u64::from(self.session) << 32 | u64::from(self.connection)) ^ pattern::mix(sequence)
    }

    /// Writes the bytes `offset..offset + out.len()` of message `sequence`, which is `size` bytes long.
    ///
    /// A message of [`HEADER_LEN`] or more is a frame. A shorter one is the low bytes of its sequence number,
    /// least significant first, so that even one byte tells neighbours apart, then the pattern.
    ///
    /// # Panics
    /// If `offset + out.len() > size`.
    pub fn fill(self, sequence: u64, size: u32, offset: usize, out: &mut [u8]) {
        self.fill_sealed(None, sequence, size, offset, out);
    }

    /// As [`Key::fill`]; where there is a secret, a frame bears its code.
    ///
    /// # Panics
    /// If `offset + out.len() > size`.
    pub fn fill_sealed(
        self,
        secret: Option<&Secret>,
        sequence: u64,
        size: u32,
        offset: usize,
        out: &mut [u8],
    ) {
        assert!(offset + out.len() <= size as usize, "a message has no bytes past its end");
        let mut head = self.head(sequence, size);
        if let Some(secret) = secret
            && head.len == HEADER_LEN
            && offset < HEADER_LEN
        {
            secret.seal(&mut head.bytes);
        }
        let head = head.bytes();
        let from_head = head.len().saturating_sub(offset).min(out.len());
        if from_head > 0 {
            out[..from_head].copy_from_slice(&head[offset..offset + from_head]);
        }
        let rest = &mut out[from_head..];
        pattern::fill(self.seed(sequence), (offset + from_head) as u64, rest);
    }

    fn head(self, sequence: u64, size: u32) -> Head {
        let mut bytes = [0; HEADER_LEN];
        let len = if size as usize >= HEADER_LEN {
            let identity =
                Identity { length: size, connection: self.connection, sequence, session: self.session };
            bytes[..IDENTITY_LEN].copy_from_slice(&identity.encode());
            HEADER_LEN
        } else {
            let len = 8.min(size as usize);
            bytes[..len].copy_from_slice(&sequence.to_le_bytes()[..len]);
            len
        };
        Head { bytes, len }
    }
}

struct Head {
    bytes: [u8; HEADER_LEN],
    len: usize,
}

impl Head {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What a whole echo turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// The message came back as it was sent, but for what a stamping reflector wrote into it.
    Intact(Option<ReflectorStamps>),
    /// Some byte differs.
    Corrupted,
}

/// Checks one echo, byte for byte, as its pieces arrive. Holds 32 bytes, whatever the size of the message.
#[derive(Debug, Clone)]
pub struct Checker {
    position: u32,
    intact: bool,
    stamps: [u8; HEADER_LEN - IDENTITY_LEN],
}

impl Default for Checker {
    fn default() -> Self {
        Self { position: 0, intact: true, stamps: [0; HEADER_LEN - IDENTITY_LEN] }
    }
}

impl Checker {
    /// Bytes of the echo seen so far.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Whether every byte seen so far is one that was sent.
    pub fn is_intact(&self) -> bool {
        self.intact
    }

    /// Takes the next bytes of the echo of message `sequence`; returns how many belong to it, and the verdict
    /// once it is whole. The checker is then ready for the next message.
    pub fn feed(&mut self, key: Key, sequence: u64, size: u32, bytes: &[u8]) -> (usize, Option<Integrity>) {
        let start = self.position as usize;
        let taken = bytes.len().min(size as usize - start);
        if taken > 0 && self.intact {
            self.intact = self.compare(key, sequence, size, start, &bytes[..taken]);
        }
        self.position += taken as u32;
        if self.position < size {
            return (taken, None);
        }
        let done = std::mem::take(self);
        let verdict = match (done.intact, ReflectorStamps::decode(&done.stamps)) {
            (true, Ok(stamps)) => Integrity::Intact(stamps),
            _ => Integrity::Corrupted,
        };
        (taken, Some(verdict))
    }

    fn compare(&mut self, key: Key, sequence: u64, size: u32, start: usize, bytes: &[u8]) -> bool {
        let head = key.head(sequence, size);
        let head = head.bytes();
        let framed = head.len() == HEADER_LEN;
        let in_head = head.len().saturating_sub(start).min(bytes.len());
        for (i, &byte) in bytes[..in_head].iter().enumerate() {
            let at = start + i;
            if framed && at >= IDENTITY_LEN {
                self.stamps[at - IDENTITY_LEN] = byte;
            } else if byte != head[at] {
                return false;
            }
        }
        pattern::matches(key.seed(sequence), (start + in_head) as u64, &bytes[in_head..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Key = Key { session: 7, connection: 3 };

    fn message(sequence: u64, size: u32) -> Vec<u8> {
        let mut bytes = vec![0; size as usize];
        KEY.fill(sequence, size, 0, &mut bytes);
        bytes
    }

    fn check(sequence: u64, size: u32, bytes: &[u8]) -> Option<Integrity> {
        Checker::default().feed(KEY, sequence, size, bytes).1
    }

    #[test]
    fn neighbours_differ_even_in_one_byte() {
        for size in [1, 2, 8, 63, 64, 65] {
            assert_eq!(check(5, size, &message(5, size)), Some(Integrity::Intact(None)), "{size}");
            assert_eq!(check(5, size, &message(6, size)), Some(Integrity::Corrupted), "{size}");
        }
    }

    #[test]
    fn another_connection_or_run_is_not_ours() {
        let other = Key { session: 7, connection: 4 };
        let mut bytes = [0; 16];
        other.fill(5, 16, 0, &mut bytes);
        assert_eq!(check(5, 16, &bytes), Some(Integrity::Corrupted));
    }

    proptest! {
        #[test]
        fn echoes_in_pieces_are_recognised(sequence: u64, size in 1u32..400, cuts in prop::collection::vec(1usize..80, 0..12)) {
            let bytes = message(sequence, size);
            let mut checker = Checker::default();
            let mut at = 0;
            let mut verdict = None;
            for cut in cuts.into_iter().chain([size as usize]) {
                let end = (at + cut).min(bytes.len());
                let (taken, found) = checker.feed(KEY, sequence, size, &bytes[at..end]);
                prop_assert_eq!(taken, end - at);
                at = end;
                verdict = verdict.or(found);
                if verdict.is_some() { break; }
            }
            prop_assert_eq!(verdict, Some(Integrity::Intact(None)));
            prop_assert_eq!(checker.position(), 0);
        }

        #[test]
        fn parts_make_the_whole(sequence: u64, size in 1u32..400, cut in 0u32..400) {
            let cut = cut.min(size) as usize;
            let mut bytes = vec![0; size as usize];
            let (a, b) = bytes.split_at_mut(cut);
            KEY.fill(sequence, size, 0, a);
            KEY.fill(sequence, size, cut, b);
            prop_assert_eq!(bytes, message(sequence, size));
        }

        #[test]
        fn any_flipped_bit_is_corruption(sequence: u64, size in 1u32..400, bit: usize) {
            let mut bytes = message(sequence, size);
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(check(sequence, size, &bytes), Some(Integrity::Corrupted));
        }
    }
}
