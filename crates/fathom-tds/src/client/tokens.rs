//! What a reply is made of (MS-TDS 2.2.7), read as it comes.

use super::Trouble;
use super::columns::{self, Column, Layout, Value};
use crate::codec::unread::Unread;
use crate::codec::{Reader, text};
use std::fmt;

/// Of a row that somebody wants to read, no more than this.
const LONGEST_KEPT: usize = 64 << 10;
/// Nobody asks for rows of more columns to read them.
const MOST_COLUMNS_KEPT: usize = 16;

/// What a server says: an error, or what it wants known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// As in `sys.messages`.
    pub number: i32,
    /// How grave it is: from 11 on an error, from 20 on the session's end.
    pub class: u8,
    /// In words.
    pub message: String,
}

impl Told {
    /// Whether the server ends the session with it.
    pub fn is_fatal(&self) -> bool {
        self.class >= 20
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.number)
    }
}

/// One of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A row is read to its end.
    Row,
    Error(Told),
    Info(Told),
    /// The login is taken.
    Acknowledged {
        program: String,
        release: [u8; 4],
    },
    /// The size of packets from now on.
    Packet(String),
    Database(String),
    /// The transaction that requests are of; 0: none.
    Transaction(u64),
    Elsewhere {
        host: String,
        port: u16,
    },
    /// A statement has ended.
    Done {
        /// Of so many rows, where it says so.
        rows: Option<u64>,
        failed: bool,
        /// Because it was told to stop.
        stopped: bool,
        /// Nothing of the reply follows.
        is_last: bool,
    },
    /// What changes nothing here.
    Other,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Token,
    /// Before the description of a column, of so many that are left.
    Column {
        left: u16,
    },
    /// Before a value of this column.
    Value(usize),
    /// In it.
    Within {
        column: usize,
        left: u64,
    },
    /// Before a part of it.
    Part(usize),
}

/// Reads tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    raw: Unread,
    at: At,
    columns: Vec<Column>,
    /// Of a row that names its nulls first: a bit a column.
    nulls: Vec<u8>,
    /// Somebody wants to read rows.
    pub(super) keeps: bool,
    kept: Vec<Option<Vec<u8>>>,
    /// Bytes of them all.
    kept_bytes: usize,
}

impl Tokens {
    pub(super) fn new() -> Self {
        let (raw, columns, nulls, kept) = Default::default();
        Self { raw, at: At::Token, columns, nulls, keeps: false, kept, kept_bytes: 0 }
    }

