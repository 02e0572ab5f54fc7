//! Files as scopes of entries, with the place of each.

mod dotenv;
mod format;
mod json;
mod lines;
mod mapped;
mod pairs;
mod toml_file;
mod url;
mod yaml;

pub(crate) use format::{Format, is_sysctl};
pub(crate) use mapped::Mapped;
pub(crate) use pairs::{keywords, pairs};
pub(crate) use url::url;

use crate::group::{Entry, Insert, Style};
use crate::kind::Kind;
use crate::place::Wrong;

/// Settings that stand together.
#[derive(Clone)]
pub(crate) struct Scope {
    /// Index of the document in the file, from 0.
    pub(crate) document: usize,
    /// What encloses them, from the outside in.
    pub(crate) path: Vec<String>,
    pub(crate) entries: Vec<Entry>,
    /// Where it begins.
    pub(crate) at: usize,
    /// How settings are written here.
    pub(crate) style: Style,
    pub(crate) insert: Insert,
}

pub(crate) struct Document<'a> {
    pub(crate) text: &'a str,
    pub(crate) format: Format,
    /// The format follows from the file's name, not from what is in it.
    pub(crate) by_name: bool,
    pub(crate) scopes: Vec<Scope>,
    /// What is wrong in it, though the rest can be read.
    pub(crate) wrongs: Vec<Wrong>,
}

/// What a reader makes of a text: its scopes, and what is wrong in it. An error: nothing can be read.
type Read = Result<(Vec<Scope>, Vec<Wrong>), Wrong>;

/// Nested more deeply than any settings: a file that is more would cost time and memory without end.
const DEEPEST: usize = 64;

fn too_deep(at: usize) -> Wrong {
    Wrong { at, what: "this is nested too deeply".to_owned() }
}

/// Reads a file. `kind` is what the user says it is.
pub(crate) fn read<'a>(name: &str, text: &'a str, kind: Option<Kind>) -> Result<Document<'a>, Wrong> {
    if let Some(at) = text.find('\0') {
        return Err(Wrong { at, what: "a zero byte: this is no text file".to_owned() });
    }
    let by_name = format::by_name(name);
    let format = by_name.unwrap_or_else(|| format::by_content(text, kind));
    let document = read_as(format, text)?;
    Ok(Document { by_name: by_name.is_some(), ..document })
}

/// Reads a text as what it is said to be.
pub(crate) fn read_as(format: Format, text: &str) -> Result<Document<'_>, Wrong> {
    let (scopes, wrongs) = match format {
        Format::Json => json::read(text)?,
        Format::Yaml => yaml::read(text)?,
        Format::Toml => toml_file::read(text)?,
        Format::Properties => lines::properties(text),
        Format::Sysctl => lines::sysctl(text),
        Format::Ini => lines::ini(text),
        Format::Text => dotenv::read(text),
    };
    Ok(Document { text, format, by_name: false, scopes, wrongs })
}
