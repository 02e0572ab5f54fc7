//! Which settings of connection pools and drivers lose against a limit of the path: the idleness after which connections
//! die, or the age. Text in, judgements out: no file is read here, and nothing of a file is printed but the names that we
//! know and the numbers that we understood, because connection strings hold passwords.
//!
//! ```text
//!     text -> syntax    what is set, and where: lines, .env, YAML, JSON, TOML; within their values connection strings and URLs
//!          -> recognise which library reads it
//!          -> library   one file each: its names, units and defaults (with their sources), for how long it leaves a
//!                       connection idle at the most and how old it lets one become, and what could be written instead
//!          -> judge     what loses, and the first remedy after which nothing does
//!          -> report    in words and as JSON
//! ```

mod apply;
mod decode;
mod group;
mod judge;
mod kind;
mod library;
mod limits;
mod place;
mod placeholder;
mod recognise;
mod report;
mod syntax;
mod unit;
mod version;
mod why;

pub use apply::apply;
pub use judge::{Judgement, Write};
pub use kind::Kind;
pub use limits::Limits;
pub use place::{Edit, Fault, Position};
pub use report::{json, text};
pub use version::Version;

/// More bytes are no file of settings.
pub const LARGEST: usize = 4 << 20;

/// What the help of a command that checks files says of them.
pub const HELP: &str = "\
Files: HikariCP (.properties; Spring's .properties and YAML), connection strings of Npgsql and
Microsoft.Data.SqlClient (text, .env, appsettings.json), pgxpool (URL or keywords), SQLAlchemy
(.ini, .toml, a URL), node-postgres and mysql2 (JSON, a URL), sysctl. - is standard input; where a
name does not show what a file is, its content does. docs/limits-check.md has the defaults. Of a
file's values only times, counts and switches are printed: never a password.

Examples:
  fathom limits check application.yml --idle 4m
  fathom limits check .env --as pgx --idle 4m --age 30m
  fathom limits check appsettings.json --record idle     as fathom limits HOST --record idle found
  fathom limits check application.properties --idle 4m --library-version 7.0.2

Exit codes: 0 nothing loses, 1 a setting loses, 2 the command line, a file or a recording cannot
be used, or a file contradicts itself (what can be judged is printed then too).";

/// What was made of one file.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Which library's settings it has. Absent: that is not known, and a fault says so.
    pub kind: Option<Kind>,
    /// One for each limit and each set of settings (a file may have several).
    pub judgements: Vec<Judgement>,
    /// What is wrong in the file, in its order.
    pub faults: Vec<Fault>,
    /// What cannot be known from the file.
    pub notes: Vec<String>,
    /// Writes what the judgements advise, when [`apply`] makes them.
    pub edits: Vec<Edit>,
}

impl Report {
    /// Of a file that could not be read; `why` follows "cannot read it".
    pub fn unread(why: impl std::fmt::Display) -> Self {
        let fault = Fault { at: None, what: format!("cannot read it: {why}") };
        Self { faults: vec![fault], ..Self::default() }
    }

    /// Whether a setting loses.
    pub fn loses(&self) -> bool {
        self.judgements.iter().any(|judgement| judgement.loses)
    }
}

/// Judges the settings in `content`, the bytes of a file called `name`. What is wrong with them is in the report's faults: there is
/// no other error. `kind` overrides what it is recognised as; `version` is the library's, and without it a setting must hold in
/// every version that is known.
///
/// Where the end of `name` says nothing of what the file is written in, content decides, and a note says what it was taken for.
pub fn check(
    name: &str,
    content: impl AsRef<[u8]>,
    kind: Option<Kind>,
    version: Option<Version>,
    limits: &Limits,
) -> Report {
    let text = match decode::decode(content.as_ref()) {
        Ok(text) => text,
        Err(fault) => return Report { kind, faults: vec![fault], ..Report::default() },
    };
    let places = place::Places::new(text);
    match recognised(name, text, kind) {
        Ok((document, found)) => judged(name, document, found, kind.is_some(), version, limits, &places),
        Err(wrongs) => {
            let faults = wrongs.iter().map(|wrong| places.fault(wrong)).collect();
            Report { kind, faults, ..Report::default() }
        }
    }
}

/// What is set in a text, and whose it is.
fn recognised<'a>(
    name: &str,
    text: &'a str,
    kind: Option<Kind>,
) -> Result<(syntax::Document<'a>, Kind), Vec<place::Wrong>> {
    let document = syntax::read(name, text, kind).map_err(|wrong| vec![wrong])?;
    if let Some(kind) = kind {
        return Ok((document, kind));
    }
    match recognise::recognise(&document, name) {
        Ok(kind) => Ok((document, kind)),
        // Names in small letters are no variables, and may be HikariCP's own.
        Err(_) if !document.by_name && recognise::are_properties(text) => {
            let document = syntax::read_as(syntax::Format::Properties, text);
            Ok((document.map_err(|wrong| vec![wrong])?, Kind::Hikari))
        }
        // Perhaps it is what could not be read that would have said it.
        Err(wrong) => {
            let unread = document.wrongs.into_iter().filter(|_| document.format == syntax::Format::Text);
            Err(std::iter::once(wrong).chain(unread.filter(|wrong| wrong.at > 0)).collect())
        }
    }
}

/// True for a Spring file of one profile: `application-prod.yml`.
fn is_of_a_profile(name: &str) -> bool {
    name.rsplit(['/', '\\']).next().is_some_and(|file| file.starts_with("application-"))
}

fn judged(
    name: &str,
    document: syntax::Document<'_>,
    kind: Kind,
    forced: bool,
    version: Option<Version>,
    limits: &Limits,
    places: &place::Places<'_>,
) -> Report {
    let library = library::of(kind);
    let groups = library::groups(kind, forced, &document);
    let mut report = Report { kind: Some(kind), ..Report::default() };
    let mut wrongs = document.wrongs;
    if groups.is_empty() {
        let what = format!("no settings of {} are in it; --as names another library", library.name);
        wrongs.push(place::Wrong { at: 0, what });
    }
    let mut before: Vec<Judgement> = Vec::new();
    for (library, group) in &groups {
        let judged = judge::group(library, group, version, limits, places);
        // A document that only inherits the deciding settings is reported once.
        report.judgements.extend(judged.judgements.iter().filter(|one| !before.contains(one)).cloned());
        before = judged.judgements;
        report.edits.extend(judged.edits);
        wrongs.extend(judged.wrongs);
        report.notes.extend(judged.notes);
    }
    if !document.by_name {
        let format = document.format;
        report.notes.push(if forced {
            format!("read as {format}, by its content")
        } else {
            format!(
                "read as {format}, settings of {}, by its content; --as names another library",
                library.name
            )
        });
    }
    if kind == Kind::Hikari && is_of_a_profile(name) {
        report.notes.push("Spring lays this file over application.yml or application.properties, which is not judged with it: what that sets counts here too".to_owned());
    }
    report.notes.extend(library.notes.iter().map(|note| (*note).to_owned()));
    wrongs.sort_by(|a, b| (a.at, &a.what).cmp(&(b.at, &b.what)));
    wrongs.dedup_by(|a, b| a.at == b.at);
    report.faults = wrongs.iter().map(|wrong| places.fault(wrong)).collect();
    report
}
