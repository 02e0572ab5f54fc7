//! The control questions and their answers: "what did you last receive on this connection, and when", "who are you", and "which
//! maintenance is announced to your host".
//!
//! It is a frame of kind 1 (see [`crate::frame`]) of exactly [`HEADER_LEN`] bytes, so that a plain RFC 862 server
//! echoes it like any other bytes, and the answer is as long as the question: nothing is amplified.
//!
//! ```text
//!  offset size field          written by
//!   0     12   as in any frame probe      kind 1, length 64
//!  12      4   connection     probe       the connection asked about
//!  16      8   number         probe       so that an answer is known again; bit 63: who are you; bit 62: the silence asked
//!                                         about began as many ms ago as bits 39..=61 say, and ended as 16..=38 do
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
//!
//! The third question, "which maintenance is announced to your host", is a "who are you" about connection FF FF FF FF, which no
//! recording has; its answer is [`crate::notice`]'s. A reflector that does not know it says who it is.
//!
//! A reflector that does not know "who are you" takes it for the other question and answers that. One that does writes
//!
//! ```text
//!  32      8   age_ns         for how long this process has run
//!  40      4   identity       as in its stamps
//!  44      4   received_ago   ms since bytes were last read from the connection asked about; FF FF FF FF = not known
//!  48      4   paused_ago     ms since a pause of 200 ms or more ended: of the latest 16 the one that covers most of the
//!                             silence asked about, without one the latest; FF FF FF FF = there was none
//!  52      4   paused         ms that that pause lasted
//!  56      2   port           peer's port of the connection asked about, as it arrives here; 0 = not known
//!  58      2   flags          bit 0: answered; bits 1..=3: how the connection asked about failed; bit 15: set
//!  60      4   check          CRC-32 of bytes 32..60
//! ```

use crate::Silence;
use crate::frame::{
    Damaged, HEADER_LEN, IDENTITY_LEN, KIND_QUESTION, decode_head, encode_head, is_sealed, seal, u32_at,
    u64_at,
};
use crate::notice::{self, Announced, FLAG_NOTICE};

const FLAG_ANSWERED: u16 = 1;
const FLAG_INTRODUCTION: u16 = 1 << 15;
const WHO_ARE_YOU: u64 = 1 << 63;
/// Connection number that turns "who are you" into the question about announced maintenance.
const NOTICES: u32 = u32::MAX;
const NOT_TOLD: u32 = u32::MAX;
const UNACKED_NOT_TOLD: u16 = u16::MAX;

/// What a probe asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Question {
    /// Session of the connection asked about.
    pub session: u32,
    /// Ordinal of the connection asked about, in its recording.
    pub connection: u32,
    /// By which its answer is known, below 2^63. See [`Question::silence`].
    pub number: u64,
    /// What is asked.
    pub about: About,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum About {
    /// What was last received on the connection.
    Connection,
    /// Who answers, and how the connection looks there.
    Reflector,
    /// Which maintenance is announced to its host. The question's connection is all ones.
    Notices,
}

/// Who answers. Times are told as how long ago they were, so that no clock needs to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Introduction {
    /// For how long the process has run.
    pub age_ns: u64,
    /// As [`crate::ReflectorStamps::identity`].
    pub identity: u32,
    /// How many ms ago bytes were last read from the connection asked about. `None`: it is not known.
    pub received_ago_ms: Option<u32>,
    /// Its pause of 200 ms or more that covers most of the silence asked about, or without one the latest: how many ms ago
    /// it ended, and how many it lasted.
    pub pause_ms: Option<(u32, u32)>,
    /// The peer's port of the connection asked about, as it arrives here. `None`: not known.
    pub port: Option<u16>,
    /// How the connection asked about failed.
    pub failure: Failure,
}

/// How a connection failed at the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Failure {
    /// It did not, or nobody knows how.
    #[default]
    NotTold,
    /// A RST came.
    Reset,
    /// Its kernel gave up retransmitting.
    TimedOut,
    /// Its own host destroyed the socket.
    Aborted,
}

