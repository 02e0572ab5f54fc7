//! Packets (MS-TDS 2.2.3): a header of eight bytes, then a part of a message.

use super::Refusal;
use super::unread::Unread;

/// Bytes of a packet's header.
pub const HEADER: usize = 8;
/// The smallest packet that may be agreed on (MS-TDS 2.2.3.1.4).
pub const SMALLEST: u16 = 512;
/// The largest.
pub const LARGEST: u16 = 32_767;
/// The largest within encryption: a record of TLS (SQL Server's option "network packet size").
pub const LARGEST_ENCRYPTED: u16 = 16_383;
/// What packets may have until another size is granted, and what is granted to who asks for none.
pub const AT_FIRST: u16 = 4_096;
/// The longest message that is taken: a query's text, not data.
pub const LONGEST_MESSAGE: usize = 256 * 1024;

/// What both ends say before the login.
const PRELOGIN: u8 = 0x12;
/// The last packet of its message.
const END_OF_MESSAGE: u8 = 0x01;
/// The sender takes the message back (MS-TDS 2.2.3.1.2).
const IGNORE: u8 = 0x02;
/// The session is to be as new before the message is served, its transaction kept or not.
const RESET: u8 = 0x08 | 0x10;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text of SQL.
    Batch,
    /// A call of a procedure.
    Rpc,
    /// Stop what is being served.
    Attention,
    /// Begin, commit or roll back.
    Transaction,
    /// The login.
    Login,
    /// What both ends say before the login.
    PreLogin,
}

impl Kind {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "query",
            Self::Rpc => "call",
            Self::Attention => "stop",
            Self::Transaction => "transaction",
            Self::Login => "login",
            Self::PreLogin => "prelogin",
        }
    }

    fn read(byte: u8) -> Result<Self, Refusal> {
        Ok(match byte {
            0x01 => Self::Batch,
            0x03 => Self::Rpc,
            0x06 => Self::Attention,
            0x0E => Self::Transaction,
            0x10 => Self::Login,
            PRELOGIN => Self::PreLogin,
            _ => return Err(Refusal::Kind(byte)),
        })
    }
}

/// A whole message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Whether the session is to be as new first.
    pub reset: bool,
    /// What its packets held.
    pub body: Vec<u8>,
}

/// Puts a client's packets together. It keeps no more than a message and a packet.
#[derive(Debug, Default)]
pub struct Inbox {
    raw: Unread,
    body: Vec<u8>,
    /// Of the message that has begun.
    begun: Option<(Kind, bool)>,
}

impl Inbox {
    /// Takes what came.
    pub fn take(&mut self, bytes: &[u8]) {
        self.raw.extend(bytes);
    }

    /// Whether it has room for another message.
    pub fn has_room(&self) -> bool {
        self.raw.rest().len() < LONGEST_MESSAGE
    }

    /// What came behind the last message: of a connection that is encrypted from now on, no packets.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw).rest().to_vec()
    }

    /// Whether the next message says stop; then it is taken.
    pub fn attention(&mut self) -> Result<bool, Refusal> {
        let next = self.raw.rest().first().map(|&byte| Kind::read(byte)).transpose()?;
        let stops = self.begun.is_none() && next == Some(Kind::Attention);
        Ok(stops && self.message()?.is_some())
    }

    /// The next message that is whole.
    pub fn message(&mut self) -> Result<Option<Message>, Refusal> {
        while let Some(&[kind, status, high, low, ..]) = self.raw.rest().first_chunk::<HEADER>() {
            let kind = Kind::read(kind)?;
            let length = usize::from(u16::from_be_bytes([high, low]));
            if !(HEADER..=usize::from(LARGEST)).contains(&length) {
                return Err(Refusal::PacketLength(length));
            }
            if length == HEADER && status & END_OF_MESSAGE == 0 {
                return Err(Refusal::EmptyPacket);
            }
            let Some(packet) = self.raw.rest().get(..length) else {
                return Ok(None);
            };
            match self.begun {
                None => self.begun = Some((kind, status & RESET != 0)),
                Some((begun, _)) if begun == kind => {}
                Some(_) => return Err(Refusal::Interleaved),
            }
            if self.body.len() + length > LONGEST_MESSAGE {
                return Err(Refusal::MessageLength);
            }
            self.body.extend_from_slice(&packet[HEADER..]);
            self.raw.skip(length);
            if status & END_OF_MESSAGE == 0 {
                continue;
            }
            let body = std::mem::take(&mut self.body);
            let begun = self.begun.take();
            if let Some((kind, reset)) = begun
                && status & IGNORE == 0
            {
                return Ok(Some(Message { kind, reset, body }));
            }
        }
        Ok(None)
    }
}

