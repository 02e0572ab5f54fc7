//! Whose turn it is to connect: so many lanes at one time, and so many attempts a second in the whole process, in the
//! order in which lanes asked. Thousands of connections that were lost together so come back one after another, and
//! do not overrun a server that has just risen.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Connections being established at one time: a thousand SYNs at once would overflow the peer's queue and come back
/// as retransmissions in our own figures.
const AT_ONCE: usize = 128;
const SECOND_NS: u64 = 1_000_000_000;
/// So much of a second's attempts may come at once after a while without any.
const BURST_NS: u64 = SECOND_NS / 10;

/// When the next attempt of the process may begin: shared by the threads of a run.
pub(super) type NextTurn = Arc<AtomicU64>;

/// Lanes take turns at connecting. Each lane that asks is admitted at once, or by [`Openings::next`] later.
#[derive(Debug)]
pub(super) struct Openings {
    at_work: usize,
    waiting: VecDeque<usize>,
    /// The lane that [`Openings::next`] has just named.
    named: Option<usize>,
    pace: Option<Pace>,
    /// The time for which a wake-up was asked for last.
    woken_at_ns: Option<u64>,
}

/// The ceiling on attempts a second.
#[derive(Debug)]
struct Pace {
    interval_ns: u64,
    next_turn: NextTurn,
    /// The turn that this thread has taken and not used: it waits for its time, or for a lane. With one a thread, no
    /// thread starves another.
    turn_ns: Option<u64>,
}

impl Pace {
    fn has_turn(&mut self, now: u64) -> bool {
        let (shared, interval_ns) = (&self.next_turn, self.interval_ns);
        let take = || {
            let earliest = now.saturating_sub(BURST_NS);
            let after = |next: u64| Some(next.max(earliest).saturating_add(interval_ns));
            let before = shared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
            before.unwrap_or_else(|next| next).max(earliest)
        };
        *self.turn_ns.get_or_insert_with(take) <= now
    }
}

/// How long so many attempts take at this rate, beyond what may come at once.
pub(super) fn longest_ns(attempts: usize, a_second: Option<u32>) -> u64 {
    let evenly = a_second.map_or(0, |rate| attempts as u64 * interval_ns(rate));
    evenly.saturating_sub(BURST_NS)
}

fn interval_ns(a_second: u32) -> u64 {
    SECOND_NS / u64::from(a_second.max(1))
}

impl Openings {
    /// With a ceiling on attempts a second of all threads that share `next_turn`; `None`: there is none.
    pub(super) fn new(a_second: Option<u32>, next_turn: NextTurn) -> Self {
        let pace = a_second.map(|rate| Pace { interval_ns: interval_ns(rate), next_turn, turn_ns: None });
        Self { at_work: 0, waiting: VecDeque::new(), named: None, pace, woken_at_ns: None }
    }

    /// Whether a lane may begin now; otherwise its turn comes.
    pub(super) fn admit(&mut self, lane: usize, now: u64) -> bool {
        let named = self.named.take() == Some(lane);
        // None overtakes those who wait.
        let admitted = named || self.waiting.is_empty() && self.may_begin(now);
        if !admitted {
            self.waiting.push_back(lane);
        }
        admitted
    }

    fn may_begin(&mut self, now: u64) -> bool {
        self.at_work < AT_ONCE && self.pace.as_mut().is_none_or(|pace| pace.has_turn(now))
    }

    /// The lane that was admitted has begun an attempt. (It may have had to wait for its name instead: then another has
    /// its turn.)
    pub(super) fn began(&mut self) {
        self.at_work += 1;
        if let Some(pace) = &mut self.pace {
            pace.turn_ns = None;
        }
    }

    /// An attempt is over, however it ended.
    pub(super) fn ended(&mut self) {
        self.at_work -= 1;
    }

    /// The next lane whose turn has come. It asks again and is admitted.
    pub(super) fn next(&mut self, now: u64) -> Option<usize> {
        self.named = None;
        if !self.waiting.is_empty() && self.may_begin(now) {
            self.named = self.waiting.pop_front();
        }
        self.named
    }

