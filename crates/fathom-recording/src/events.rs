//! Reading `events.jsonl`.

mod lines;

pub(crate) use lines::{MAX_LINE, lines_of};

use crate::damage::Damage;
use crate::shape::is_event;
use crate::{EVENTS, Error};
use fathom_core::event::Event;
use lines::Parts;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Take};
use std::path::Path;

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
    parts: Parts,
}

impl Events {
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        Self::in_file(&dir.join(EVENTS))
    }

    /// Those in a file like the event log; no file has none.
    pub(crate) fn in_file(path: &Path) -> Result<Self, Error> {
        let (input, len) = match crate::plain::open(path) {
            Ok(file) => {
                let len = file.metadata().map_err(Error::io("read", path))?.len();
                (Some(BufReader::new(file.take(len))), len)
            }
            // Interrupted before its first event.
            Err(e) if e.kind() == ErrorKind::NotFound => (None, 0),
            Err(e) => return Err(Error::io("open", path)(e)),
        };
        Ok(Self { input, at: 0, len, line: Vec::new(), parts: Parts::default() })
    }

    fn unreadable(offset: u64, bytes: u64, torn: bool, reason: impl Into<String>) -> Damage {
        Damage { file: EVENTS.to_owned(), offset, bytes, torn, reason: reason.into() }
    }

    /// Reads the next line: whether there is one.
    fn read_line(&mut self) -> Option<Result<(), Damage>> {
        let input = self.input.as_mut()?;
        self.line.clear();
        let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line);
        let (start, left) = (self.at, self.len - self.at);
        let last = match read {
            Ok(0) => {
                self.input = None;
                return None;
            }
            Ok(_) if self.line.last() == Some(&b'\n') => {
                self.at += self.line.len() as u64;
                return Some(Ok(()));
            }
            Ok(_) if (self.line.len() as u64) < MAX_LINE => {
                Self::unreadable(start, left, true, "the last event is cut off")
            }
            Ok(_) => Self::unreadable(start, left, false, "a line is longer than any event"),
            Err(e) => Self::unreadable(start, left, false, format!("cannot be read: {e}")),
        };
        self.input = None;
        Some(Err(last))
    }

    /// What the line says; `None`: a part of what a later one does.
    fn entry(&mut self) -> Result<Option<Entry>, Damage> {
        let bytes = self.line.len() as u64;
        let damage = |reason| Self::unreadable(self.at - bytes, bytes, false, reason);
        let value = serde_json::from_slice(&self.line).ok().filter(is_event);
        let Some(value) = value else { return Err(damage("a line is no event")) };
        if self.parts.take(&value) {
            return Ok(None);
        }
        match Event::deserialize(&value) {
            Ok(mut event) => {
                if self.parts.complete(&value, &mut event) {
                    Ok(Some(Entry::Known(event)))
                } else {
                    Err(damage("lines before it with what it carries are missing"))
                }
            }
            Err(_) => Ok(Some(Entry::Other(value))),
        }
    }
}

impl Iterator for Events {
    type Item = Result<Entry, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Err(damage) = self.read_line()? {
                return Some(Err(damage));
            }
            if let Some(entry) = self.entry().transpose() {
                return Some(entry);
            }
        }
    }
}
