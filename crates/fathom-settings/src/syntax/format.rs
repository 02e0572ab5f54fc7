//! What a file is written in: by its name, or by what is in it (a pipe, `/dev/fd/63`, `x.conf`).

use super::{toml_file, yaml};
use crate::kind::Kind;
use std::fmt;

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

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Properties => "Java's properties",
            Self::Sysctl => "a file of sysctl",
            Self::Ini => "an .ini file",
            Self::Text => "text (.env, connection strings, URLs)",
            Self::Yaml => "YAML",
            Self::Json => "JSON",
            Self::Toml => "TOML",
        })
    }
}

/// The format that a file's name says.
pub(super) fn by_name(name: &str) -> Option<Format> {
    let file = last_part(name).to_ascii_lowercase();
    match file.rsplit_once('.').map_or("", |(_, end)| end) {
        _ if file.starts_with(".env") => Some(Format::Text),
        "properties" => Some(Format::Properties),
        "yml" | "yaml" => Some(Format::Yaml),
        "json" | "jsonc" => Some(Format::Json),
        "toml" => Some(Format::Toml),
        "ini" | "cfg" => Some(Format::Ini),
        "env" => Some(Format::Text),
        _ if is_sysctl(name) => Some(Format::Sysctl),
        _ => None,
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// Whether the name is one of sysctl's files: `/etc/sysctl.conf`, `/usr/lib/sysctl.d/90-x.conf`.
pub(crate) fn is_sysctl(name: &str) -> bool {
    let file = last_part(name);
    file.contains("sysctl") || name[..name.len() - file.len()].ends_with("sysctl.d/")
}

/// The format that content shows; `kind` is what the user says it is.
pub(super) fn by_content(text: &str, kind: Option<Kind>) -> Format {
    let lines =
        || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!', ';']));
    let any = |is: &dyn Fn(&str) -> bool| lines().any(is);
    let first = lines().next().unwrap_or_default();
    let object = first.strip_prefix('[').map_or(first, str::trim_start).starts_with('{');
    let sections = || any(&|line| line.starts_with('[') && line.ends_with(']'));
    let dotted = || any(&|line| line.trim_start_matches(['"', '\'']).starts_with("sqlalchemy."));
    let spring = || any(&|line| line.starts_with("spring.datasource."));
    if object || first.starts_with("//") || first.starts_with("/*") {
        Format::Json
    } else if kind == Some(Kind::Sysctl)
        || (kind.is_none() && (any(&|line| line.trim_start_matches('-').starts_with("net.ipv"))))
    {
        Format::Sysctl
    } else if first.starts_with('[') || sections() || dotted() {
        if toml_file::read(text).is_ok() { Format::Toml } else { Format::Ini }
    } else if is_yaml(first) && (!spring() || yaml::read(text).is_ok()) {
        Format::Yaml
    } else if kind == Some(Kind::Hikari) || (kind.is_none() && spring()) {
        Format::Properties
    } else {
        Format::Text
    }
}

/// Whether a file that begins with this line is YAML: a mapping's or a list's.
fn is_yaml(line: &str) -> bool {
    let key = |line: &str| {
        line.split_once(':').is_some_and(|(key, rest)| {
            !key.contains(['=', '/']) && !rest.starts_with(|c: char| !c.is_whitespace())
        })
    };
    line.starts_with("---") || line.starts_with('%') || line.starts_with("- ") || key(line)
}
