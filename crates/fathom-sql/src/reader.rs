//! Messages out of bytes, in constant memory: of a row nothing is kept, however long it is.

use crate::inbox::Inbox;
use crate::violation::Violation;
use bytes::BytesMut;
use postgres_protocol::message::backend::{COPY_DATA_TAG, DATA_ROW_TAG, Header, Message};
use std::io;

/// A longer message that is no row is none of a server that is well.
const MESSAGE_BYTES: usize = 16 << 20;
/// Tag and length.
const HEADER_BYTES: usize = 5;

/// What came.
pub(crate) enum Item {
    /// A row is whole.
    Row,
    /// The same of what a copy gives, which may be of any length too.
    Copied,
    /// Anything else.
    Message(Message),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Bytes of a row that are still to come, and whether a copy gives it.
    of_row: usize,
    is_copied: bool,
}

impl Reader {
    /// The next of what lies in the inbox; `None`: more bytes are needed.
    pub(crate) fn next(&mut self, inbox: &mut Inbox) -> io::Result<Option<Item>> {
        if self.of_row == 0 {
            let Some(header) = header(inbox)? else { return Ok(None) };
            if !matches!(header.tag(), DATA_ROW_TAG | COPY_DATA_TAG) {
                return Ok(whole(inbox)?.map(Item::Message));
            }
            (self.of_row, self.is_copied) = (length(header), header.tag() == COPY_DATA_TAG);
        }
        let here = self.of_row.min(inbox.rest().len());
        inbox.advance(here);
        self.of_row -= here;
        let item = if self.is_copied { Item::Copied } else { Item::Row };
        Ok((self.of_row == 0).then_some(item))
    }

    /// The rows that lie whole in the inbox, one behind the other; how many. [`Reader::next`] goes on behind them.
    pub(crate) fn rows(&mut self, inbox: &mut Inbox) -> u64 {
        let (bytes, mut at, mut rows) = (inbox.rest(), 0, 0);
        if self.of_row > 0 {
            return 0;
        }
        while let Some(&[DATA_ROW_TAG, a, b, c, d]) = bytes.get(at..at + HEADER_BYTES) {
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            // What no message can be is `next`'s to say.
            if length + 1 < HEADER_BYTES || bytes.len() - at <= length {
                break;
            }
            at += 1 + length;
            rows += 1;
        }
        inbox.advance(at);
        rows
    }
}

/// Of the message that is next. Its length may be none.
fn header(inbox: &Inbox) -> io::Result<Option<Header>> {
    Header::parse(inbox.rest()).map_err(|e| garbled(&e, inbox))
}

/// What the next message is none of.
fn garbled(why: &dyn std::fmt::Display, inbox: &Inbox) -> io::Error {
    let bytes = inbox.rest();
    Violation::error(why, &bytes[..bytes.len().min(HEADER_BYTES)])
}

fn length(header: Header) -> usize {
    usize::try_from(header.len()).unwrap_or(0) + 1
}

/// The next message, a row too, where all of it lies in the inbox.
pub(crate) fn whole(inbox: &mut Inbox) -> io::Result<Option<Message>> {
    let Some(header) = header(inbox)? else { return Ok(None) };
    let length = length(header);
    if length > MESSAGE_BYTES {
        return Err(garbled(&"a message that is too long", inbox));
    }
    let Some(bytes) = inbox.rest().get(..length) else { return Ok(None) };
    let message = Message::parse(&mut BytesMut::from(bytes)).map_err(|e| garbled(&e, inbox))?;
    inbox.advance(length);
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What was sent in whatever pieces is read as it was, be it row by row.
    fn read(bytes: &[u8], pieces: &[usize], many: bool) -> io::Result<String> {
        let (mut reader, mut inbox, mut seen) = (Reader::default(), Inbox::default(), String::new());
        let mut rest = bytes;
        let mut pieces = pieces.iter().cycle();
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*pieces.next().unwrap()).clamp(1, rest.len()));
            rest = later;
            inbox.end().extend_from_slice(now);
            while let Some(item) = reader.next(&mut inbox)? {
                seen.push(match item {
                    Item::Row => 'D',
                    Item::Copied => 'd',
                    Item::Message(Message::CommandComplete(_)) => 'C',
                    Item::Message(_) => 'm',
                });
                if many {
                    seen.push_str(&"D".repeat(reader.rows(&mut inbox) as usize));
                }
            }
            assert!(inbox.rest().len() < 64, "a row is kept");
        }
        Ok(seen)
    }

    /// `COPY … TO STDOUT` of a value of 17 MB was a connection that broke.
    #[test]
    fn what_a_copy_gives_is_of_any_length() {
        for length in [0, 50, MESSAGE_BYTES + 1_000_000] {
            let mut bytes = vec![];
            for length in [length, 3] {
                bytes.push(b'd');
                bytes.extend_from_slice(&(length as u32 + 4).to_be_bytes());
                bytes.resize(bytes.len() + length, b'x');
            }
            bytes.extend_from_slice(b"c\0\0\0\x04C\0\0\0\x0bCOPY 2\0");
            assert_eq!(read(&bytes, &[1, 65_536], true).unwrap(), "ddmC", "{length}");
        }
    }

    proptest! {
        #[test]
        fn rows_are_counted_in_any_pieces(rows in prop::collection::vec(0_usize..5_000, 0..20), pieces in prop::collection::vec(1_usize..2_000, 1..10)) {
            let mut bytes = vec![];
            for length in &rows {
                bytes.push(b'D');
                bytes.extend_from_slice(&(*length as u32 + 4).to_be_bytes());
                bytes.extend(std::iter::repeat_n(b'C', *length));
            }
            bytes.extend_from_slice(b"C\0\0\0\x0dSELECT 1\0");
            for many in [false, true] {
                prop_assert_eq!(read(&bytes, &pieces, many).unwrap(), "D".repeat(rows.len()) + "C");
            }
        }

        #[test]
        fn nonsense_is_an_error_or_waits_for_more(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let row_by_row = read(&bytes, &[7], false);
            prop_assert_eq!(row_by_row.ok(), read(&bytes, &[7], true).ok());
        }
    }
}
