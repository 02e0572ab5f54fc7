//! A reply, made as it is sent.

use super::question::Source;
use crate::codec::packet::Packets;
use crate::codec::token::{Done, Tokens, Type, source_row};

/// What is still to be sent of a reply.
#[derive(Debug)]
pub(super) struct Reply {
    head: Vec<u8>,
    rows: Option<Rows>,
    tail: Vec<u8>,
    /// Nothing is sent before.
    pub(super) begins_ns: u64,
}

#[derive(Debug)]
struct Rows {
    source: Source,
    next: u32,
}

impl Reply {
    /// These tokens.
    pub(super) fn of(tokens: Tokens, now_ns: u64) -> Self {
        Self { head: tokens.into_bytes(), rows: None, tail: Vec::new(), begins_ns: now_ns }
    }

    /// The row source's rows, after these tokens.
    pub(super) fn rows(mut before: Tokens, source: Source, of_a_call: bool, now_ns: u64) -> Self {
        // No varchar has room for nothing.
        before.columns(&[("n", Type::Int), ("body", Type::VarChar(source.letters.max(1)))]);
        let mut tail = Tokens::default();
        tail.done(Done::Rows(source.rows.into()), of_a_call);
        Self {
            head: before.into_bytes(),
            rows: Some(Rows { source, next: 0 }),
            tail: tail.into_bytes(),
            begins_ns: now_ns + source.think_ns,
        }
    }

    /// Ends it with the row that is under way, because the client said stop.
    pub(super) fn stop(&mut self, now_ns: u64) {
        let mut end = Tokens::default();
        end.done(Done::Stopped, false);
        self.tail = end.into_bytes();
        self.rows = None;
        self.begins_ns = self.begins_ns.min(now_ns);
    }

    /// Whether something is still to be put into packets.
    pub(super) fn has_more(&self) -> bool {
        !self.head.is_empty() || self.rows.is_some() || !self.tail.is_empty()
    }

    /// Puts its next part into packets; how many rows that was.
    pub(super) fn put(&mut self, packets: &mut Packets) -> u64 {
        if !self.head.is_empty() {
            packets.put(&std::mem::take(&mut self.head));
        } else if let Some(rows) = &mut self.rows {
            if rows.next == rows.source.rows {
                self.rows = None;
                return 0;
            }
            packets.put_with(|out| source_row(rows.next, rows.source.letters, out));
            rows.next += 1;
            return 1;
        } else {
            packets.put(&std::mem::take(&mut self.tail));
        }
        0
    }
}
