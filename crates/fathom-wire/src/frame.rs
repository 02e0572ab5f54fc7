//! The 64-byte header of a frame.
//!
//! ```text
//!  offset size field          written by
//!   0      4   magic          probe       F5 54 48 4D; the first byte is not ASCII, so no text protocol starts so
//!   4      1   version        probe       1
//!   5      1   kind           probe       0 = echo, 1 = a question ([`crate::question`])
//!   6      2   reserved       probe       0
//!   8      4   length         probe       whole frame, header included, 64 ..= MAX_LEN
//!  12      4   connection     probe       ordinal of the connection in its recording
//!  16      8   sequence       probe       ordinal of the sample on its connection
//!  24      4   session        probe       random per recording; tells our echo from somebody else's
//!  28      4   check          probe       CRC-32 (IEEE 802.3) of bytes 0..28
//!  32      8   received_ns    reflector   UTC, ns since the Unix epoch, when the frame's first byte was read
//!  40      8   sent_ns        reflector   same clock, just before the write that carries the header
//!  48      4   pause_us       reflector   time this reflector could not run, since it started, wrapping
//!  52      4   frames         reflector   frames received and answered earlier on this connection, wrapping
//!  56      4   flags          reflector   bit 0: stamped
//!  60      4   check          reflector   CRC-32 of bytes 32..60
//! ```
//!
//! The identity comes first and the reflector's part after it, so that a reflector can pass bytes on as they
//! arrive and has seen the whole identity before it must write a stamp: it never holds a byte back.
//! In a request the reflector's part is zero.

/// Bytes of a frame header, and so the smallest frame.
pub const HEADER_LEN: usize = 64;
/// Bytes of the identity part, at the start of the header.
pub const IDENTITY_LEN: usize = 32;
/// The largest message a probe sends: 64 MiB.
pub const MAX_LEN: u32 = 64 << 20;
/// The first four bytes of every frame.
pub const MAGIC: [u8; 4] = [0xF5, b'T', b'H', b'M'];
/// The version of the frame format that this crate reads and writes.
pub const VERSION: u8 = 1;
const KIND_ECHO: u8 = 0;
pub(crate) const KIND_QUESTION: u8 = 1;
const FLAG_STAMPED: u32 = 1;

/// What a probe writes into a frame to know it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Bytes of the whole frame, [`HEADER_LEN`]` ..= `[`MAX_LEN`].
    pub length: u32,
    /// Ordinal of the connection in its recording.
    pub connection: u32,
    /// Ordinal of the sample on its connection.
    pub sequence: u64,
    /// Random number of the recording.
    pub session: u32,
}

/// What a stamping reflector wrote into a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReflectorStamps {
    /// When the frame's first byte was read: ns since the Unix epoch by the reflector's clock.
    pub received_ns: i64,
    /// Just before the write that carried the header: the same clock, never earlier than `received_ns`.
    pub sent_ns: i64,
    /// Microseconds for which the reflector could not run since it started; wraps at 2^32.
    pub pause_us: u32,
    /// Frames the reflector received earlier on this connection; wraps at 2^32.
    pub frames: u32,
}

impl ReflectorStamps {
    /// Time the frame spent in the reflector, in ns.
    pub fn residence_ns(&self) -> i64 {
        self.sent_ns - self.received_ns
    }
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_be_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_be_bytes(word)
}

/// Ends half a header with the CRC-32 of what stands before it.
pub(crate) fn seal(half: &mut [u8; IDENTITY_LEN]) {
    let check = crc32fast::hash(&half[..28]);
    half[28..].copy_from_slice(&check.to_be_bytes());
}

/// Whether half a header is as it was sealed.
pub(crate) fn is_sealed(half: &[u8; IDENTITY_LEN]) -> bool {
    crc32fast::hash(&half[..28]) == u32_at(half, 28)
}

/// The first half of a frame of this kind.
pub(crate) fn encode_head(
    kind: u8,
    length: u32,
    connection: u32,
    sequence: u64,
    session: u32,
) -> [u8; IDENTITY_LEN] {
    let mut out = [0; IDENTITY_LEN];
    out[0..4].copy_from_slice(&MAGIC);
    out[4] = VERSION;
    out[5] = kind;
    out[8..12].copy_from_slice(&length.to_be_bytes());
    out[12..16].copy_from_slice(&connection.to_be_bytes());
    out[16..24].copy_from_slice(&sequence.to_be_bytes());
    out[24..28].copy_from_slice(&session.to_be_bytes());
    seal(&mut out);
    out
}

