//! Attempts to connect that failed, and what became of them.

use super::moment::Moment;

/// Attempts to connect that failed one after the other, of one lane or of several side by side.
#[derive(Debug)]
pub(super) struct Tries<'a> {
    pub(super) first: Moment,
    pub(super) last: Moment,
    pub(super) count: u64,
    pub(super) target: &'a str,
    /// Each error, its number and how often.
    pub(super) errors: Vec<(&'a str, Option<i32>, u64)>,
    /// Lanes that have failed and not connected since; `None` is any lane of an older recording.
    trying: Vec<Option<u32>>,
    /// When each lane got its connection at last, and which.
    pub(super) connected: Vec<(Moment, u32)>,
    /// The last failure was final.
    pub(super) gave_up: bool,
}

impl<'a> Tries<'a> {
    pub(super) fn new(at: Moment, target: &'a str) -> Self {
        let (errors, trying, connected) = (Vec::new(), Vec::new(), Vec::new());
        Self { first: at, last: at, count: 0, target, errors, trying, connected, gave_up: false }
    }

    /// Whether some lane is still trying.
    pub(super) fn goes_on(&self) -> bool {
        !self.gave_up && !self.trying.is_empty()
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
        self.count += 1;
        self.gave_up = last;
        if !self.trying.contains(&lane) {
            self.trying.push(lane);
        }
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
