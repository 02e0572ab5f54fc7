//! TOML: its tables.

use super::{Read, Scope};
use crate::group::{Entry, Insert, Style};
use crate::place::Wrong;
use toml::de::{DeTable, DeValue};

pub(super) fn read(text: &str) -> Read {
    // Its message holds a line of the file.
    let parsed = DeTable::parse(text).map_err(|e| Wrong {
        at: e.span().map_or(0, |span| span.start),
        what: "this is no valid TOML".to_owned(),
    })?;
    let mut scopes = Vec::new();
    table(text, parsed.get_ref(), &mut Vec::new(), &mut scopes);
    Ok((scopes, Vec::new()))
}

fn table(text: &str, table_of: &DeTable<'_>, path: &mut Vec<String>, scopes: &mut Vec<Scope>) {
    let mut entries = Vec::new();
    for (key, value) in table_of {
        let span = value.span();
        let value = match value.get_ref() {
            DeValue::String(string) => string.clone().into_owned(),
            DeValue::Integer(number) => number.as_str().replace('_', ""),
            DeValue::Float(number) => number.as_str().replace('_', ""),
            DeValue::Boolean(switch) => switch.to_string(),
            _ => continue,
        };
        let raw = text.get(span.clone()).unwrap_or_default();
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| raw.starts_with(quote));
        let quote = quote.map_or(0, str::len);
        let span = span.start + quote..span.end.saturating_sub(quote).max(span.start + quote);
        let key_at = key.span().start;
        entries.push(Entry { key: key.get_ref().clone().into_owned(), key_at, value, span });
    }
    entries.sort_by_key(|entry| entry.key_at);
    let first = entries.first().map(|entry| entry.key_at);
    let insert = first.map_or(Insert::Nowhere, |at| Insert::Before { at, style: Style::Spaced });
    scopes.push(Scope { path: path.clone(), entries, at: first.unwrap_or(0), insert });
    for (key, value) in table_of {
        path.push(key.get_ref().clone().into_owned());
        within(text, value.get_ref(), path, scopes);
        path.pop();
    }
}

fn within(text: &str, value: &DeValue<'_>, path: &mut Vec<String>, scopes: &mut Vec<Scope>) {
    match value {
        DeValue::Table(inner) => table(text, inner, path, scopes),
        DeValue::Array(all) => all.iter().for_each(|one| within(text, one.get_ref(), path, scopes)),
        _ => {}
    }
}
