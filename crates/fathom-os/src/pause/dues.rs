//! By when a process is next seen to run, and the times in which it was not: what a pause clock shares with the threads that
//! do the work. Times are arguments; nothing here reads a clock or sets an alarm.

use super::covered::Covered;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A due time that is moved by less stays: it is moved at each turn of a loop, and each move costs some ns.
const GRAIN_NS: u64 = 500_000;
/// A thread that spoke within this time before it spoke last does not rest between two words.
const BUSY_NS: u64 = 2_000_000;
/// The mark of that, the last bit of the due time.
const BUSY: u64 = 1;
/// Spans that wait to be told: more than twenty minutes of nothing but pauses.
const UNTOLD: usize = 1 << 16;
/// The latest spans that a thread can learn of: each learns at its next word, so that these are many.
const LOGGED: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct Dues {
    /// When something of this process is to be seen running next, in ns. It never goes back.
    due: AtomicU64,
    /// What the alarm is set to, and no further than this it is put off.
    armed: AtomicU64,
    no_later: AtomicU64,
    period_ns: u64,
    threshold_ns: u64,
    missed: Mutex<Missed>,
    /// There are spans to tell: until then the alarm is not put off.
    untold: AtomicBool,
    /// How many spans there have been.
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Missed {
    untold: VecDeque<Span>,
    /// All of them, told or not.
    covered: Covered,
    /// The latest, as they were noticed.
    log: VecDeque<(u64, u64)>,
}

/// A time in which something did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    /// By what it was noticed.
    pub(super) of: Whose,
}

/// What did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Nothing of this process did.
    Process,
    /// One thread did not, which waited so long for a processor, in ns.
    Thread(u64),
}

impl Dues {
    pub(super) fn new(period_ns: u64, threshold_ns: u64) -> Self {
        Self {
            due: AtomicU64::new(0),
            armed: AtomicU64::new(0),
            no_later: AtomicU64::new(0),
            period_ns,
            threshold_ns,
            missed: Mutex::default(),
            untold: AtomicBool::new(false),
            count: AtomicU64::new(0),
        }
    }

    pub(super) fn threshold_ns(&self) -> u64 {
        self.threshold_ns
    }

    /// A thread runs at `now`, which it has just read; true: nothing had for too long, which is a pause that ends now.
    ///
    /// A pause between the reading and this call is not lost: what is due next is then due in the past.
    #[inline]
    pub(super) fn ran(&self, now: u64) -> bool {
        // Acquire: whoever sees a later time sees what was told of the one before.
        let due = self.due.load(Ordering::Acquire);
        if now.saturating_sub(due) > self.threshold_ns {
            self.missed(now);
            return true;
        }
        let next = now.saturating_add(self.period_ns) & !BUSY;
        if next > due.saturating_add(GRAIN_NS) {
            let mark = if next - due < BUSY_NS { BUSY } else { 0 };
            self.due.fetch_max(next | mark, Ordering::AcqRel);
        }
        false
    }

    /// Nothing was seen running for too long, up to now. Of several threads that see it one makes a span of it.
    #[cold]
    fn missed(&self, now: u64) {
        let mut missed = self.lock();
        let due = self.due.load(Ordering::Acquire);
        if now.saturating_sub(due) <= self.threshold_ns {
            return;
        }
        // A thread that does not rest ran until it spoke last; a clock that ticks ran at its last tick, and the pause began
        // somewhere in the period that followed.
        let ran_for = if due & BUSY == BUSY { self.period_ns } else { self.period_ns / 2 };
        self.add(&mut missed, due.saturating_sub(ran_for), now, Whose::Process);
        self.due.fetch_max(now.saturating_add(self.period_ns) & !BUSY, Ordering::AcqRel);
    }

    /// A thread that was to run at `began` came to run now, whatever else of this process ran: what of that time is in no pause yet
    /// is one.
    #[cold]
    pub(super) fn thread_missed(&self, began: u64, now: u64, run_queue_ns: u64) {
        self.add(&mut self.lock(), began, now, Whose::Thread(run_queue_ns));
    }

    fn add(&self, missed: &mut Missed, began: u64, now: u64, of: Whose) {
        let pieces = missed.add(began, now, self.threshold_ns, of);
        if pieces > 0 {
            self.untold.store(true, Ordering::Release);
            // Before something is due again: whoever sees that does not miss this.
            self.count.fetch_add(pieces as u64, Ordering::AcqRel);
        }
    }

    /// Whether there are pauses that nobody has told.
    pub(super) fn is_untold(&self) -> bool {
        self.untold.load(Ordering::Acquire)
    }

