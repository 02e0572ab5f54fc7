//! Attempts to connect that failed, and what became of them.

use super::moment::Moment;

/// Attempts to connect that failed one after the other, of one lane or of several side by side, or that hang.
#[derive(Debug)]
pub(super) struct Tries<'a> {
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) count: u64,
    pub(super) target: &'a str,
    /// They failed in this host, which had sent nothing.
    pub(super) local: bool,
    /// Those that had no answer when they were last counted, and the address of the first.
    pub(super) hanging: Option<(u64, &'a str)>,
    /// Each error, its number and how often.
    pub(super) errors: Vec<(&'a str, Option<i32>, u64)>,
    /// Lanes that have failed and not connected since; `None` is any lane of an older recording.
    trying: Vec<Option<u32>>,
    /// When each lane got its connection at last, and which.
    pub(super) connected: Vec<(Moment, u32)>,
    /// The last failure was final.
    pub(super) gave_up: bool,
    /// Later ones failed for a cause on the other side: in this host, or not in it.
    pub(super) other_cause: bool,
}

impl<'a> Tries<'a> {
    pub(super) fn new(first: Moment, target: &'a str, local: bool) -> Self {
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
    pub(super) fn goes_on(&self) -> bool {
        !self.gave_up && !self.other_cause && !self.trying.is_empty()
    }

    /// Lanes that have no connection yet.
    pub(super) fn unconnected(&self) -> usize {
        self.trying.len()
    }

    pub(super) fn failed(
        &mut self,
        at: Moment,
        lane: Option<u32>,
        error: &'a str,
        errno: Option<i32>,
        last: bool,
    ) {
        self.last = at;
        self.gave_up = last;
        if !self.trying.contains(&lane) {
            self.trying.push(lane);
        }
        self.adds(error, errno);
    }

    /// So many attempts have no answer, each a sample.
    pub(super) fn hang(&mut self, at: Moment, attempts: u64, remote: &'a str) {
        self.last = at;
        self.hanging = Some((attempts, self.hanging.map_or(remote, |(_, first)| first)));
        if !self.trying.contains(&None) {
            self.trying.push(None);
        }
    }

    /// One more failed in this way.
    pub(super) fn adds(&mut self, error: &'a str, errno: Option<i32>) {
        self.count += 1;
        match self.errors.iter_mut().find(|(text, ..)| *text == error) {
            Some((.., n)) => *n += 1,
            None => self.errors.push((error, errno, 1)),
        }
    }

    /// A lane has its connection; nothing to this where it had not failed.
    pub(super) fn connected(&mut self, at: Moment, lane: Option<u32>, connection: u32) {
        if let Some(position) = self.trying.iter().position(|trying| *trying == lane) {
            self.trying.remove(position);
            self.connected.push((at, connection));
        }
    }
}
