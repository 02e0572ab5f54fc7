//! What could not be read, said and not guessed.

use fathom_core::text::{cleaned, count};
use serde::Serialize;
use std::fmt;

/// A part of a recording that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Damage {
    /// File name within the recording.
    pub file: String,
    /// Where the unreadable part begins, in bytes from the start of the file.
    pub offset: u64,
    /// How many bytes are not read because of it.
    pub bytes: u64,
    /// Whether it is merely the unfinished end that an interrupted writer leaves behind.
    pub torn: bool,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, bytes, reason, .. } = self;
        // One line, whatever the reason quotes.
        let (reason, bytes) = (cleaned(reason), count(*bytes, "byte"));
        write!(f, "{file}: {reason} ({bytes} from offset {offset} not read)")
    }
}
