//! URLs of databases: `scheme://user:password@host/name?key=value&key=value`.

use super::Mapped;
use crate::group::{Entry, Insert};

/// What is read of one. User, password, host and name are not.
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) at: usize,
    pub(crate) entries: Vec<Entry>,
    pub(crate) insert: Insert,
}

/// Reads a URL, if it is one: the whole text, without blanks.
pub(crate) fn url(mapped: &Mapped) -> Option<Url> {
    let text = mapped.text.as_str();
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-' | '_');
    if scheme.is_empty() || !scheme.chars().all(is_scheme) || rest.contains(char::is_whitespace) {
        return None;
    }
    let end = text.find('#').unwrap_or(text.len());
    let query = text[..end].find('?');
    let mut entries = Vec::new();
    let mut at = query.map_or(end, |query| query + 1);
    while at < end {
        let len = text[at..end].find('&').unwrap_or(end - at);
        if let Some((key, value)) = text[at..at + len].split_once('=') {
            let start = at + key.len() + 1;
            entries.push(Entry {
                key: decoded(key),
                key_at: mapped.at(at),
                lead: String::new(),
                value: decoded(value),
                span: mapped.span(start..at + len),
            });
        }
        at += len + 1;
    }
    let lead = match text[..end].chars().next_back() {
        Some('?' | '&') if query.is_some() => "",
        _ if query.is_some() => "&",
        _ => "?",
    };
    let insert = Insert::Piece { at: mapped.at(end), lead, between: "&" };
    Some(Url { scheme: scheme.to_ascii_lowercase(), at: mapped.at(0), entries, insert })
}

/// With `%41` and `+` undone.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 2;
            }
            None => out.push(if bytes[at] == b'+' { b' ' } else { bytes[at] }),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_of_a_url() {
        let text = "Postgres://u:p%40@h:1/d?a=1&b%5Fc=x%20y&d&#f";
        let url = url(&Mapped::of(text, 0..text.len(), false)).expect("a URL");
        assert_eq!(url.scheme, "postgres");
        let all: Vec<_> = url.entries.iter().map(|e| (e.key.as_str(), e.value.as_str())).collect();
        assert_eq!(all, [("a", "1"), ("b_c", "x y")]);
        assert_eq!(&text[url.entries[1].span.clone()], "x%20y");
        assert!(matches!(url.insert, Insert::Piece { at: 42, lead: "", .. }));
        for text in ["x", "a b://c", "://h", "postgres://h a"] {
            assert!(super::url(&Mapped::of(text, 0..text.len(), false)).is_none(), "{text}");
        }
    }
}