    /// After [`Openings::next`] had no lane to name: when to ask it again, where only time is missing and nobody was told
    /// so before. In other cases the end of an attempt is what makes room.
    pub(super) fn wake_at(&mut self) -> Option<u64> {
        if self.waiting.is_empty() || self.at_work >= AT_ONCE {
            return None;
        }
        let turn_ns = self.pace.as_ref().and_then(|pace| pace.turn_ns);
        turn_ns.filter(|_| std::mem::replace(&mut self.woken_at_ns, turn_ns) != turn_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::{BTreeSet, BinaryHeap};

    const MS: u64 = 1_000_000;

    /// What happens to a thread's lanes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Happens {
        /// A lane wants to connect, of so many attempts.
        Wants(usize),
        /// An attempt is over.
        Over,
        /// The wake-up that was asked for.
        Wake,
    }

    /// A run of threads that share a ceiling: when each attempt began, and by which lane of which thread.
    struct Run {
        threads: Vec<Openings>,
        queue: BinaryHeap<Reverse<(u64, usize, Happens)>>,
        began: Vec<(u64, usize, usize)>,
        asked: Vec<Vec<usize>>,
        takes_ns: u64,
        late_ns: u64,
    }

    impl Run {
        fn play(mut self) -> Self {
            while let Some(Reverse((at, thread, what))) = self.queue.pop() {
                match what {
                    Happens::Wants(lane) => {
                        self.asked[thread].push(lane);
                        self.open(at, thread, lane);
                    }
                    Happens::Over => self.threads[thread].ended(),
                    Happens::Wake => {}
                }
                // What a probe does after every input.
                while let Some(lane) = self.threads[thread].next(at) {
                    self.open(at, thread, lane);
                }
                if let Some(wake) = self.threads[thread].wake_at() {
                    assert!(wake > at, "a wake-up that could have been now");
                    self.queue.push(Reverse((wake + self.late_ns, thread, Happens::Wake)));
                }
            }
            self
        }

        fn open(&mut self, at: u64, thread: usize, lane: usize) {
            if self.threads[thread].admit(lane, at) {
                self.threads[thread].began();
                self.began.push((at, thread, lane));
                self.queue.push(Reverse((at + self.takes_ns, thread, Happens::Over)));
            }
        }
    }

    proptest! {
        /// Lanes of some threads want to connect at any times: each gets its turn, in the order in which those of its
        /// thread asked, and no stretch of time has more attempts than the ceiling allows.
        #[test]
        fn every_lane_connects_within_the_rate_limit(
            a_second in 1_u32..2_000,
            threads in 1_usize..5,
            wants in proptest::collection::vec((0_u64..3_000, 0_usize..5), 1..600),
            takes_ms in 0_u64..2_000,
            late_ms in 0_u64..50,
        ) {
            let next_turn = NextTurn::default();
            let openings = || Openings::new(Some(a_second), Arc::clone(&next_turn));
            let of = |thread: usize| thread % threads;
            let queue = wants.iter().enumerate();
            let queue = queue.map(|(lane, &(ms, thread))| Reverse((SECOND_NS + ms * MS, of(thread), Happens::Wants(lane))));
            let run = Run {
                threads: (0..threads).map(|_| openings()).collect(),
                queue: queue.collect(),
                began: Vec::new(),
                asked: vec![Vec::new(); threads],
                takes_ns: takes_ms * MS,
                late_ns: late_ms * MS,
            };
            let run = run.play();
            let lanes: BTreeSet<usize> = run.began.iter().map(|&(.., lane)| lane).collect();
            prop_assert_eq!(lanes.len(), wants.len(), "somebody's turn did not come");
            prop_assert_eq!(run.began.len(), wants.len());
            for (thread, asked) in run.asked.iter().enumerate() {
                let began: Vec<usize> = run.began.iter().filter(|b| b.1 == thread).map(|b| b.2).collect();
                prop_assert_eq!(&began, asked, "one overtook another");
            }
            let times: Vec<u64> = run.began.iter().map(|b| b.0).collect();
            for (n, from) in times.iter().enumerate() {
                for (m, to) in times.iter().enumerate().skip(n) {
                    // A thread that slept through its turn uses it later: one a thread.
                    let most = (to - from + BURST_NS) / interval_ns(a_second) + 1 + threads as u64;
                    prop_assert!((m - n + 1) as u64 <= most, "{} in {} ns", m - n + 1, to - from);
                }
            }
        }
    }

    #[test]
    fn without_a_ceiling_only_the_places_count() {
        let mut openings = Openings::new(None, NextTurn::default());
        for lane in 0..200 {
            let admitted = openings.admit(lane, 0);
            assert_eq!(admitted, lane < AT_ONCE);
            if admitted {
                openings.began();
            }
        }
        assert_eq!((openings.next(0), openings.wake_at()), (None, None));
        openings.ended();
        assert_eq!(openings.next(0), Some(AT_ONCE));
    }
}
