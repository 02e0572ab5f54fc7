//! A text within a text: the value of a string of JSON, say, of which each byte knows where it stands in the file.

use std::ops::Range;

pub(crate) struct Mapped {
    pub(crate) text: String,
    /// Of each byte, and of the end.
    at: Vec<usize>,
}

impl Mapped {
    /// The bytes `span` of `text`; with the escapes of a quoted string undone, where it has them.
    pub(crate) fn of(text: &str, span: Range<usize>, escapes: bool) -> Self {
        let raw = text.get(span.clone()).unwrap_or_default();
        let mut mapped =
            Self { text: String::with_capacity(raw.len()), at: Vec::with_capacity(raw.len() + 1) };
        let mut chars = raw.char_indices();
        while let Some((at, c)) = chars.next() {
            let from = span.start + at;
            if c != '\\' || !escapes {
                mapped.push(c, from);
                continue;
            }
            match chars.next().map(|(_, c)| c) {
                Some('u') => {
                    let digits = chars.as_str().get(..4);
                    let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                    if code.is_some() {
                        chars.nth(3);
                    }
                    // Half of a pair stands for something beyond our keys: what it is does not matter.
                    mapped.push(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER), from);
                }
                Some('n') => mapped.push('\n', from),
                Some('t') => mapped.push('\t', from),
                Some('r') => mapped.push('\r', from),
                Some(other) => mapped.push(other, from),
                None => mapped.push('\\', from),
            }
        }
        mapped.at.push(span.start + raw.len());
        mapped
    }

    fn push(&mut self, c: char, from: usize) {
        self.text.push(c);
        // The last byte of a character is where it begins too: no place within it is of any use.
        self.at.extend(std::iter::repeat_n(from, c.len_utf8()));
    }

    /// Where a byte stands in the file.
    pub(crate) fn at(&self, byte: usize) -> usize {
        self.at[byte.min(self.at.len() - 1)]
    }

    pub(crate) fn span(&self, bytes: Range<usize>) -> Range<usize> {
        self.at(bytes.start)..self.at(bytes.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_file() {
        let text = r#"x"a\\b\u00e9;k=1""#;
        let mapped = Mapped::of(text, 2..text.len() - 1, true);
        assert_eq!(mapped.text, "a\\bé;k=1");
        let at = mapped.text.find('k').expect("it is there");
        assert_eq!(mapped.at(at), text.find('k').expect("it is there"));
        assert_eq!(mapped.span(at + 2..at + 3), text.len() - 2..text.len() - 1);
        assert_eq!(Mapped::of(r"a\b", 0..3, false).text, r"a\b");
    }
}
