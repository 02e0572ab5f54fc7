//! A server's packets (MS-TDS 2.2.3), taken apart as they come: nothing is kept but a header that is not whole.

use super::Trouble;
use crate::codec::packet::{HEADER, LARGEST};
use crate::codec::unread::Unread;

/// What a server sends, but for its part of the handshake.
pub(super) const REPLY: u8 = 0x04;

/// Packets of replies since the login, held against the size that was granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Their bytes, headers and all.
    pub bytes: u64,
    /// The longest of them.
    pub longest: u16,
    /// Longer than what was granted.
    pub too_long: u64,
    /// Neither as long as that nor the last of a reply.
    pub not_full: u64,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// More bytes are needed.
    Nothing,
    /// A part of a message.
    Some,
    /// The message is over.
    End,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    left: usize,
    ends: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Replies {
    raw: Unread,
    open: Option<Open>,
    /// What was granted, from when on packets are counted.
    granted: Option<u16>,
    pub(super) counts: Counts,
}

impl Replies {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.raw.extend(bytes);
    }

    /// Packets of the messages from now on are to have this size.
    pub(super) fn count_from_now(&mut self, granted: u16) {
        self.granted = Some(granted);
    }

    /// Whether something came that was not read.
    pub(super) fn has_more(&self) -> bool {
        self.open.is_some() || !self.raw.rest().is_empty()
    }

    /// Whether no packet is under way.
    pub(super) fn is_between_packets(&self) -> bool {
        self.open.is_none()
    }

    /// What came behind the last packet that was read: from now on it is not packets.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw).rest().to_vec()
    }

    /// Gives `to` what there is of the message under way, at most to the end of a packet. Other kinds of packets are none.
    pub(super) fn part(&mut self, kinds: &[u8], to: impl FnOnce(&[u8])) -> Result<Part, Trouble> {
        let open = match self.open {
            Some(open) => open,
            None => match self.header(kinds)? {
                Some(open) => open,
                None => return Ok(Part::Nothing),
            },
        };
        let here = open.left.min(self.raw.rest().len());
        to(&self.raw.rest()[..here]);
        self.raw.skip(here);
        let left = open.left - here;
        self.open = (left > 0).then_some(Open { left, ..open });
        Ok(match (left, open.ends) {
            (0, true) => Part::End,
            // Of a packet that is over the next one's header may be here.
            (0, false) => Part::Some,
            _ if here == 0 => Part::Nothing,
            _ => Part::Some,
        })
    }

    fn header(&mut self, kinds: &[u8]) -> Result<Option<Open>, Trouble> {
        let Some(&[kind, status, high, low, ..]) = self.raw.rest().first_chunk::<HEADER>() else {
            // Who speaks another protocol may say less than a header, and wait.
            return match self.raw.rest().first() {
                Some(&kind) if !kinds.contains(&kind) => Err(Trouble::Kind(kind)),
                _ => Ok(None),
            };
        };
        if !kinds.contains(&kind) {
            return Err(Trouble::Kind(kind));
        }
        let length = u16::from_be_bytes([high, low]);
        let ends = status & 0x01 != 0;
        if !(HEADER as u16..=LARGEST).contains(&length) {
            return Err(Trouble::PacketLength(length.into()));
        }
        let left = usize::from(length) - HEADER;
        if left == 0 && !ends {
            return Err(Trouble::EmptyPacket);
        }
        self.raw.skip(HEADER);
        if let Some(granted) = self.granted {
            self.counts.packets += 1;
            self.counts.bytes += u64::from(length);
            self.counts.longest = self.counts.longest.max(length);
            self.counts.too_long += u64::from(length > granted);
            self.counts.not_full += u64::from(!ends && length < granted);
        }
        Ok(Some(Open { left, ends }))
    }
}
