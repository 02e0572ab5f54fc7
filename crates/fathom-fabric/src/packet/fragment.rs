//! Cutting a packet up for a leg that takes less.

use super::Packet;
use super::checksum::adjusted;

/// Options of which the copied flag is set go into every fragment (RFC 791, section 3.1); end of options and no-operation
/// are one byte long.
fn options_of_later(options: &mut [u8]) {
    let mut at = 0;
    while at < options.len() {
        let kind = options[at];
        if kind == 0 {
            return;
        }
        let length = if kind == 1 { 1 } else { options.get(at + 1).map_or(1, |&l| usize::from(l).max(2)) };
        let end = (at + length).min(options.len());
        if kind & 0x80 == 0 {
            options[at..end].fill(1);
        }
        at = end;
    }
}

impl Packet {
    /// The fragments of an IPv4 packet, none longer than `mtu` (RFC 791, section 3.2); a fragment is cut up further. None
    /// where it may not be cut up, need not be, or no fragment would fit. All bear this packet's number and time.
    pub fn fragments(&self, mtu: u16) -> Option<Vec<Self>> {
        let mtu = usize::from(mtu);
        if !self.may_fragment() || self.len() <= mtu {
            return None;
        }
        let header_len = usize::from(self.bytes[0] & 0x0f) * 4;
        // All but the last hold a multiple of 8 bytes.
        let most = mtu.checked_sub(header_len)? / 8 * 8;
        if most == 0 {
            return None;
        }
        let (header, payload) = self.bytes.split_at(header_len);
        let old = u16::from_be_bytes([header[6], header[7]]);
        let (more_follow, offset) = (old & 0x2000 != 0, usize::from(old & 0x1fff));
        let mut fragments = Vec::with_capacity(payload.len().div_ceil(most));
        for (i, part) in payload.chunks(most).enumerate() {
            let last = (i + 1) * most >= payload.len();
            let place = u16::try_from(offset + i * most / 8).ok().filter(|&place| place <= 0x1fff)?;
            let mut bytes = Vec::with_capacity(header_len + part.len());
            bytes.extend_from_slice(header);
            if i > 0 || offset > 0 {
                options_of_later(&mut bytes[20..]);
            }
            let length = (header_len + part.len()) as u16;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            let flags = if last && !more_follow { 0 } else { 0x2000 };
            bytes[6..8].copy_from_slice(&(flags | place).to_be_bytes());
            let checksum = u16::from_be_bytes([header[10], header[11]]);
            let checksum = adjusted(checksum, header, &bytes[..header_len]);
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            bytes.extend_from_slice(part);
            fragments.push(Self::parse(self.id, self.in_ns, bytes).ok()?);
        }
        Some(fragments)
    }
}
