//! A line on standard error for what takes longer than two seconds, where somebody is looking.

use fathom_core::text::count;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Tells how far a long operation is.
pub(crate) struct Progress {
    verb: &'static str,
    shown: bool,
    next: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(verb: &'static str) -> Self {
        let next = std::io::stderr().is_terminal().then(|| Instant::now() + Duration::from_secs(2));
        Self { verb, shown: false, next }
    }

    /// Takes note of the rows done.
    pub(crate) fn rows(&mut self, rows: u64) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now >= next) {
            eprint!("\r{} {}…", self.verb, count(rows, "sample"));
            self.shown = true;
            self.next = Some(now + Duration::from_millis(500));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
