//! How far a search is.

use super::args::Config;
use crate::output::tell;
use fathom_core::limits::Limits;
use std::io::{self, IsTerminal, Write};

const S: u64 = 1_000_000_000;
/// How often a line is added where there is no terminal to write over one.
const LINE_EVERY_NS: u64 = 60 * S;

/// Tells how far it is: on a terminal in a line that is written over, elsewhere in a line a minute.
pub(super) struct Ticker {
    target: String,
    quiet: bool,
    terminal: bool,
    began_ns: Option<u64>,
    next_ns: u64,
}

impl Ticker {
    pub(super) fn new(config: &Config) -> Self {
        let terminal = io::stderr().is_terminal();
        let target = config.target.to_string();
        Self { target, quiet: config.quiet, terminal, began_ns: None, next_ns: 0 }
    }

    /// Tells it if it is time; when to look again.
    pub(super) fn tick(&mut self, now: u64, search: &Limits) -> Option<u64> {
        // A start that fails says only why.
        if self.quiet || !search.progress().begun {
            return None;
        }
        let began_ns = *self.began_ns.get_or_insert_with(|| {
            tell!("looking for the idle limit of {}: {}", self.target, search.progress().left());
            now
        });
        let every_ns = if self.terminal { S } else { LINE_EVERY_NS };
        if self.next_ns == 0 {
            self.next_ns = now + every_ns;
        } else if now >= self.next_ns {
            self.next_ns = now + every_ns;
            let line = search.progress().line(now - began_ns);
            if self.terminal {
                over(&line);
            } else {
                tell!("{line}");
            }
        }
        Some(self.next_ns)
    }

    pub(super) fn clear(&self) {
        if self.terminal && !self.quiet {
            over("");
        }
    }
}

/// Writes over the line on the terminal. A terminal that has gone away is no reason to end: the result may go elsewhere.
fn over(line: &str) {
    let mut terminal = io::stderr().lock();
    let _ = write!(terminal, "\r\x1b[K{line}").and_then(|()| terminal.flush());
}
