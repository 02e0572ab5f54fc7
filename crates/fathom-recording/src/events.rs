//! Reading `events.jsonl`.

use crate::damage::Damage;
use crate::{EVENTS, Error};
use fathom_core::event::Event;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Take};
use std::path::Path;

/// No event is longer: the largest is a cloud's notice.
pub(crate) const MAX_LINE: u64 = 1 << 20;

/// One line of the event log.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// An event of this version.
    Known(Event),
    /// A JSON object whose kind, or shape, a later version added.
    Other(Value),
}

impl Entry {
    /// The event, where this version knows it.
    pub fn known(&self) -> Option<&Event> {
        match self {
            Self::Known(event) => Some(event),
            Self::Other(_) => None,
        }
    }
}

/// The events of a recording, in the order in which they were written; an unreadable line is an `Err`.
#[derive(Debug)]
pub struct Events {
    input: Option<BufReader<Take<File>>>,
    at: u64,
    len: u64,
    line: Vec<u8>,
}

impl Events {
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(EVENTS);
        let (input, len) = match crate::plain::open(&path) {
            Ok(file) => {
                let len = file.metadata().map_err(Error::io("read", &path))?.len();
                (Some(BufReader::new(file.take(len))), len)
            }
            // Interrupted before its first event.
            Err(e) if e.kind() == ErrorKind::NotFound => (None, 0),
            Err(e) => return Err(Error::io("open", &path)(e)),
        };
        Ok(Self { input, at: 0, len, line: Vec::new() })
    }

    fn unreadable(offset: u64, bytes: u64, torn: bool, reason: impl Into<String>) -> Damage {
        Damage { file: EVENTS.to_owned(), offset, bytes, torn, reason: reason.into() }
    }
}

impl Iterator for Events {
    type Item = Result<Entry, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let input = self.input.as_mut()?;
        self.line.clear();
        let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line);
        let (start, left) = (self.at, self.len - self.at);
        let last = match read {
            Ok(0) => {
                self.input = None;
                return None;
            }
            Ok(_) if self.line.last() == Some(&b'\n') => None,
            Ok(_) if (self.line.len() as u64) < MAX_LINE => {
                Some(Self::unreadable(start, left, true, "the last event is cut off"))
            }
            Ok(_) => Some(Self::unreadable(start, left, false, "a line is longer than any event")),
            Err(e) => Some(Self::unreadable(start, left, false, format!("cannot be read: {e}"))),
        };
        if let Some(damage) = last {
            self.input = None;
            return Some(Err(damage));
        }
        self.at += self.line.len() as u64;
        let Ok(value @ Value::Object(_)) = serde_json::from_slice(&self.line) else {
            return Some(Err(Self::unreadable(start, self.line.len() as u64, false, "a line is no event")));
        };
        Some(Ok(match Event::deserialize(&value) {
            Ok(event) => Entry::Known(event),
            Err(_) => Entry::Other(value),
        }))
    }
}
