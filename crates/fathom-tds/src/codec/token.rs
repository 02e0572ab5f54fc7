//! What a reply is made of (MS-TDS 2.2.7), in the layout of TDS 7.2 and later.

use super::packet::AT_FIRST;

/// 15.0: what clients decide by is how SQL Server 2019 speaks. The name that goes with it says what this is.
pub(crate) const SERVER_VERSION: [u8; 4] = [15, 0, 0, 0];
/// What this calls itself. It is no database.
const SERVER_NAME: &str = "Fathometer";
/// `Latin1_General`, its code page 1252 (MS-TDS 2.2.5.1.2): what is sent as `varchar` is ASCII.
const COLLATION: [u8; 5] = [0x09, 0x04, 0xD0, 0x00, 0x34];
/// The one transaction that a session may have.
const TRANSACTION: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `int`.
    Int,
    /// `bigint`.
    BigInt,
    /// `int`, or none.
    MaybeInt,
    /// `varchar` of at most so many bytes.
    VarChar(u16),
    /// `nvarchar` of at most so many characters.
    NVarChar(u16),
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `int`.
    Int(i32),
    /// `bigint`.
    BigInt(i64),
    /// `int` of a column that may have none.
    MaybeInt(Option<i32>),
    /// `nvarchar`.
    Text(String),
    /// No `nvarchar`.
    Null,
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// With so many rows.
    Rows(u64),
    /// Without rows.
    Nothing,
    /// With an error.
    Error,
    /// Because the client said stop.
    Stopped,
}

/// Tokens, one after the other.
#[derive(Debug, Default)]
pub struct Tokens(Vec<u8>);

impl Tokens {
    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The answer to a login.
    pub fn login(&mut self, version: u32, database: &str, packet: u16) {
        self.change(1, &short(database), &short("master"));
        self.change(7, &[&[COLLATION.len() as u8][..], &COLLATION].concat(), &[0]);
        let mut body = vec![1];
        body.extend_from_slice(&version.to_be_bytes());
        body.extend_from_slice(&short(SERVER_NAME));
        body.extend_from_slice(&SERVER_VERSION);
        self.token(0xAD, &body);
        self.change(4, &short(&packet.to_string()), &short(&AT_FIRST.to_string()));
    }

    /// The session is as new, which a client asked for.
    pub fn was_reset(&mut self) {
        self.change(18, &[0], &[0]);
    }

    /// A transaction has begun.
    pub fn begun(&mut self) {
        self.change(8, &descriptor(), &[0]);
    }

    /// A transaction has ended: 9 committed, 10 rolled back.
    pub fn ended(&mut self, kind: u8) {
        self.change(kind, &[0], &descriptor());
    }

    /// An error, which the client's library shows to its user.
    pub fn error(&mut self, number: i32, message: &str) {
        let mut body = number.to_le_bytes().to_vec();
        // State 1; class 16: what the user can mend (sys.messages).
        body.extend_from_slice(&[1, 16]);
        let units = utf16(message);
        body.extend_from_slice(&((units.len() / 2) as u16).to_le_bytes());
        body.extend_from_slice(&units);
        body.extend_from_slice(&short(SERVER_NAME));
        body.extend_from_slice(&short(""));
        body.extend_from_slice(&1_u32.to_le_bytes());
        self.token(0xAA, &body);
    }

    /// The columns of the rows that follow.
    pub fn columns(&mut self, columns: &[(&str, Type)]) {
        self.0.push(0x81);
        self.0.extend_from_slice(&(columns.len() as u16).to_le_bytes());
        for (name, kind) in columns {
            // No type of a user; of the flags that it may be null.
            let flags = u8::from(matches!(kind, Type::NVarChar(_) | Type::MaybeInt));
            self.0.extend_from_slice(&[0, 0, 0, 0, flags, 0]);
            match kind {
                Type::Int => self.0.push(0x38),
                Type::BigInt => self.0.push(0x7F),
                // INTNTYPE of four bytes (MS-TDS 2.2.5.4.2).
                Type::MaybeInt => self.0.extend_from_slice(&[0x26, 4]),
                Type::VarChar(most) => self.characters(0xA7, *most),
                Type::NVarChar(most) => self.characters(0xE7, 2 * most),
            }
            self.0.extend_from_slice(&short(name));
        }
    }

    /// A row of a small table.
    pub fn row(&mut self, values: &[Value]) {
        self.0.push(ROW);
        for value in values {
            match value {
                Value::Int(v) => self.0.extend_from_slice(&v.to_le_bytes()),
                Value::BigInt(v) => self.0.extend_from_slice(&v.to_le_bytes()),
                Value::MaybeInt(None) => self.0.push(0),
                Value::MaybeInt(Some(v)) => {
                    self.0.push(4);
                    self.0.extend_from_slice(&v.to_le_bytes());
                }
                Value::Null => self.0.extend_from_slice(&[0xFF; 2]),
                Value::Text(v) => {
                    let units = utf16(v);
                    self.0.extend_from_slice(&(units.len() as u16).to_le_bytes());
                    self.0.extend_from_slice(&units);
                }
            }
        }
    }

    /// The end of a batch, or of a call.
    pub fn done(&mut self, done: Done, of_a_call: bool) {
        let (status, rows): (u16, u64) = match done {
            Done::Rows(rows) => (0x10, rows),
            Done::Nothing => (0, 0),
            Done::Error => (0x02, 0),
            Done::Stopped => (0x20, 0),
        };
        if of_a_call && done != Done::Stopped {
            self.end(0xFF, status | 0x01, rows);
            // The procedure's return status: 0.
            self.0.extend_from_slice(&[0x79, 0, 0, 0, 0]);
            self.end(0xFE, status & 0x02, 0);
        } else {
            self.end(0xFD, status, rows);
        }
    }

    fn end(&mut self, token: u8, status: u16, rows: u64) {
        self.0.push(token);
        self.0.extend_from_slice(&status.to_le_bytes());
        // 0xC1: what ended is a SELECT.
        self.0.extend_from_slice(&[if rows > 0 { 0xC1 } else { 0 }, 0]);
        self.0.extend_from_slice(&rows.to_le_bytes());
    }

    fn characters(&mut self, token: u8, bytes: u16) {
        self.0.push(token);
        self.0.extend_from_slice(&bytes.to_le_bytes());
        self.0.extend_from_slice(&COLLATION);
    }

    fn change(&mut self, kind: u8, new: &[u8], old: &[u8]) {
        self.token(0xE3, &[&[kind], new, old].concat());
    }

    fn token(&mut self, token: u8, body: &[u8]) {
        self.0.push(token);
        self.0.extend_from_slice(&(body.len() as u16).to_le_bytes());
        self.0.extend_from_slice(body);
    }
}

/// The token of a row.
const ROW: u8 = 0xD1;

/// Appends a row of the row source: its number, and as many letters as it is to have, which follow from the number.
pub fn source_row(number: u32, letters: u16, out: &mut Vec<u8>) {
    out.push(ROW);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&letters.to_le_bytes());
    out.extend((0..u32::from(letters)).map(|at| b'a' + (number.wrapping_add(at) % 26) as u8));
}

fn descriptor() -> Vec<u8> {
    [&[TRANSACTION.len() as u8][..], &TRANSACTION].concat()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A text of at most 255 units, its length before it.
fn short(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().take(255).collect();
    let mut bytes = vec![units.len() as u8];
    bytes.extend(units.into_iter().flat_map(u16::to_le_bytes));
    bytes
}
