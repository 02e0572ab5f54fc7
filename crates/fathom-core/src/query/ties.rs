//! Waits that hardly were any: this side was as slow as whom it waited for, so that either may have held up the other. Which they are
//! depends on when a wait began and ended, of which it knows no more than how late it may have been to see it.

use super::attribute::Tie;

/// A wait of less than this share of what was done before it may be chance.
const TIE: u64 = 20;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Ties {
    /// For later bytes that have not come.
    waited_ns: u64,
    /// What this side was busy with before it.
    hidden_ns: u64,
    /// Of both, where it was hardly a wait.
    tie: Tie,
    /// Of waits whose end is not known, what lies between the earliest and the latest; and for how long in all this side ran late at
    /// most.
    unwoken_ns: u64,
    late_within_ns: u64,
    /// So of the wait before: what lies between would be part of what was done before the next.
    unwoken_before_ns: u64,
    /// Waits that were no ties as they were told, and such lateness may make some: each, with what was done before it; in all; and the
    /// most of that which an ns of lateness makes a tie.
    latest: Option<(u64, u64)>,
    untied_ns: u64,
    untied_by_late: f64,
}

impl Ties {
    pub(super) fn new() -> Self {
        Self {
            waited_ns: 0,
            hidden_ns: 0,
            tie: Tie::default(),
            unwoken_ns: 0,
            late_within_ns: u64::MAX,
            unwoken_before_ns: 0,
            latest: None,
            untied_ns: 0,
            untied_by_late: 0.0,
        }
    }

    /// Later bytes were waited for so long, and more.
    pub(super) fn waited(&mut self, ns: u64) {
        self.waited_ns += ns;
    }

    /// For how long it has been waited for bytes that have not come.
    pub(super) fn waiting_ns(&self) -> u64 {
        self.waited_ns
    }

    /// A wait follows, before which this side was busy for so long. It may be told of in pieces.
    pub(super) fn hid(&mut self, ns: u64) {
        self.hidden_ns = if ns > 0 { ns } else { self.hidden_ns };
    }

    /// A read begins to be told of.
    pub(super) fn reads(&mut self) {
        self.latest = None;
    }

    /// It gave bytes, which were waited for or not: for how long.
    pub(super) fn came(&mut self, was_wait: bool) -> u64 {
        let waited_ns = std::mem::take(&mut self.waited_ns);
        if was_wait {
            let hidden_ns = std::mem::take(&mut self.hidden_ns);
            // Such a wait may be chance: this side was as slow as whom it waited for.
            if waited_ns.saturating_mul(TIE) < hidden_ns {
                self.tie.waited_ns += waited_ns;
                self.tie.hidden_ns += hidden_ns;
            } else {
                self.latest = Some((waited_ns, hidden_ns));
            }
        }
        waited_ns
    }

    /// The wait ended, so much earlier perhaps; and the one before it may have, so that more was done between the two. Notes what makes
    /// it chance, where something of that can.
    pub(super) fn woke(&mut self, unwoken_ns: u64) {
        self.unwoken_ns += unwoken_ns;
        let before_ns = std::mem::replace(&mut self.unwoken_before_ns, unwoken_ns);
        let Some((waited_ns, hidden_ns)) = self.latest.take() else { return };
        // An ns less of the wait does as much as `TIE` more of what was done.
        let shorter_ns = (waited_ns - hidden_ns / TIE).min(unwoken_ns);
        let longer_ns = (waited_ns - shorter_ns).saturating_mul(TIE).saturating_sub(hidden_ns);
        if longer_ns <= before_ns {
            let (tied_ns, late_ns) = (waited_ns + hidden_ns + longer_ns, shorter_ns + longer_ns);
            self.untied_ns += tied_ns;
            self.untied_by_late = self.untied_by_late.max(tied_ns as f64 / late_ns.max(1) as f64);
        }
    }

    /// This side could run and had to wait for a processor for no longer in all.
    pub(super) fn late_within(&mut self, ns: u64) {
        self.late_within_ns = ns;
    }

    /// For how long it ran late, at most.
    pub(super) fn late_ns(&self) -> u64 {
        self.unwoken_ns.min(self.late_within_ns)
    }

    /// All of them, with those that such lateness makes.
    pub(super) fn all(&self) -> Tie {
        let tied_ns = self.untied_ns.min((self.late_ns() as f64 * self.untied_by_late) as u64);
        Tie { waited_ns: self.tie.waited_ns.saturating_add(tied_ns), ..self.tie }
    }
}
