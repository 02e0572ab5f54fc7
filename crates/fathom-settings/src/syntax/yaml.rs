//! YAML: its mappings, with what encloses them.

use super::{DEEPEST, Read, Scope, too_deep};
use crate::group::{Entry, Insert, Style};
use crate::place::Wrong;
use saphyr_parser::{Event, Parser};

/// A mapping or a sequence that is not over.
struct Open {
    /// Of a mapping.
    scope: Option<Scope>,
    /// The name whose value comes next.
    key: Option<(String, usize)>,
    /// A part of the path came with it.
    named: bool,
}

pub(super) fn read(text: &str) -> Read {
    // The parser counts characters.
    let mut bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    bytes.push(text.len());
    let byte = |index: usize| bytes[index.min(bytes.len() - 1)];
    let (mut open, mut path, mut scopes) = (Vec::<Open>::new(), Vec::<String>::new(), Vec::new());
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        // Its message may hold a part of the file.
        let (event, span) = event
            .map_err(|e| Wrong { at: byte(e.marker().index()), what: "this is no valid YAML".to_owned() })?;
        let (start, end) = (byte(span.start.index()), byte(span.end.index()));
        match event {
            Event::Scalar(value, ..) => {
                let Some(Open { scope: Some(scope), key, .. }) = open.last_mut() else { continue };
                if let Some((key, key_at)) = key.take() {
                    let span = within_quotes(text, start, end);
                    let (lead, value) = (String::new(), value.into_owned());
                    scope.entries.push(Entry { key, key_at, lead, value, span });
                } else {
                    if let Insert::Nowhere = scope.insert {
                        let (style, prefix) = (scope.style, String::new());
                        scope.insert = Insert::Before { at: start, style, prefix };
                    }
                    *key = Some((value.into_owned(), start));
                }
            }
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                if open.len() >= DEEPEST {
                    return Err(too_deep(start));
                }
                let key = open.last_mut().and_then(|within| within.key.take());
                let named = key.is_some();
                path.extend(key.map(|(key, _)| key));
                let mapping = matches!(event, Event::MappingStart(..));
                let braced = text.get(start..).is_some_and(|text| text.starts_with('{'));
                let scope = mapping.then(|| Scope {
                    path: path.clone(),
                    entries: Vec::new(),
                    at: start,
                    style: if braced { Style::Flow } else { Style::Yaml },
                    insert: Insert::Nowhere,
                });
                open.push(Open { scope, key: None, named });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                if let Some(closed) = open.pop() {
                    if closed.named {
                        path.pop();
                    }
                    scopes.extend(closed.scope);
                }
            }
            Event::Alias(..) => {
                if let Some(within) = open.last_mut()
                    && within.scope.is_some()
                    && within.key.take().is_none()
                {
                    within.key = Some((String::new(), start));
                }
            }
            _ => {}
        }
    }
    Ok((scopes, Vec::new()))
}

fn within_quotes(text: &str, start: usize, end: usize) -> std::ops::Range<usize> {
    let raw = text.get(start..end).unwrap_or_default();
    let quoted = raw.len() > 1 && raw.starts_with(['"', '\'']) && raw.ends_with(['"', '\'']);
    if quoted { start + 1..end - 1 } else { start..start + raw.trim_end().len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_with_their_paths_and_places() {
        let text = "é: 1\nspring:\n  datasource:\n    hikari:\n      a: 1 # c\n      'b': \"2\"\n  list:\n  - x: 3\n    y: *z\n---\nk: {v: 4}\n";
        let text = text.replace("*z", "5");
        let Ok((scopes, _)) = read(&text) else { panic!("it is YAML") };
        let mut all = Vec::new();
        for scope in &scopes {
            for entry in &scope.entries {
                assert_eq!(text[entry.span.clone()], entry.value, "{}", entry.key);
                assert!(text[entry.key_at..].trim_start_matches('\'').starts_with(&entry.key));
                all.push(format!("{}/{}", scope.path.join("."), entry.key));
            }
        }
        all.sort();
        let want = [
            "/é",
            "k/v",
            "spring.datasource.hikari/a",
            "spring.datasource.hikari/b",
            "spring.list/x",
            "spring.list/y",
        ];
        assert_eq!(all, want);
        assert!(read("a: [1").is_err() && read(&"[".repeat(1_000)).is_err());
    }
}
