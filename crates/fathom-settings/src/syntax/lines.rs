//! Files of lines: Java's properties, sysctl's, sections of `key = value`.
//!
//! No library: the crates that read such files say on which line a value stands at the best, and it takes the byte to write
//! another value in its place.

use super::Scope;
use crate::group::{Entry, Insert, Style};
use crate::place::Wrong;
use std::collections::HashSet;

/// A line, and where it begins; without its end.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let from = *at;
        *at += line.len();
        Some((from, line.trim_end_matches(['\n', '\r'])))
    })
}

pub(super) fn scope(path: Vec<String>, entries: Vec<Entry>, at: usize, style: Style) -> Scope {
    let first = entries.first().map(|entry| entry.key_at);
    let insert = first.map_or(Insert::Nowhere, |at| Insert::Before { at, style, prefix: String::new() });
    Scope { document: 0, path, entries, at, style, insert }
}

/// `key<sep>value` within a line that begins at `from`: what stands before the separator and behind it, without blanks.
fn entry(from: usize, line: &str, separator: usize) -> Entry {
    let (key, value) = (&line[..separator], &line[separator + 1..]);
    let key_at = from + (key.len() - key.trim_start().len());
    let start = from + separator + 1 + (value.len() - value.trim_start().len());
    let value = value.trim();
    // An empty value begins and ends where the line does.
    let start = start.min(from + line.len());
    let span = start..start + value.len();
    Entry { key: key.trim().to_owned(), key_at, lead: String::new(), value: value.to_owned(), span }
}

/// Java's `.properties`.
pub(super) fn properties(text: &str) -> (Vec<Scope>, Vec<Wrong>) {
    let (mut entries, mut documents) = (Vec::new(), Vec::new());
    let mut all = lines(text).peekable();
    while let Some((from, line)) = all.next() {
        // Spring Boot splits a properties file into documents at such a line.
        if matches!(line.trim_end(), "#---" | "!---") {
            documents.push(std::mem::take(&mut entries));
            continue;
        }
        let start = line.trim_start();
        if start.is_empty() || start.starts_with(['#', '!']) {
            continue;
        }
        let mut end = from + line.len();
        let mut last = line;
        // An odd number of backslashes at its end: it goes on in the next line.
        while (last.len() - last.trim_end_matches('\\').len()) & 1 == 1 {
            let Some((next, more)) = all.next() else { break };
            (end, last) = (next + more.len(), more);
        }
        let whole = &text[from..end];
        let indent = line.len() - start.len();
        let (key, rest) = key_of(&whole[indent..]);
        let key_at = from + indent;
        let gap = rest.len() - rest.trim_start_matches([' ', '\t', '\x0c']).len();
        let after = &rest[gap..];
        let sign = usize::from(after.starts_with(['=', ':']));
        let value = after[sign..].trim_start_matches([' ', '\t', '\x0c']);
        let value_at = end - value.len();
        entries.push(Entry {
            key,
            key_at,
            lead: String::new(),
            value: plain(value).trim().to_owned(),
            span: value_at..value_at + value.trim_end().len(),
        });
    }
    documents.push(entries);
    let scopes = documents.into_iter().enumerate().map(|(document, entries)| {
        let at = if document == 0 { 0 } else { entries.first().map_or(0, |entry: &Entry| entry.key_at) };
        Scope { document, ..scope(Vec::new(), entries, at, Style::Equals) }
    });
    (scopes.collect(), Vec::new())
}

/// The name at the beginning of a line, unescaped, and what follows it.
fn key_of(line: &str) -> (String, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, c)| {
        let ends = !escaped && matches!(c, '=' | ':' | ' ' | '\t' | '\x0c' | '\n' | '\r');
        escaped = !escaped && *c == '\\';
        ends
    });
    let (key, rest) = line.split_at(end.map_or(line.len(), |(at, _)| at));
    (plain(key), rest)
}

/// Without backslashes, and joined where it goes on in the next line.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('\n' | '\r') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// What `sysctl -p` reads.
pub(super) fn sysctl(text: &str) -> (Vec<Scope>, Vec<Wrong>) {
    let (mut entries, mut wrongs) = (Vec::new(), Vec::new());
    for (from, line) in lines(text) {
        let start = line.trim_start();
        if start.is_empty() || start.starts_with(['#', ';']) {
            continue;
        }
        match line.find('=') {
            Some(at) => {
                let mut entry = entry(from, line, at);
                // `-key = value`: a failure does not matter.
                entry.key = entry.key.trim_start_matches('-').replace('/', ".");
                entries.push(entry);
            }
            None => wrongs.push(without_sign(from + line.len() - start.len())),
        }
    }
    (vec![scope(Vec::new(), entries, 0, Style::Spaced)], wrongs)
}

