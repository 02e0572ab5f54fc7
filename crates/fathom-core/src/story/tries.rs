//! Attempts to connect that failed, and what became of them.

use super::moment::Moment;

/// All attempts to connect that failed or hang, grouped in rows.
#[derive(Debug, Default)]
pub(super) struct AllTries<'a> {
    rows: Vec<Tries<'a>>,
    /// The last established connection, and its time.
    last_opened: Option<(Moment, u32)>,
}

/// A failed attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failed<'a> {
    pub(super) target: &'a str,
    pub(super) error: &'a str,
    pub(super) errno: Option<i32>,
    pub(super) lane: Option<u32>,
    /// True if it failed in this host, which had sent nothing.
    pub(super) local: bool,
    /// True if no further attempt follows.
    pub(super) last: bool,
}

impl<'a> AllTries<'a> {
    pub(super) fn rows(&self) -> &[Tries<'a>] {
        &self.rows
    }

    /// Notes the failure of an attempt that began at this time.
    pub(super) fn failed(&mut self, began: Moment, at: Moment, one: Failed<'a>) {
        let Some((opened, id)) = self.last_opened.filter(|(opened, _)| opened.mono_ns > began.mono_ns) else {
            return self.row(began, one.target, one.local).failed(at, one);
        };
        // Another connection was made before this attempt failed, so it belongs to the row in which it began.
        let of_it = |row: &&mut Tries<'_>| row.first.mono_ns <= began.mono_ns;
        if let Some(row) = self.rows.iter_mut().rev().find(of_it) {
            return row.adds(one.error, one.errno);
        }
        let row = self.rows.push_mut(Tries::new(began, one.target, one.local));
        row.failed(at, one);
        row.connected(opened, one.lane, id);
    }

    /// Notes the number of unanswered attempts, the first of which began at this time.
    pub(super) fn hang(&mut self, began: Moment, at: Moment, target: &'a str, first: (u64, &'a str)) {
        self.row(began, target, false).hang(at, first);
    }

    /// Notes that a lane has its connection.
    pub(super) fn connected(&mut self, at: Moment, lane: Option<u32>, id: u32) {
        self.last_opened = Some((at, id));
        if let Some(row) = self.rows.last_mut() {
            row.connected(at, lane, id);
        }
    }

    /// The current row, in this host or not; a new one if there is none.
    fn row(&mut self, began: Moment, target: &'a str, local: bool) -> &mut Tries<'a> {
        let last = self.rows.last_mut().filter(|row| row.goes_on());
        if last.as_ref().is_none_or(|row| row.local != local) {
            if let Some(before) = last {
                before.other_cause = true;
            }
            self.rows.push(Tries::new(began, target, local));
        }
        let at = self.rows.len() - 1;
        &mut self.rows[at]
    }
}

/// A row of attempts to connect that failed or hang, of one lane or of several side by side.
#[derive(Debug)]
pub(super) struct Tries<'a> {
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) count: u64,
    pub(super) target: &'a str,
    /// True if they failed in this host, which had sent nothing.
    pub(super) local: bool,
    /// Number of unanswered attempts at the last count, and the address of the first.
    pub(super) hanging: Option<(u64, &'a str)>,
    /// Each error, its number and how often.
    pub(super) errors: Vec<(&'a str, Option<i32>, u64)>,
    /// Lanes that have failed and not connected since; `None` is any lane of an older recording.
    trying: Vec<Option<u32>>,
    /// When each lane got its connection at last, and which.
    pub(super) connected: Vec<(Moment, u32)>,
    /// The last failure was final.
    pub(super) gave_up: bool,
    /// True if later attempts failed for a cause on the other side: in this host, or outside it.
    pub(super) other_cause: bool,
}

impl<'a> Tries<'a> {
    fn new(first: Moment, target: &'a str, local: bool) -> Self {
        Self {
            first,
            last: first,
            count: 0,
            target,
            local,
            hanging: None,
            errors: Vec::new(),
            trying: Vec::new(),
            connected: Vec::new(),
            gave_up: false,
            other_cause: false,
        }
    }

    /// Whether some lane is still trying.
    fn goes_on(&self) -> bool {
        !self.gave_up && !self.other_cause && !self.trying.is_empty()
    }

    /// Lanes that have no connection yet.
    pub(super) fn unconnected(&self) -> usize {
        self.trying.len()
    }

    fn failed(&mut self, at: Moment, one: Failed<'a>) {
        self.last = at;
        self.gave_up = one.last;
        if !self.trying.contains(&one.lane) {
            self.trying.push(one.lane);
        }
        self.adds(one.error, one.errno);
    }

    /// So many attempts have no answer, each a sample.
    fn hang(&mut self, at: Moment, (attempts, remote): (u64, &'a str)) {
        self.last = at;
        self.hanging = Some((attempts, self.hanging.map_or(remote, |(_, first)| first)));
        if !self.trying.contains(&None) {
            self.trying.push(None);
        }
    }

    /// Adds a failure of the same kind.
    fn adds(&mut self, error: &'a str, errno: Option<i32>) {
        self.count += 1;
        match self.errors.iter_mut().find(|(text, ..)| *text == error) {
            Some((.., n)) => *n += 1,
            None => self.errors.push((error, errno, 1)),
        }
    }

    /// A lane has its connection; nothing to this where it had not failed.
    fn connected(&mut self, at: Moment, lane: Option<u32>, connection: u32) {
        if let Some(position) = self.trying.iter().position(|trying| *trying == lane) {
            self.trying.remove(position);
            self.connected.push((at, connection));
        }
    }
}
