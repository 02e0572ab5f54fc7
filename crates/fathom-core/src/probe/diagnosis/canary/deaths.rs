//! Deaths whose explanation waits: for what a canary connection meets, and for the peer report on them. Thousands may die
//! at one moment, so each is found by its number.

use crate::peer_report::{Asked, PeerReport};
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
    /// With what the reflector said, which was asked and came at these times; `after_end`: it was asked when the connection
    /// had ended.
    pub(in crate::probe) fn beside(
        self,
        report: PeerReport,
        (asked_ns, at_ns): (u64, u64),
        after_end: bool,
    ) -> Reported {
        let Self { first_missing, sent } = self;
        Reported { report, asked_ns, at_ns, first_missing, sent, after_end }
    }
}

/// A silence that the reflector is asked about: since when it lasts, and what this end knows then.
#[derive(Debug, Clone, Copy)]
pub(in crate::probe) struct Doubted {
    pub(in crate::probe) since_ns: u64,
    pub(in crate::probe) view: LocalView,
}

impl Doubted {
    /// What the reflector said, if this is the silence that it was asked about: a reply may be held up until another one.
    pub(in crate::probe) fn reported(self, asked: Asked, report: PeerReport, at_ns: u64) -> Option<Reported> {
        let same = asked.silence.is_some_and(|(from_ns, _)| from_ns == self.since_ns);
        same.then(|| self.view.beside(report, (asked.at_ns, at_ns), false))
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
    /// Its last silence, if that was asked about while it was open.
    pub(in crate::probe) doubted: Option<Doubted>,
}

impl Death {
    /// The connection, and when it was silent before its end: from, to.
    pub(super) fn silence(&self) -> (u32, u64, u64) {
        (self.connection, self.facts.from_ns(), self.facts.ended_ns)
    }

    /// Whether this was asked about its end.
    fn is_what_was(&self, asked: Asked) -> bool {
        let (connection, from_ns, to_ns) = self.silence();
        asked.connection == connection && asked.silence == Some((from_ns, to_ns))
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

    /// Brings the reply to the question about a connection to its death, if that waits here (true). One to a question of
    /// before its end leaves it without a reply.
    pub(super) fn take_reply(&mut self, now: u64, asked: Asked, report: Option<PeerReport>) -> bool {
        let Some(death) = self.places.get(&asked.connection).and_then(|&at| self.deaths.get_mut(at)) else {
            return false;
        };
        let after_end = death.is_what_was(asked);
        death.replied |= after_end;
        let reported = report.and_then(|report| match death.doubted {
            _ if after_end => Some(death.view.beside(report, (asked.at_ns, now), true)),
            Some(doubted) => doubted.reported(asked, report, now),
            None => None,
        });
        death.facts.reported = reported.or(death.facts.reported);
        true
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

    /// A question came back: the death it was about, if that is one of these; it is so no more.
    pub(super) fn take(&mut self, asked: Asked) -> Option<Death> {
        let at = self.deaths.iter().position(|death| death.is_what_was(asked))?;
        self.deaths.remove(at)
    }
}
