//! One test from its first connection to the server's results. This thread has the control connection and the clock; each
//! stream has a thread of its own.

use super::connect;
use super::error::Error;
use super::options::{Target, TestOptions};
use crate::codec::{Cookie, Results};
use crate::control::{Control, Received};
use crate::machine::client::{self, Client, Step};
use crate::streams::{DRAIN_LOOK_NS, LOOK_NS, StreamInterval, Streams};
use fathom_os::clock::mono_ns;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Servers close their streams in the end. Where one does not, all has come when nothing has come for so long.
const QUIET_NS: u64 = 1_000_000_000;
/// The server may take so long for its part of the end: it reads what is under way too.
const END_PATIENCE_NS: u64 = 15_000_000_000;
/// A stream that broke is reported after so long, unless the control connection says more by then.
const BROKEN_PATIENCE_NS: u64 = 1_000_000_000;

/// What a caller is told while a test runs. Every method is called by the thread that runs the test, and holds it up.
pub trait Observer {
    /// A stream's connection opened.
    fn stream_opened(&mut self, stream: u32, local: SocketAddr, remote: SocketAddr, connect_ns: u64);
    /// Data streams from now on.
    fn began(&mut self);
    /// Intervals ended, one a stream, all at the same time but for the last; `begun_ns` is when data began to flow, by the
    /// monotonic clock.
    fn intervals(&mut self, begun_ns: u64, intervals: &[StreamInterval]);
    /// A stream ended in order, `age_ns` after data began to flow.
    fn stream_closed(&mut self, stream: u32, at_ns: u64, age_ns: u64);
}

/// How a test went that began.
#[derive(Debug)]
pub struct Finished {
    /// The server's address.
    pub remote: SocketAddr,
    /// This end's results.
    pub ours: Results,
    /// The server's; none: the test ended before it told.
    pub theirs: Option<Results>,
    /// What made it a failure; none: it ended in time, or was interrupted here.
    pub error: Option<Error>,
    /// It was interrupted here.
    pub interrupted: bool,
}

/// Why the loop ended.
enum End {
    Finished(Results),
    Interrupted,
    Failed(client::Failure),
    Broken(u32, std::io::Error),
    Silent,
}

/// A test under way.
///
/// [`Test::connect`] makes the control connection, [`Test::run`] does all the rest and returns when the test is over.
/// Setting `stop` ends it in order within a tenth of a second, whatever it waits for.
pub struct Test<'a> {
    target: &'a Target,
    options: &'a TestOptions,
    stop: &'a AtomicBool,
    control: Control,
    client: Client,
    cookie: Cookie,
    remote: SocketAddr,
    sockets: Vec<(TcpStream, bool)>,
    streams: Option<Streams>,
    /// When the server must have answered what it owes; none: it owes nothing.
    answer_by_ns: Option<u64>,
    /// When the test was ended here.
    ended_ns: Option<u64>,
    /// The server waits for our results.
    owing: bool,
    broken: Option<(u64, u32, std::io::Error)>,
    begun_ns: u64,
    ours: Option<Results>,
}

impl<'a> Test<'a> {
    /// Connects and sends the cookie.
    pub fn connect(
        target: &'a Target,
        options: &'a TestOptions,
        stop: &'a AtomicBool,
    ) -> Result<Self, Error> {
        let (socket, remote) = connect::control(target, options)?;
        let cookie = connect::cookie()?;
        let unusable = |source| Error::Control { target: target.name.clone(), source };
        let mut control = Control::new(socket).map_err(unusable)?;
        control.send(&Client::opening(&cookie)).map_err(unusable)?;
        let mut test = Self {
            target,
            options,
            stop,
            control,
            client: Client::new(options.parameters()),
            cookie,
            remote,
            sockets: Vec::new(),
            streams: None,
            answer_by_ns: None,
            ended_ns: None,
            owing: false,
            broken: None,
            begun_ns: mono_ns(),
            ours: None,
        };
        test.expect_answer(nanos(options.timeout));
        Ok(test)
    }

    /// Runs it to its end. An error is a test that never began.
    pub fn run(mut self, observer: &mut impl Observer) -> Result<Finished, Error> {
        let end = self.turns(observer)?;
        if let Some(mut streams) = self.streams.take() {
            streams.stop_sending();
            self.settle(streams, observer);
        }
        let interrupted = matches!(end, End::Interrupted);
        let (theirs, error) = match end {
            End::Finished(theirs) => (Some(theirs), None),
            End::Interrupted => (None, None),
            End::Failed(failure) => (None, Some(Error::of(&failure, &self.target.name))),
            End::Broken(stream, source) => {
                (None, Some(Error::StreamBroke { stream, target: self.target.name.clone(), source }))
            }
            End::Silent => (None, Some(self.silent())),
        };
        match self.ours.take() {
            Some(ours) => Ok(Finished { remote: self.remote, ours, theirs, error, interrupted }),
            None => Err(error.unwrap_or(Error::NotBegun)),
        }
    }

