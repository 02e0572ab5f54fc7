//! What the client writes (MS-TDS 2.2.6), in packets.

use super::Wanted;
use crate::codec::packet::HEADER;
use std::fmt;

/// Kinds of messages.
pub(super) const BATCH: u8 = 0x01;
pub(super) const ATTENTION: u8 = 0x06;
pub(super) const LOGIN: u8 = 0x10;
pub(super) const PRELOGIN: u8 = 0x12;

/// TDS 7.4.
const VERSION: u32 = 0x7400_0004;
/// What LOGIN7 has before its texts.
const FIXED: usize = 94;
/// The longest text of a login (MS-TDS 2.2.6.4).
const LONGEST: usize = 128;

/// Who logs in, and to what.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// This host's name.
    pub host: String,
    /// The user.
    pub user: String,
    /// The password: in no message that is shown.
    pub password: String,
    /// The program.
    pub program: String,
    /// The server, as the user named it.
    pub server: String,
    /// The database; empty: the user's own.
    pub database: String,
    /// The size of packets to ask for.
    pub packet: u16,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("packet", &self.packet)
            .finish_non_exhaustive()
    }
}

impl Login {
    /// The text that is too long to be sent, by its name.
    pub fn too_long(&self) -> Option<&'static str> {
        let texts = [
            ("user's name", &self.user),
            ("password", &self.password),
            ("name of the database", &self.database),
        ];
        texts.into_iter().find(|(_, text)| text.encode_utf16().count() > LONGEST).map(|(name, _)| name)
    }

    /// MS-TDS 2.2.6.4. It fits into a packet of 4,096 bytes: of a login alone that is encrypted, one packet is.
    pub(super) fn encode(&self) -> Vec<u8> {
        // What is of no use to the server but to be shown is cut.
        let units = |text: &str| -> Vec<u8> {
            text.encode_utf16().take(LONGEST).flat_map(u16::to_le_bytes).collect()
        };
        let mut password = units(&self.password);
        for byte in &mut password {
            // "swap the four high bits with the four low bits and then do a bit-XOR with 0xA5"
            *byte = byte.rotate_left(4) ^ 0xA5;
        }
        let library = units("fathom");
        let none = Vec::new();
        let [host, user, program, server, database] =
            [&self.host, &self.user, &self.program, &self.server, &self.database].map(|text| units(text));
        let texts = [&host, &user, &password, &program, &server, &none, &library, &none, &database];
        let mut offset = FIXED;
        let mut places = Vec::new();
        let mut put = |places: &mut Vec<u8>, text: &[u8]| {
            places.extend_from_slice(&(offset as u16).to_le_bytes());
            places.extend_from_slice(&((text.len() / 2) as u16).to_le_bytes());
            offset += text.len();
        };
        for text in texts {
            put(&mut places, text);
        }
        // No address of an adapter; no ticket, no file to attach, no new password, and none of a long ticket.
        places.extend_from_slice(&[0; 6]);
        for _ in 0..3 {
            put(&mut places, &[]);
        }
        places.extend_from_slice(&[0; 4]);
        let mut out = Vec::with_capacity(offset);
        out.extend_from_slice(&(offset as u32).to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u32::from(self.packet).to_le_bytes());
        // The program's version, its process, the connection that is replaced: none of the server's business.
        out.extend_from_slice(&[0; 12]);
        // It is told of changes of database and language, and a database that it may not use is an error; SQL as by ODBC (ANSI); unknown
        // collations are no matter.
        out.extend_from_slice(&[0xE0, 0x03, 0x00, 0x08]);
        // Time zone; English of the United States.
        out.extend_from_slice(&[0, 0, 0, 0, 0x09, 0x04, 0, 0]);
        out.extend_from_slice(&places);
        for text in texts {
            out.extend_from_slice(text);
        }
        out
    }
}

/// What is said of encryption before the login (MS-TDS 2.2.6.5).
pub(super) fn says(wanted: Wanted) -> u8 {
    match wanted {
        Wanted::Nothing => 0x02,
        Wanted::Login => 0x00,
        Wanted::IfOffered | Wanted::Everything => 0x01,
    }
}

/// A batch: the transaction that it is of, one request at a time, the text.
pub(super) fn batch(text: &str, transaction: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(22 + 2 * text.len());
    body.extend_from_slice(&22_u32.to_le_bytes());
    body.extend_from_slice(&18_u32.to_le_bytes());
    body.extend_from_slice(&2_u16.to_le_bytes());
    body.extend_from_slice(&transaction.to_le_bytes());
    body.extend_from_slice(&1_u32.to_le_bytes());
    body.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    body
}

/// Cuts a message into packets of this size. All but the last are full.
pub(super) fn packets(kind: u8, body: &[u8], size: u16) -> Vec<Vec<u8>> {
    let room = usize::from(size) - HEADER;
    let parts: Vec<&[u8]> = if body.is_empty() { vec![&[]] } else { body.chunks(room).collect() };
    let last = parts.len() - 1;
    let packet = |(at, part): (usize, &&[u8])| {
        let length = ((HEADER + part.len()) as u16).to_be_bytes();
        let head = [kind, u8::from(at == last), length[0], length[1], 0, 0, (at + 1) as u8, 0];
        [&head[..], part].concat()
    };
    parts.iter().enumerate().map(packet).collect()
}
