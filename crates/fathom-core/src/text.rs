//! Text that comes from outside (labels, events, what peers answer), made fit to be shown on a terminal or in a line
//! of a log: the rules of the Python half's `clean.py`. Recordings keep it as it came; it is cleaned where it is
//! printed. And numbers with their noun, which every message of this half that counts something is made by
//! (`scripts/check-words.py` finds those that are not).

use std::borrow::Cow;

/// Stands for what cannot be shown, so that it is seen that something was there.
const INSTEAD: char = char::REPLACEMENT_CHARACTER;

/// One line without anything that a terminal would obey. Ends of lines and tabs, however many, become one space.
pub fn cleaned(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false)
}

/// As [`cleaned`], for a text of several lines of ours: line feeds stay, and tabs.
pub fn lines_cleaned(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'))
}

/// `1 sample`, `30 samples`, `2 echoes`, `0 losses`.
pub fn count(n: u64, one: &str) -> String {
    format!("{n} {}", noun(n, one))
}

/// The noun alone, as it stands after a number: `sample` after 1, `samples` after any other.
pub fn noun(n: u64, one: &str) -> Cow<'_, str> {
    match one {
        _ if n == 1 => Cow::Borrowed(one),
        _ if ["o", "s", "x", "ch", "sh"].iter().any(|end| one.ends_with(end)) => {
            Cow::Owned(format!("{one}es"))
        }
        _ if one.ends_with("ry") => Cow::Owned(format!("{}ies", one.trim_end_matches('y'))),
        _ => Cow::Owned(format!("{one}s")),
    }
}

/// The line and the column, in characters, of the byte at `offset`; both from 1.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// What stands below a command's options, for a printer of help that wraps at any width: each paragraph is one line, and the
/// words beside an example keep their column within `columns`. Written for the source's width, sentences would break in the
/// middle of a narrower terminal, and the next line would have two words.
pub fn laid_out(text: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut in_paragraph = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        match lines.last_mut() {
            Some(last) if is_prose && in_paragraph => *last = format!("{last} {line}"),
            _ => lines.push(beside(line, columns)),
        }
        // What ends with a colon is the heading of what follows.
        in_paragraph = is_prose && !line.ends_with(':');
    }
    lines.join("\n")
}

/// What is indented by so much is no command.
const WORDS_FROM: usize = 20;

/// `  command    words`, where the words go on below themselves. They stand behind the last gap: a prompt has one, too.
fn beside(line: &str, columns: usize) -> String {
    let command = line.trim_start();
    let indent = line.len() - command.len();
    let words = match command.rfind("  ") {
        // Words alone, below those that went before or below their command.
        _ if indent >= WORDS_FROM => Some(indent),
        gap => gap.map(|gap| indent + gap + "  ".len()),
    };
    let Some(at) = words.filter(|at| at + 10 <= columns && line.chars().count() > columns) else {
        return line.to_owned();
    };
    let (mut out, mut column) = (line[..at].to_owned(), at);
    for word in line[at..].split_whitespace() {
        let length = word.chars().count();
        if column > at && column + 1 + length > columns {
            out = format!("{out}\n{}", " ".repeat(at));
            column = at;
        } else if column > at {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

fn replaced(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(|c| stays(c) || !(is_blank(c) || is_unfit(c))) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut after_blank = false;
    for c in text.chars() {
        let blank = is_blank(c) && !stays(c);
        match c {
            _ if blank && after_blank => {}
            _ if blank => out.push(' '),
            c if is_unfit(c) && !stays(c) => out.push(INSTEAD),
            c => out.push(c),
        }
        after_blank = blank;
    }
    Cow::Owned(out)
}

/// Ends of lines and tabs.
fn is_blank(c: char) -> bool {
    matches!(c, '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Control characters, which a terminal obeys; what turns the direction of the text after it; and no characters.
fn is_unfit(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || turns || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_of_a_thing_is_no_plural() {
        for (n, one, text) in [
            (0, "sample", "0 samples"),
            (1, "sample", "1 sample"),
            (41_588, "sample", "41588 samples"),
            (1, "echo", "1 echo"),
            (2, "echo", "2 echoes"),
            (1, "query", "1 query"),
            (2, "query", "2 queries"),
            (2, "day", "2 days"),
            (3, "loss", "3 losses"),
            (4, "open file", "4 open files"),
        ] {
            assert_eq!(count(n, one), text);
        }
    }

    #[test]
    fn a_help_is_laid_out_for_any_width() {
        let text = "Examples:\n  fathom x      one that is long\n  fathom y      short\n                goes on\n  fathom a-long-one --with options\n\nOne sentence that\ngoes on. Another\none.\n\nTwo.";
        let narrow = "Examples:\n  fathom x      one that is\n                long\n  fathom y      short\n                goes on\n  fathom a-long-one --with options\n\nOne sentence that goes on. Another one.\n\nTwo.";
        assert_eq!(laid_out(text, 27 + 3), narrow);
        assert_eq!(laid_out(text, 32).lines().nth(1), Some("  fathom x      one that is long"));
        assert_eq!(
            laid_out("  h$  fathom x  one that is", 26),
            "  h$  fathom x  one that\n                is"
        );
    }

    #[test]
    fn nothing_is_left_that_a_terminal_obeys() {
        for (text, shown) in [
            (
                "esc \x1b]0;owned\x07 c1 \u{9b}31m del \x7f",
                "esc \u{fffd}]0;owned\u{fffd} c1 \u{fffd}31m del \u{fffd}",
            ),
            ("ends \n\r\t of \u{2028} lines", "ends   of   lines"),
            ("turned \u{202e} and \u{2066}", "turned \u{fffd} and \u{fffd}"),
            ("mark \u{feff}", "mark \u{fffd}"),
        ] {
            assert_eq!(cleaned(text), shown, "{text:?}");
        }
        assert_eq!(lines_cleaned("one\n\n\ttwo\r\x1b\n"), "one\n\n\ttwo \u{fffd}\n");
    }

    #[test]
    fn what_people_write_stays() {
        for text in ["plain, ünïcode, 日本語, مرحبا, 👩‍👩‍👧", "", "a  b"] {
            assert!(matches!(cleaned(text), Cow::Borrowed(same) if same == text));
        }
    }

    proptest! {
        #[test]
        fn cleaning_twice_is_cleaning_once(text: String) {
            let once = cleaned(&text).into_owned();
            let twice = cleaned(&once).into_owned();
            prop_assert_eq!(&twice, &once);
            prop_assert!(!once.chars().any(|c| is_blank(c) || is_unfit(c)));
        }
    }
}
