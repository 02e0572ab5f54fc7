//! Which way datagrams were lost, by the reflector's count.
//!
//! A stateful reflector counts the datagrams that it answers and writes the count into each echo (STAMP: RFC 8762,
//! section 4.3.1; ours: `frames` of the frame's header). Between two echoes that came back, of samples a < b with counts i < j, there were b - a - 1 other samples
//! and j - i - 1 other answers: an answer that did not come was lost on the way back, and a sample that no answer is
//! left over for was lost on the way there.
//!
//! What cannot be known stays unknown: what was lost after the last echo that came (it may still be under way), what
//! was lost around a restart of the reflector, and everything against a reflector that does not count. An answer more
//! than there are samples missing is that of a datagram that the network had doubled or that overtook others; as many
//! losses near it are unknown too. One thing is taken for granted: that a sample that is lost had not overtaken the
//! last echo that came.
//!
//! Samples are told in the order of their numbers, each when its fate is final, so that memory is bounded.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Counts of datagrams, over a connection or a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Losses {
    /// Lost on the way to the reflector, or refused by it.
    pub forward: u64,
    /// Answered by the reflector, and lost on the way back.
    pub backward: u64,
    /// Lost, and nobody can say where.
    pub unknown: u64,
    /// Echoes that came again.
    pub duplicates: u64,
    /// Echoes that came after that of a sample sent later (RFC 4737, section 3.3).
    pub reordered: u64,
}

impl Losses {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another part of the run lost.
    pub fn add(&mut self, more: Self) {
        self.forward += more.forward;
        self.backward += more.backward;
        self.unknown += more.unknown;
        self.duplicates += more.duplicates;
        self.reordered += more.reordered;
    }
}

/// What became of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its echo came, with the count of those that the reflector had answered before it, which wraps at 2^32.
    Counted(u32),
    /// Its echo came, and this reflector does not count.
    NotCounted,
    /// Its echo came, and its count cannot be read.
    Damaged,
    /// No echo came.
    Lost,
    /// It is too short for a count; its echo came, or not.
    TooShort {
        /// Whether it was lost.
        lost: bool,
    },
}

/// Whether the count is one, where the reflector may also repeat the sample's own number (RFC 8762, section 4: a
/// stateless Session-Reflector).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reflector {
    /// It counts.
    #[default]
    Stateful,
    /// It may count or repeat: it counts as soon as a count is not the sample's number, and until then every direction
    /// is unknown.
    Unsure,
    /// It repeats.
    Stateless,
}

/// Samples from one whose count is the highest so far, exclusive, to the next such, inclusive.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// The highest count in it; the span before has the one that its own counts lie above.
    to: i64,
    /// Answers whose counts lie in it and that came.
    came: u64,
    /// Samples in it without an echo.
    missing: u64,
}

/// Spans that later samples, which the network overtook, may still join.
const SPANS: usize = 64;
/// Samples whose counts are remembered, to tell an echo that was doubled on the way back from its sample that was
/// doubled on the way there.
const REMEMBERED: usize = 256;

/// Follows one connection.
#[derive(Debug, Default)]
pub struct Attribution {
    reflector: Reflector,
    spans: VecDeque<Span>,
    /// The highest count before the first span; -1 at the beginning.
    floor: Option<i64>,
    /// Samples lost since the last echo that came.
    pending: u64,
    /// Of the samples since the last echo with a count, those whose answer came without one that can be read.
    uncounted: u64,
    /// Answers that have no sample; negative: lost samples that took theirs from spans that are still open.
    surplus: i64,
    /// Counts of doubled samples that no span reaches yet.
    extra: BTreeSet<i64>,
    remembered: VecDeque<(u64, i64)>,
    told_seq: u64,
    highest_come: Option<u64>,
    /// What is known and not taken; directions that wait for a proof that the reflector counts.
    known: Losses,
}

impl Attribution {
    /// At the beginning of a connection to such a reflector.
    pub fn new(reflector: Reflector) -> Self {
        Self { reflector, floor: Some(-1), ..Self::default() }
    }

    /// An echo came, the first of its sample.
    pub fn came(&mut self, seq: u64) {
        self.known.reordered += u64::from(self.highest_come.is_some_and(|highest| seq < highest));
        self.highest_come = self.highest_come.max(Some(seq));
    }

    /// An echo of a sample came again; `first`: the count of the one before, where it is still known.
    pub fn came_again(&mut self, seq: u64, count: Option<u32>, first: Option<u32>) {
        self.known.duplicates += 1;
        let Some(count) = count.map(|count| self.unwrap(count)) else { return };
        let remembered = || self.remembered.iter().find(|(of, _)| *of == seq).map(|(_, count)| *count);
        let first = first.map(|first| self.unwrap(first)).or_else(remembered);
        // The same count twice: it was the echo that was doubled.
        if first.is_none_or(|first| first == count) {
            return;
        }
        if self.last().is_none_or(|last| count > last) {
            if self.extra.len() < REMEMBERED {
                self.extra.insert(count);
            }
        } else if let Some(at) = self.span_of(count) {
            self.spans[at].came += 1;
        }
    }

