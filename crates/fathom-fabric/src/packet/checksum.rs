//! The Internet checksum, changed rather than computed anew: a packet that was broken stays broken, and the first
//! fragment of a datagram, whose checksum covers bytes that are elsewhere, can be rewritten too.

/// The checksum after `old` became `new` (RFC 1624, equation 3: HC' = ~(~HC + ~m + m')). Both have the same even length.
pub(super) fn adjusted(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    debug_assert!(old.len() == new.len() && old.len().is_multiple_of(2));
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
    let mut sum = u32::from(!checksum);
    for (old, new) in old.chunks_exact(2).zip(new.chunks_exact(2)) {
        sum += u32::from(!word(old)) + u32::from(word(new));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
