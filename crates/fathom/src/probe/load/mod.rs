//! The load beside the samples: a thread of its own with connections of its own, told by the probing thread when to
//! run and when to stop.

mod turns;
mod worker;

pub(super) use turns::LoadTurns;

use super::config::LoadPlan;
use super::start;
use fathom_os::reactor::{Reactor, Waker};
use fathom_os::socket::TcpOptions;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use worker::Worker;

/// What the load is to do.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// Send, on connections to this address.
    Run(SocketAddr),
    /// Send no more, and wait for the echoes.
    Stop,
    /// Close every connection, whatever is still on its way.
    CutOff,
}

/// What the load has to tell.
enum Report {
    /// Echoes have come on every connection since it was told to run.
    Flows,
    /// Every echo has come since it was told to stop.
    Drained,
    /// A connection could not be made or broke while it ran; it has closed them all.
    Lost(String),
}

/// Payload bytes over all connections since the run began.
#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    echoed: AtomicU64,
}

/// The probing thread's end of a load.
struct Load {
    /// Gone when the load is to end.
    orders: Option<Sender<Order>>,
    reports: Receiver<Report>,
    counters: Arc<Counters>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Starts the thread; it tells by waking this waker.
    fn start(plan: LoadPlan, options: TcpOptions, tell: Waker) -> io::Result<Self> {
        let (orders, ordered) = channel();
        let (report, reports) = channel();
        let counters = Arc::new(Counters::default());
        let reactor = Reactor::new()?;
        let waker = reactor.waker();
        let worker = Worker::new(plan, options, reactor, ordered, Arc::clone(&counters));
        let thread = thread::Builder::new().name("load".into()).spawn(move || {
            // The samples come first.
            start::step_back();
            worker.run(move |what| {
                // Nobody listens any more once the run is over.
                let _ = report.send(what);
                let _ = tell.wake();
            });
        })?;
        Ok(Self { orders: Some(orders), reports, counters, waker, thread: Some(thread) })
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
            let _ = self.waker.wake();
        }
    }

    fn heard(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    /// Payload bytes sent and echoed so far.
    fn count(&self) -> (u64, u64) {
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