fn without_sign(at: usize) -> Wrong {
    Wrong { at, what: "a line without `=`: write name = value".to_owned() }
}

/// Sections of `key = value` or `key: value`, as Python's configparser reads them.
pub(super) fn ini(text: &str) -> (Vec<Scope>, Vec<Wrong>) {
    let (mut scopes, mut wrongs) = (Vec::new(), Vec::new());
    let (mut path, mut entries, mut began) = (Vec::new(), Vec::<Entry>::new(), 0);
    for (from, line) in lines(text) {
        let start = line.trim_start();
        if start.is_empty() || start.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = start.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            scopes.push(scope(std::mem::take(&mut path), std::mem::take(&mut entries), began, Style::Spaced));
            (path, began) = (vec![name.to_owned()], from);
        } else if line.starts_with([' ', '\t']) && !entries.is_empty() {
            // The value of the line before goes on.
        } else if let Some(at) = line.find(['=', ':']) {
            entries.push(entry(from, line, at));
        } else {
            wrongs.push(without_sign(from));
        }
    }
    scopes.push(scope(path, entries, began, Style::Spaced));
    let scopes = with_defaults(scopes, &mut wrongs);
    (scopes, wrongs)
}

/// Copied into sections, at the most.
const MOST_COPIED: usize = 50_000;

/// Every section has what `[DEFAULT]` says and it does not say itself; that one is none of its own then.
fn with_defaults(scopes: Vec<Scope>, wrongs: &mut Vec<Wrong>) -> Vec<Scope> {
    let (defaults, mut others): (Vec<_>, Vec<_>) =
        scopes.into_iter().partition(|scope| scope.path == ["DEFAULT"]);
    let count: usize = defaults.iter().map(|scope| scope.entries.len()).sum();
    let copied = count.saturating_mul(others.len());
    if let Some(first) = defaults.first().filter(|_| copied > MOST_COPIED) {
        let what = "[DEFAULT] is too long for so many sections: they are read without it".to_owned();
        wrongs.push(Wrong { at: first.at, what });
    }
    if copied > MOST_COPIED || others.iter().all(|scope| scope.path.is_empty()) {
        others.extend(defaults);
        return others;
    }
    let defaults: Vec<Entry> = defaults.into_iter().flat_map(|scope| scope.entries).collect();
    for scope in others.iter_mut().filter(|scope| !scope.path.is_empty()) {
        let own: HashSet<String> = scope.entries.iter().map(|entry| entry.key.clone()).collect();
        scope.entries.extend(defaults.iter().filter(|entry| !own.contains(&entry.key)).cloned());
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, value, and that the span is the value's.
    fn all(text: &str, scopes: &[Scope]) -> Vec<(String, String)> {
        let entries = scopes.iter().flat_map(|scope| &scope.entries);
        entries
            .map(|entry| {
                assert_eq!(plain(&text[entry.span.clone()]).trim(), entry.value, "{}", entry.key);
                (entry.key.clone(), entry.value.clone())
            })
            .collect()
    }

    fn expected(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn properties_as_java_reads_them() {
        let text = "# c\n! c\r\na=1\r\n  b : 2 \nc 3\nd\\ e = x\\\n   y\nempty\nf=\n";
        let (scopes, wrongs) = properties(text);
        let want = [("a", "1"), ("b", "2"), ("c", "3"), ("d e", "xy"), ("empty", ""), ("f", "")];
        assert_eq!(all(text, &scopes), expected(&want));
        assert!(wrongs.is_empty());
    }

    #[test]
    fn sysctl_and_sections() {
        let text = "; c\n-net.ipv4.a = 1\nnet/ipv4/b=2\noops\n";
        let (scopes, wrongs) = sysctl(text);
        assert_eq!(all(text, &scopes), expected(&[("net.ipv4.a", "1"), ("net.ipv4.b", "2")]));
        assert_eq!(wrongs.iter().map(|wrong| wrong.at).collect::<Vec<_>>(), [33]);
        let text = "[app:main]\nsqlalchemy.url = x://y\n  more\nk: v\n[z]\n";
        let (scopes, _) = ini(text);
        assert_eq!(all(text, &scopes), expected(&[("sqlalchemy.url", "x://y"), ("k", "v")]));
        assert_eq!(scopes[1].path, ["app:main"]);
    }
}
