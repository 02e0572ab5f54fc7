//! Which tests were served, counted.

use serde::Serialize;

/// Counts since the start. The names are those of `fathom echo --json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Tests that began.
    pub tests: u64,
    /// Of these, ended before their time: by the client, by the longest time allowed, by a connection that broke.
    pub tests_unfinished: u64,
    /// Tests that asked for what is not served.
    pub tests_refused: u64,
    /// Connections that came while a test of another client ran.
    pub busy: u64,
    /// Connections from outside the networks that are served.
    pub not_allowed: u64,
    /// Connections that gave no cookie.
    pub foreign: u64,
    /// Bytes sent on streams.
    pub bytes_sent: u64,
    /// Bytes received on streams.
    pub bytes_received: u64,
}
