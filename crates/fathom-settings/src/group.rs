//! One set of settings: what is set, where, and how more is written beside it.

use crate::place::{Edit, Places, Wrong};
use crate::placeholder::{self, Dialect};
use std::ops::Range;

/// A setting as a file has it.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Its name; of nested ones the last part.
    pub(crate) key: String,
    pub(crate) key_at: usize,
    /// What stands before the last part of its name, as the file has it: written without that it would be another setting.
    pub(crate) lead: String,
    /// What it is set to, unescaped. It may be a password: it is read as a number or a switch, and never printed.
    pub(crate) value: String,
    /// The value in the text, within its quotes.
    pub(crate) span: Range<usize>,
}

impl Entry {
    /// The known value; `None`: something else fills it in.
    pub(crate) fn known(&self, dialect: Dialect) -> Option<&str> {
        placeholder::known(&self.value, dialect)
    }

    /// The range that another value replaces, and the text to show with it.
    pub(crate) fn replaced(&self, dialect: Dialect, new: &str) -> (Range<usize>, String) {
        placeholder::replaced(&self.value, &self.span, dialect, new)
    }
}

/// How a line or a piece is written in a file of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `key=value`
    Equals,
    /// `key = value`
    Spaced,
    /// `"a.key" = value`: one name that has a dot in it.
    Quoted,
    /// `key = value` within the braces of TOML.
    Inline,
    /// `key: value`
    Yaml,
    /// `key: value` within the braces of YAML.
    Flow,
    /// `"key": value`
    Json,
}

impl Style {
    fn spell(self, key: &str, value: &str) -> String {
        match self {
            Self::Equals => format!("{key}={value}"),
            Self::Spaced | Self::Inline => format!("{key} = {value}"),
            Self::Quoted => format!("\"{key}\" = {value}"),
            Self::Yaml | Self::Flow => format!("{key}: {value}"),
            Self::Json => format!("\"{key}\": {value}"),
        }
    }

    /// Stands behind each that others follow.
    fn between(self) -> &'static str {
        if matches!(self, Self::Json | Self::Flow | Self::Inline) { "," } else { "" }
    }
}

/// Where something is added.
#[derive(Clone)]
pub(crate) enum Insert {
    /// Before what begins at this byte: as a line of its own where that is the first on its line. `prefix` stands before each
    /// name.
    Before { at: usize, style: Style, prefix: String },
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

/// Text to write, and where.
pub(crate) struct Written {
    /// Where, by the byte.
    pub(crate) at: usize,
    /// Something stands there now.
    pub(crate) instead: bool,
    /// It comes between others on their line.
    pub(crate) within: bool,
    /// The setting.
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// What is added: the edit, and whether it comes between others on their line.
struct Added {
    edit: Edit,
    within: bool,
}

impl Group {
    /// A group of which nothing particular is to be said.
    pub(crate) fn new(entries: Vec<Entry>, at: usize, insert: Insert) -> Self {
        let (addable, flavour, wrongs) = (&[] as &[_], Flavour::Plain, Vec::new());
        Self { entries, at, kebab: false, insert, addable, wrongs, flavour }
    }

    pub(crate) fn may_add(&self, name: &str) -> bool {
        !matches!(self.insert, Insert::Nowhere) && (self.addable.is_empty() || self.addable.contains(&name))
    }

    /// Sets these: those that an entry has (by its index) in its place, others added.
    pub(crate) fn write(
        &self,
        places: &Places<'_>,
        dialect: Dialect,
        all: &[(&'static str, Option<usize>, String)],
    ) -> (Vec<Written>, Vec<Edit>) {
        let (mut written, mut edits, mut added, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (style, prefix) = match &self.insert {
            Insert::Before { style, prefix, .. } => (*style, prefix.as_str()),
            Insert::Inside { .. } => (Style::Json, ""),
            Insert::Piece { .. } | Insert::Nowhere => (Style::Equals, ""),
        };
        for &(name, entry, ref value) in all {
            if let Some(entry) = entry.and_then(|at| self.entries.get(at)) {
                let (span, shown) = entry.replaced(dialect, value);
                let text = style.spell(&format!("{}{}", entry.lead, entry.key), &shown);
                written.push(Written { at: entry.key_at, instead: true, within: false, name, text });
                edits.push(Edit { span, text: value.clone() });
            } else {
                names.push(name);
                let name = if self.kebab { kebab(name) } else { name.to_owned() };
                added.push(style.spell(&format!("{prefix}{name}"), value));
            }
        }
        if let Some(Added { edit, within }) = self.add(places, &mut added) {
            let at = edit.span.start;
            edits.push(edit);
            let added = names.into_iter().zip(added);
            written.extend(added.map(|(name, text)| Written { at, instead: false, within, name, text }));
        }
        (written, edits)
    }

    /// Adds these, each with what must stand behind it.
    fn add(&self, places: &Places<'_>, added: &mut [String]) -> Option<Added> {
        if added.is_empty() {
            return None;
        }
        let (at, new, within) = match &self.insert {
            Insert::Before { at, style, .. } => {
                let (before, newline) = (places.indent(*at), places.newline());
                let blank = |c: char| c == ' ' || c == '\t';
                let alone = before.chars().all(blank)
                    // The first of a list's element in YAML: the next stands below it.
                    || (*style == Style::Yaml && before.chars().all(|c| c == ' ' || c == '-'));
                // Behind a tag or an anchor no other line can be put before it.
                if !alone && style.between().is_empty() {
                    return None;
                }
                let behind =
                    if alone { format!("{newline}{}", before.replace('-', " ")) } else { " ".to_owned() };
                for new in &mut *added {
                    *new += style.between();
                }
                (*at, added.join(&behind) + &behind, !alone)
            }
            Insert::Inside { at } => (*at, added.join(", "), true),
            Insert::Piece { at, lead, between } => (*at, format!("{lead}{}", added.join(between)), false),
            Insert::Nowhere => return None,
        };
        Some(Added { edit: Edit { span: at..at, text: new }, within })
    }
}