/// Cuts a reply into packets. All but the last are full, which TDS 7.3 asks for.
#[derive(Debug)]
pub struct Packets {
    size: u16,
    body: Vec<u8>,
    number: u8,
}

impl Packets {
    /// Packets of so many bytes, header and all.
    pub fn new(size: u16) -> Self {
        Self { size, body: Vec::new(), number: 0 }
    }

    /// Cuts a message of the handshake into packets (MS-TDS 2.2.6.5), the smallest: go-mssqldb has room for no larger ones than it
    /// will ask for.
    pub fn handshake(records: &[u8], out: &mut Vec<u8>) {
        let mut parts = records.chunks(usize::from(SMALLEST) - HEADER).peekable();
        let mut number = 0_u8;
        while let Some(part) = parts.next() {
            number = number.wrapping_add(1);
            let length = ((HEADER + part.len()) as u16).to_be_bytes();
            let status = if parts.peek().is_none() { END_OF_MESSAGE } else { 0 };
            out.extend_from_slice(&[PRELOGIN, status, length[0], length[1], 0, 0, number, 0]);
            out.extend_from_slice(part);
        }
    }

    /// Packets of another size from the next message on.
    pub fn resize(&mut self, size: u16) {
        self.size = size;
    }

    /// Takes a part of a message.
    pub fn put(&mut self, tokens: &[u8]) {
        self.body.extend_from_slice(tokens);
    }

