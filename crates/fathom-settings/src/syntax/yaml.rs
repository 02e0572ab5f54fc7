//! YAML: its mappings, with what encloses them.

use super::{DEEPEST, Read, Scope, too_deep};
use crate::group::{Entry, Insert, Style};
use crate::place::Wrong;
use saphyr_parser::{Event, Parser};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Copied by aliases, at the most: aliases of aliases stand for more than any memory holds.
const MOST_COPIED: usize = 50_000;

/// A mapping or a sequence that is not over.
struct Open {
    /// Of a mapping.
    scope: Option<Scope>,
    /// The name whose value comes next.
    key: Option<(String, usize)>,
    /// A part of the path came with it.
    named: bool,
    /// Stands behind `<<`.
    merges: bool,
    /// What aliases may call it; 0 for nothing.
    anchor: usize,
    /// How many scopes there were before it.
    from: usize,
    /// Names of a mapping.
    names: HashSet<String>,
    /// What `<<` brings into a mapping: it counts where the mapping itself does not have it.
    merged: Vec<Scope>,
}

/// What an alias stands for.
enum Anchored {
    Scalar(String),
    /// Scopes, without what encloses them.
    Scopes(Vec<Scope>),
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    path: Vec<String>,
    scopes: Vec<Scope>,
    anchors: HashMap<usize, Anchored>,
    copied: usize,
    /// Number of documents begun.
    documents: usize,
}

pub(super) fn read(text: &str) -> Read {
    // The parser counts characters.
    let mut bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    bytes.push(text.len());
    let byte = |index: usize| bytes[index.min(bytes.len() - 1)];
    let mut reader = Reader::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        // Its message may hold a part of the file.
        let (event, span) = event
            .map_err(|e| Wrong { at: byte(e.marker().index()), what: "this is no valid YAML".to_owned() })?;
        let (start, end) = (byte(span.start.index()), byte(span.end.index()));
        match event {
            Event::Scalar(value, _, anchor, _) => {
                if anchor > 0 {
                    reader.anchors.insert(anchor, Anchored::Scalar(value.clone().into_owned()));
                }
                reader.scalar(value.into_owned(), start, within_quotes(text, start, end));
            }
            Event::MappingStart(anchor, _) => {
                let braced = text.get(start..).is_some_and(|text| text.starts_with('{'));
                reader.begin(start, anchor, Some(if braced { Style::Flow } else { Style::Yaml }))?;
            }
            Event::SequenceStart(anchor, _) => reader.begin(start, anchor, None)?,
            Event::MappingEnd | Event::SequenceEnd => reader.end(start)?,
            Event::DocumentStart(_) => reader.documents += 1,
            Event::Alias(anchor) => reader.alias(anchor, start, end)?,
            _ => {}
        }
    }
    Ok((reader.scopes, Vec::new()))
}

impl Reader {
    fn scalar(&mut self, value: String, start: usize, span: Range<usize>) {
        let Some(Open { scope: Some(scope), key, names, .. }) = self.open.last_mut() else {
            return self.variable(&value, start, span);
        };
        if let Some((key, key_at)) = key.take() {
            scope.entries.push(Entry { key, key_at, lead: String::new(), value, span });
        } else {
            if let Insert::Nowhere = scope.insert {
                scope.insert = Insert::Before { at: start, style: scope.style, prefix: String::new() };
            }
            names.insert(value.clone());
            *key = Some((value, start));
        }
    }

    /// `NAME=value` of a list: the environment of a container.
    fn variable(&mut self, text: &str, key_at: usize, span: Range<usize>) {
        let Some((name, value)) = text.split_once('=') else { return };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // With escapes or over several lines, places within it are not known.
        if name.is_empty() || !name.chars().all(plain) || span.len() != text.len() {
            return;
        }
        let span = span.start + name.len() + 1..span.end;
        let (key, lead, value) = (name.to_owned(), String::new(), value.to_owned());
        self.scopes.push(Scope {
            document: self.document(),
            path: self.path.clone(),
            entries: vec![Entry { key, key_at, lead, value, span }],
            at: key_at,
            style: Style::Equals,
            insert: Insert::Nowhere,
        });
    }

    fn document(&self) -> usize {
        self.documents.saturating_sub(1)
    }

