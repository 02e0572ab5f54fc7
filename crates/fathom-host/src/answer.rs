//! The lines of an answer.

use crate::request::FORMAT;
use crate::state::State;
use serde::Serialize;
use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

/// One line.
#[derive(Debug, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(crate) enum Line<'a> {
    Job {
        name: &'a str,
        #[serde(flatten)]
        state: State,
    },
    State(State),
    Started {
        age_s: u64,
        #[serde(flatten)]
        state: State,
    },
    File(Seen<'a>),
    Piece {
        #[serde(flatten)]
        file: Seen<'a>,
        offset: u64,
        length: u64,
    },
    Sum {
        name: &'a str,
        sha256: &'a str,
    },
    Cleared {
        processes: usize,
    },
    Error {
        message: &'a str,
    },
    End {},
}

/// A file, and what tells whether it is still the same one.
#[derive(Debug, Serialize)]
pub(crate) struct Seen<'a> {
    name: &'a str,
    inode: u64,
    size: u64,
    modified_ns: i64,
}

impl<'a> Seen<'a> {
    pub(crate) fn new(name: &'a str, metadata: &Metadata) -> Self {
        let modified_ns =
            metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Self { name, inode: metadata.ino(), size: metadata.size(), modified_ns }
    }
}

/// Writes an answer.
pub(crate) struct Answer<'a> {
    to: &'a mut dyn Write,
}

impl<'a> Answer<'a> {
    /// Begins it: a login shell may have said other things before, and left its line open.
    pub(crate) fn begin(to: &'a mut dyn Write) -> io::Result<Self> {
        writeln!(to, "\n{{\"is\":\"fathom-host\",\"format\":{FORMAT}}}")?;
        Ok(Self { to })
    }

    pub(crate) fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut *self.to, line)?;
        self.to.write_all(b"\n")
    }

    /// A piece of a file, and its bytes.
    pub(crate) fn piece(&mut self, file: Seen<'_>, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.line(&Line::Piece { file, offset, length: bytes.len() as u64 })?;
        self.to.write_all(bytes)
    }

    /// Ends it, and sends what is left.
    pub(crate) fn end(self, last: &Line<'_>) -> io::Result<()> {
        let Self { to } = self;
        serde_json::to_writer(&mut *to, last)?;
        to.write_all(b"\n")?;
        to.flush()
    }
}
