//! A reflector's answer about maintenance that a cloud announced to its host. It answers the third question
//! ([`crate::question`]), and has the same length.
//!
//! ```text
//!  32      4   begins_in      ms until it may begin, negative where that is over; 80 00 00 00 = not known
//!  36      4   started_ago    ms since it was first said to have begun; FF FF FF FF = it was not
//!  40      4   gone_ago       ms since it is announced no more; FF FF FF FF = it still is
//!  44      4   lasts          ms that it may take; FF FF FF FF = not known
//!  48      4   key            tells it from others of this reflector
//!  52      1   cloud          1 Azure, 2 AWS, 3 GCP; 0 = nothing is announced, and all else is 0
//!  53      1   what           the cloud's word for what will be done (`fathom_core::notice`); 0 = another word
//!  54      4   0
//!  58      2   flags          bit 0: answered; bits 14 and 15: set
//!  60      4   check          CRC-32 of bytes 32..60
//! ```

use crate::frame::{Damaged, HEADER_LEN, IDENTITY_LEN, is_sealed, seal, u32_at};

/// In the flags of an answer.
pub(crate) const FLAG_NOTICE: u16 = 1 << 14;
const FLAGS: u16 = 1 | FLAG_NOTICE | 1 << 15;
const NOT_TOLD: u32 = u32::MAX;
const BEGINS_NOT_TOLD: i32 = i32::MIN;

/// Maintenance of the reflector's host. Times are ages, so that no clocks need to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// Which cloud: 1 Azure, 2 AWS, 3 GCP. A later version may have others.
    pub cloud: u8,
    /// Code of the cloud's word for the planned work; 0: another word.
    pub what: u8,
    /// Key that tells the notice from others of this reflector.
    pub key: u32,
    /// Milliseconds until it may begin, negative if that is over. `None`: not known.
    pub begins_in_ms: Option<i32>,
    /// Milliseconds since it was first said to have begun. `None`: it was not.
    pub started_ago_ms: Option<u32>,
    /// Milliseconds since it is no longer announced. `None`: it still is.
    pub gone_ago_ms: Option<u32>,
    /// Possible duration in milliseconds. `None`: not known.
    pub lasts_ms: Option<u32>,
}

/// The reflector's part of the frame.
pub(crate) fn encode(announced: Option<&Announced>) -> [u8; HEADER_LEN - IDENTITY_LEN] {
    let mut out = [0; HEADER_LEN - IDENTITY_LEN];
    if let Some(announced) = announced {
        let ms = |ms: Option<u32>| ms.unwrap_or(NOT_TOLD).to_be_bytes();
        out[0..4].copy_from_slice(&announced.begins_in_ms.unwrap_or(BEGINS_NOT_TOLD).to_be_bytes());
        out[4..8].copy_from_slice(&ms(announced.started_ago_ms));
        out[8..12].copy_from_slice(&ms(announced.gone_ago_ms));
        out[12..16].copy_from_slice(&ms(announced.lasts_ms));
        out[16..20].copy_from_slice(&announced.key.to_be_bytes());
        (out[20], out[21]) = (announced.cloud, announced.what);
    }
    out[26..28].copy_from_slice(&FLAGS.to_be_bytes());
    seal(&mut out);
    out
}

/// Reads the answer; `Ok(None)`: nothing is announced.
pub(crate) fn decode(bytes: &[u8; HEADER_LEN - IDENTITY_LEN]) -> Result<Option<Announced>, Damaged> {
    if u32_at(bytes, 24) as u16 != FLAGS || !is_sealed(bytes) {
        return Err(Damaged);
    }
    let told = |at: usize| Some(u32_at(bytes, at)).filter(|&ms| ms != NOT_TOLD);
    Ok((bytes[20] != 0).then(|| Announced {
        cloud: bytes[20],
        what: bytes[21],
        key: u32_at(bytes, 16),
        begins_in_ms: Some(u32_at(bytes, 0) as i32).filter(|&ms| ms != BEGINS_NOT_TOLD),
        started_ago_ms: told(4),
        gone_ago_ms: told(8),
        lasts_ms: told(12),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::{About, Answer, Introduction, Question, Reply};
    use proptest::prelude::*;

    fn announced() -> impl Strategy<Value = Announced> {
        let ms = || prop::option::of(0..NOT_TOLD);
        let begins = prop::option::of((BEGINS_NOT_TOLD + 1)..);
        (1u8.., any::<u8>(), any::<u32>(), begins, ms(), ms(), ms()).prop_map(
            |(cloud, what, key, begins_in_ms, started_ago_ms, gone_ago_ms, lasts_ms)| Announced {
                cloud,
                what,
                key,
                begins_in_ms,
                started_ago_ms,
                gone_ago_ms,
                lasts_ms,
            },
        )
    }

    #[test]
    fn notice_layout_is_the_documented_one() {
        let announced = Announced {
            cloud: 1,
            what: 2,
            key: 0x0A0B_0C0D,
            begins_in_ms: Some(-2),
            started_ago_ms: Some(3),
            gone_ago_ms: None,
            lasts_ms: Some(5_000),
        };
        let part = [
            0xFF, 0xFF, 0xFF, 0xFE, 0, 0, 0, 3, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0x13, 0x88, 0x0A, 0x0B, 0x0C,
            0x0D, 1, 2, 0, 0, 0, 0, 0xC0, 1,
        ];
        assert_eq!(Reply::Notice(Some(announced)).encode()[..28], part);
        assert_eq!(Reply::Notice(None).encode()[..28], [[0; 26].as_slice(), &[0xC0, 1]].concat());
    }

    /// Neither end needs the other's version: a reflector that does not know the question answers who it is, and no other
    /// question gets this answer.
    #[test]
    fn older_reflector_takes_it_for_identity_question() {
        let question = Question { session: 1, connection: u32::MAX, number: 3, about: About::Notices };
        let bytes = question.encode();
        assert_eq!(bytes.len(), HEADER_LEN);
        assert_eq!(Question::decode(bytes.first_chunk().expect("32 bytes")), Some(question));
        // Bit 63 of the number is what an older one asks for.
        assert_eq!(bytes[16] & 0x80, 0x80);
        assert_eq!(
            Reply::decode(&Introduction::default().encode()),
            Ok(Some(Reply::Reflector(Introduction::default())))
        );
        assert_eq!(Answer::decode(&Reply::Notice(None).encode()), Err(Damaged));
    }

    proptest! {
        #[test]
        fn notices_survive_the_wire(announced in prop::option::of(announced()), bit in 0usize..256) {
            let reply = Reply::Notice(announced);
            let mut bytes = reply.encode();
            prop_assert_eq!(Reply::decode(&bytes), Ok(Some(reply)));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Reply::decode(&bytes), Err(Damaged));
        }
    }
}
