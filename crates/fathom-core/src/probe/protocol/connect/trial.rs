//! The trial of a name with several addresses: one after another is tried until one answers, as a lane does for its
//! first connection. Then the schedule begins. A trial is no sample. If no address answers, the schedule begins all the
//! same, and measures that.

use super::{Dial, Dialer};
use crate::event::EventKind;
use crate::probe::context::Context;
use crate::probe::io::LinkId;
use crate::probe::path::Path;

/// Progress of the trial.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Number of addresses tried.
    made: u32,
    /// True once an address answered, or none is left.
    over: bool,
    /// True if the schedule waits for the trial, and may begin now.
    ready: bool,
}

impl Dialer {
    /// True if the schedule has to wait for an address that answers; tries one then.
    pub(in crate::probe) fn awaits_address(&mut self, now: u64, path: &mut Path, cx: &mut Context) -> bool {
        if self.trial.made == 0 && path.addresses.are_to_be_tried() {
            self.try_next(now, path, cx);
        }
        self.trial.made > 0 && !self.trial.over
    }

    /// Returns true once: the schedule waited for an address, and may begin.
    pub(in crate::probe) fn has_address(&mut self) -> bool {
        std::mem::take(&mut self.trial.ready) && !self.is_done()
    }

    fn try_next(&mut self, now: u64, path: &mut Path, cx: &mut Context) {
        let Some(remote) = path.addresses.current() else { return };
        self.trial.made += 1;
        let (target, text, attempt) = (path.target().to_owned(), remote.to_string(), self.trial.made);
        let kind = EventKind::ConnectionOpening { target, remote: text, attempt, lane: None };
        cx.event(now, Some(self.path), None, kind);
        self.connect(Dial { is_trial: true, ..Dial::to(remote, now) }, false, cx);
        self.look_by(now.saturating_add(path.stall_threshold_ns(cx)), cx);
    }

    /// Notes that the address answers.
    pub(super) fn trial_answered(&mut self, now: u64, link: LinkId, cx: &mut Context) {
        if let Some(dial) = self.dials.get_mut(&link) {
            dial.done_ns = Some(now);
        }
        self.hanging.answered(now);
        (self.trial.over, self.trial.ready) = (true, true);
        Self::shut_down(now, link, cx);
    }

    /// Notes that the address does not answer: the next one has its turn.
    pub(super) fn trial_failed(
        &mut self,
        now: u64,
        dial: &Dial,
        told: (Option<i32>, String, bool),
        path: &mut Path,
        cx: &mut Context,
    ) {
        let another = path.addresses.failed(dial.remote) && self.drain_ns.is_none() && !self.over;
        self.refused(now, Some(dial), told, another.then_some(0), path, cx);
        if another {
            self.try_next(now, path, cx);
        } else {
            (self.trial.over, self.trial.ready) = (true, true);
            self.one_ended(now, path, cx);
        }
    }
}