    fn turns(&mut self, observer: &mut impl Observer) -> Result<End, Error> {
        loop {
            match self.control.receive(self.next_turn_ns()) {
                Received::Bytes(bytes) => match self.client.receive(&bytes) {
                    Ok(steps) => {
                        for step in steps {
                            if let Some(end) = self.step(step, observer)? {
                                return Ok(end);
                            }
                        }
                    }
                    Err(failure) => return Ok(End::Failed(failure)),
                },
                Received::Nothing => {}
                Received::Closed => {
                    let failure = self.client.closed().err();
                    return Ok(End::Failed(failure.unwrap_or(client::Failure::Vanished)));
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                self.give_up();
                return Ok(End::Interrupted);
            }
            self.tick(observer);
            if let Some(end) = self.overdue() {
                self.give_up();
                return Ok(end);
            }
        }
    }

    /// Until when nothing is due but what the server says.
    fn next_turn_ns(&self) -> u64 {
        let now_ns = mono_ns();
        let tick = match (&self.streams, self.owing) {
            (Some(_), true) => now_ns + DRAIN_LOOK_NS,
            (Some(streams), false) => {
                let end = if self.ended_ns.is_none() { self.ends_ns() } else { None };
                streams.next_tick_ns().min(end.unwrap_or(u64::MAX))
            }
            // Ctrl-C is looked for this often while there is nothing else to do.
            (None, _) => now_ns + LOOK_NS,
        };
        tick.min(self.answer_by_ns.unwrap_or(u64::MAX))
    }

    /// When the test is to end; none: what does not count is not over.
    fn ends_ns(&self) -> Option<u64> {
        let from_ns = self.streams.as_ref()?.counted_from_ns()?;
        Some(from_ns.saturating_add(nanos(self.options.duration)))
    }

    fn step(&mut self, step: Step, observer: &mut impl Observer) -> Result<Option<End>, Error> {
        self.answer_by_ns = None;
        match step {
            Step::Send(bytes) => {
                self.send(&bytes);
                self.expect_answer(nanos(self.options.timeout));
            }
            Step::OpenStreams => {
                self.open_streams(observer)?;
                self.expect_answer(nanos(self.options.timeout));
            }
            Step::Begin => {
                observer.began();
                let sockets = std::mem::take(&mut self.sockets);
                let streams = Streams::begin(sockets, &self.options.traffic).map_err(Error::Begin)?;
                self.begun_ns = streams.begun_ns();
                self.streams = Some(streams);
            }
            Step::GiveResults => self.owing = true,
            Step::Finish(theirs) => {
                self.send(&client::farewell());
                return Ok(Some(End::Finished(theirs)));
            }
        }
        Ok(None)
    }

    fn open_streams(&mut self, observer: &mut impl Observer) -> Result<(), Error> {
        let sends = self.options.direction.client_sends(self.options.parallel);
        for (sends, stream) in sends.into_iter().zip(0..) {
            let (socket, connect_ns) = connect::stream(self.options, self.remote, &self.cookie)
                .map_err(|source| Error::OpenStream { stream, remote: self.remote, source })?;
            let local = socket.local_addr().unwrap_or(self.remote);
            observer.stream_opened(stream, local, self.remote, connect_ns);
            self.sockets.push((socket, sends));
        }
        Ok(())
    }

    /// What is due by the clock.
    fn tick(&mut self, observer: &mut impl Observer) {
        let now_ns = mono_ns();
        let due = self.ended_ns.is_none() && self.ends_ns().is_some_and(|end| now_ns >= end);
        let Some(streams) = &mut self.streams else { return };
        if !self.owing {
            let intervals = streams.tick();
            if !intervals.is_empty() {
                observer.intervals(self.begun_ns, &intervals);
            }
        }
        if let Some((stream, error)) = streams.broken().filter(|_| self.broken.is_none()) {
            self.broken = Some((now_ns, stream, error));
        }
        if due && self.broken.is_none() {
            self.ended_ns = Some(now_ns);
            if let Some(bytes) = self.client.end() {
                self.send(&bytes);
            }
            if let Some(streams) = &mut self.streams {
                streams.stop_sending();
            }
            self.expect_answer(END_PATIENCE_NS);
        }
        if self.owing && self.streams.as_ref().is_none_or(|streams| streams.is_drained(QUIET_NS)) {
            self.owing = false;
            if let Some(streams) = self.streams.take() {
                self.settle(streams, observer);
                let bytes = self.ours.as_ref().map(|ours| self.client.results(ours));
                self.send(&bytes.unwrap_or_default());
                self.expect_answer(END_PATIENCE_NS);
            }
        }
    }

    /// Whether the server owes an answer for too long, or a stream broke and nothing explains it.
    fn overdue(&mut self) -> Option<End> {
        let now_ns = mono_ns();
        if self.broken.as_ref().is_some_and(|(at_ns, ..)| now_ns >= at_ns + BROKEN_PATIENCE_NS) {
            return self.broken.take().map(|(_, stream, error)| End::Broken(stream, error));
        }
        self.answer_by_ns.is_some_and(|by| now_ns >= by).then_some(End::Silent)
    }

    /// Ends the streams and keeps what they came to.
    fn settle(&mut self, streams: Streams, observer: &mut impl Observer) {
        let (intervals, ours) = streams.finish();
        observer.intervals(self.begun_ns, &intervals);
        for one in &intervals {
            observer.stream_closed(one.stream, one.at_ns, one.at_ns.saturating_sub(self.begun_ns));
        }
        self.ours = Some(ours);
    }

    fn send(&mut self, bytes: &[u8]) {
        // A connection that takes nothing any more says so when it is read from.
        let _ = self.control.send(bytes);
    }

    fn give_up(&mut self) {
        if let Some(bytes) = self.client.terminate() {
            self.send(&bytes);
        }
    }

    fn expect_answer(&mut self, within_ns: u64) {
        self.answer_by_ns = Some(mono_ns().saturating_add(within_ns));
    }

    /// The server owes an answer for too long: one that never answered is told from one that stopped.
    fn silent(&self) -> Error {
        let target = self.target.name.clone();
        if self.client.is_answered() {
            return Error::Silent { target };
        }
        Error::Foreign { target, why: format!("it said nothing for {:?}", self.options.timeout) }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
