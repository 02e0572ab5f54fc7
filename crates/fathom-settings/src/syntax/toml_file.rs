//! TOML: its tables.

use super::{DEEPEST, Read, Scope, too_deep};
use crate::group::{Entry, Insert, Style};
use crate::place::Wrong;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) fn read(text: &str) -> Read {
    // Its message holds a line of the file.
    let parsed = DeTable::parse(text).map_err(|e| Wrong {
        at: e.span().map_or(0, |span| span.start),
        what: "this is no valid TOML".to_owned(),
    })?;
    let mut walk = Walk { text, path: Vec::new(), scopes: Vec::new() };
    walk.table(parsed.get_ref(), Style::Spaced)?;
    Ok((walk.scopes, Vec::new()))
}

/// A walk through a file's tables.
struct Walk<'a> {
    text: &'a str,
    /// The names of the tables that it is in.
    path: Vec<String>,
    scopes: Vec<Scope>,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>, style: Style) -> Result<(), Wrong> {
        let entries = self.entries(table);
        let first = entries.first();
        let insert = first.map_or(Insert::Nowhere, |first| Insert::Before {
            at: first.key_at,
            style,
            prefix: first.lead.clone(),
        });
        let at = first.map_or(0, |first| first.key_at);
        self.scopes.push(Scope { document: 0, path: self.path.clone(), at, entries, style, insert });
        for (key, value) in table {
            self.path.push(key.get_ref().clone().into_owned());
            self.within(value, style)?;
            self.path.pop();
        }
        Ok(())
    }

    fn within(&mut self, value: &Spanned<DeValue<'_>>, around: Style) -> Result<(), Wrong> {
        if self.path.len() > DEEPEST {
            return Err(too_deep(0));
        }
        let inline = self.text.get(value.span()).is_some_and(|raw| raw.starts_with('{'));
        let style = if inline { Style::Inline } else { around };
        match value.get_ref() {
            DeValue::Table(inner) => self.table(inner, style),
            DeValue::Array(all) => all.iter().try_for_each(|one| self.within(one, style)),
            _ => Ok(()),
        }
    }

    /// What stands in a table itself, in the order of the file.
    fn entries(&self, table: &DeTable<'_>) -> Vec<Entry> {
        let text = self.text;
        let mut entries = Vec::new();
        for (key, value) in table {
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
            let last_at = key.span().start;
            let key_at = name_at(text, last_at);
            let lead = text[key_at..last_at].to_owned();
            entries.push(Entry { key: key.get_ref().clone().into_owned(), key_at, lead, value, span });
        }
        entries.sort_by_key(|entry| entry.key_at);
        entries
    }
}

/// Where a dotted name begins whose last part begins here: `a` of `a."b" . c`.
fn name_at(text: &str, last_at: usize) -> usize {
    let is_blank = [' ', '\t'];
    let mut at = last_at;
    while let Some(before) = text[..at].trim_end_matches(is_blank).strip_suffix('.') {
        let before = before.trim_end_matches(is_blank);
        let start = match before.chars().next_back() {
            Some(quote @ ('"' | '\'')) => before[..before.len() - 1].rfind(quote),
            _ => Some(
                before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).len(),
            ),
        };
        match start {
            Some(start) if start < before.len() => at = start,
            _ => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_names_begin_at_their_first_part() {
        for (text, last, first) in
            [("a = 1", "a", 0), ("x = 1.\na", "a", 7), (" a.b = 1", "b", 1), ("{ a.'b c' . d = 1", "d", 2)]
        {
            assert_eq!(name_at(text, text.rfind(last).expect("it is there")), first, "{text}");
        }
    }
}
