//! Packets: three bytes of length, one of order, and as many as the length says. What is longer than 16 MiB less a byte is sent as
//! several, of which all but the last are full (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>).

use crate::Trouble;

/// The most that one packet holds; a message of as much goes on in the next.
pub const LONGEST: usize = 0xFF_FFFF;
/// Of a message that somebody reads at most this is kept.
pub(crate) const KEPT: usize = 64 << 10;

/// A message that was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its first byte.
    pub(crate) first: Option<u8>,
    /// All of it.
    pub(crate) length: u64,
    /// All of it is kept.
    pub(crate) is_whole: bool,
    /// Its packets follow what came before, or else this one came where the other was due.
    pub(crate) order: Result<(), (u8, u8)>,
}

/// Takes packets apart as they come.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    header: [u8; 4],
    /// Bytes of the header that came.
    came: usize,
    /// Something came at all.
    has_begun: bool,
    /// Bytes of the packet that are still to come.
    left: usize,
    /// Of the message so far, and of what it kept.
    length: u64,
    first: Option<u8>,
    order: Option<(u8, u8)>,
    pub(crate) kept: Vec<u8>,
    /// The number of the packet that is due.
    next: u8,
}

impl Packets {
    /// Another exchange begins with the other end's packet of this number.
    pub(crate) fn expect(&mut self, next: u8) {
        self.next = next;
    }

    /// The number of our packet that follows what came.
    pub(crate) fn due(&self) -> u8 {
        self.next
    }

    /// How the packet begins that came last, or is coming: its header, and the first byte of its message. Empty: nothing came.
    pub(crate) fn began(&self) -> Vec<u8> {
        if !self.has_begun {
            return Vec::new();
        }
        let is_coming = (1..4).contains(&self.came);
        let header = &self.header[..if is_coming { self.came } else { 4 }];
        header.iter().copied().chain(self.first.filter(|_| !is_coming)).collect()
    }

    /// Whether nothing of a message has come.
    pub(crate) fn is_between(&self) -> bool {
        self.came == 0 && self.length == 0
    }

    /// Whether what came cannot be the beginning of a greeting: it has the number 0, and is short.
    pub(crate) fn is_no_greeting(&self) -> bool {
        let [a, b, c, number] = self.header;
        self.came == 4 && (number != 0 || u32::from_le_bytes([a, b, c, 0]) as usize > KEPT)
    }

    /// Takes from `input` what belongs to the next message, until it is whole. `keeps` says by its first byte whether it is kept.
    pub(crate) fn message(&mut self, input: &mut &[u8], keeps: impl Fn(u8) -> bool) -> Option<Message> {
        loop {
            if self.came < 4 {
                let n = input.len().min(4 - self.came);
                if self.is_between() && n > 0 {
                    (self.first, self.order) = (None, None);
                    self.kept.clear();
                }
                self.header[self.came..self.came + n].copy_from_slice(&input[..n]);
                *input = &input[n..];
                self.came += n;
                self.has_begun |= n > 0;
                if self.came < 4 {
                    return None;
                }
                let [a, b, c, number] = self.header;
                self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
                if number != self.next {
                    self.order.get_or_insert((number, self.next));
                }
                self.next = number.wrapping_add(1);
            }
            let n = input.len().min(self.left);
            let (here, rest) = input.split_at(n);
            if let Some(byte) = here.first() {
                self.first.get_or_insert(*byte);
            }
            if self.first.is_some_and(&keeps) {
                let room = KEPT.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&here[..n.min(room)]);
            }
            *input = rest;
            self.left -= n;
            self.length += n as u64;
            if self.left > 0 {
                return None;
            }
            self.came = 0;
            let [a, b, c, _] = self.header;
            if u32::from_le_bytes([a, b, c, 0]) as usize == LONGEST {
                continue;
            }
            let length = std::mem::take(&mut self.length);
            return Some(Message {
                first: self.first,
                length,
                is_whole: self.kept.len() as u64 == length,
                order: self.order.take().map_or(Ok(()), Err),
            });
        }
    }

    /// Takes rows that lie whole in `input`, one behind the other, and of which nothing is kept; how many. What ends them, what is
    /// out of order, and what goes on in another packet is left to [`Packets::message`].
    pub(crate) fn rows(&mut self, input: &mut &[u8]) -> u64 {
        let mut rows = 0;
        while let [a, b, c, number, rest @ ..] = input
            && self.is_between()
        {
            let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
            let is_row = rest.first().is_some_and(|first| *first < 0xFE) && (1..LONGEST).contains(&length);
            if !is_row || *number != self.next || rest.len() < length {
                break;
            }
            *input = &rest[length..];
            self.next = number.wrapping_add(1);
            rows += 1;
        }
        rows
    }
}

impl Message {
    /// A message in its order; an error may come at any time, as from a server that ends an idle session.
    pub(crate) fn in_order(self) -> Result<Self, Trouble> {
        match self.order {
            Err((number, due)) if self.first != Some(0xFF) => Err(Trouble::Order(number, due)),
            _ => Ok(self),
        }
    }

    /// Whether it does not fit into one packet.
    pub(crate) fn is_long(self) -> bool {
        self.length >= LONGEST as u64
    }
}

/// A message in packets from this number on.
pub(crate) fn packets(body: &[u8], mut number: u8, out: &mut Vec<u8>) {
    let mut rest = body;
    loop {
        let (now, later) = rest.split_at(rest.len().min(LONGEST));
        out.extend_from_slice(&(now.len() as u32).to_le_bytes()[..3]);
        out.push(number);
        out.extend_from_slice(now);
        // A full one is followed by another, be it empty.
        if now.len() < LONGEST {
            return;
        }
        (rest, number) = (later, number.wrapping_add(1));
    }
}
