//! The load beside the samples: a thread of its own with connections of its own, told by the probing thread when to
//! run and when to stop.

mod worker;

use super::config::LoadPlan;
use super::start;
use fathom_core::probe::{LoadOrder, LoadReport};
use fathom_os::assist;
use fathom_os::reactor::{Reactor, Waker};
use fathom_os::socket::TcpOptions;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use worker::Worker;

/// Payload bytes over all connections since the run began.
#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    echoed: AtomicU64,
}

/// The probing thread's end of a load.
pub(super) struct Load {
    /// Gone when the load is to end.
    orders: Option<Sender<LoadOrder>>,
    reports: Receiver<LoadReport>,
    counters: Arc<Counters>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Starts the thread; it tells by waking this waker.
    pub(super) fn start(plan: LoadPlan, options: TcpOptions, tell: Waker) -> io::Result<Self> {
        let (orders, ordered) = channel();
        let (report, reports) = channel();
        let counters = Arc::new(Counters::default());
        let reactor = Reactor::new()?;
        let waker = reactor.waker();
        let worker = Worker::new(plan, options, reactor, ordered, Arc::clone(&counters));
        let work = move || {
            // The samples come first.
            start::step_back();
            worker.run(move |what| {
                // Nobody listens any more once the run is over.
                let _ = report.send(what);
                let _ = tell.wake();
            });
        };
        // `--cpu` is for the probing thread alone.
        let thread = assist::unpinned(|| thread::Builder::new().name("load".into()).spawn(work))?;
        Ok(Self { orders: Some(orders), reports, counters, waker, thread: Some(thread) })
    }

    pub(super) fn order(&self, order: LoadOrder) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
            let _ = self.waker.wake();
        }
    }

    /// What it reports.
    pub(super) fn report(&self) -> Option<LoadReport> {
        self.reports.try_recv().ok()
    }

    /// Payload bytes sent and echoed so far.
    pub(super) fn count(&self) -> (u64, u64) {
        (self.counters.sent.load(Ordering::Relaxed), self.counters.echoed.load(Ordering::Relaxed))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}
