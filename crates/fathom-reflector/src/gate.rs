//! With `--key`: what of a TCP stream may be echoed. A frame passes once its whole header is there and was written by somebody
//! who knows the key; anything else ends the connection before a byte of it has gone back.

use crate::frame::{Frame, frame_of};
use fathom_wire::frame::{IDENTITY_LEN, MAGIC};
use fathom_wire::{HEADER_LEN, OneWay, Secret};
use std::fmt;

/// Who does not know the key.
#[derive(Debug)]
pub(crate) struct Stranger;

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not know the key")
    }
}

impl std::error::Error for Stranger {}

/// One connection's.
#[derive(Debug)]
pub(crate) struct Gate {
    secret: Secret,
    /// The beginning of a header that is not whole yet.
    held: Vec<u8>,
    /// Bytes of the current frame that are still to come, its header having passed.
    left: u32,
    /// Whether a frame has passed.
    pub(crate) proven: bool,
}

impl Gate {
    pub(crate) fn new(secret: Secret) -> Self {
        Self { secret, held: Vec::new(), left: 0, proven: false }
    }

    /// What was held back, to stand before what is read next.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// How many of these bytes, what was held first, may be echoed now. The others are held. The codes are taken out: what
    /// follows finds requests as they are without a key.
    pub(crate) fn pass(&mut self, bytes: &mut [u8]) -> Result<usize, Stranger> {
        let mut at = 0;
        self.held.clear();
        while at < bytes.len() {
            let rest = &mut bytes[at..];
            if self.left > 0 {
                let taken = rest.len().min(self.left as usize);
                self.left -= taken as u32;
                at += taken;
                continue;
            }
            let begun = rest.len().min(MAGIC.len());
            if rest[..begun] != MAGIC[..begun] {
                return Err(Stranger);
            }
            let Some(header) = rest.first_chunk_mut::<HEADER_LEN>() else {
                self.held.extend_from_slice(rest);
                break;
            };
            if !self.secret.has_sealed(header) {
                return Err(Stranger);
            }
            let length = match frame_of(header) {
                Some(Frame::Echo(identity)) => identity.length,
                Some(Frame::Question) => HEADER_LEN as u32,
                None => {
                    let frame = header.first_chunk().and_then(OneWay::decode).ok_or(Stranger)?;
                    frame.length()
                }
            };
            header[IDENTITY_LEN..].fill(0);
            self.proven = true;
            self.left = length - HEADER_LEN as u32;
            at += HEADER_LEN;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_wire::{About, Key, Question};

    const KEY: Key = Key { session: 5, connection: 1 };

    /// Frames of these sizes and a question, as a probe writes them with a key, and without.
    fn stream(secret: &Secret, sizes: &[u32]) -> (Vec<u8>, Vec<u8>) {
        let (mut sealed, mut plain) = (Vec::new(), Vec::new());
        for (seq, &size) in sizes.iter().enumerate() {
            let mut frame = vec![0; size as usize];
            KEY.fill(seq as u64, size, 0, &mut frame);
            plain.extend(&frame);
            KEY.fill_sealed(Some(secret), seq as u64, size, 0, &mut frame);
            sealed.extend(&frame);
        }
        let mut question =
            Question { session: 5, connection: 1, number: 0, about: About::Reflector }.encode();
        plain.extend(question);
        secret.seal(&mut question);
        sealed.extend(question);
        (sealed, plain)
    }

    /// Passes a stream in pieces of this length; what came through, or how much before it was refused.
    fn passed(secret: &Secret, stream: &[u8], piece: usize) -> Result<Vec<u8>, usize> {
        let (mut gate, mut out) = (Gate::new(secret.clone()), Vec::new());
        for piece in stream.chunks(piece) {
            let mut bytes = [gate.held(), piece].concat();
            let ready = gate.pass(&mut bytes).map_err(|Stranger| out.len())?;
            out.extend(&bytes[..ready]);
            assert!(gate.held().len() < HEADER_LEN);
            assert_eq!(ready + gate.held().len(), bytes.len(), "no byte is lost");
        }
        Ok(out)
    }

    #[test]
    fn keyed_stream_passes_in_any_pieces() {
        let secret = Secret::new(&[7; 32]);
        let (sealed, plain) = stream(&secret, &[64, 65, 1_000, 64]);
        for piece in [1, 3, 31, 32, 63, 64, 65, 100, 5_000] {
            assert_eq!(passed(&secret, &sealed, piece).as_ref(), Ok(&plain), "{piece}");
        }
    }

    #[test]
    fn unknown_peer_passes_no_byte() {
        let (ours, other) = (Secret::new(&[7; 32]), Secret::new(&[8; 32]));
        let (sealed, plain) = stream(&other, &[64, 200]);
        for stranger in [&sealed[..], &plain, b"GET / HTTP/1.0\r\n\r\n", b"x", &[0; 200]] {
            for piece in [1, 64, 5_000] {
                assert_eq!(passed(&ours, stranger, piece), Err(0), "{piece}");
            }
        }
        // Nor of a frame that follows one that passed.
        let (mut mixed, _) = stream(&ours, &[64]);
        mixed.truncate(64);
        mixed.extend(&plain);
        assert_eq!(passed(&ours, &mixed, 64), Err(64));
        assert_eq!(passed(&ours, &mixed, 5_000), Err(0));
    }
}