    /// Takes a part of a reply.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.raw.extend(bytes);
    }

    /// Whether everything that came is read, to the end of a token.
    pub(super) fn is_between(&self) -> bool {
        self.at == At::Token && self.raw.rest().is_empty()
    }

    /// Bytes that are kept until more come.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.raw.rest().len()
    }

    /// The values of the row that was read last, where rows are kept; `None`: a null, or a type that nobody here asks for.
    pub(super) fn row(&self) -> Vec<Option<String>> {
        let values = self.columns.iter().zip(&self.kept);
        values.map(|(column, value)| column.text(value.as_deref()?)).collect()
    }

    /// The next that is whole; `None`: more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Item>, Trouble> {
        loop {
            match self.at {
                At::Token => {
                    let item = self.token()?;
                    // None, and at another place: the beginning of columns or of a row is read. A loop and no recursion,
                    // because a reply may have thousands of such beginnings.
                    if item.is_some() || self.at == At::Token {
                        return Ok(item);
                    }
                }
                At::Column { left: 0 } => self.at = At::Token,
                At::Column { left } => {
                    let mut fields = Reader(self.raw.rest());
                    let before = fields.0.len();
                    match Column::read(&mut fields) {
                        None if before > columns::LONGEST => return Err(Trouble::TooLong("column's name")),
                        None => return Ok(None),
                        Some(column) => self.columns.push(column?),
                    }
                    let read = before - fields.0.len();
                    self.raw.skip(read);
                    self.at = At::Column { left: left - 1 };
                }
                At::Value(column) if column == self.columns.len() => {
                    self.at = At::Token;
                    return Ok(Some(Item::Row));
                }
                At::Value(column) => {
                    if !self.value(column) {
                        return Ok(None);
                    }
                }
                At::Part(column) => {
                    let Some(length) = Reader(self.raw.rest()).u32() else { return Ok(None) };
                    self.raw.skip(4);
                    self.at = match length {
                        0 => At::Value(column + 1),
                        length => At::Within { column, left: length.into() },
                    };
                }
                At::Within { column, left } => {
                    let here = self.raw.rest();
                    let n = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if self.keeps
                        && let Some(Some(value)) = self.kept.last_mut()
                    {
                        self.kept_bytes += n;
                        if self.kept_bytes > LONGEST_KEPT {
                            return Err(Trouble::RowNotKept);
                        }
                        value.extend_from_slice(&here[..n]);
                    }
                    self.raw.skip(n);
                    let left = left - n as u64;
                    if left > 0 {
                        self.at = At::Within { column, left };
                        return Ok(None);
                    }
                    self.at = match self.columns[column].layout {
                        Layout::Parts => At::Part(column),
                        _ => At::Value(column + 1),
                    };
                }
            }
        }
    }

    /// The rows that have come whole, one behind the other; how many. [`Tokens::next`] goes on behind them. None where rows are kept, nor
    /// with values in parts.
    pub(super) fn rows(&mut self) -> u64 {
        if self.at != At::Token || self.keeps {
            return 0;
        }
        let (mut fields, mut rows) = (Reader(self.raw.rest()), 0);
        let (all, mut left) = (fields.0.len(), fields.0.len());
        while whole_row(&self.columns, &mut fields).is_some() {
            left = fields.0.len();
            rows += 1;
        }
        self.raw.skip(all - left);
        rows
    }

    /// Reads what stands before a value; whether it is whole.
    fn value(&mut self, column: usize) -> bool {
        let is_named_null = is_named_null(&self.nulls, column);
        let mut fields = Reader(self.raw.rest());
        let before = fields.0.len();
        let value =
            if is_named_null { Some(Value::Null) } else { self.columns[column].layout.value(&mut fields) };
        let Some(value) = value else { return false };
        let read = before - fields.0.len();
        self.raw.skip(read);
        if self.keeps {
            self.kept.push((value != Value::Null).then(Vec::new));
        }
        self.at = match value {
            Value::Null => At::Value(column + 1),
            Value::Parts => At::Part(column),
            Value::Bytes(left) => At::Within { column, left },
        };
        true
    }

    /// Reads a token, or what columns or a row begin with; `None`: the latter, or more bytes are needed.
    fn token(&mut self) -> Result<Option<Item>, Trouble> {
        let rest = self.raw.rest();
        let Some(&kind) = rest.first() else { return Ok(None) };
        let mut fields = Reader(&rest[1..]);
        let (read, item) = match kind {
            // Columns; all ones: there are none.
            0x81 => {
                let Some(count) = fields.u16() else { return Ok(None) };
                self.columns.clear();
                self.at = At::Column { left: if count == u16::MAX { 0 } else { count } };
                (3, None)
            }
            0xD1 | 0xD2 => {
                if self.columns.is_empty() {
                    return Err(Trouble::NoColumns);
                }
                if self.keeps && self.columns.len() > MOST_COLUMNS_KEPT {
                    return Err(Trouble::RowNotKept);
                }
                let bits = if kind == 0xD2 { self.columns.len().div_ceil(8) } else { 0 };
                let Some(nulls) = fields.bytes(bits) else { return Ok(None) };
                self.nulls.clear();
                self.nulls.extend_from_slice(nulls);
                self.kept.clear();
                self.kept_bytes = 0;
                self.at = At::Value(0);
                (1 + bits, None)
            }
            0xFD..=0xFF => {
                let Some(body) = fields.bytes(12) else { return Ok(None) };
                (13, Some(done(kind, body)))
            }
            // What a procedure returns.
            0x79 => {
                let Some(_) = fields.bytes(4) else { return Ok(None) };
                (5, Some(Item::Other))
            }
            // Names of tables, of columns' origins, an order, an error, something to know, a login, a change.
            0xA4 | 0xA5 | 0xA9 | 0xAA | 0xAB | 0xAD | 0xE3 => {
                let Some(length) = fields.u16() else { return Ok(None) };
                let Some(body) = fields.bytes(length.into()) else { return Ok(None) };
                let item = match kind {
                    0xAA => told(body).map(Item::Error).ok_or(Trouble::Torn("message"))?,
                    0xAB => told(body).map(Item::Info).ok_or(Trouble::Torn("message"))?,
                    0xAD => acknowledged(body).ok_or(Trouble::Torn("login's answer"))?,
                    0xE3 => change(body).ok_or(Trouble::Torn("change of the session"))?,
                    _ => Item::Other,
                };
                (3 + usize::from(length), Some(item))
            }
            other => return Err(Trouble::Token(other)),
        };
        self.raw.skip(read);
        Ok(item)
    }
}

