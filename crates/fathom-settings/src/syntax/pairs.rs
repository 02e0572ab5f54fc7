//! Connection strings: `Key=value;Key="value"`, and libpq's `key=value key='value'`.

use super::Mapped;
use crate::group::Entry;
use crate::place::Wrong;

/// What was read, and what is wrong in it.
type Pairs = (Vec<Entry>, Vec<Wrong>);

/// `Key=value;Key='value'`, as .NET reads it: a quote within quotes is written twice.
pub(crate) fn pairs(mapped: &Mapped) -> Pairs {
    let text = mapped.text.as_str();
    let (mut entries, mut wrongs, mut at) = (Vec::new(), Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';').len();
        at += blank;
        let rest = &text[at..];
        if rest.is_empty() {
            break;
        }
        let Some(sign) = rest.find(['=', ';']).filter(|sign| rest[*sign..].starts_with('=')) else {
            wrongs.push(Wrong {
                at: mapped.at(at),
                what: "a part without `=`; put a value that holds `;` into quotes".to_owned(),
            });
            at += rest.find(';').unwrap_or(rest.len());
            continue;
        };
        let value_at = at + sign + 1;
        let value = &text[value_at..];
        let from = value_at + (value.len() - value.trim_start().len());
        let (span, end) = if let Some(quote @ ('\'' | '"')) = text[from..].chars().next() {
            let Some(end) = closing(&text[from + 1..], quote) else {
                let what = "a quote that is not closed".to_owned();
                wrongs.push(Wrong { at: mapped.at(from), what });
                break;
            };
            let (start, end) = (from + 1, from + 1 + end);
            (start..end, text[end + 1..].find(';').map_or(text.len(), |more| end + 1 + more))
        } else {
            let end = text[from..].find(';').map_or(text.len(), |end| from + end);
            (from..from + text[from..end].trim_end().len(), end)
        };
        entries.push(Entry {
            key: rest[..sign].trim().to_owned(),
            key_at: mapped.at(at),
            lead: String::new(),
            value: text[span.clone()].to_owned(),
            span: mapped.span(span),
        });
        at = end;
    }
    (entries, wrongs)
}

/// Where the quote is that ends it.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return Some(at);
        }
    }
    None
}

/// libpq's `key = value`, with blanks between, and a backslash before what it escapes.
pub(crate) fn keywords(mapped: &Mapped) -> Pairs {
    let text = mapped.text.as_str();
    let (mut entries, mut wrongs, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(more) = text[at..].find(|c: char| !c.is_whitespace()) {
        at += more;
        let rest = &text[at..];
        let key_len = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let after = rest[key_len..].trim_start();
        if !after.starts_with('=') || key_len == 0 {
            let what = "a word without `=`; put a value with blanks into '…'".to_owned();
            wrongs.push(Wrong { at: mapped.at(at), what });
            at += key_len.max(1);
            while !text.is_char_boundary(at) {
                at += 1;
            }
            continue;
        }
        let value = after[1..].trim_start();
        let from = text.len() - value.len();
        let quoted = value.starts_with('\'');
        let start = from + usize::from(quoted);
        let mut escaped = false;
        let end = text[start..].char_indices().find(|(_, c)| {
            let ends = !escaped && if quoted { *c == '\'' } else { c.is_whitespace() };
            escaped = !escaped && *c == '\\';
            ends
        });
        let end = match end {
            Some((end, _)) => start + end,
            None if quoted => {
                wrongs.push(Wrong { at: mapped.at(from), what: "a quote that is not closed".to_owned() });
                break;
            }
            None => text.len(),
        };
        entries.push(Entry {
            key: rest[..key_len].to_owned(),
            key_at: mapped.at(at),
            lead: String::new(),
            value: text[start..end].to_owned(),
            span: mapped.span(start..end),
        });
        at = end + usize::from(quoted);
    }
    (entries, wrongs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, read: fn(&Mapped) -> Pairs) -> (Vec<(String, String)>, usize) {
        let (entries, wrongs) = read(&Mapped::of(text, 0..text.len(), false));
        for entry in &entries {
            assert_eq!(&text[entry.span.clone()], entry.value);
        }
        (entries.into_iter().map(|entry| (entry.key, entry.value)).collect(), wrongs.len())
    }

    fn expected(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn connection_strings() {
        let text = r#"Host=a ; Password="x;'y""z" ;Keepalive= 30;;Min Pool Size='1';"#;
        let want = [("Host", "a"), ("Password", "x;'y\"\"z"), ("Keepalive", "30"), ("Min Pool Size", "1")];
        assert_eq!(all(text, pairs), (expected(&want), 0));
        assert_eq!(all("Host=a;Password=b;c;Port=1", pairs).1, 1);
        assert_eq!(all("Host=a;Password='b;c;Port=1", pairs), (expected(&[("Host", "a")]), 1));
    }

    #[test]
    fn keywords_of_libpq() {
        let text = r"host=a password = 'b \' c' pool_max_conns=4";
        let want = [("host", "a"), ("password", r"b \' c"), ("pool_max_conns", "4")];
        assert_eq!(all(text, keywords), (expected(&want), 0));
        assert_eq!(all("host=a b port=1", keywords).1, 1);
        assert_eq!(all("host='a", keywords).1, 1);
    }
}
