//! The control question, "what did you last receive on this connection, and when", and its answer.
//!
//! It is a frame of kind 1 (see [`crate::frame`]) of exactly [`HEADER_LEN`] bytes, so that a plain RFC 862 server
//! echoes it like any other bytes, and the answer is as long as the question: nothing is amplified.
//!
//! ```text
//!  offset size field          written by
//!   0     12   as in any frame probe      kind 1, length 64
//!  12      4   connection     probe       the connection asked about
//!  16      8   number         probe       ordinal of the question, so that an answer is known again
//!  24      4   session        probe       of the connection asked about
//!  28      4   check          probe       CRC-32 of bytes 0..28
//!  32      8   last_seq       reflector   sequence of the latest frame received on it
//!  40      8   received_ns    reflector   when bytes were last read from it; not known: when this reflector began
//!  48      4   frames         reflector   frames received on it, wrapping
//!  52      4   unsent         reflector   bytes read from it that its kernel has not yet taken back
//!  56      2   unacked        reflector   segments of echoes without acknowledgement; FF FF = the kernel does not tell
//!  58      2   flags          reflector   bit 0: answered; bits 1..=3: how the connection stands
//!  60      4   check          reflector   CRC-32 of bytes 32..60
//! ```

use crate::frame::{
    Damaged, HEADER_LEN, IDENTITY_LEN, KIND_QUESTION, decode_head, encode_head, is_sealed, seal, u32_at,
    u64_at,
};

const FLAG_ANSWERED: u16 = 1;
const UNACKED_NOT_TOLD: u16 = u16::MAX;

/// What a probe asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Question {
    /// Session of the connection asked about.
    pub session: u32,
    /// Ordinal of the connection asked about, in its recording.
    pub connection: u32,
    /// Ordinal of the question.
    pub number: u64,
}

/// How a connection stands with the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Standing {
    /// This reflector has no memory of it.
    #[default]
    NotKnown,
    /// It is open here.
    Open,
    /// The probe's end, or somebody in its name, closed it in order (a FIN came).
    ClosedByProbe,
    /// This reflector closed it because nothing had moved on it for too long.
    ClosedIdle,
    /// It broke: a RST came, or this kernel gave up.
    Failed,
}

/// What the reflector says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answer {
    /// How the connection stands. Where it is not known only `received_ns` says something.
    pub standing: Standing,
    /// Sequence of the latest frame whose identity was received on it.
    pub last_seq: u64,
    /// When bytes were last read from it: ns since the Unix epoch by the reflector's clock. Of a connection that is not
    /// known: when this reflector began to run.
    pub received_ns: i64,
    /// Frames received on it; wraps at 2^32.
    pub frames: u32,
    /// Bytes read from it that the reflector's kernel has not yet taken back: the probe's host does not take its echoes.
    pub unsent: u32,
    /// Segments of its echoes that the probe's host has not acknowledged, 65,534 standing for more. `None`: the kernel
    /// does not tell, or it is no TCP connection, or no longer one.
    pub unacked: Option<u16>,
}

impl Question {
    /// The whole frame, the reflector's part empty.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let head = encode_head(KIND_QUESTION, HEADER_LEN as u32, self.connection, self.number, self.session);
        out[..IDENTITY_LEN].copy_from_slice(&head);
        out
    }

    /// Reads the first half; `None` where these bytes are not the start of a question of this version.
    pub fn decode(bytes: &[u8; IDENTITY_LEN]) -> Option<Self> {
        let (length, connection, number, session) = decode_head(KIND_QUESTION, bytes)?;
        (length as usize == HEADER_LEN).then_some(Self { session, connection, number })
    }
}

impl Answer {
    /// The reflector's part of the frame.
    pub fn encode(&self) -> [u8; HEADER_LEN - IDENTITY_LEN] {
        let standing = match self.standing {
            Standing::NotKnown => 0,
            Standing::Open => 1,
            Standing::ClosedByProbe => 2,
            Standing::ClosedIdle => 3,
            Standing::Failed => 4,
        };
        let unacked = self.unacked.map_or(UNACKED_NOT_TOLD, |n| n.min(UNACKED_NOT_TOLD - 1));
        let mut out = [0; HEADER_LEN - IDENTITY_LEN];
        out[0..8].copy_from_slice(&self.last_seq.to_be_bytes());
        out[8..16].copy_from_slice(&self.received_ns.to_be_bytes());
        out[16..20].copy_from_slice(&self.frames.to_be_bytes());
        out[20..24].copy_from_slice(&self.unsent.to_be_bytes());
        out[24..26].copy_from_slice(&unacked.to_be_bytes());
        out[26..28].copy_from_slice(&(FLAG_ANSWERED | standing << 1).to_be_bytes());
        seal(&mut out);
        out
    }

