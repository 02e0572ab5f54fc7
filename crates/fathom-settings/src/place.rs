//! Where something stands in a text.

use std::fmt;
use std::ops::Range;

/// Line and column, from 1; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1.
    pub column: usize,
}

/// Something that is wrong in a file: one line, without anything of the file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where. Absent: the file could not be read.
    pub at: Option<Position>,
    /// What, and how to mend it.
    pub what: String,
}

/// As it stands behind the name of its file: `:3:5: …`, or `: …` without a place.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(Position { line, column }) => write!(f, ":{line}:{column}: {}", self.what),
            None => write!(f, ": {}", self.what),
        }
    }
}

/// A part of the text and what stands there instead, as [`crate::apply`] takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Bytes of the text; empty where something is added.
    pub span: Range<usize>,
    /// What stands there then.
    pub text: String,
}

/// As [`Fault`], by the byte.
#[derive(Clone)]
pub(crate) struct Wrong {
    pub(crate) at: usize,
    pub(crate) what: String,
}

/// Finds lines and columns of bytes, each at once: it is asked thousands of times, of lines of megabytes too.
pub(crate) struct Places<'a> {
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// How many characters begin before each block of bytes.
    blocks: Vec<usize>,
}

/// Bytes of a block.
const BLOCK: usize = 1 << 10;

fn characters(bytes: &[u8]) -> usize {
    // All bytes but those that go on with a character.
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

impl<'a> Places<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let counts = text.as_bytes().chunks(BLOCK).scan(0, |before, block| {
            *before += characters(block);
            Some(*before)
        });
        Self {
            text,
            lines: std::iter::once(0).chain(starts).collect(),
            blocks: std::iter::once(0).chain(counts).collect(),
        }
    }

    pub(crate) fn of(&self, at: usize) -> Position {
        let at = (0..=at.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let line = self.line(at);
        Position { line: line + 1, column: self.before(at) - self.before(self.lines[line]) + 1 }
    }

    /// What stands before a byte on its line.
    pub(crate) fn indent(&self, at: usize) -> &'a str {
        self.text.get(self.lines[self.line(at)]..at).unwrap_or_default()
    }

    /// What ends the lines of this text.
    pub(crate) fn newline(&self) -> &'static str {
        let first = self.lines.get(1).map_or("", |second| &self.text[..*second]);
        if first.ends_with("\r\n") { "\r\n" } else { "\n" }
    }

    pub(crate) fn fault(&self, wrong: &Wrong) -> Fault {
        Fault { at: Some(self.of(wrong.at)), what: wrong.what.clone() }
    }

    /// Which line, from 0.
    fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// How many characters begin before a byte.
    fn before(&self, at: usize) -> usize {
        let block = at / BLOCK;
        self.blocks[block] + characters(&self.text.as_bytes()[block * BLOCK..at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters_and_every_byte_has_one() {
        let places = Places::new("aé\nb");
        let all: Vec<_> =
            (0..=6).map(|at| places.of(at)).map(|Position { line, column }| (line, column)).collect();
        assert_eq!(all, [(1, 1), (1, 2), (1, 2), (1, 3), (2, 1), (2, 2), (2, 2)]);
    }

    #[test]
    fn distant_columns_count_characters() {
        let text = format!("a\r\n{}\nb", "é".repeat(3_000));
        let places = Places::new(&text);
        assert_eq!(places.of(3 + 2 * 2_999), Position { line: 2, column: 3_000 });
        assert_eq!(places.of(text.len() - 1), Position { line: 3, column: 1 });
        assert_eq!((places.newline(), places.indent(7)), ("\r\n", "éé"));
        assert_eq!(Places::new("a\nb\r\n").newline(), "\n");
    }
}
