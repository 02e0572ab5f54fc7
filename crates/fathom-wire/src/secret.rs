//! A secret that probe and reflector share (`--key`), so that only who knows it is answered.
//!
//! In the request the reflector's part of the header (bytes 32..64, otherwise zero) is the HMAC-SHA-256 (RFC 2104) of the
//! probe's part (bytes 0..32): kind, length, connection, sequence and session. The reflector looks at it before it echoes,
//! stamps or answers anything of the frame, and then writes its own part over it: no frame grows, and an echo that is sent
//! back to a reflector is no request. What it does not cover: the rest of the frame, which is echoed and read by nobody, and
//! what the reflector writes. Who sees a frame pass can send it again and have it echoed once more.

use crate::frame::{HEADER_LEN, IDENTITY_LEN};
use ring::hmac;
use std::fmt;
use std::sync::Arc;

/// The shared secret. Cheap to clone; its bytes cannot be had back.
#[derive(Clone)]
pub struct Secret(Arc<hmac::Key>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// From the bytes that both ends have. How many they must be is the caller's to say.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// Writes the code into the second half of a request.
    pub fn seal(&self, request: &mut [u8; HEADER_LEN]) {
        let (head, part) = request.split_at_mut(IDENTITY_LEN);
        part.copy_from_slice(hmac::sign(&self.0, head).as_ref());
    }

    /// Whether who wrote this request knows the secret. Takes the same time wherever the code differs.
    pub fn has_sealed(&self, request: &[u8; HEADER_LEN]) -> bool {
        let (head, part) = request.split_at(IDENTITY_LEN);
        hmac::verify(&self.0, head, part).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by Python's `hmac` and `hashlib`, not by this crate: 32 bytes 0..32 under the key `sixteen bytes...`.
    #[test]
    fn the_code_is_the_standards() {
        let mut request = [0; HEADER_LEN];
        (0..IDENTITY_LEN).for_each(|n| request[n] = n as u8);
        Secret::new(b"sixteen bytes...").seal(&mut request);
        let hex =
            request[IDENTITY_LEN..].iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        assert_eq!(hex, "4e8abd0144d41beb57f52420316c821a2fb645bba890b9586fc456254bc76b02");
    }

    #[test]
    fn seal_needs_same_secret_and_intact_request() {
        let (ours, other) = (Secret::new(&[1; 32]), Secret::new(&[2; 32]));
        let mut request = [9; HEADER_LEN];
        assert!(!ours.has_sealed(&request));
        ours.seal(&mut request);
        assert!(ours.has_sealed(&request) && !other.has_sealed(&request));
        for at in 0..HEADER_LEN {
            let mut changed = request;
            changed[at] ^= 1;
            assert!(!ours.has_sealed(&changed), "byte {at}");
        }
        assert_eq!(format!("{ours:?}"), "Secret", "it is printed nowhere");
    }
}
