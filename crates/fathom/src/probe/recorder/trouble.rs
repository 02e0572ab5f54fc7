//! Why what is recorded of a path is incomplete, over all recordings of a run.

use fathom_recording::Gaps;

/// What stopped a recording stays, whatever another has to tell: a recording before it that is closed late, say.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// The first error that ended a recording, or the run.
    stopped: Option<String>,
    /// What there was no room for, until a recording goes on.
    full: Option<String>,
    /// The recording that is being written waits for room.
    waits: bool,
    /// What full disks have cost the recordings that are being written or closed, by their ids, and those that have been closed.
    open: Vec<(String, Gaps)>,
    closed: Gaps,
}

impl Trouble {
    /// Nothing: it is complete so far.
    pub(super) fn in_words(&self) -> Option<String> {
        let gaps = || self.open.iter().fold(self.closed, |sum, (_, gaps)| sum.and(*gaps));
        self.stopped.clone().or_else(|| self.full.clone()).or_else(|| gaps().in_words())
    }

    /// Whether the recording that is being written waits for room.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// The recording waits for room, which may end the run; false: that is known already.
    pub(super) fn wait(&mut self, error: String, ends_the_run: bool) -> bool {
        if std::mem::replace(&mut self.waits, true) {
            return false;
        }
        if ends_the_run {
            // It is over, whatever room there is later.
            self.stopped.get_or_insert(error);
        } else {
            self.full = Some(error);
        }
        true
    }

    /// There was room again; the recording that is being written waits or does not.
    pub(super) fn went_on(&mut self, waits: bool) {
        if !waits {
            (self.waits, self.full) = (false, None);
        }
    }

    /// Another recording follows, which waits or does not.
    pub(super) fn followed(&mut self, waits: bool) {
        self.waits &= waits;
    }

    /// It is over; false: that, or what led to it, is known already. The first error says what happened, later ones follow from it.
    pub(super) fn stop(&mut self, error: String) -> bool {
        if self.stopped.is_some() {
            return false;
        }
        let first = self.full.take_if(|_| self.waits);
        let is_new = first.is_none();
        self.stopped = Some(first.unwrap_or(error));
        is_new
    }

    /// What full disks have cost the recording of this id so far.
    pub(super) fn gaps(&mut self, id: &str, gaps: Gaps) {
        self.open.retain(|(other, _)| other != id);
        if gaps != Gaps::default() {
            self.open.push((id.to_owned(), gaps));
        }
    }

    /// What they have cost one that is closed.
    pub(super) fn closed(&mut self, id: &str, gaps: Gaps) {
        self.gaps(id, Gaps::default());
        self.closed = self.closed.and(gaps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(rows: u64) -> Gaps {
        Gaps { rows, waited_ns: 1_000_000_000, ..Gaps::default() }
    }

    /// A recording that had waited for room and lost nothing was closed late: it took the error of the one after it away.
    #[test]
    fn late_recovery_does_not_clear_newer_error() {
        let mut trouble = Trouble::default();
        assert!(trouble.wait("no room".to_owned(), false));
        trouble.followed(false);
        assert!(trouble.stop("the disk is gone".to_owned()), "another recording, and another error");
        trouble.closed("a", Gaps::default());
        trouble.went_on(false);
        assert_eq!(trouble.in_words().as_deref(), Some("the disk is gone"));
        assert!(!trouble.stop("and so is this".to_owned()));
        assert_eq!(trouble.in_words().as_deref(), Some("the disk is gone"));
    }

    /// The first lost 5,000 rows, and the second none: nothing was missing then.
    #[test]
    fn what_recordings_lack_adds_up_over_the_run() {
        let mut trouble = Trouble::default();
        for (id, rows) in [("a", 5_000), ("b", 0), ("c", 7)] {
            trouble.wait("no room".to_owned(), false);
            trouble.gaps(id, gaps(rows));
            trouble.went_on(false);
            trouble.followed(false);
            // The same again when it is closed.
            if id != "c" {
                trouble.closed(id, gaps(rows));
            }
        }
        let words = trouble.in_words().expect("it is incomplete");
        assert!(words.starts_with("5007 samples without a row") && words.ends_with(" for 3s"), "{words}");
    }

    #[test]
    fn freed_space_does_not_revive_ended_run() {
        let mut trouble = Trouble::default();
        assert!(trouble.wait("no room".to_owned(), true));
        assert!(!trouble.wait("no room".to_owned(), true));
        trouble.went_on(false);
        assert_eq!(trouble.in_words().as_deref(), Some("no room"));
    }

    #[test]
    fn full_disk_stays_reported_cause_until_recovery() {
        let mut trouble = Trouble::default();
        trouble.wait("no room".to_owned(), false);
        assert!(!trouble.stop("it cannot be ended".to_owned()), "it is known");
        assert_eq!(trouble.in_words().as_deref(), Some("no room"));
        let mut healthy = Trouble::default();
        healthy.wait("no room".to_owned(), false);
        healthy.went_on(false);
        assert_eq!(healthy.in_words(), None);
    }
}
