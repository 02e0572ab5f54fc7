//! Which settings of connection pools and drivers lose against a limit of the path: the idleness after which connections
//! die, or the age. Text in, judgements out: no file is read here, and nothing of a file is printed but the names that we
//! know and the numbers that we understood, because connection strings hold passwords.
//!
//! ```text
//!     text -> syntax    what is set, and where: lines, YAML, JSON, TOML; within their values connection strings and URLs
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
mod recognise;
mod report;
mod syntax;
mod unit;
mod version;

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
(.ini, .toml, a URL), node-postgres and mysql2 (JSON, a URL), sysctl. docs/limits-check.md has their
defaults. Of a file's values only times, counts and switches are printed: never a password.

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
    /// Whether a setting loses.
    pub fn loses(&self) -> bool {
        self.judgements.iter().any(|judgement| judgement.loses)
    }
}

/// Judges the settings in `content`, the bytes of a file called `name`. `kind` overrides what it is recognised as; `version` is
/// the library's, and without it a setting must hold in every version that is known.
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
    let document = match syntax::read(name, text, kind) {
        Ok(document) => document,
        Err(wrong) => return Report { kind, faults: vec![places.fault(&wrong)], ..Report::default() },
    };
    let forced = kind.is_some();
    let kind = match kind.map_or_else(|| recognise::recognise(&document, name), Ok) {
        Ok(kind) => kind,
        Err(wrong) => return Report { faults: vec![places.fault(&wrong)], ..Report::default() },
    };
    let library = library::of(kind);
    let groups = library::groups(kind, forced, &document);
    let mut report = Report { kind: Some(kind), ..Report::default() };
    let mut wrongs = document.wrongs;
    if groups.is_empty() {
        let what = format!("no settings of {} are in it; --as names another library", library.name);
        wrongs.push(place::Wrong { at: 0, what });
    }
    for (library, group) in &groups {
        let judged = judge::group(library, group, version, limits, &places);
        report.judgements.extend(judged.judgements);
        report.edits.extend(judged.edits);
        wrongs.extend(judged.wrongs);
    }
    report.notes = library.notes.iter().map(|note| (*note).to_owned()).collect();
    wrongs.sort_by(|a, b| (a.at, &a.what).cmp(&(b.at, &b.what)));
    wrongs.dedup_by(|a, b| a.at == b.at);
    report.faults = wrongs.iter().map(|wrong| places.fault(wrong)).collect();
    report
}
