//! Where something stands in a text.

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
    /// Where.
    pub at: Position,
    /// What, and how to mend it.
    pub what: String,
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
pub(crate) struct Wrong {
    pub(crate) at: usize,
    pub(crate) what: String,
}

/// Finds lines and columns of bytes.
pub(crate) struct Places<'a> {
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, lines: std::iter::once(0).chain(starts).collect() }
    }

    pub(crate) fn of(&self, at: usize) -> Position {
        let at = (0..=at.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.lines[line - 1];
        Position { line, column: self.text[start..at].chars().count() + 1 }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) fn fault(&self, wrong: &Wrong) -> Fault {
        Fault { at: self.of(wrong.at), what: wrong.what.clone() }
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
}