/// Reads past a row; `None`: it has not come whole, has values in parts, or is none.
fn whole_row(columns: &[Column], fields: &mut Reader<'_>) -> Option<()> {
    let nulls = match fields.u8()? {
        0xD1 if !columns.is_empty() => &[][..],
        0xD2 if !columns.is_empty() => fields.bytes(columns.len().div_ceil(8))?,
        _ => return None,
    };
    for (at, column) in columns.iter().enumerate() {
        if is_named_null(nulls, at) {
            continue;
        }
        match column.layout.value(fields)? {
            Value::Null => {}
            Value::Bytes(length) => drop(fields.bytes(usize::try_from(length).ok()?)?),
            Value::Parts => return None,
        }
    }
    Some(())
}

/// Whether the bits before a row say that it has no value in this column.
fn is_named_null(nulls: &[u8], column: usize) -> bool {
    nulls.get(column / 8).is_some_and(|bits| bits >> (column % 8) & 1 == 1)
}

/// MS-TDS 2.2.7.6: status, the statement's kind, a count.
fn done(kind: u8, body: &[u8]) -> Item {
    let status = u16::from_le_bytes([body[0], body[1]]);
    let mut rows = [0; 8];
    rows.copy_from_slice(&body[4..]);
    Item::Done {
        rows: (status & 0x10 != 0).then(|| u64::from_le_bytes(rows)),
        // An error, or one so grave that what came of the statement is to be thrown away.
        failed: status & 0x102 != 0,
        stopped: status & 0x20 != 0,
        // Of a statement within a procedure the procedure's own end follows.
        is_last: status & 0x01 == 0 && kind != 0xFF,
    }
}

/// MS-TDS 2.2.7.10.
fn told(body: &[u8]) -> Option<Told> {
    let mut fields = Reader(body);
    let number = fields.u32()? as i32;
    let (_state, class) = (fields.u8()?, fields.u8()?);
    let units = usize::from(fields.u16()?);
    Some(Told { number, class, message: text(fields.bytes(2 * units)?) })
}

/// MS-TDS 2.2.7.14.
fn acknowledged(body: &[u8]) -> Option<Item> {
    let mut fields = Reader(body);
    fields.bytes(5)?;
    let units = usize::from(fields.u8()?);
    let program = text(fields.bytes(2 * units)?);
    Some(Item::Acknowledged { program, release: fields.bytes(4)?.try_into().ok()? })
}

/// MS-TDS 2.2.7.9.
fn change(body: &[u8]) -> Option<Item> {
    let mut fields = Reader(body);
    Some(match fields.u8()? {
        kind @ (1 | 4) => {
            let units = usize::from(fields.u8()?);
            let new = text(fields.bytes(2 * units)?);
            if kind == 1 { Item::Database(new) } else { Item::Packet(new) }
        }
        // One begins.
        8 => {
            let length = usize::from(fields.u8()?);
            let descriptor = fields.bytes(length)?;
            Item::Transaction(descriptor.try_into().map_or(0, u64::from_le_bytes))
        }
        // It is committed, rolled back, or over otherwise.
        9 | 10 | 17 => Item::Transaction(0),
        20 => {
            // Its length, its protocol: TCP.
            fields.bytes(3)?;
            let port = fields.u16()?;
            let units = usize::from(fields.u16()?);
            Item::Elsewhere { host: text(fields.bytes(2 * units)?), port }
        }
        _ => Item::Other,
    })
}
