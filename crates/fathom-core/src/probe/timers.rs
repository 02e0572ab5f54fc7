//! What is to be done at which time.

use std::collections::BTreeSet;

/// What a timer is for. Those of a lane and of a path come with its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A lane's next sample is due.
    Due,
    /// Look whether a lane's connection is silent for too long.
    Watch,
    /// A lane tries to connect again.
    Retry,
    /// A lane's attempt to connect has taken too long.
    ConnectLimit,
    /// A lane's wait for its last echoes is over.
    Drain,
    /// A stall that is over waits no longer for an echo that may tell more of it.
    Explain,
    /// A ping-pong over datagrams waits no longer for an echo that may be lost.
    EchoLost,
    /// A lane's turn to connect may have come.
    Turn,
    /// Once a second, for the whole run.
    Tick,
    /// The run's first schedules wait no longer for lanes that are not connected.
    Grace,
    /// A path's time is up.
    End,
    /// A path's canary connection has taken too long, or it is time for another.
    Canary,
    /// A phase of the load is over.
    Load,
    /// A sample that is a connection has taken too long.
    DialLimit,
    /// The peer has not closed its side of one.
    DialClosing,
    /// The samples of a path that are connections are given up: its run is over.
    DialDrain,
    /// Check whether connections of a path hang.
    DialLook,
}

impl Timer {
    /// In their order.
    const ALL: [Self; Self::DialLook as usize + 1] = [
        Self::Due,
        Self::Watch,
        Self::Retry,
        Self::ConnectLimit,
        Self::Drain,
        Self::Explain,
        Self::EchoLost,
        Self::Turn,
        Self::Tick,
        Self::Grace,
        Self::End,
        Self::Canary,
        Self::Load,
        Self::DialLimit,
        Self::DialClosing,
        Self::DialDrain,
        Self::DialLook,
    ];
}

/// How many kinds are a lane's.
pub(super) const LANE_TIMERS: usize = Timer::EchoLost as usize + 1;

/// Timers by their time; those of equal times in the order of their kinds and indices. A tree and no heap: of ten thousand
/// connections a heap's entries lie all over the cache, and the next in the order lie side by side in a tree.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queue: BTreeSet<Entry>,
}

/// A timer's time, and its kind and index in one word: a comparison is of two numbers.
type Entry = (u64, u64);

/// Bits of an index.
const INDEX_BITS: u32 = 48;

fn entry(at_ns: u64, timer: Timer, index: usize) -> Entry {
    (at_ns, (timer as u64) << INDEX_BITS | index as u64)
}

fn parts((at_ns, what): Entry) -> (u64, Timer, usize) {
    (at_ns, Timer::ALL[(what >> INDEX_BITS) as usize], (what & ((1 << INDEX_BITS) - 1)) as usize)
}

impl Timers {
    pub(super) fn set(&mut self, at_ns: u64, timer: Timer, index: usize) {
        self.queue.insert(entry(at_ns, timer, index));
    }

    #[cfg(test)]
    pub(super) fn count_of(&self, timer: Timer) -> usize {
        self.queue.iter().filter(|&&entry| parts(entry).1 == timer).count()
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.queue.first().map(|(at, ..)| *at)
    }

    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<(u64, Timer, usize)> {
        self.queue.first().filter(|due| due.0 <= now_ns)?;
        self.queue.pop_first().map(parts)
    }
}

/// The timers of one lane: each kind is armed for one time at most; an entry of the queue that disagrees is stale.
#[derive(Debug)]
pub(super) struct Armed([u64; LANE_TIMERS]);

/// The time of a timer that is not armed. One that is armed for it fires as little.
const NEVER: u64 = u64::MAX;

impl Default for Armed {
    fn default() -> Self {
        Self([NEVER; LANE_TIMERS])
    }
}

impl Armed {
    pub(super) fn at(&self, timer: Timer) -> Option<u64> {
        Some(self.0[timer as usize]).filter(|&at_ns| at_ns != NEVER)
    }

    pub(super) fn arm(&mut self, timers: &mut Timers, lane: usize, timer: Timer, at_ns: u64) {
        if self.0[timer as usize] != at_ns {
            self.0[timer as usize] = at_ns;
            timers.set(at_ns, timer, lane);
        }
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        self.0[timer as usize] = NEVER;
    }

    /// Whether a timer that fires is the one that was armed last; it is armed no more then.
    pub(super) fn fires(&mut self, timer: Timer, at_ns: u64) -> bool {
        let armed = &mut self.0[timer as usize];
        let fires = *armed == at_ns;
        if fires {
            *armed = NEVER;
        }
        fires
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn every_kind_is_at_its_place() {
        let places: Vec<usize> = Timer::ALL.iter().map(|timer| *timer as usize).collect();
        assert_eq!(places, (0..Timer::ALL.len()).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn timers_fire_by_time_then_kind_then_index(
            set in vec((0_u64..20, 0..Timer::ALL.len(), prop_oneof![0_usize..3, Just((1 << INDEX_BITS) - 1)]), 0..60),
            now in 0_u64..25,
        ) {
            let mut expected: Vec<(u64, Timer, usize)> =
                set.iter().map(|&(at, kind, index)| (at, Timer::ALL[kind], index)).collect();
            let mut timers = Timers::default();
            for &(at, timer, index) in &expected {
                timers.set(at, timer, index);
            }
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(timers.next_ns(), expected.first().map(|(at, ..)| *at));
            let fired: Vec<_> = std::iter::from_fn(|| timers.take_due(now)).collect();
            let (due, later): (Vec<_>, Vec<_>) = expected.into_iter().partition(|(at, ..)| *at <= now);
            prop_assert_eq!(fired, due);
            prop_assert_eq!(timers.next_ns(), later.first().map(|(at, ..)| *at));
        }
    }

    #[test]
    fn only_the_time_that_was_armed_last_fires() {
        let (mut timers, mut armed) = (Timers::default(), Armed::default());
        assert_eq!((armed.at(Timer::Watch), armed.fires(Timer::Watch, 5)), (None, false));
        armed.arm(&mut timers, 3, Timer::Watch, 7);
        armed.arm(&mut timers, 3, Timer::Watch, 5);
        assert_eq!(timers.take_due(9), Some((5, Timer::Watch, 3)));
        assert!(armed.fires(Timer::Watch, 5) && !armed.fires(Timer::Watch, 5), "once");
        assert_eq!(timers.take_due(9), Some((7, Timer::Watch, 3)));
        assert!(!armed.fires(Timer::Watch, 7), "stale");
        armed.arm(&mut timers, 3, Timer::Due, 8);
        armed.disarm(Timer::Due);
        assert!(!armed.fires(Timer::Due, 8));
    }
}
