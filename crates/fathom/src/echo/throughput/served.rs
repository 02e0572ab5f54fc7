//! Which throughput tests were served, counted.

use crate::throughput::words::bytes;
use serde::Serialize;

/// Counts since the start. The names are those of `--json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(in crate::echo) struct Served {
    /// Tests that began.
    pub(super) tests: u64,
    /// Of these, ended before their time: by the client, by `--throughput-longest`, by a connection that broke.
    pub(super) tests_unfinished: u64,
    /// Tests that asked for what is not served.
    pub(super) tests_refused: u64,
    /// Connections that came while a test of another client ran.
    pub(super) busy: u64,
    /// Connections from outside the networks of `--allow`.
    pub(super) not_allowed: u64,
    /// Connections that gave no cookie.
    pub(super) foreign: u64,
    /// Bytes sent on streams.
    pub(super) bytes_sent: u64,
    /// Bytes received on streams.
    pub(super) bytes_received: u64,
}

impl Served {
    /// The line for people.
    pub(in crate::echo) fn sentence(&self) -> String {
        format!(
            "served {} throughput tests ({} unfinished), refused {}, denied {} (busy {}, not allowed {}, no cookie {}); sent {}, \
             received {}",
            self.tests,
            self.tests_unfinished,
            self.tests_refused,
            self.busy + self.not_allowed + self.foreign,
            self.busy,
            self.not_allowed,
            self.foreign,
            bytes(self.bytes_sent),
            bytes(self.bytes_received),
        )
    }
}
