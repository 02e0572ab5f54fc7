//! What both ends say before the login (MS-TDS 2.2.6.5): version, and whether the connection is to be encrypted.

use super::{Reader, Refusal};

/// What an end says of encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// It can, and would for the login alone.
    Off,
    /// It wants all of it encrypted.
    On,
    /// It cannot.
    NotSupported,
    /// It insists.
    Required,
}

/// What a client says before it logs in: only what we heed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreLogin {
    /// What it says of encryption.
    pub encryption: Encryption,
}

impl PreLogin {
    /// Reads a client's.
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        const TORN: Refusal = Refusal::Torn("prelogin");
        let mut options = Reader(body);
        let mut encryption = Encryption::NotSupported;
        loop {
            let option = options.u8().ok_or(TORN)?;
            if option == 0xFF {
                return Ok(Self { encryption });
            }
            // Here alone numbers have their high byte first.
            let place = options.bytes(4).ok_or(TORN)?;
            let offset = usize::from(u16::from_be_bytes([place[0], place[1]]));
            let length = usize::from(u16::from_be_bytes([place[2], place[3]]));
            let value = body.get(offset..offset + length).ok_or(TORN)?;
            if option == ENCRYPTION {
                // The low bits; those above concern certificates of clients.
                encryption = match value.first().map(|v| v & 0x1F) {
                    Some(0) => Encryption::Off,
                    Some(1) => Encryption::On,
                    Some(3) => Encryption::Required,
                    _ => Encryption::NotSupported,
                };
            }
        }
    }
}

const VERSION: u8 = 0;
const ENCRYPTION: u8 = 1;
const INSTANCE: u8 = 2;
const THREAD: u8 = 3;
const MARS: u8 = 4;

/// The answer: our version, all encrypted or nothing, the instance is the right one, one request at a time.
pub fn answer(encrypted: bool) -> Vec<u8> {
    let [major, minor, build_high, build_low] = super::token::SERVER_VERSION;
    options([
        (VERSION, &[major, minor, build_high, build_low, 0, 0]),
        (ENCRYPTION, if encrypted { &[0x01] } else { &[0x02] }),
        (INSTANCE, &[0]),
        (THREAD, &[]),
        (MARS, &[0]),
    ])
}

/// A client's: it has no version that matters, says this of encryption, takes whatever instance there is, and asks one at a time.
pub fn hello(encryption: u8) -> Vec<u8> {
    options([
        (VERSION, &[0; 6]),
        (ENCRYPTION, &[encryption]),
        (INSTANCE, &[0]),
        (THREAD, &[0; 4]),
        (MARS, &[0]),
    ])
}

fn options(values: [(u8, &[u8]); 5]) -> Vec<u8> {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let begin = values.len() * 5 + 1;
    for (option, value) in values {
        let offset = ((begin + tail.len()) as u16).to_be_bytes();
        let length = (value.len() as u16).to_be_bytes();
        head.extend_from_slice(&[option, offset[0], offset[1], length[0], length[1]]);
        tail.extend_from_slice(value);
    }
    head.push(0xFF);
    head.extend(tail);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use tds_protocol::prelogin::{EncryptionLevel, PreLogin as Theirs};

    #[test]
    fn prelogin_is_compatible_with_another_implementation() {
        for (theirs, ours) in [
            (EncryptionLevel::Off, Encryption::Off),
            (EncryptionLevel::On, Encryption::On),
            (EncryptionLevel::NotSupported, Encryption::NotSupported),
            (EncryptionLevel::Required, Encryption::Required),
        ] {
            let body = Theirs::new().with_encryption(theirs).with_instance("MSSQLServer").encode();
            assert_eq!(PreLogin::read(&body), Ok(PreLogin { encryption: ours }));
        }
        for (encrypted, level) in [(false, EncryptionLevel::NotSupported), (true, EncryptionLevel::On)] {
            let read = Theirs::decode(answer(encrypted).as_slice()).expect("an answer");
            assert_eq!(read.encryption, level);
            assert!(!read.mars);
        }
    }

    #[test]
    fn truncated_prelogin_is_refused() {
        let body = Theirs::new().with_encryption(EncryptionLevel::On).encode();
        for n in 0..body.len() {
            assert_eq!(PreLogin::read(&body[..n]), Err(Refusal::Torn("prelogin")), "{n} bytes");
        }
    }
}