    /// A mapping in this style begins, or a sequence.
    fn begin(&mut self, start: usize, anchor: usize, style: Option<Style>) -> Result<(), Wrong> {
        if self.open.len() >= DEEPEST {
            return Err(too_deep(start));
        }
        let key = self.open.last_mut().and_then(|within| within.key.take()).map(|(key, _)| key);
        let merges = key.as_deref() == Some(MERGE);
        let named = key.is_some();
        // Several profiles: which does not matter, and another document's are others.
        if let (None, Some(key), Some(Open { scope: Some(scope), .. })) = (style, &key, self.open.last_mut())
            && matches!(key.as_str(), "on-profile" | "onProfile" | "profiles")
        {
            let (lead, value) = (String::new(), start.to_string());
            scope.entries.push(Entry { key: key.clone(), key_at: start, lead, value, span: start..start });
        }
        self.path.extend(key);
        let (document, path) = (self.document(), self.path.clone());
        let scope = style.map(|style| Scope {
            document,
            path,
            entries: Vec::new(),
            at: start,
            style,
            insert: Insert::Nowhere,
        });
        let (names, merged, from) = (HashSet::new(), Vec::new(), self.scopes.len());
        self.open.push(Open { scope, key: None, named, merges, anchor, from, names, merged });
        Ok(())
    }

    fn end(&mut self, start: usize) -> Result<(), Wrong> {
        let Some(mut closed) = self.open.pop() else { return Ok(()) };
        if let Some(scope) = &mut closed.scope {
            let within = scope.path.len();
            for merged in closed.merged {
                match merged.path.get(within) {
                    None => {
                        let new =
                            merged.entries.into_iter().filter(|entry| closed.names.insert(entry.key.clone()));
                        scope.entries.extend(new.collect::<Vec<_>>());
                    }
                    Some(name) if !closed.names.contains(name) => self.scopes.push(merged),
                    Some(_) => {}
                }
            }
        }
        self.scopes.extend(closed.scope);
        if closed.anchor > 0 {
            self.copied += size(&self.scopes[closed.from..]);
            if self.copied > MOST_COPIED {
                return Err(too_many(start));
            }
            let within = self.path.len();
            let bare = |scope: &Scope| Scope { path: scope.path[within..].to_vec(), ..scope.clone() };
            let all = self.scopes[closed.from..].iter().map(bare).collect();
            self.anchors.insert(closed.anchor, Anchored::Scopes(all));
        }
        if closed.named {
            self.path.pop();
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, start: usize, end: usize) -> Result<(), Wrong> {
        let Some(within) = self.open.last_mut() else { return Ok(()) };
        // `<<: [*a, *b]`
        let merges = within.merges && within.scope.is_none();
        let key = if merges { Some((MERGE.to_owned(), start)) } else { within.key.take() };
        let Some((key, key_at)) = key else {
            // A name, of which no setting has one.
            within.key = within.scope.is_some().then(|| (String::new(), start));
            return Ok(());
        };
        match self.anchors.get(&anchor) {
            Some(Anchored::Scalar(value)) => {
                if let Some(scope) = &mut within.scope {
                    let (lead, value) = (String::new(), value.clone());
                    scope.entries.push(Entry { key, key_at, lead, value, span: start..end });
                }
            }
            Some(Anchored::Scopes(all)) => {
                self.copied += size(all);
                if self.copied > MOST_COPIED {
                    return Err(too_many(start));
                }
                let mut path = self.path.clone();
                // The sequence is in the path itself.
                path.truncate(path.len() - usize::from(merges));
                path.extend((key != MERGE).then(|| key.clone()));
                let copy = |scope: &Scope| Scope { path: [&path[..], &scope.path].concat(), ..scope.clone() };
                let copies = all.iter().map(copy);
                if key == MERGE {
                    let into = self.open.len().saturating_sub(1 + usize::from(merges));
                    self.open[into].merged.extend(copies);
                } else {
                    self.scopes.extend(copies);
                }
            }
            None => {}
        }
        Ok(())
    }
}

const MERGE: &str = "<<";

/// How much is copied with these.
fn size(scopes: &[Scope]) -> usize {
    scopes.iter().map(|scope| scope.entries.len() + 1).sum()
}

fn too_many(at: usize) -> Wrong {
    Wrong { at, what: "too many aliases to follow".to_owned() }
}

fn within_quotes(text: &str, start: usize, end: usize) -> Range<usize> {
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