    /// How many pauses there have been, whoever noticed them.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The pauses that came after the first `known` of them, as they were noticed, and how many there have been by now.
    pub(super) fn since(&self, known: u64) -> (Vec<(u64, u64)>, u64) {
        let missed = self.lock();
        let count = self.count();
        let fresh = usize::try_from(count - known).unwrap_or(usize::MAX).min(missed.log.len());
        (missed.log.range(missed.log.len() - fresh..).copied().collect(), count)
    }

    /// What the alarm is to be set to, if it is worth a system call: not before half of a period has gone.
    pub(super) fn put_off(&self) -> Option<u64> {
        let next = self.due.load(Ordering::Relaxed) & !BUSY;
        let early = next.saturating_sub(self.armed.load(Ordering::Relaxed)) < self.period_ns / 2;
        if early || self.is_untold() || next > self.no_later.load(Ordering::Relaxed) {
            return None;
        }
        self.armed.store(next, Ordering::Relaxed);
        Some(next)
    }

    /// Until when the clock's thread sleeps.
    pub(super) fn sleeps(&self) -> u64 {
        let due = self.due.load(Ordering::Relaxed) & !BUSY;
        self.armed.store(due, Ordering::Relaxed);
        due
    }

    /// What the alarm was set to last.
    pub(super) fn armed(&self) -> u64 {
        self.armed.load(Ordering::Relaxed)
    }

    /// The clock's thread ran: at the latest it sleeps until `put_off_ns` after the next tick.
    pub(super) fn ticked(&self, at: u64, put_off_ns: u64) {
        self.no_later.store(at + self.period_ns + put_off_ns, Ordering::Relaxed);
        self.due.fetch_max((at + self.period_ns) & !BUSY, Ordering::AcqRel);
    }

    /// A clock that is gone is not late.
    pub(super) fn gone(&self) {
        self.due.store(u64::MAX, Ordering::Relaxed);
    }

    /// The pauses that nobody has told.
    pub(super) fn take(&self) -> VecDeque<Span> {
        let mut missed = self.lock();
        self.untold.store(false, Ordering::Release);
        std::mem::take(&mut missed.untold)
    }

    fn lock(&self) -> MutexGuard<'_, Missed> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Missed {
    /// Takes what of a span is in none yet: while a thread waits for its turn the clock's own may have noticed some. Returns in how
    /// many pieces.
    fn add(&mut self, began: u64, ended: u64, threshold_ns: u64, of: Whose) -> usize {
        let pieces = self.covered.add(began, ended, threshold_ns);
        let room = UNTOLD.saturating_sub(self.untold.len());
        let span = |&(began_ns, ended_ns): &(u64, u64)| {
            let of = match of {
                Whose::Process => of,
                // What it waited is of the whole time.
                Whose::Thread(waited_ns) => {
                    Whose::Thread(share(waited_ns, ended_ns - began_ns, ended - began))
                }
            };
            Span { began_ns, ended_ns, of }
        };
        self.untold.extend(pieces.iter().take(room).map(span));
        self.log.extend(&pieces);
        self.log.drain(..self.log.len().saturating_sub(LOGGED));
        pieces.len()
    }
}

