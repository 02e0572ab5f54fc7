//! Deaths whose explanation waits: for what a canary connection meets, and for the peer report on them. Thousands may die
//! at one moment, so each is found by its number.

use crate::peer_report::PeerReport;
use crate::verdict::{Facts, Reported};
use std::collections::{BTreeMap, VecDeque};

/// Deaths remembered until the reflector can be asked about them.
const REMEMBERED: usize = 256;

/// What this end knows of a connection when the reflector is asked about it.
#[derive(Debug, Clone, Copy)]
pub(in crate::probe) struct LocalView {
    pub(in crate::probe) first_missing: u64,
    pub(in crate::probe) sent: u64,
}

impl LocalView {
    /// With what the reflector said, which came at `at_ns`; `after_end`: it was asked when the connection had ended.
    pub(in crate::probe) fn beside(self, report: PeerReport, at_ns: u64, after_end: bool) -> Reported {
        let Self { first_missing, sent } = self;
        Reported { report, at_ns, first_missing, sent, after_end }
    }
}

/// A death whose explanation waits for the canary, or for the peer report.
#[derive(Debug)]
pub(in crate::probe) struct Death {
    pub(in crate::probe) connection: u32,
    pub(in crate::probe) facts: Facts,
    pub(in crate::probe) view: LocalView,
    /// Of the sample that was missed.
    pub(in crate::probe) size: u32,
    /// Whether the question about it came back, answered or not.
    pub(in crate::probe) replied: bool,
    /// A question about it, which was asked while it was open, is still to come back.
    pub(in crate::probe) asked_before: bool,
}

impl Death {
    /// The connection, and when it was silent before its end: from, to.
    pub(super) fn silence(&self) -> (u32, u64, u64) {
        (self.connection, self.facts.from_ns(), self.facts.ended_ns)
    }
}

/// Deaths in their order, which are all explained at once.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    deaths: Vec<Death>,
    /// Where the death of a connection is among them.
    places: BTreeMap<u32, usize>,
}

impl Waiting {
    pub(super) fn add(&mut self, death: Death) {
        self.places.insert(death.connection, self.deaths.len());
        self.deaths.push(death);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deaths.is_empty()
    }

    /// The connections that died, and when each was silent before: from, to.
    pub(super) fn silences(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        self.deaths.iter().map(Death::silence)
    }

    /// Brings the reply to the question about a connection: its death, if that waits here. One to a question of before its
    /// end leaves it without a reply.
    pub(super) fn take_reply(
        &mut self,
        now: u64,
        connection: u32,
        report: Option<PeerReport>,
    ) -> Option<&Death> {
        let death = self.places.get(&connection).and_then(|&at| self.deaths.get_mut(at))?;
        let after_end = !std::mem::take(&mut death.asked_before);
        death.replied = after_end;
        let reported = report.map(|report| death.view.beside(report, now, after_end));
        death.facts.reported = reported.or(death.facts.reported);
        Some(death)
    }

    /// Takes them all.
    pub(super) fn take(&mut self) -> Vec<Death> {
        self.places.clear();
        std::mem::take(&mut self.deaths)
    }
}

/// Deaths that are explained, and that the reflector could not be asked about yet: the latest of them.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    deaths: VecDeque<Death>,
}

impl Unreported {
    pub(super) fn add(&mut self, death: Death) {
        if self.deaths.len() == REMEMBERED {
            self.deaths.pop_front();
        }
        self.deaths.push_back(death);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deaths.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.deaths.clear();
    }

    /// The connections that died, and when each was silent before: from, to.
    pub(super) fn silences(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        self.deaths.iter().map(Death::silence)
    }

    /// The question about a connection came back: its death, if it is one of these; it is so no more.
    pub(super) fn take(&mut self, connection: u32) -> Option<Death> {
        let at = self.deaths.iter().position(|death| death.connection == connection)?;
        self.deaths.remove(at)
    }
}
