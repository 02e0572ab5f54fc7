//! `NAME=value` as the libraries read it that load a `.env` (python-dotenv, dotenv of Node; there is no standard): blanks round
//! the sign, `export`, quotes, values over several lines, comments behind a value. Any other line is a value without a name: a
//! connection string or a URL alone.
//!
//! Where the libraries differ, what python-dotenv does: a `#` without a blank before it is a part of the value.
//!
//! No library: those of Rust give values without their places, and it takes the byte to write another value there.

use super::Scope;
use super::lines::{lines, scope};
use crate::group::{Entry, Style};
use crate::place::Wrong;
use std::ops::Range;

pub(super) fn read(text: &str) -> (Vec<Scope>, Vec<Wrong>) {
    let (mut entries, mut wrongs, mut read_to) = (Vec::new(), Vec::new(), 0);
    for (from, line) in lines(text) {
        let start = line.trim_start();
        if from < read_to || start.is_empty() || start.starts_with('#') {
            continue;
        }
        let from = from + line.len() - start.len();
        let Some((name, value_at)) = variable(start) else {
            // A URL holds no blanks; a connection string may hold anything.
            let value = if start.contains("://") { plain(start, false) } else { unquoted(start) };
            entries.push(entry("", from, &start[value.clone()], from + value.start..from + value.end));
            continue;
        };
        let value = &start[value_at..];
        let span = if let Some(quote) = value.chars().next().filter(|c| is_quote(*c)) {
            let at = from + value_at + 1;
            let Some(len) = quoted(&text[at..], quote) else {
                let what = "a quote that is not closed, or something behind it: no library reads this line";
                wrongs.push(Wrong { at: at - 1, what: what.to_owned() });
                continue;
            };
            at..at + len
        } else {
            let value = plain(value, start[..value_at].ends_with(is_blank));
            from + value_at + value.start..from + value_at + value.end
        };
        read_to = span.end;
        entries.push(entry(name, from, &text[span.clone()], span));
    }
    (vec![scope(Vec::new(), entries, 0, Style::Equals)], wrongs)
}

fn entry(key: &str, key_at: usize, value: &str, span: Range<usize>) -> Entry {
    Entry { key: key.to_owned(), key_at, lead: String::new(), value: value.to_owned(), span }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() && c != '\n'
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}

/// The name that a line sets, and where its value begins.
fn variable(line: &str) -> Option<(&str, usize)> {
    let body = line.strip_prefix("export").filter(|rest| rest.starts_with(is_blank)).unwrap_or(line);
    let sign = line.len() - body.len() + body.find('=')?;
    let name = line[line.len() - body.len()..sign].trim();
    let value_at = line.len() - line[sign + 1..].trim_start_matches(is_blank).len();
    let exported = body.len() < line.len();
    is_variable(name, &line[value_at..], exported).then_some((name, value_at))
}

/// Whether it is a name of a variable of the environment (`DATABASE_URL`, `ConnectionStrings__Default`), and not the first of a
/// connection string (`Host`). A name in small letters is one where its value is in quotes, a URL, or a connection string.
fn is_variable(name: &str, value: &str, exported: bool) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(plain) {
        return false;
    }
    let clear = name.contains("__") || name.contains('.') || !name.contains(|c: char| c.is_ascii_lowercase());
    let word = value.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '+' | '-' | '.'));
    let behind = word.filter(|len| *len > 0).map_or("", |len| &value[len..]);
    let secret = matches!(name.to_ascii_lowercase().as_str(), "password" | "pwd");
    let whole =
        || value.chars().next().filter(|c| is_quote(*c)).is_some_and(|q| quoted(&value[1..], q).is_some());
    clear || exported || behind.starts_with("://") || (behind.starts_with('=') && !secret) || whole()
}

/// How long the value is that a quote ends, where nothing but a comment follows on its line.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    let (end, _) = text.char_indices().find(|(_, c)| {
        let ends = !escaped && *c == quote;
        escaped = !escaped && *c == '\\';
        ends
    })?;
    let rest = text[end + 1..].trim_start_matches(is_blank);
    (rest.is_empty() || rest.starts_with(['\n', '#'])).then_some(end)
}

/// A value without quotes: to the blank before a `#`, or to the end. `blank`: there is one before the value.
fn plain(line: &str, blank: bool) -> Range<usize> {
    let mut before = blank;
    let comment = line.char_indices().find(|(_, c)| {
        let begins = before && *c == '#';
        before = c.is_whitespace();
        begins
    });
    0..line[..comment.map_or(line.len(), |(at, _)| at)].trim_end().len()
}

/// A line without a name, and without the quotes round it.
fn unquoted(line: &str) -> Range<usize> {
    let len = line.trim_end().len();
    let quote = line.chars().next().filter(|c| is_quote(*c) && len > 1 && line[..len].ends_with(*c));
    if quote.is_some() { 1..len - 1 } else { 0..len }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, String)> {
        let (scopes, wrongs) = read(text);
        assert!(wrongs.is_empty(), "{text}");
        let entries = scopes.into_iter().flat_map(|scope| scope.entries);
        entries
            .map(|entry| {
                assert_eq!(&text[entry.span.clone()], entry.value, "{}", entry.key);
                assert!(text[entry.key_at..entry.span.start].contains(&entry.key), "{}", entry.key);
                (entry.key, entry.value)
            })
            .collect()
    }

    #[test]
    fn variables_and_bare_lines() {
        for (text, key, value) in [
            ("export A_URL='x://y' \n", "A_URL", "x://y"),
            ("B=\"1\"\r\n", "B", "1"),
            ("Host=a;Port=1\n", "", "Host=a;Port=1"),
            ("  host=h user=u", "", "host=h user=u"),
            ("Password=ab=;Host=h", "", "Password=ab=;Host=h"),
            ("'Host=a;Port=1' \n", "", "Host=a;Port=1"),
            ("Password=\"a;b\";Host=h # c\n", "", "Password=\"a;b\";Host=h # c"),
            ("x://y # c\n", "", "x://y"),
            ("ConnectionStrings__D=Host=b\n", "ConnectionStrings__D", "Host=b"),
            ("exported=x://y\n", "exported", "x://y"),
            ("A=a#b # c\n", "A", "a#b"),
            ("A= # c\n", "A", ""),
            ("A=#b\n", "A", "#b"),
            ("A=\n", "A", ""),
            ("A='a\\'b' # c\n", "A", "a\\'b"),
            ("A='a\nb=\"1\"' # c\n", "A", "a\nb=\"1\""),
        ] {
            assert_eq!(all(text), [(key.to_owned(), value.to_owned())], "{text}");
        }
        assert_eq!(all("A='1\n2'\nB=3\n#C=4\n").len(), 2);
    }

    #[test]
    fn unreadable_line_is_reported_and_skipped() {
        let text = "A='x\nB=\"y\" z\nC=1\n";
        let (scopes, wrongs) = read(text);
        assert_eq!(wrongs.iter().map(|wrong| wrong.at).collect::<Vec<_>>(), [2, 7]);
        assert_eq!(scopes[0].entries.len(), 1);
    }
}
