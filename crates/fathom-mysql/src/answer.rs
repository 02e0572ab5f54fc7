//! The answer to a query: results one after the other, each of columns and rows, or of neither
//! (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response.html>); to a statement that is prepared, what
//! describes it; and to one that is executed with a cursor, columns alone, whose rows are fetched in pieces
//! (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase_ps.html>).

use crate::packet::Message;
use crate::reading::{Reading, shown};
use crate::{Told, Trouble};

/// "There is a hard limit of 4096 columns per table"; more than any server has.
const MOST_COLUMNS: u64 = 65_535;
/// `SERVER_MORE_RESULTS_EXISTS`.
const MORE: u16 = 8;
/// `SERVER_STATUS_CURSOR_EXISTS`: rows are there, to be fetched.
pub(crate) const CURSOR: u16 = 0x40;
/// `SERVER_STATUS_LAST_ROW_SENT`: there are no more.
pub(crate) const LAST: u16 = 0x80;

/// Where in an answer the next packet stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the beginning of a result.
    Result,
    /// So many columns are to come.
    Columns(u64),
    /// The packet that ends the columns, where results do not end by OK.
    EndOfColumns,
    Rows,
    /// At the beginning of what describes a statement.
    Prepared,
    /// So many packets of that are to come: parameters, columns, and where results do not end by OK what ends each.
    Described(u32),
}

/// What the session and the question make of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Results end by a packet of the kind OK.
    pub(crate) ends_by_ok: bool,
    /// It may be a cursor that has the rows.
    pub(crate) may_be_cursor: bool,
}

/// A statement that the server knows now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) number: u32,
    pub(crate) parameters: u16,
}

/// What a packet of an answer is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Row,
    /// What needs no telling; the next packet stands there.
    Goes(Place),
    /// The next packet stands there, and this is the statement.
    Statement(Statement, Place),
    /// The answer is whole; the state of the session.
    Over(u16),
    Refused(Told),
}

impl Place {
    /// Whether a packet is read that begins so: a row is not, nor is a column.
    pub(crate) fn keeps(self, first: u8) -> bool {
        match self {
            Self::Result | Self::Prepared => true,
            Self::Columns(_) | Self::EndOfColumns | Self::Rows | Self::Described(_) => first >= 0xFE,
        }
    }

    /// What a message here is, of which `kept` holds at least the beginning where it [`keeps`](Self::keeps) it.
    pub(crate) fn item(self, message: Message, kept: &[u8], shape: Shape) -> Result<Item, Trouble> {
        let Shape { ends_by_ok, may_be_cursor } = shape;
        if message.first == Some(0xFF) {
            return Ok(Item::Refused(told(kept)?));
        }
        match self {
            Self::Result => match message.first {
                Some(0) => after(state_of_ok(kept)),
                Some(0xFB) => Err(Trouble::File),
                _ => {
                    let mut reading = Reading(kept);
                    let columns = reading.length().filter(|_| message.is_whole && reading.0.is_empty());
                    match columns {
                        Some(columns @ 1..=MOST_COLUMNS) => Ok(Item::Goes(Self::Columns(columns))),
                        _ => Err(Trouble::Malformed("number of columns")),
                    }
                }
            },
            Self::Columns(left) => Ok(Item::Goes(match left {
                2.. => Self::Columns(left - 1),
                _ if ends_by_ok => Self::Rows,
                _ => Self::EndOfColumns,
            })),
            Self::EndOfColumns if message.first == Some(0xFE) && message.length < 9 => {
                let state = state_of_end(kept).filter(|state| may_be_cursor && state & CURSOR != 0);
                Ok(state.map_or(Item::Goes(Self::Rows), Item::Over))
            }
            Self::Prepared => {
                let (statement, packets) =
                    described(kept, ends_by_ok).ok_or(Trouble::Malformed("description of a statement"))?;
                Ok(Item::Statement(statement, Self::Described(packets)))
            }
            Self::Described(2..) if message.length == 0 => {
                Err(Trouble::Malformed("description of a statement"))
            }
            Self::Described(left @ 2..) => Ok(Item::Goes(Self::Described(left - 1))),
            Self::Described(_) => Ok(Item::Over(0)),
            Self::EndOfColumns => Err(Trouble::Malformed("end of columns")),
            // A row whose first value is 16 MiB or more begins so too, and does not fit into one packet.
            Self::Rows if message.first == Some(0xFE) && !message.is_long() => {
                if ends_by_ok {
                    after(state_of_ok(kept))
                } else if message.length < 9 {
                    after(state_of_end(kept))
                } else {
                    Err(Trouble::Malformed("row"))
                }
            }
            Self::Rows if message.length == 0 => Err(Trouble::Malformed("row")),
            Self::Rows => Ok(Item::Row),
        }
    }
}

fn after(state: Option<u16>) -> Result<Item, Trouble> {
    match state {
        Some(state) if state & MORE != 0 => Ok(Item::Goes(Place::Result)),
        Some(state) => Ok(Item::Over(state)),
        None => Err(Trouble::Malformed("end of a result")),
    }
}

/// Of `COM_STMT_PREPARE_OK`: the statement, and how many packets follow.
fn described(bytes: &[u8], ends_by_ok: bool) -> Option<(Statement, u32)> {
    let mut reading = Reading(bytes);
    reading.u8().filter(|byte| *byte == 0)?;
    let number = reading.u32()?;
    let (columns, parameters) = (reading.u16()?, reading.u16()?);
    let packets = |n: u16| u32::from(n) + u32::from(n > 0 && !ends_by_ok);
    Some((Statement { number, parameters }, packets(columns) + packets(parameters)))
}

/// Of OK: rows changed, the last number given, the state.
fn state_of_ok(bytes: &[u8]) -> Option<u16> {
    let mut reading = Reading(bytes.get(1..)?);
    reading.length()?;
    reading.length()?;
    reading.u16()
}

/// Of EOF: warnings, the state.
fn state_of_end(bytes: &[u8]) -> Option<u16> {
    let mut reading = Reading(bytes.get(1..)?);
    reading.u16()?;
    reading.u16()
}

/// Of ERR: its number, with `#` its SQLSTATE, its text.
pub(crate) fn told(bytes: &[u8]) -> Result<Told, Trouble> {
    let mut reading = Reading(bytes.get(1..).unwrap_or_default());
    let number = reading.u16().ok_or(Trouble::Malformed("message of an error"))?;
    let mut state = "HY000".to_owned();
    let mut text = reading.rest();
    if let Some((b"#", rest)) = text.split_at_checked(1)
        && let Some((five, rest)) = rest.split_at_checked(5)
    {
        if five.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
            state = shown(five);
        }
        text = rest;
    }
    // A session is ended: by a shutdown, a KILL (MariaDB), for having been idle (MySQL), or by what cannot be sent.
    let is_fatal = matches!(number, 1053 | 1927 | 4031) || state.starts_with("08");
    Ok(Told { number, state, message: shown(text), is_fatal })
}

/// The values of a row; `None` within: a null.
pub(crate) fn values(kept: &[u8]) -> Option<Vec<Option<String>>> {
    let (mut reading, mut values) = (Reading(kept), Vec::new());
    while !reading.0.is_empty() {
        values.push(if reading.null() {
            None
        } else {
            let length = usize::try_from(reading.length()?).ok()?;
            Some(shown(reading.bytes(length)?))
        });
    }
    Some(values)
}
