//! One set of settings: what is set, where, and how more is written beside it.

use crate::place::{Edit, Wrong};
use std::ops::Range;

/// A setting as a file has it.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Its name; of nested ones the last part.
    pub(crate) key: String,
    pub(crate) key_at: usize,
    /// What it is set to, unescaped. It may be a password: it is read as a number or a switch, and never printed.
    pub(crate) value: String,
    /// The value in the text, within its quotes.
    pub(crate) span: Range<usize>,
}

impl Entry {
    /// Its name as the file has it, with what stands before the last part: without that it would be another setting's.
    fn name_in<'a>(&'a self, text: &'a str) -> &'a str {
        let before = text.get(self.key_at..self.span.start).unwrap_or_default();
        let name = before.trim_end_matches(['=', ':', ' ', '\t', '"', '\'']);
        if name.ends_with(&self.key) && !name.contains(['\n', '"', '\'']) { name } else { &self.key }
    }
}

/// How a line or a piece is written in a file of this kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `key=value`
    Equals,
    /// `key = value`
    Spaced,
    /// `key: value`
    Yaml,
    /// `"key": value`
    Json,
}

impl Style {
    fn spell(self, key: &str, value: &str) -> String {
        match self {
            Self::Equals => format!("{key}={value}"),
            Self::Spaced => format!("{key} = {value}"),
            Self::Yaml => format!("{key}: {value}"),
            Self::Json => format!("\"{key}\": {value}"),
        }
    }

    /// Stands between two on one line.
    fn between(self) -> &'static str {
        if self == Self::Json { "," } else { "" }
    }
}

/// Where something is added.
#[derive(Clone)]
pub(crate) enum Insert {
    /// Before what begins at this byte: as a line of its own where that is the first on its line.
    Before { at: usize, style: Style },
    /// Into an empty object of JSON, behind its brace.
    Inside { at: usize },
    /// At the end of a connection string or a URL: with `lead` before the first and `between` before the others.
    Piece { at: usize, lead: &'static str, between: &'static str },
    /// Nowhere: this file cannot say it.
    Nowhere,
}

/// See the module.
pub(crate) struct Group {
    pub(crate) entries: Vec<Entry>,
    /// Where it begins: defaults stand there.
    pub(crate) at: usize,
    /// Stands before each name that is added.
    pub(crate) prefix: String,
    /// Names that are added are written `like-this`.
    pub(crate) kebab: bool,
    pub(crate) insert: Insert,
    /// Only these may be added. Empty: all.
    pub(crate) addable: &'static [&'static str],
    /// What is wrong in how it is written.
    pub(crate) wrongs: Vec<Wrong>,
    /// A word about what the group is, where its library has several kinds.
    pub(crate) flavour: Flavour,
}

/// What a library must know of a group besides its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Flavour {
    /// Nothing.
    #[default]
    Plain,
    /// `HikariCP`'s own properties, which take durations with a unit since 6.3.0.
    Own,
    /// `SQLAlchemy` over libpq (psycopg), which knows TCP keepalives.
    Libpq,
}

/// `like-this` of `likeThis`.
pub(crate) fn kebab(name: &str) -> String {
    name.chars().fold(String::new(), |mut out, c| {
        if c.is_ascii_uppercase() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
        out
    })
}

/// Text to write, and the edits that write it.
pub(crate) struct Written {
    /// Where, by the byte.
    pub(crate) at: usize,
    /// Something stands there now.
    pub(crate) instead: bool,
    pub(crate) text: String,
}

impl Group {
    pub(crate) fn may_add(&self, name: &str) -> bool {
        !matches!(self.insert, Insert::Nowhere) && (self.addable.is_empty() || self.addable.contains(&name))
    }

    /// Sets these: those that an entry has (by its index) in its place, others added.
    pub(crate) fn write(
        &self,
        text: &str,
        all: &[(&'static str, Option<usize>, String)],
    ) -> (Vec<Written>, Vec<Edit>) {
        let (mut written, mut edits, mut added) = (Vec::new(), Vec::new(), Vec::new());
        let style = match &self.insert {
            Insert::Before { style, .. } => *style,
            Insert::Inside { .. } => Style::Json,
            Insert::Piece { .. } | Insert::Nowhere => Style::Equals,
        };
        for (name, entry, value) in all {
            if let Some(entry) = entry.and_then(|at| self.entries.get(at)) {
                let text = style.spell(entry.name_in(text), value);
                written.push(Written { at: entry.key_at, instead: true, text });
                edits.push(Edit { span: entry.span.clone(), text: value.clone() });
            } else {
                let name = if self.kebab { kebab(name) } else { (*name).to_owned() };
                added.push(style.spell(&format!("{}{name}", self.prefix), value));
            }
        }
        if let Some(edit) = self.add(text, &added) {
            let at = edit.span.start;
            edits.push(edit);
            written.extend(added.into_iter().map(|text| Written { at, instead: false, text }));
        }
        (written, edits)
    }

    fn add(&self, text: &str, added: &[String]) -> Option<Edit> {
        if added.is_empty() {
            return None;
        }
        let (at, new) = match &self.insert {
            Insert::Before { at, style } => {
                let line = text[..*at].rfind('\n').map_or(0, |end| end + 1);
                let before = &text[line..*at];
                let newline = if text[*at..].contains("\r\n") { "\r\n" } else { "\n" };
                let alone = before.chars().all(|c| c == ' ' || c == '\t')
                    // The first of a list's element in YAML: the next stands below it.
                    || (*style == Style::Yaml && before.chars().all(|c| c == ' ' || c == '-'));
                let behind = if alone {
                    format!("{newline}{}", before.replace('-', " "))
                } else {
                    (if *style == Style::Json { " " } else { ", " }).to_owned()
                };
                let each = |new: &String| format!("{new}{}{behind}", style.between());
                (*at, added.iter().map(each).collect::<String>())
            }
            Insert::Inside { at } => (*at, added.join(", ")),
            Insert::Piece { at, lead, between } => (*at, format!("{lead}{}", added.join(between))),
            Insert::Nowhere => return None,
        };
        Some(Edit { span: at..at, text: new })
    }
}
