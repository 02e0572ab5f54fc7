//! How far a search is: on a terminal a picture, elsewhere a line a minute, or one a step.

use fathom_core::limits::{
    CeilingRow, CeilingSearch, CeilingStepped, Limit, Search, ceiling_picture, picture,
};
use fathom_core::text::count;
use std::fmt::Debug;
use std::io::{self, IsTerminal, Write};

const S: u64 = 1_000_000_000;
/// How often a line is added where there is no terminal to write over one.
const LINE_EVERY_NS: u64 = 60 * S;

/// Whether somebody wants a search to end.
pub trait Stopping: Debug {
    /// Whether it is so.
    fn is_to_stop(&self) -> bool;
}

/// Tells how far a search is, and whether it is to end; on a terminal each picture is written over the one before.
#[derive(Debug)]
pub struct Ticker {
    stop: Box<dyn Stopping>,
    /// Writes a line for people.
    tell: fn(&str),
    target: String,
    quiet: bool,
    terminal: bool,
    began_ns: Option<u64>,
    next_ns: u64,
    /// Lines of the picture that is on the terminal.
    lines: usize,
}

impl Ticker {
    /// Of a search on this target; `tell` writes a line.
    pub fn new(target: String, quiet: bool, stop: Box<dyn Stopping>, tell: fn(&str)) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { stop, tell, target, quiet, terminal, began_ns: None, next_ns: 0, lines: 0 }
    }

    /// Whether somebody wants it to end.
    pub(crate) fn is_to_stop(&self) -> bool {
        self.stop.is_to_stop()
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

    /// Shows how far a search for a limit of idleness or age is, if it is time; when to be called again.
    pub(crate) fn tick(&mut self, now: u64, search: &dyn Search) -> Option<u64> {
        // A start that fails says only why.
        if self.quiet || !search.progress().begun {
            return None;
        }
        let (tell, target) = (self.tell, &self.target);
        let began_ns = *self.began_ns.get_or_insert_with(|| {
            let limit = if search.progress().limit == Limit::Age { "age" } else { "idle" };
            tell(&format!("looking for the {limit} limit of {target}: {}", search.progress().left()));
            now
        });
        let every_ns = if self.terminal { S } else { LINE_EVERY_NS };
        if self.next_ns == 0 {
            self.next_ns = now + every_ns;
        } else if now >= self.next_ns {
            self.next_ns = now + every_ns;
            let line = search.progress().line(now - began_ns);
            if self.terminal {
                let (columns, rows) = size();
                let mut lines = vec![line.chars().take(usize::saturating_sub(columns, 1)).collect()];
                lines.extend(picture(&search.lengths(), columns, usize::saturating_sub(rows, 2)));
                self.over(&lines);
            } else {
                tell(&line);
            }
        }
        Some(self.next_ns)
    }

    /// Shows that the next step of a search for the rate ceiling begins. Nothing is shown while it lasts: a terminal may be slow.
    pub(crate) fn step(&mut self, now: u64, search: &CeilingSearch) {
        if self.quiet {
            return;
        }
        let (tell, target) = (self.tell, &self.target);
        let began_ns = *self.began_ns.get_or_insert_with(|| {
            let steps = count(search.left() as u64, "step");
            tell(&format!(
                "looking for the rate ceiling of {target}: {steps} of 2 s, and those that are tried again"
            ));
            now
        });
        if self.terminal {
            let (columns, rows) = size();
            self.over(&ceiling_picture(search, now - began_ns, columns, rows.saturating_sub(2)));
        }
    }

    /// Tells how a step went.
    pub(crate) fn stepped(&self, step: &CeilingStepped) {
        if !self.quiet && !self.terminal {
            (self.tell)(&CeilingRow::of(step).line());
        }
    }

    /// Takes away what is shown, because it is over.
    pub(crate) fn clear(&mut self) {
        if self.terminal && !self.quiet {
            self.over(&[]);
        }
    }
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    crossterm::terminal::size().map_or((80, 24), |(columns, rows)| (columns.into(), rows.into()))
}
