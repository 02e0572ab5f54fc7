//! A client in virtual time, whose replies are read by another implementation of the protocol (`tds-protocol`).

// Each test takes what it needs of this.

use bytes::Bytes;
use fathom_tds::machine::{Session, Step, Transfer};
use tds_protocol::login7::Login7;
use tds_protocol::prelogin::{EncryptionLevel, PreLogin};
use tds_protocol::sql_batch::SqlBatch;
use tds_protocol::token::{Token, TokenParser};

pub(crate) const BATCH: u8 = 0x01;
pub(crate) const CALL: u8 = 0x03;
pub(crate) const ATTENTION: u8 = 0x06;
pub(crate) const LOGIN: u8 = 0x10;
pub(crate) const PRELOGIN: u8 = 0x12;

/// A message in packets of at most 4,096 bytes.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = if body.is_empty() { vec![&[]] } else { body.chunks(4_088).collect() };
    let mut wire = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let length = ((part.len() + 8) as u16).to_be_bytes();
        let last = u8::from(at + 1 == parts.len());
        wire.extend_from_slice(&[kind, last, length[0], length[1], 0, 0, at as u8, 0]);
        wire.extend_from_slice(part);
    }
    wire
}

/// A client in virtual time.
pub(crate) struct Client {
    pub session: Session,
    pub now_ns: u64,
    /// Sizes of the packets of the last reply.
    pub packets: Vec<usize>,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self { session: Session::new(51, None), now_ns: 1_000, packets: Vec::new() }
    }

    pub(crate) fn logged_in(packet: u32) -> Self {
        let mut client = Self::new();
        client.ask(PRELOGIN, &PreLogin::new().with_encryption(EncryptionLevel::NotSupported).encode());
        let login = Login7::new().with_sql_auth("sa", "hush").with_packet_size(packet).encode();
        client.ask(LOGIN, &login);
        client
    }

    pub(crate) fn send(&mut self, kind: u8, body: &[u8]) {
        self.session.received(self.now_ns, &message(kind, body)).expect("a message of the protocol");
    }

    /// Takes the next packet; none: nothing more comes by itself.
    pub(crate) fn packet(&mut self, at_once: usize) -> Option<Vec<u8>> {
        let mut packet = Vec::new();
        loop {
            match self.session.step(self.now_ns).expect("a session that goes on") {
                Step::Send(bytes) => {
                    let taken = bytes.len().min(at_once);
                    packet.extend_from_slice(&bytes[..taken]);
                    let whole = taken == bytes.len();
                    self.session.sent(taken);
                    if whole {
                        return Some(packet);
                    }
                }
                Step::Rest { until_ns } => {
                    assert!(until_ns > self.now_ns, "a rest ends later");
                    self.now_ns = until_ns;
                }
                Step::Look => {
                    let transfer = Transfer { busy_ns: 9, client_ns: 4, buffer_ns: 2 };
                    self.session.looked(self.now_ns, Some(transfer));
                }
                Step::See(_) => self.session.saw(self.now_ns, None),
                Step::Listen => return None,
            }
        }
    }

    /// The body of the next reply.
    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        self.packets.clear();
        while let Some(packet) = self.packet(1_000) {
            assert_eq!(packet[0], 0x04, "a reply");
            assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
            assert_eq!(packet[6], (self.packets.len() + 1) as u8, "packets are numbered");
            self.packets.push(packet.len());
            body.extend_from_slice(&packet[8..]);
            if packet[1] & 0x01 != 0 {
                break;
            }
        }
        body
    }

    pub(crate) fn ask(&mut self, kind: u8, body: &[u8]) -> Vec<u8> {
        self.send(kind, body);
        self.reply()
    }

    pub(crate) fn query(&mut self, text: &str) -> Vec<Token> {
        let reply = self.ask(BATCH, &SqlBatch::new(text).encode());
        tokens(reply)
    }
}

pub(crate) fn tokens(reply: Vec<u8>) -> Vec<Token> {
    let mut parser = TokenParser::new(Bytes::from(reply));
    let (mut read, mut columns) = (Vec::new(), None);
    while let Some(token) = parser.next_token_with_metadata(columns.as_ref()).expect("tokens of the protocol")
    {
        if let Token::ColMetaData(of) = &token {
            columns = Some(of.clone());
        }
        read.push(token);
    }
    assert!(!parser.has_remaining(), "nothing follows the last token");
    read
}

/// Counts rows and gives the letters of each.
pub(crate) fn rows(tokens: &[Token]) -> Vec<Vec<u8>> {
    let of = |token: &Token| match token {
        Token::Row(row) => Some(row.data.to_vec()),
        _ => None,
    };
    tokens.iter().filter_map(of).collect()
}
