//! How far a search is: on a terminal a picture of the lengths, elsewhere a line a minute.

use super::args::Config;
use crate::output::tell;
use crate::probe::Stop;
use fathom_core::limits::{Limit, Search, picture};
use fathom_limits::Watch;
use std::io::{self, IsTerminal, Write};

const S: u64 = 1_000_000_000;
/// How often a line is added where there is no terminal to write over one.
const LINE_EVERY_NS: u64 = 60 * S;

/// Tells how far it is; on a terminal each picture is written over the one before.
#[derive(Debug)]
pub(super) struct Ticker {
    stop: Stop,
    target: String,
    quiet: bool,
    terminal: bool,
    began_ns: Option<u64>,
    next_ns: u64,
    /// Lines of the picture that is on the terminal.
    lines: usize,
}

impl Ticker {
    pub(super) fn new(config: &Config, stop: Stop) -> Self {
        let terminal = io::stderr().is_terminal();
        let target = config.target.to_string();
        Self { stop, target, quiet: config.quiet, terminal, began_ns: None, next_ns: 0, lines: 0 }
    }

    /// Writes over what is on the terminal. A terminal that has gone away is no reason to end: the result may go elsewhere.
    fn over(&mut self, lines: &[String]) {
        let up = match self.lines.saturating_sub(1) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A"),
        };
        let mut terminal = io::stderr().lock();
        let text = lines.join("\r\n");
        let _ = write!(terminal, "{up}\r\x1b[J{text}").and_then(|()| terminal.flush());
        self.lines = lines.len();
    }
}

impl Watch for Ticker {
    fn tick(&mut self, now: u64, search: &dyn Search) -> Option<u64> {
        // A start that fails says only why.
        if self.quiet || !search.progress().begun {
            return None;
        }
        let began_ns = *self.began_ns.get_or_insert_with(|| {
            let limit = if search.progress().limit == Limit::Age { "age" } else { "idle" };
            tell!("looking for the {limit} limit of {}: {}", self.target, search.progress().left());
            now
        });
        let every_ns = if self.terminal { S } else { LINE_EVERY_NS };
        if self.next_ns == 0 {
            self.next_ns = now + every_ns;
        } else if now >= self.next_ns {
            self.next_ns = now + every_ns;
            let line = search.progress().line(now - began_ns);
            if self.terminal {
                let (columns, rows) =
                    crossterm::terminal::size().map_or((80, 24), |(c, r)| (c.into(), r.into()));
                let mut lines = vec![line.chars().take(usize::saturating_sub(columns, 1)).collect()];
                lines.extend(picture(&search.lengths(), columns, usize::saturating_sub(rows, 2)));
                self.over(&lines);
            } else {
                tell!("{line}");
            }
        }
        Some(self.next_ns)
    }

    fn clear(&mut self) {
        if self.terminal && !self.quiet {
            self.over(&[]);
        }
    }

    fn is_to_stop(&self) -> bool {
        self.stop.times() > 0
    }
}
