//! Queries that are not on the disk yet: those that nobody has taken to write, how many wait in all, who waits until there are fewer,
//! and which there was no room for.

use crate::lock::lock;
use fathom_core::text::count;
use fathom_os::clock::mono_ns;
use fathom_recording::Query;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// While so many queries wait to be written no other begins: two files of them, so that a kill takes no more.
pub(crate) const MOST_BEHIND: u64 = 8_192;
/// Where the disk takes none they are not waited for, and so many are kept at most: some 25 MB. The newest are lost, and counted.
pub(crate) const MOST_WAITING: u64 = 65_536;
/// Whoever writes takes them every now and then by himself, because to be woken takes the processor from whoever asks. He is woken
/// where so many have come: a quarter of a file.
const WAKES_EACH: u64 = 1_024;
/// Whoever waits looks so often whether the run is over.
const LOOKS_AGAIN: Duration = Duration::from_millis(50);

/// See the module. [`Backlog::add`] each query, which whoever writes [takes](Backlog::take), [`Backlog::written`] when they are on the
/// disk, and [`Backlog::wait`] before the next one begins.
pub(crate) struct Backlog {
    state: Mutex<State>,
    fewer: Condvar,
    tell: fn(&str),
}

#[derive(Default)]
struct State {
    /// That nobody has taken, and when each began on the monotonic clock.
    untaken: Vec<(Query, u64)>,
    /// These, and those that were taken.
    waiting: u64,
    /// The disk took nothing when it was last tried, or nobody writes any more.
    is_stuck: bool,
    /// For which there was no room.
    lost: Lost,
    /// Somebody was told that queries wait for the recording.
    has_told: bool,
}

/// Queries that are in no file, by their connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lost(BTreeMap<u64, u64>);

impl Lost {
    pub(crate) fn add(&mut self, query: &Query) {
        *self.0.entry(query.connection).or_default() += 1;
    }

    /// All of them.
    pub(crate) fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// Those of a connection.
    pub(crate) fn of(&self, connection: u64) -> u64 {
        self.0.get(&connection).copied().unwrap_or(0)
    }
}

impl Backlog {
    pub(crate) fn new(tell: fn(&str)) -> Self {
        Self { state: Mutex::default(), fewer: Condvar::new(), tell }
    }

    /// Takes a query in, and when it began on the monotonic clock; one for which there is no room is counted. Whether whoever writes is
    /// to be woken.
    #[must_use]
    pub(crate) fn add(&self, query: Query, began_mono_ns: u64) -> bool {
        let mut state = lock(&self.state);
        if state.waiting < MOST_WAITING {
            state.waiting += 1;
            state.untaken.push((query, began_mono_ns));
            return (state.untaken.len() as u64).is_multiple_of(WAKES_EACH);
        }
        let is_first = state.lost.all() == 0;
        state.lost.add(&query);
        drop(state);
        if is_first {
            let number = query.query + 1;
            (self.tell)(&format!(
                "from query {number} on some are not in the recording: {} wait for the disk, and no more are kept",
                count(MOST_WAITING, "query")
            ));
        }
        false
    }

    /// Those that came since somebody last took them, in their order.
    pub(crate) fn take(&self) -> Vec<(Query, u64)> {
        std::mem::take(&mut lock(&self.state).untaken)
    }

    /// So many are on the disk.
    pub(crate) fn written(&self, queries: u64) {
        lock(&self.state).waiting -= queries;
        self.fewer.notify_all();
    }

    /// Whether the disk takes nothing.
    pub(crate) fn stuck(&self, is_stuck: bool) {
        lock(&self.state).is_stuck = is_stuck;
        self.fewer.notify_all();
    }

    /// Waits until the recording is hardly behind, or the run is over; for how long, in ns. While the disk takes nothing nobody waits.
    pub(crate) fn wait(&self, is_over: impl Fn() -> bool) -> u64 {
        let is_behind = |state: &State| state.waiting >= MOST_BEHIND && !state.is_stuck;
        let mut state = lock(&self.state);
        if !is_behind(&state) {
            return 0;
        }
        let began_ns = mono_ns();
        let is_news = !std::mem::replace(&mut state.has_told, true);
        if is_news {
            drop(state);
            (self.tell)(&format!(
                "the recording is {} behind: where it is, the next wait until it has caught up",
                count(MOST_BEHIND, "query")
            ));
            state = lock(&self.state);
        }
        while is_behind(&state) && !is_over() {
            let waited = self.fewer.wait_timeout(state, LOOKS_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        mono_ns().saturating_sub(began_ns)
    }

    /// Those for which there was no room.
    pub(crate) fn lost(&self) -> Lost {
        lock(&self.state).lost.clone()
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> u64 {
        lock(&self.state).waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(number: u64) -> Query {
        Query { query: number, connection: number % 2, ..Query::default() }
    }

    /// The waiting query begins when one of those before it is on the disk, and the wait is reported once.
    #[test]
    fn queries_wait_until_fewer_are_behind() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let backlog = Backlog::new(|line| TOLD.lock().unwrap().push(line.to_owned()));
        (0..MOST_BEHIND - 1).for_each(|number| _ = backlog.add(query(number), 0));
        assert_eq!(backlog.wait(|| false), 0);
        _ = backlog.add(query(MOST_BEHIND), 0);
        let waited_ns = std::thread::scope(|scope| {
            let waits = scope.spawn(|| backlog.wait(|| false));
            // It reports before it waits.
            while TOLD.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
            assert!(!waits.is_finished());
            backlog.written(1);
            waits.join().unwrap()
        });
        assert!(waited_ns > 0);
        // The end of the run ends the next wait.
        _ = backlog.add(query(MOST_BEHIND + 1), 0);
        _ = backlog.wait(|| true);
        let told = TOLD.lock().unwrap();
        let [line] = &told[..] else { panic!("{told:?}") };
        assert!(line.starts_with("the recording is 8192 queries behind"), "{line}");
    }

    /// The newest queries are lost, counted by their connection, and reported once.
    #[test]
    fn queries_without_room_are_lost() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let backlog = Backlog::new(|line| TOLD.lock().unwrap().push(line.to_owned()));
        (0..MOST_WAITING + 3).for_each(|number| _ = backlog.add(query(number), 0));
        let kept = backlog.take();
        assert_eq!((kept.len() as u64, kept.last().unwrap().0.query), (MOST_WAITING, MOST_WAITING - 1));
        backlog.written(MOST_WAITING);
        _ = backlog.add(query(0), 0);
        let lost = backlog.lost();
        assert_eq!((lost.all(), lost.of(0), lost.of(1)), (3, 2, 1));
        assert_eq!((backlog.waiting(), backlog.take().len()), (1, 1));
        let told = TOLD.lock().unwrap();
        let [line] = &told[..] else { panic!("{told:?}") };
        assert!(line.starts_with("from query 65537 on some are not in the recording: "), "{line}");
    }
}