    /// Takes what `write` appends.
    pub fn put_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.body);
    }

    /// Whether what was put fills more than a packet.
    pub fn is_full(&self) -> bool {
        self.body.len() > self.room()
    }

    /// The next packet, into `out`; `last` if nothing more will be put into the message.
    pub fn pack(&mut self, last: bool, out: &mut Vec<u8>) {
        let taken = self.body.len().min(self.room());
        let ends = last && taken == self.body.len();
        self.number = self.number.wrapping_add(1);
        let length = ((HEADER + taken) as u16).to_be_bytes();
        let status = if ends { END_OF_MESSAGE } else { 0 };
        // 0x04: a reply. The session's number is 0, as there is one session a connection.
        out.extend_from_slice(&[0x04, status, length[0], length[1], 0, 0, self.number, 0]);
        out.extend(self.body.drain(..taken));
        if ends {
            self.number = 0;
        }
    }

    /// Whether nothing waits to be packed.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    fn room(&self) -> usize {
        usize::from(self.size) - HEADER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(kind: u8, status: u8, body: &[u8]) -> Vec<u8> {
        let length = ((HEADER + body.len()) as u16).to_be_bytes();
        [&[kind, status, length[0], length[1], 0, 0, 1, 0], body].concat()
    }

    #[test]
    fn invalid_packet_is_refused_with_reason() {
        for (bytes, refusal) in [
            (b"GET / HTTP/1.1".to_vec(), Refusal::Kind(b'G')),
            (vec![1, 1, 0, 7, 0, 0, 1, 0], Refusal::PacketLength(7)),
            (vec![1, 1, 0xFF, 0xFF, 0, 0, 1, 0], Refusal::PacketLength(65_535)),
            ([packet(1, 0, b"ab"), packet(3, 1, b"c")].concat(), Refusal::Interleaved),
            (packet(1, 0, b""), Refusal::EmptyPacket),
            ([packet(1, 0, b"ab"), packet(1, 0, b"")].concat(), Refusal::EmptyPacket),
        ] {
            let mut inbox = Inbox::default();
            inbox.take(&bytes);
            assert_eq!(inbox.message(), Err(refusal));
        }
    }

    #[test]
    fn a_message_that_is_taken_back_is_dropped() {
        let mut inbox = Inbox::default();
        inbox.take(&[packet(1, 0, b"ab"), packet(1, 3, b""), packet(6, 1, b"")].concat());
        let attention = Message { kind: Kind::Attention, reset: false, body: Vec::new() };
        assert_eq!(inbox.message(), Ok(Some(attention)));
        assert_eq!(inbox.message(), Ok(None));
    }

    #[test]
    fn endless_message_is_refused_at_limit() {
        let mut inbox = Inbox::default();
        let part = packet(1, 0, &vec![0; 32_000]);
        let taken = (0..).take_while(|_| {
            inbox.take(&part);
            inbox.message() == Ok(None)
        });
        assert_eq!(taken.count(), LONGEST_MESSAGE / part.len());
    }

    /// The smallest packets that there are: messages that are taken back, and a message of a byte a packet. Each byte is moved once
    /// at the most, whether much or little comes before it is read.
    #[test]
    fn small_packets_move_each_byte_at_most_once() {
        let (taken_back, one_byte) = (packet(1, 3, b""), packet(1, 0, b"a"));
        for small in [taken_back, one_byte] {
            for at_once in [4_096, 100_000, LONGEST_MESSAGE] {
                let (mut inbox, mut came) = (Inbox::default(), 0);
                let stream = small.repeat(LONGEST_MESSAGE / 12);
                for part in stream.chunks(at_once) {
                    inbox.take(part);
                    came += part.len();
                    assert_eq!(inbox.message(), Ok(None));
                    assert!(inbox.raw.moved <= came, "{} moved of {came}", inbox.raw.moved);
                }
                assert!(inbox.raw.rest().len() < small.len());
            }
        }
    }

    /// The laws, in so many cases.
    macro_rules! laws {
        ($cases:expr) => {
            proptest! {
                #![proptest_config(ProptestConfig::with_cases($cases))]

                /// However a message is cut, into packets and into what the network brings at once, it comes whole; and all packets of
                /// ours but the last are full.
                #[test]
                fn nothing_is_lost_between_packets(
                    body in proptest::collection::vec(any::<u8>(), 0..5_000), size in 512_u16..2_000, put in 1_usize..700, cut in 1_usize..900,
                ) {
                    let (mut packets, mut wire) = (Packets::new(size), Vec::new());
                    for part in body.chunks(put) {
                        packets.put(part);
                        while packets.is_full() {
                            let before = wire.len();
                            packets.pack(false, &mut wire);
                            prop_assert_eq!(wire.len() - before, usize::from(size));
                        }
                    }
                    packets.pack(true, &mut wire);
                    prop_assert!(packets.is_empty());
                    // The inbox takes clients' messages: a batch instead of a reply.
                    let (mut at, mut inbox, mut came) = (0, Inbox::default(), Vec::new());
                    while at < wire.len() {
                        let length = usize::from(u16::from_be_bytes([wire[at + 2], wire[at + 3]]));
                        wire[at] = 0x01;
                        at += length;
                    }
                    for part in wire.chunks(cut) {
                        inbox.take(part);
                        came.extend(inbox.message().expect("packets of ours"));
                    }
                    prop_assert_eq!(came.len(), 1);
                    prop_assert_eq!(&came[0].body, &body);
                }
            }
        };
    }

    laws!(80);

    mod acceptance {
        use super::*;

        laws!(256);
    }
}
