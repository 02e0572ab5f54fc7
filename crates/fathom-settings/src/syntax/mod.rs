//! Files as scopes of entries, with the place of each.

mod json;
mod lines;
mod mapped;
mod pairs;
mod toml_file;
mod url;
mod yaml;

pub(crate) use mapped::Mapped;
pub(crate) use pairs::{keywords, pairs};
pub(crate) use url::url;

use crate::group::{Entry, Insert};
use crate::kind::Kind;
use crate::place::Wrong;

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Java's `.properties`.
    Properties,
    /// `key = value`, as sysctl reads it.
    Sysctl,
    /// Sections of `key = value`.
    Ini,
    /// `NAME=value`, or one connection string or URL a line.
    Text,
    Yaml,
    Json,
    Toml,
}

/// Settings that stand together.
pub(crate) struct Scope {
    /// What encloses them, from the outside in.
    pub(crate) path: Vec<String>,
    pub(crate) entries: Vec<Entry>,
    /// Where it begins.
    pub(crate) at: usize,
    pub(crate) insert: Insert,
}

pub(crate) struct Document<'a> {
    pub(crate) text: &'a str,
    pub(crate) format: Format,
    pub(crate) scopes: Vec<Scope>,
    /// What is wrong in it, though the rest can be read.
    pub(crate) wrongs: Vec<Wrong>,
}

/// What a reader makes of a text: its scopes, and what is wrong in it. An error: nothing can be read.
type Read = Result<(Vec<Scope>, Vec<Wrong>), Wrong>;

/// Reads a file. `kind` is what the user says it is.
pub(crate) fn read<'a>(name: &str, text: &'a str, kind: Option<Kind>) -> Result<Document<'a>, Wrong> {
    if let Some(at) = text.find('\0') {
        return Err(Wrong { at, what: "a zero byte: this is no text file".to_owned() });
    }
    let format = format_of(name, text, kind);
    let (scopes, wrongs) = match format {
        Format::Json => json::read(text)?,
        Format::Yaml => yaml::read(text)?,
        Format::Toml => toml_file::read(text)?,
        Format::Properties => lines::properties(text),
        Format::Sysctl => lines::sysctl(text),
        Format::Ini => lines::ini(text),
        Format::Text => lines::text(text),
    };
    Ok(Document { text, format, scopes, wrongs })
}

fn format_of(name: &str, text: &str, kind: Option<Kind>) -> Format {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name).to_ascii_lowercase();
    let by_name = match file.rsplit_once('.').map_or("", |(_, end)| end) {
        _ if file.starts_with(".env") => Some(Format::Text),
        "properties" => Some(Format::Properties),
        "yml" | "yaml" => Some(Format::Yaml),
        "json" | "jsonc" => Some(Format::Json),
        "toml" => Some(Format::Toml),
        "ini" | "cfg" => Some(Format::Ini),
        "env" => Some(Format::Text),
        _ => None,
    };
    let first = text.trim_start();
    let lines = || text.lines().map(str::trim_start);
    let sysctl = || lines().any(|line| line.trim_start_matches('-').starts_with("net.ipv"));
    match (by_name, kind) {
        (Some(format), _) => format,
        _ if first.starts_with('{') => Format::Json,
        (_, Some(Kind::Sysctl)) => Format::Sysctl,
        (_, Some(Kind::Hikari)) => Format::Properties,
        (_, None) if name.contains("sysctl") || sysctl() => Format::Sysctl,
        (_, None | Some(Kind::Sqlalchemy)) if first.starts_with('[') => Format::Ini,
        (_, None) if lines().any(|line| line.starts_with("spring.datasource.")) => Format::Properties,
        _ => Format::Text,
    }
}
