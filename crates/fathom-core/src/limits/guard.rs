//! Whether a death can be of idleness: what is known of the path and the peer from connections that are not idle.
//!
//! A death counts when every control connection has been answered to a request that was sent a while after it. A silence
//! counts as a death when a control connection was answered to a request of the same moment, and a fresh connection later.

use super::flow::Asked;
use super::plan::S;
use std::collections::{BTreeMap, VecDeque};

/// Connections that are never idle. More than one: of several paths or instances one may fail.
pub(super) const CONTROLS: usize = 2;
/// The control connections are asked this soon after a death at the earliest: what ends all connections may need a moment.
pub(super) const SETTLES_AFTER_NS: u64 = S;
/// They are asked four times within the longest idleness that is known to be survived, and within these.
const RARELY_NS: u64 = S;
const OFTEN_NS: u64 = S / 8;
/// From one fresh connection that failed to the next.
const FRESH_AGAIN_NS: u64 = S;
/// Answers are remembered for so long: longer than a silence is waited for.
const REMEMBERED_NS: u64 = 120 * S;
/// An outage of this length ends the search.
pub(super) const PATIENCE_NS: u64 = 60 * S;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Each control connection, and when the latest of its requests was sent whose echo came.
    controls: BTreeMap<u32, u64>,
    /// Requests on control connections, when they were sent and answered, of the last while.
    answers: VecDeque<(u64, u64)>,
    /// A fresh connection is under way, or is to be opened.
    fresh: bool,
    fresh_not_before_ns: u64,
    /// Since when fresh connections are not answered.
    outage_ns: Option<u64>,
}

/// How often a control connection is asked.
pub(super) fn control_every_ns(survived_ns: u64) -> u64 {
    (survived_ns / 4).clamp(OFTEN_NS, RARELY_NS)
}

impl Guard {
    pub(super) fn control_answered(&mut self, id: u32, sent_ns: u64, now: u64) {
        self.controls.insert(id, sent_ns);
        self.answers.push_back((sent_ns, now));
        while self.answers.front().is_some_and(|(_, came_ns)| came_ns + REMEMBERED_NS < now) {
            self.answers.pop_front();
        }
    }

    /// Whether there are any: of connections that are all in use none is.
    pub(super) fn has_controls(&self) -> bool {
        !self.controls.is_empty()
    }

    /// Whether fresh connections are not answered.
    pub(super) fn is_out(&self) -> bool {
        self.outage_ns.is_some()
    }

    pub(super) fn are_controls_ready(&self) -> bool {
        self.controls.len() >= CONTROLS
    }

    /// Deaths up to this moment count: all control connections have outlived it.
    pub(super) fn settled_ns(&self) -> Option<u64> {
        let answered = self.controls.values().min().filter(|_| self.are_controls_ready())?;
        answered.checked_sub(SETTLES_AFTER_NS)
    }

    /// Whether the path carried a request that was on its way at this moment, without its being sent again, which takes
    /// so long.
    pub(super) fn carried(&self, at_ns: u64, rto_ns: u64) -> bool {
        let around = |&&(sent_ns, came_ns): &&(u64, u64)| sent_ns <= at_ns && at_ns <= came_ns;
        self.answers.iter().filter(around).any(|(sent_ns, came_ns)| came_ns - sent_ns < rto_ns)
    }

    /// Nothing of what was open is any more.
    pub(super) fn forget_connections(&mut self) {
        self.controls.clear();
        self.fresh = false;
    }

    /// When something is due on a request that is not answered: its connection is dead, or a fresh one is to show whether.
    pub(super) fn silence_due_ns(&self, asked: &Asked) -> Option<u64> {
        if asked.looked {
            return None;
        }
        asked.dead_ns().or_else(|| self.fresh_from_ns().map(|from| from.max(asked.doubted_ns())))
    }

    /// When a fresh connection may begin; `None`: one is under way.
    pub(super) fn fresh_from_ns(&self) -> Option<u64> {
        (!self.fresh).then_some(self.fresh_not_before_ns)
    }

    pub(super) fn fresh_begins(&mut self) {
        self.fresh = true;
    }

    /// A fresh connection came to nothing. Whether that is the beginning of an outage.
    pub(super) fn fresh_failed(&mut self, now: u64) -> bool {
        self.fresh = false;
        self.fresh_not_before_ns = now + FRESH_AGAIN_NS;
        let begins = self.outage_ns.is_none();
        self.outage_ns.get_or_insert(now);
        begins
    }

    /// A connection that began, or a request that was sent, at this moment was answered: since when there had been an
    /// outage that is over now.
    pub(super) fn answered(&mut self, sent_ns: u64, is_fresh: bool) -> Option<u64> {
        if is_fresh {
            self.fresh = false;
        }
        self.outage_ns.take_if(|since| is_fresh || sent_ns > *since)
    }

    /// When an outage has lasted for too long.
    pub(super) fn hopeless_ns(&self) -> Option<u64> {
        self.outage_ns.map(|since| since + PATIENCE_NS)
    }
}