/// Of so many ns of `all_ns` those that a part of it has.
pub(super) fn share(ns: u64, part_ns: u64, all_ns: u64) -> u64 {
    (u128::from(ns) * u128::from(part_ns) / u128::from(all_ns.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PERIOD: u64 = 12 * MS;
    const THRESHOLD: u64 = 20 * MS;
    const PUT_OFF: u64 = 1_000 * MS;

    fn ticking_since(at: u64) -> Dues {
        let dues = Dues::new(PERIOD, THRESHOLD);
        dues.ticked(at, PUT_OFF);
        dues
    }

    /// The times in ms, rounded, and by what each was noticed.
    fn told(dues: &Dues) -> Vec<(u64, u64, Whose)> {
        let ms = |ns: u64| (ns + MS / 2) / MS;
        dues.take().iter().map(|span| (ms(span.began_ns), ms(span.ended_ns), span.of)).collect()
    }

    #[test]
    fn a_clock_that_ticks_alone_knows_the_middle() {
        let dues = ticking_since(1_000 * MS);
        assert!(!dues.ran(1_030 * MS), "late by less than the threshold");
        // The word of 1,030 ms: something is due at 1,042.
        assert!(!dues.ran(1_062 * MS));
        let dues = ticking_since(1_000 * MS);
        assert!(dues.ran(1_500 * MS));
        assert_eq!(told(&dues), [(1_006, 1_500, Whose::Process)]);
        assert_eq!(told(&dues), [], "once");
    }

    #[test]
    fn busy_thread_ran_until_its_last_report() {
        let dues = ticking_since(1_000 * MS);
        for us in (0..3_000).step_by(10) {
            assert!(!dues.ran(1_000 * MS + us * 1_000));
        }
        assert!(dues.ran(1_103 * MS));
        let [(began, ended)] = dues.since(0).0[..] else { panic!("{dues:?}") };
        assert!((1_002_400_000..=1_003_000_000).contains(&began), "{began}");
        assert_eq!(ended, 1_103 * MS);
    }

    /// The clock's own thread is kept from running for as long as it likes: what runs is no pause.
    #[test]
    fn no_pause_has_a_word_in_it() {
        let dues = ticking_since(0);
        let (mut now, mut state) = (1, 1_u64);
        let mut words = vec![now];
        for _ in 0..20_000 {
            // Numbers of a linear congruential generator: gaps of 0 to 33 ms, some of 100.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += if state >> 60 == 0 { 100 * MS } else { (state >> 40) * 2 };
            dues.ran(now);
            let _ = dues.put_off();
            words.push(now);
        }
        let spans = dues.take();
        assert!(spans.len() > 500);
        for Span { began_ns, ended_ns, .. } in &spans {
            let first = words.partition_point(|word| *word <= *began_ns);
            let words_in_it = words[first..].iter().take_while(|word| *word < ended_ns).count();
            assert_eq!(words_in_it, 0, "{began_ns} to {ended_ns}");
        }
        // And no gap of more than the threshold and a period is in none.
        let gaps = words.windows(2).filter(|w| w[1] - w[0] > THRESHOLD + PERIOD).count();
        assert_eq!(spans.len(), gaps);
    }

    #[test]
    fn shared_pause_is_reported_once() {
        let dues = ticking_since(1_000 * MS);
        assert!(dues.ran(1_500 * MS));
        assert!(!dues.ran(1_501 * MS), "that is after it");
        // One that saw the late time before the other told of it.
        dues.missed(1_501 * MS);
        assert_eq!(dues.count(), 1);
        // A thread's own account of the same time is no pause of its own; of more it is.
        dues.thread_missed(1_010 * MS, 1_512 * MS, 0);
        assert_eq!(dues.count(), 1);
        dues.thread_missed(1_010 * MS, 1_540 * MS, 530);
        let expected = [(1_006, 1_500, Whose::Process), (1_500, 1_540, Whose::Thread(40))];
        assert_eq!(told(&dues), expected);
    }

    /// The clock's own thread is light, and may be kept from running for a part of the time only.
    #[test]
    fn short_pause_does_not_hide_longer_one() {
        let dues = ticking_since(1_000 * MS);
        for at in (1_012..=1_600).step_by(12) {
            assert!(!dues.ran(at * MS));
        }
        assert!(dues.ran(2_000 * MS));
        for at in (2_012..=2_900).step_by(12) {
            assert!(!dues.ran(at * MS));
        }
        let waited_ns = 1_899 * MS;
        dues.thread_missed(1_001 * MS, 2_900 * MS, waited_ns);
        let pieces = [
            (1_606, 2_000, Whose::Process),
            (1_001, 1_606, Whose::Thread(605 * MS)),
            (2_000, 2_900, Whose::Thread(900 * MS)),
        ];
        assert_eq!(told(&dues), pieces);
        let (learned, count) = dues.since(1);
        assert_eq!((learned, count), (vec![(1_001 * MS, 1_606 * MS), (2_000 * MS, 2_900 * MS)], 3));
        assert_eq!(dues.since(3), (vec![], 3));
    }

    #[test]
    fn alarm_delay_stays_within_bounds() {
        let dues = ticking_since(0);
        assert_eq!(dues.sleeps(), PERIOD);
        let mut set = vec![PERIOD];
        for us in (0..1_500_000).step_by(10) {
            dues.ran(us * 1_000);
            set.extend(dues.put_off());
        }
        assert!(set.windows(2).all(|w| w[1] >= w[0] + PERIOD / 2));
        let last = *set.last().unwrap();
        assert!((PUT_OFF..=PUT_OFF + PERIOD).contains(&last), "{last}");
        // A pause that is to be told puts off nothing.
        dues.ticked(1_500 * MS, PUT_OFF);
        assert!(dues.ran(1_600 * MS));
        assert_eq!(dues.put_off(), None);
        assert_eq!(dues.take().len(), 1);
        assert!(dues.put_off().is_some());
    }

    #[test]
    fn a_clock_that_is_gone_is_not_late() {
        let dues = ticking_since(0);
        dues.gone();
        assert!(!dues.ran(u64::MAX - 1));
        assert_eq!(told(&dues), []);
    }
}
