//! The 64-byte header of a frame.
//!
//! ```text
//!  offset size field          written by
//!   0      4   magic          probe       F5 54 48 4D; the first byte is not ASCII, so no text protocol starts so
//!   4      1   version        probe       1
//!   5      1   kind           probe       0 = echo, 1 = a question ([`crate::question`]), 2 = no echo ([`crate::one_way`])
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
//!  56      4   flags          reflector   bit 0: stamped; bit 1: waited; bits 2..=3: epoch;
//!                                          bit 4: tells pauses; bits 5..=31: identity
//!  60      4   check          reflector   CRC-32 of bytes 32..60
//! ```
//!
//! The identity comes first and the reflector's part after it, so that a reflector can pass bytes on as they
//! arrive and has seen the whole identity before it must write a stamp: it never holds a byte back.
//! In a request the reflector's part is zero, or, where both ends have a key, the code of [`crate::secret`].
//!
//! A probe that knows only bit 0 of the flags reads the stamps all the same. A reflector that writes only bit 0 has no
//! identity (0), and then the others say nothing.

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
const FLAG_WAITED: u32 = 2;
const EPOCH_SHIFT: u32 = 2;
const EPOCH_BITS: u32 = 3;
const FLAG_TELLS_PAUSES: u32 = 16;
const IDENTITY_SHIFT: u32 = 5;
/// The largest identity of a reflector: 27 bits, of which the low 14 are its process's and the others its place's.
pub const IDENTITY_MOST: u32 = u32::MAX >> IDENTITY_SHIFT;
const PROCESS_BITS: u32 = 14;

/// The identity of a reflector's process at a place: its machine, and what it listens on there. Never 0.
pub fn identity_of(place: u32, process: u32) -> u32 {
    let process = process & ((1 << PROCESS_BITS) - 1);
    (place << PROCESS_BITS | process.max(1)) & IDENTITY_MOST
}

/// Whether two identities are of one place, so that the one took the other's.
pub fn is_same_place(a: u32, b: u32) -> bool {
    a >> PROCESS_BITS == b >> PROCESS_BITS
}

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
    /// This reflector's place and process ([`identity_of`]), 1 ..= [`IDENTITY_MOST`]. 0: it does not tell, nor what follows.
    pub identity: u32,
    /// The frame was read as the first thing after a time in which the reflector did not run, so it may have waited for
    /// that time to end.
    pub waited: bool,
    /// How often the reflector's wall clock was set since it started, modulo 4: stamps of two epochs are not of one clock.
    pub epoch: u8,
    /// It notices its pauses: where `pause_us` has not grown there was none.
    pub tells_pauses: bool,
}

impl ReflectorStamps {
    /// Time the frame spent in the reflector, in ns; never negative.
    pub fn residence_ns(&self) -> i64 {
        self.sent_ns.saturating_sub(self.received_ns).max(0)
    }

    /// Whether it was not sent before it was received, nor centuries after it. Whoever answers may write any stamps.
    fn is_in_order(&self) -> bool {
        self.sent_ns.checked_sub(self.received_ns).is_some_and(|ns| ns >= 0)
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
        let waited = if self.waited { FLAG_WAITED } else { 0 };
        let epoch = (u32::from(self.epoch) & EPOCH_BITS) << EPOCH_SHIFT;
        let tells = if self.tells_pauses { FLAG_TELLS_PAUSES } else { 0 };
        let identity = (self.identity & IDENTITY_MOST) << IDENTITY_SHIFT;
        out[24..28].copy_from_slice(&(FLAG_STAMPED | waited | epoch | tells | identity).to_be_bytes());
        seal(&mut out);
        out
    }

    /// Reads the reflector's part. `Ok(None)` where no reflector has stamped it (all zero), `Err` where it is
    /// neither empty nor whole.
    pub fn decode(bytes: &[u8; HEADER_LEN - IDENTITY_LEN]) -> Result<Option<Self>, Damaged> {
        if bytes.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        let flags = u32_at(bytes, 24);
        let stamps = Self {
            received_ns: u64_at(bytes, 0) as i64,
            sent_ns: u64_at(bytes, 8) as i64,
            pause_us: u32_at(bytes, 16),
            frames: u32_at(bytes, 20),
            identity: flags >> IDENTITY_SHIFT,
            waited: flags & FLAG_WAITED != 0,
            epoch: (flags >> EPOCH_SHIFT & EPOCH_BITS) as u8,
            tells_pauses: flags & FLAG_TELLS_PAUSES != 0,
        };
        let whole = flags & FLAG_STAMPED != 0 && is_sealed(bytes) && stamps.is_in_order();
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

    #[test]
    fn stamp_flags_match_documentation() {
        let stamps = ReflectorStamps { identity: 0x555_5551, waited: true, epoch: 2, ..Default::default() };
        assert_eq!(u32_at(&stamps.encode(), 24), 0xAAAA_AA2B);
        let stamps = ReflectorStamps { tells_pauses: true, ..Default::default() };
        assert_eq!(u32_at(&stamps.encode(), 24), 17);
        let old = ReflectorStamps::default().encode();
        assert_eq!(u32_at(&old, 24), 1, "as reflectors without an identity write it");
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
            received_ns in 0i64..i64::MAX / 2, stay in 0i64..1 << 40, pause_us: u32, frames: u32,
            identity in 0..=IDENTITY_MOST, waited: bool, epoch in 0u8..4, tells_pauses: bool, bit in 0usize..256,
        ) {
            let sent_ns = received_ns + stay;
            let stamps =
                ReflectorStamps { received_ns, sent_ns, pause_us, frames, identity, waited, epoch, tells_pauses };
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