    /// What became of the next sample. They are told in the order of their numbers.
    pub fn settled(&mut self, fate: Fate) {
        match fate {
            Fate::Lost => self.pending += 1,
            Fate::Damaged => self.uncounted += 1,
            Fate::TooShort { lost } => self.known.unknown += u64::from(lost),
            Fate::NotCounted => self.begin_anew(None),
            Fate::Counted(count) => {
                let count = self.unwrap(count);
                if self.reflector == Reflector::Unsure && count != self.told_seq as i64 {
                    self.reflector = Reflector::Stateful;
                }
                self.remembered.push_back((self.told_seq, count));
                if self.remembered.len() > REMEMBERED {
                    self.remembered.pop_front();
                }
                self.counted(count);
            }
        }
        self.told_seq += 1;
    }

    /// The connection is over, and so is every doubt that could be removed.
    pub fn finish(&mut self) {
        self.begin_anew(None);
        if self.reflector == Reflector::Unsure {
            self.reflector = Reflector::Stateless;
        }
    }

    /// What has become known since this was last asked.
    pub fn take(&mut self) -> Losses {
        let mut known = std::mem::take(&mut self.known);
        match self.reflector {
            Reflector::Stateful => {}
            Reflector::Unsure => {
                let Losses { forward, backward, unknown, .. } = known;
                self.known = Losses { forward, backward, unknown, ..Losses::default() };
                known =
                    Losses { duplicates: known.duplicates, reordered: known.reordered, ..Losses::default() };
            }
            Reflector::Stateless => {
                known.unknown += std::mem::take(&mut known.forward) + std::mem::take(&mut known.backward);
            }
        }
        known
    }

    /// Whether the reflector is known to count. One that repeats the sample's own number seems to have received all.
    pub fn is_counted(&self) -> bool {
        self.reflector == Reflector::Stateful
    }

    /// The highest count so far.
    fn last(&self) -> Option<i64> {
        self.spans.back().map(|span| span.to).or(self.floor)
    }

    /// The count that has these low 32 bits and is nearest to the highest.
    fn unwrap(&self, count: u32) -> i64 {
        let last = self.last().unwrap_or(i64::from(count));
        last + i64::from(count.wrapping_sub(last as u32) as i32)
    }

    /// The span in whose range a count lies.
    fn span_of(&self, count: i64) -> Option<usize> {
        let at = self.spans.partition_point(|span| span.to < count);
        (at < self.spans.len() && self.floor.is_some_and(|floor| count > floor)).then_some(at)
    }

    fn counted(&mut self, count: i64) {
        let Some(last) = self.last() else {
            self.begin_anew(Some(count));
            return;
        };
        let more = std::mem::take(&mut self.uncounted) + 1;
        if count > last {
            // More answers than samples so far: it does not count this connection alone, from its beginning.
            if self.spans.is_empty() && self.floor == Some(-1) && count > self.told_seq as i64 + DOUBLED {
                return self.begin_anew(Some(count));
            }
            let later = self.extra.split_off(&(count + 1));
            let extra =
                std::mem::replace(&mut self.extra, later).into_iter().filter(|&c| c > last && c < count);
            let came = more + extra.count() as u64;
            self.spans.push_back(Span { to: count, came, missing: std::mem::take(&mut self.pending) });
            if self.spans.len() > SPANS {
                self.fold();
            }
            return;
        }
        // It was overtaken: all from the span that its count lies in are one.
        let joined = self.span_of(count).map(|at| {
            let (mut came, mut missing) = (more, self.pending);
            for span in self.spans.range(at..) {
                came += span.came;
                missing += span.missing;
            }
            let from = if at == 0 { self.floor.unwrap_or(-1) } else { self.spans[at - 1].to };
            (at, Span { to: last, came, missing }, from)
        });
        match joined {
            // A count that cannot be there again: the reflector began anew, or another one answers.
            Some((_, joined, from)) if joined.came as i64 > joined.to - from => self.begin_anew(Some(count)),
            None => self.begin_anew(Some(count)),
            Some((at, joined, _)) => {
                self.pending = 0;
                self.spans.truncate(at);
                self.spans.push_back(joined);
            }
        }
    }

    /// Ends what the counts so far say; the next ones follow `floor`.
    fn begin_anew(&mut self, floor: Option<i64>) {
        while !self.spans.is_empty() {
            self.fold();
        }
        self.known.unknown += std::mem::take(&mut self.pending);
        (self.floor, self.uncounted, self.surplus) = (floor, 0, 0);
        self.extra.clear();
    }

    /// The oldest span is final.
    fn fold(&mut self) {
        let (Some(span), Some(floor)) = (self.spans.pop_front(), self.floor) else { return };
        let unseen = answers_missing(span, floor);
        let backward = unseen.min(span.missing);
        let forward = span.missing - backward;
        self.surplus += (unseen - backward) as i64;
        let mut ahead = self.surplus;
        let mut from = span.to;
        for open in &self.spans {
            ahead += answers_missing(*open, from).saturating_sub(open.missing) as i64;
            from = open.to;
        }
        let doubtful = forward.min(ahead.max(0) as u64);
        self.surplus -= doubtful as i64;
        self.floor = Some(span.to);
        self.known.backward += backward;
        self.known.forward += forward - doubtful;
        self.known.unknown += doubtful;
    }
}

/// The first count may exceed the sample's number by so many that were doubled before it.
const DOUBLED: i64 = 4;

/// Answers in a span that did not come.
fn answers_missing(span: Span, from: i64) -> u64 {
    ((span.to - from) as u64).saturating_sub(span.came)
}

#[cfg(test)]
mod tests;
