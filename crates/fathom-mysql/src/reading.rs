//! Integers and texts out of a packet, each of which may be cut off.

/// What of a packet is still to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a>(pub(crate) &'a [u8]);

impl<'a> Reading<'a> {
    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (now, later) = self.0.split_at_checked(n)?;
        self.0 = later;
        Some(now)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Whether a null is next, which is then taken.
    pub(crate) fn null(&mut self) -> bool {
        let rest = self.0.strip_prefix(&[0xFB]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A length-encoded integer.
    pub(crate) fn length(&mut self) -> Option<u64> {
        Some(match self.u8()? {
            byte @ 0..=0xFA => byte.into(),
            0xFC => self.u16()?.into(),
            0xFD => {
                let [a, b, c] = self.array()?;
                u32::from_le_bytes([a, b, c, 0]).into()
            }
            0xFE => self.array().map(u64::from_le_bytes)?,
            0xFB | 0xFF => return None,
        })
    }

    /// To a null byte, or to the end.
    pub(crate) fn text(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = end.map_or(&[], |end| &self.0[end + 1..]);
        text
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// Appends a length-encoded integer.
pub(crate) fn put_length(out: &mut Vec<u8>, n: usize) {
    let bytes = (n as u64).to_le_bytes();
    match n {
        0..=0xFA => out.push(bytes[0]),
        0xFB..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a text with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_length(out, text.len());
    out.extend_from_slice(text);
}

/// As text, without what would break a line or command a terminal.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