    /// Reads the reflector's part. `Ok(None)` where nobody has answered (all zero), `Err` where it is neither empty nor
    /// whole.
    pub fn decode(bytes: &[u8; HEADER_LEN - IDENTITY_LEN]) -> Result<Option<Self>, Damaged> {
        if bytes.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        let low = u32_at(bytes, 24);
        let (unacked, flags) = ((low >> 16) as u16, low as u16);
        let standing = match flags >> 1 {
            0 => Standing::NotKnown,
            1 => Standing::Open,
            2 => Standing::ClosedByProbe,
            3 => Standing::ClosedIdle,
            4 => Standing::Failed,
            _ => return Err(Damaged),
        };
        if flags & FLAG_ANSWERED == 0 || !is_sealed(bytes) {
            return Err(Damaged);
        }
        Ok(Some(Self {
            standing,
            last_seq: u64_at(bytes, 0),
            received_ns: u64_at(bytes, 8) as i64,
            frames: u32_at(bytes, 16),
            unsent: u32_at(bytes, 20),
            unacked: (unacked != UNACKED_NOT_TOLD).then_some(unacked),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Identity, ReflectorStamps};
    use proptest::prelude::*;

    fn answer() -> impl Strategy<Value = Answer> {
        let standing = prop::sample::select(vec![
            Standing::NotKnown,
            Standing::Open,
            Standing::ClosedByProbe,
            Standing::ClosedIdle,
            Standing::Failed,
        ]);
        let unacked = prop::option::of(0..UNACKED_NOT_TOLD);
        (standing, any::<u64>(), any::<i64>(), any::<u32>(), any::<u32>(), unacked).prop_map(
            |(standing, last_seq, received_ns, frames, unsent, unacked)| Answer {
                standing,
                last_seq,
                received_ns,
                frames,
                unsent,
                unacked,
            },
        )
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = Question { session: 0xAABB_CCDD, connection: 2, number: 3 }.encode();
        let head = [
            0xF5, 0x54, 0x48, 0x4D, 1, 1, 0, 0, 0, 0, 0, 64, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0xAA, 0xBB,
            0xCC, 0xDD,
        ];
        assert_eq!(bytes[..28], head);
        // CRC-32 of those 28 bytes by an independent implementation (Python's zlib.crc32).
        assert_eq!(u32_at(&bytes, 28), 0xCC1A_CD36);
        assert_eq!(bytes[32..], [0; 32]);
        let answer = Answer {
            standing: Standing::ClosedIdle,
            last_seq: 1,
            received_ns: 2,
            frames: 3,
            unsent: 4,
            unacked: Some(5),
        };
        let bytes = answer.encode();
        let part = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 5, 0, 7];
        assert_eq!(bytes[..28], part);
    }

    #[test]
    fn a_question_is_no_echo_and_an_echo_no_question() {
        let question = Question { session: 1, connection: 2, number: 3 }.encode();
        assert_eq!(Identity::decode(question.first_chunk().expect("32 bytes")), None);
        let echo = Identity { length: 64, connection: 2, sequence: 3, session: 1 }.encode();
        assert_eq!(Question::decode(&echo), None);
    }

    #[test]
    fn more_unacknowledged_than_fit_are_still_some() {
        let bytes = Answer { unacked: Some(u16::MAX), ..Answer::default() }.encode();
        assert_eq!(Answer::decode(&bytes).map(|a| a.and_then(|a| a.unacked)), Ok(Some(u16::MAX - 1)));
    }

    proptest! {
        #[test]
        fn questions_and_answers_survive_the_wire(session: u32, connection: u32, number: u64, answer in answer()) {
            let question = Question { session, connection, number };
            let bytes = question.encode();
            prop_assert_eq!(Question::decode(bytes.first_chunk().expect("32 bytes")), Some(question));
            prop_assert_eq!(Answer::decode(bytes.last_chunk().expect("32 bytes")), Ok(None));
            prop_assert_eq!(Answer::decode(&answer.encode()), Ok(Some(answer)));
        }

        #[test]
        fn one_flipped_bit_is_seen(answer in answer(), bit in 0usize..256, connection: u32) {
            let mut bytes = answer.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Answer::decode(&bytes), Err(Damaged));
            let mut bytes = Question { session: 1, connection, number: 3 }.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Question::decode(bytes.first_chunk().expect("32 bytes")), None);
        }

        #[test]
        fn no_bytes_panic(bytes: [u8; IDENTITY_LEN]) {
            let _ = Question::decode(&bytes);
            let _ = Answer::decode(&bytes);
            let _ = ReflectorStamps::decode(&bytes);
        }
    }
}