/// What a reflector writes into a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// About the connection.
    Connection(Answer),
    /// About itself.
    Reflector(Introduction),
    /// Answers the question about maintenance of its host: what is announced, if anything is.
    Notice(Option<Announced>),
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
        let (connection, number) = match self.about {
            About::Connection => (self.connection, self.number),
            About::Reflector => (self.connection, self.number | WHO_ARE_YOU),
            About::Notices => (NOTICES, self.number | WHO_ARE_YOU),
        };
        let head = encode_head(KIND_QUESTION, HEADER_LEN as u32, connection, number, self.session);
        out[..IDENTITY_LEN].copy_from_slice(&head);
        out
    }

    /// The silence that it is about, where it says one.
    pub fn silence(&self) -> Option<Silence> {
        Silence::in_number(self.number)
    }

    /// Reads the first half; `None` where these bytes are not the start of a question of this version.
    pub fn decode(bytes: &[u8; IDENTITY_LEN]) -> Option<Self> {
        let (length, connection, number, session) = decode_head(KIND_QUESTION, bytes)?;
        let about = match (number & WHO_ARE_YOU, connection) {
            (0, _) => About::Connection,
            (_, NOTICES) => About::Notices,
            _ => About::Reflector,
        };
        let number = number & !WHO_ARE_YOU;
        (length as usize == HEADER_LEN).then_some(Self { session, connection, number, about })
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

impl Introduction {
    /// The reflector's part of the frame.
    pub fn encode(&self) -> [u8; HEADER_LEN - IDENTITY_LEN] {
        let failure = match self.failure {
            Failure::NotTold => 0,
            Failure::Reset => 1,
            Failure::TimedOut => 2,
            Failure::Aborted => 3,
        };
        let (ago, paused) = self.pause_ms.unwrap_or((NOT_TOLD, 0));
        let mut out = [0; HEADER_LEN - IDENTITY_LEN];
        out[0..8].copy_from_slice(&self.age_ns.to_be_bytes());
        out[8..12].copy_from_slice(&self.identity.to_be_bytes());
        out[12..16].copy_from_slice(&self.received_ago_ms.unwrap_or(NOT_TOLD).to_be_bytes());
        out[16..20].copy_from_slice(&ago.to_be_bytes());
        out[20..24].copy_from_slice(&paused.to_be_bytes());
        out[24..26].copy_from_slice(&self.port.unwrap_or(0).to_be_bytes());
        out[26..28].copy_from_slice(&(FLAG_ANSWERED | FLAG_INTRODUCTION | failure << 1).to_be_bytes());
        seal(&mut out);
        out
    }

    fn decode(bytes: &[u8; HEADER_LEN - IDENTITY_LEN], flags: u16) -> Result<Self, Damaged> {
        let failure = match (flags & !FLAG_INTRODUCTION) >> 1 {
            0 => Failure::NotTold,
            1 => Failure::Reset,
            2 => Failure::TimedOut,
            3 => Failure::Aborted,
            _ => return Err(Damaged),
        };
        let told = |at: usize| Some(u32_at(bytes, at)).filter(|&ms| ms != NOT_TOLD);
        let port = (u32_at(bytes, 24) >> 16) as u16;
        Ok(Self {
            age_ns: u64_at(bytes, 0),
            identity: u32_at(bytes, 8),
            received_ago_ms: told(12),
            pause_ms: told(16).map(|ago| (ago, u32_at(bytes, 20))),
            port: (port != 0).then_some(port),
            failure,
        })
    }
}

impl Reply {
    /// The reflector's part of the frame.
    pub fn encode(&self) -> [u8; HEADER_LEN - IDENTITY_LEN] {
        match self {
            Self::Connection(answer) => answer.encode(),
            Self::Reflector(introduction) => introduction.encode(),
            Self::Notice(announced) => notice::encode(announced.as_ref()),
        }
    }

    /// Reads the reflector's part. `Ok(None)` where nobody has answered (all zero), `Err` where it is neither empty nor
    /// whole.
    pub fn decode(bytes: &[u8; HEADER_LEN - IDENTITY_LEN]) -> Result<Option<Self>, Damaged> {
        let flags = u32_at(bytes, 24) as u16;
        if flags & FLAG_INTRODUCTION == 0 {
            return Ok(Answer::decode(bytes)?.map(Self::Connection));
        }
        if flags & FLAG_NOTICE != 0 {
            return notice::decode(bytes).map(|announced| Some(Self::Notice(announced)));
        }
        if flags & FLAG_ANSWERED == 0 || !is_sealed(bytes) {
            return Err(Damaged);
        }
        Introduction::decode(bytes, flags).map(|introduction| Some(Self::Reflector(introduction)))
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

    fn introduction() -> impl Strategy<Value = Introduction> {
        let failure =
            prop::sample::select(vec![Failure::NotTold, Failure::Reset, Failure::TimedOut, Failure::Aborted]);
        let pause_ms = prop::option::of((0..NOT_TOLD, any::<u32>()));
        let (port, received) = (prop::option::of(1u16..), prop::option::of(0..NOT_TOLD));
        (any::<u64>(), any::<u32>(), received, pause_ms, port, failure).prop_map(
            |(age_ns, identity, received_ago_ms, pause_ms, port, failure)| Introduction {
                age_ns,
                identity,
                received_ago_ms,
                pause_ms,
                port,
                failure,
            },
        )
    }

    #[test]
    fn older_reflector_accepts_identity_question() {
        // What it reads is a number that is as good as any other.
        let question = Question { session: 1, connection: 2, number: 3, about: About::Reflector };
        let (length, connection, number, session) =
            decode_head(KIND_QUESTION, question.encode().first_chunk().expect("32 bytes"))
                .expect("a question");
        assert_eq!((length, connection, number, session), (64, 2, 3 | 1 << 63, 1));
        let part = Introduction { identity: 0x0102_0304, port: Some(7), ..Introduction::default() }.encode();
        assert_eq!(part[8..12], [1, 2, 3, 4]);
        assert_eq!(part[12..28], [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 7, 0x80, 1]);
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes =
            Question { session: 0xAABB_CCDD, connection: 2, number: 3, about: About::Connection }.encode();
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
    fn question_and_echo_are_never_confused() {
        let question = Question { session: 1, connection: 2, number: 3, about: About::Connection }.encode();
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
        fn questions_and_answers_survive_the_wire(
            session: u32, connection in 0..NOTICES, number in 0..WHO_ARE_YOU, itself: bool, answer in answer(), introduction in introduction(),
        ) {
            let about = if itself { About::Reflector } else { About::Connection };
            let question = Question { session, connection, number, about };
            let bytes = question.encode();
            prop_assert_eq!(Question::decode(bytes.first_chunk().expect("32 bytes")), Some(question));
            prop_assert_eq!(Answer::decode(bytes.last_chunk().expect("32 bytes")), Ok(None));
            prop_assert_eq!(Answer::decode(&answer.encode()), Ok(Some(answer)));
            for reply in [Reply::Connection(answer), Reply::Reflector(introduction)] {
                prop_assert_eq!(Reply::decode(&reply.encode()), Ok(Some(reply)));
            }
        }

        #[test]
        fn one_flipped_bit_is_seen(answer in answer(), bit in 0usize..256, connection: u32) {
            let mut bytes = answer.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Reply::decode(&bytes), Err(Damaged));
            let mut bytes = Question { session: 1, connection, number: 3, about: About::Reflector }.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Question::decode(bytes.first_chunk().expect("32 bytes")), None);
        }

        #[test]
        fn no_bytes_panic(bytes: [u8; IDENTITY_LEN]) {
            let _ = Question::decode(&bytes);
            let _ = Reply::decode(&bytes);
            let _ = ReflectorStamps::decode(&bytes);
        }
    }
}