/// Length, connection, sequence and session; `None` where these bytes are not the start of a frame of this kind and
/// version.
pub(crate) fn decode_head(kind: u8, bytes: &[u8; IDENTITY_LEN]) -> Option<(u32, u32, u64, u32)> {
    let fits = bytes[0..4] == MAGIC
        && bytes[4] == VERSION
        && bytes[5] == kind
        && bytes[6..8] == [0, 0]
        && is_sealed(bytes);
    fits.then(|| (u32_at(bytes, 8), u32_at(bytes, 12), u64_at(bytes, 16), u32_at(bytes, 24)))
}

impl Identity {
    /// The identity part of a header.
    pub fn encode(&self) -> [u8; IDENTITY_LEN] {
        encode_head(KIND_ECHO, self.length, self.connection, self.sequence, self.session)
    }

    /// Reads an identity; `None` where these bytes are not the start of a frame of this version.
    pub fn decode(bytes: &[u8; IDENTITY_LEN]) -> Option<Self> {
        let (length, connection, sequence, session) = decode_head(KIND_ECHO, bytes)?;
        let whole = (HEADER_LEN as u32..=MAX_LEN).contains(&length);
        whole.then_some(Self { length, connection, sequence, session })
    }
}

impl ReflectorStamps {
    /// The reflector's part of a header.
    pub fn encode(&self) -> [u8; HEADER_LEN - IDENTITY_LEN] {
        let mut out = [0; HEADER_LEN - IDENTITY_LEN];
        out[0..8].copy_from_slice(&self.received_ns.to_be_bytes());
        out[8..16].copy_from_slice(&self.sent_ns.to_be_bytes());
        out[16..20].copy_from_slice(&self.pause_us.to_be_bytes());
        out[20..24].copy_from_slice(&self.frames.to_be_bytes());
        out[24..28].copy_from_slice(&FLAG_STAMPED.to_be_bytes());
        seal(&mut out);
        out
    }

    /// Reads the reflector's part. `Ok(None)` where no reflector has stamped it (all zero), `Err` where it is
    /// neither empty nor whole.
    pub fn decode(bytes: &[u8; HEADER_LEN - IDENTITY_LEN]) -> Result<Option<Self>, Damaged> {
        if bytes.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        let stamps = Self {
            received_ns: u64_at(bytes, 0) as i64,
            sent_ns: u64_at(bytes, 8) as i64,
            pause_us: u32_at(bytes, 16),
            frames: u32_at(bytes, 20),
        };
        let whole =
            u32_at(bytes, 24) & FLAG_STAMPED != 0 && is_sealed(bytes) && stamps.sent_ns >= stamps.received_ns;
        if whole { Ok(Some(stamps)) } else { Err(Damaged) }
    }
}

/// The reflector's part of a frame is neither empty nor whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity() -> impl Strategy<Value = Identity> {
        (HEADER_LEN as u32..=MAX_LEN, any::<u32>(), any::<u64>(), any::<u32>()).prop_map(
            |(length, connection, sequence, session)| Identity { length, connection, sequence, session },
        )
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = Identity { length: 64, connection: 2, sequence: 3, session: 0xAABB_CCDD }.encode();
        let head = [
            0xF5, 0x54, 0x48, 0x4D, 1, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0xAA, 0xBB,
            0xCC, 0xDD,
        ];
        assert_eq!(bytes[..28], head);
        // CRC-32 of those 28 bytes by an independent implementation (Python's zlib.crc32).
        assert_eq!(u32_at(&bytes, 28), 0x5769_27E2);
    }

    #[test]
    fn a_future_version_is_not_ours_to_stamp() {
        let mut bytes = Identity { length: 64, connection: 0, sequence: 0, session: 0 }.encode();
        bytes[4] = 2;
        let check = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&check.to_be_bytes());
        assert_eq!(Identity::decode(&bytes), None);
    }

    proptest! {
        #[test]
        fn identity_survives_the_wire(id in identity()) {
            prop_assert_eq!(Identity::decode(&id.encode()), Some(id));
        }

        #[test]
        fn one_flipped_bit_of_an_identity_is_seen(id in identity(), bit in 0usize..IDENTITY_LEN * 8) {
            let mut bytes = id.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Identity::decode(&bytes), None);
        }

        #[test]
        fn one_flipped_bit_of_the_stamps_is_seen(
            received_ns in 0i64..i64::MAX / 2, stay in 0i64..1 << 40, pause_us: u32, frames: u32, bit in 0usize..256,
        ) {
            let stamps = ReflectorStamps { received_ns, sent_ns: received_ns + stay, pause_us, frames };
            let mut bytes = stamps.encode();
            prop_assert_eq!(ReflectorStamps::decode(&bytes), Ok(Some(stamps)));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(ReflectorStamps::decode(&bytes), Err(Damaged));
        }

        #[test]
        fn no_bytes_panic(bytes: [u8; IDENTITY_LEN]) {
            let _ = Identity::decode(&bytes);
            let _ = ReflectorStamps::decode(&bytes);
        }
    }
}
