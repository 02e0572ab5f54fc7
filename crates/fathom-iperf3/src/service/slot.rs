//! The one place for a test: who has it, and when it is given to somebody else.

use crate::codec::Cookie;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A test that has moved nothing for so long gives its place to the next client that comes. Without one that waits it may
/// go on: a path that is down for a minute is worth measuring.
pub(super) const IDLE_NS: u64 = 5_000_000_000;

/// A connection that has given its cookie.
#[derive(Debug)]
pub(super) struct Arrival<C> {
    /// Its place among all that came: the client makes its streams' connections in order.
    pub(super) ordinal: usize,
    pub(super) connection: C,
}

/// What becomes of a connection that has given its cookie.
#[derive(Debug)]
pub(super) enum Admission<C> {
    /// It begins a test.
    Test(Lease<C>, Arrival<C>),
    /// It was a stream of the test that runs, and went there.
    Stream,
    /// Another client's test runs.
    Busy(Arrival<C>),
}

/// The place, as the acceptor sees it. `C` is what a connection is.
///
/// [`Slot::admit`] decides about every connection. A [`Lease`] is the right to run a test, and at most one of them has it:
/// a lease ends with [`Lease::leave`], when it is dropped, or when a newcomer displaces it because it was idle. Its
/// holder calls [`Lease::touch`] whenever the test moves, and ends the test where [`Lease::is_displaced`].
#[derive(Debug)]
pub(super) struct Slot<C>(Arc<Mutex<Option<Tenant<C>>>>);

#[derive(Debug)]
struct Tenant<C> {
    cookie: Cookie,
    streams: SyncSender<Arrival<C>>,
    state: Arc<LeaseState>,
}

#[derive(Debug)]
struct LeaseState {
    last_active_ns: AtomicU64,
    displaced: AtomicBool,
}

/// The right to run a test.
#[derive(Debug)]
pub(super) struct Lease<C> {
    slot: Slot<C>,
    arrivals: Receiver<Arrival<C>>,
    state: Arc<LeaseState>,
}

impl<C> Slot<C> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Decides about a connection. Of the streams of a test at most `streams` wait; more than that, and they are closed.
    pub(super) fn admit(
        &self,
        cookie: Cookie,
        arrival: Arrival<C>,
        streams: usize,
        now_ns: u64,
    ) -> Admission<C> {
        let mut tenant = self.lock();
        if let Some(current) = &*tenant {
            if current.cookie == cookie {
                // A session that has all its streams takes no more, and one that has ended none at all.
                let _ = current.streams.try_send(arrival);
                return Admission::Stream;
            }
            if now_ns < current.state.last_active_ns.load(Ordering::Relaxed).saturating_add(IDLE_NS) {
                return Admission::Busy(arrival);
            }
            current.state.displaced.store(true, Ordering::Relaxed);
        }
        let (sender, arrivals) = sync_channel(streams);
        let state = Arc::new(LeaseState {
            last_active_ns: AtomicU64::new(now_ns),
            displaced: AtomicBool::new(false),
        });
        *tenant = Some(Tenant { cookie, streams: sender, state: Arc::clone(&state) });
        Admission::Test(Lease { slot: Self(Arc::clone(&self.0)), arrivals, state }, arrival)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Tenant<C>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Lease<C> {
    /// The streams' connections that have come.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = Arrival<C>> {
        self.arrivals.try_iter()
    }

    /// The test moved at this time.
    pub(super) fn touch(&self, at_ns: u64) {
        self.state.last_active_ns.fetch_max(at_ns, Ordering::Relaxed);
    }

    /// Whether the place was given to somebody else.
    pub(super) fn is_displaced(&self) -> bool {
        self.state.displaced.load(Ordering::Relaxed)
    }

    /// Makes room for the next test. The place of a newcomer that displaced this one stays its own.
    pub(super) fn leave(&self) {
        self.slot.lock().take_if(|tenant| Arc::ptr_eq(&tenant.state, &self.state));
    }
}

impl<C> Drop for Lease<C> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cookie(client: u64) -> Cookie {
        Cookie::new([client; 4])
    }

    fn arrival(ordinal: usize) -> Arrival<u64> {
        Arrival { ordinal, connection: ordinal as u64 }
    }

    fn admit(slot: &Slot<u64>, client: u64, now_ns: u64) -> Admission<u64> {
        slot.admit(cookie(client), arrival(0), 2, now_ns)
    }

    fn begins(slot: &Slot<u64>, client: u64, now_ns: u64) -> Lease<u64> {
        match admit(slot, client, now_ns) {
            Admission::Test(lease, _) => lease,
            other => panic!("{other:?}"),
        }
    }

    /// A client that gave its cookie, opened its stream and went silent held the only place for 61 s
    /// (`--throughput-longest` and the farewell): whoever came in that minute was told that the reflector is busy.
    #[test]
    fn only_idle_test_yields_its_place() {
        let slot = Slot::new();
        let idle = begins(&slot, 1, 0);
        assert!(matches!(admit(&slot, 2, IDLE_NS - 1), Admission::Busy(_)));
        idle.touch(IDLE_NS);
        assert!(matches!(admit(&slot, 2, 2 * IDLE_NS - 1), Admission::Busy(_)), "it moved");
        assert!(!idle.is_displaced());
        let next = begins(&slot, 2, 2 * IDLE_NS);
        assert!(idle.is_displaced() && !next.is_displaced());
        // The displaced test ends later than its successor begins.
        idle.leave();
        drop(idle);
        assert!(
            matches!(admit(&slot, 3, 2 * IDLE_NS + 1), Admission::Busy(_)),
            "the place is the successor's"
        );
        drop(next);
        begins(&slot, 3, 2 * IDLE_NS + 2);
    }

    #[test]
    fn waiting_streams_are_ordered_and_bounded() {
        let slot = Slot::new();
        let lease = begins(&slot, 1, 0);
        for ordinal in 1..=100 {
            assert!(matches!(slot.admit(cookie(1), arrival(ordinal), 2, 0), Admission::Stream));
        }
        assert_eq!(lease.arrivals().map(|one| one.connection).collect::<Vec<_>>(), [1, 2]);
    }

    proptest! {
        /// At most one lease holds the place, whatever comes in whatever order.
        #[test]
        fn there_is_one_place(acts in prop::collection::vec((0..4_u64, 0..4_u8, 0..IDLE_NS), 1..60)) {
            let slot = Slot::new();
            let mut leases: Vec<Lease<u64>> = Vec::new();
            let mut now_ns = 0;
            for (client, act, later_ns) in acts {
                now_ns += later_ns;
                match act {
                    0 => drop((!leases.is_empty()).then(|| leases.remove(client as usize % leases.len()))),
                    1 => leases.iter().for_each(|lease| lease.touch(now_ns)),
                    _ => if let Admission::Test(lease, _) = admit(&slot, client, now_ns) {
                        leases.push(lease);
                    }
                }
                let held = leases.iter().filter(|lease| !lease.is_displaced()).count();
                prop_assert!(held <= 1);
                prop_assert_eq!(slot.lock().is_some(), held == 1);
            }
        }
    }
}
