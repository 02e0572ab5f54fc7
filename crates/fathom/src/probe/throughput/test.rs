//! One test from its first connection to the server's results. This thread has the control connection and the clock; each
//! stream has a thread of its own.

use super::book::Book;
use super::plan::Plan;
use super::{dial, show};
use crate::exit::Failure;
use crate::probe::keep;
use crate::throughput::MODE;
use crate::throughput::control::{Control, Heard};
use crate::throughput::flows::{DRAIN_LOOK_NS, Flows, LOOK_NS, Told};
use crate::throughput::summary::{Summary, ways};
use fathom_core::cause::ClosingCause;
use fathom_core::event::{EventKind, Evidence};
use fathom_core::throughput::client::{self, Client, Step};
use fathom_os::clock::mono_ns;
use fathom_wire::iperf3::{Cookie, Results};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Servers close their streams in the end. Where one does not, all has come when nothing has come for so long.
const QUIET_NS: u64 = 1_000_000_000;
/// The server may take so long for its part of the end: it reads what is under way too.
const END_PATIENCE_NS: u64 = 15_000_000_000;
/// A stream that broke is reported after so long, unless the control connection says more by then.
const BROKEN_PATIENCE_NS: u64 = 1_000_000_000;
/// Between two anchors of the clocks.
const ANCHOR_NS: u64 = 60_000_000_000;

/// How a test went.
pub(super) struct Done {
    pub(super) summary: Summary,
    /// What makes it a failure; none: it ended in time, or was interrupted here.
    pub(super) failure: Option<Failure>,
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
pub(super) struct Test<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    control: Control,
    client: Client,
    cookie: Cookie,
    remote: SocketAddr,
    sockets: Vec<(TcpStream, bool)>,
    flows: Option<Flows>,
    /// When the server must have answered what it owes; none: it owes nothing.
    answer_by_ns: Option<u64>,
    /// When the test was ended here.
    ended_ns: Option<u64>,
    /// The server waits for our results.
    owing: bool,
    broken: Option<(u64, u32, std::io::Error)>,
    begun_ns: u64,
    anchored_ns: u64,
    ours: Option<Results>,
}

impl<'a> Test<'a> {
    /// Connects and sends the cookie.
    pub(super) fn open(plan: &'a Plan, stop: &'a AtomicBool) -> Result<Self, Failure> {
        let (socket, remote) = dial::control(plan)?;
        let cookie = dial::cookie();
        let gone = |e: std::io::Error| Failure::run(format!("{}: {e}", plan.path().target));
        let mut control = Control::new(socket).map_err(gone)?;
        control.send(&Client::opening(&cookie)).map_err(gone)?;
        let mut test = Self {
            plan,
            stop,
            control,
            client: Client::new(plan.parameters()),
            cookie,
            remote,
            sockets: Vec::new(),
            flows: None,
            answer_by_ns: None,
            ended_ns: None,
            owing: false,
            broken: None,
            begun_ns: mono_ns(),
            anchored_ns: mono_ns(),
            ours: None,
        };
        test.expect_answer(nanos(plan.config.timeout));
        Ok(test)
    }

    /// Runs it to its end. An error is a test that never began.
    pub(super) fn run(mut self, book: &mut Book) -> Result<Done, Failure> {
        let end = self.turns(book)?;
        if let Some(mut flows) = self.flows.take() {
            flows.stop_sending();
            self.settle(flows, book);
        }
        let Some(ours) = self.ours.take() else {
            return Err(self.never_began(end));
        };
        let (theirs, failure, early) = match end {
            End::Finished(theirs) => (Some(theirs), None, None),
            End::Interrupted => (None, None, Some("interrupted here".to_owned())),
            other => {
                let why = self.reason(&other);
                (None, Some(Failure::run(why.clone())), Some(why))
            }
        };
        let summary = self.summary(&ours, theirs.as_ref(), early, book.shown());
        if let Ok(value) = serde_json::to_value(&summary) {
            book.event(None, EventKind::ThroughputEnded { summary: value });
        }
        Ok(Done { summary, failure })
    }

    fn turns(&mut self, book: &mut Book) -> Result<End, Failure> {
        loop {
            match self.control.hear(self.next_turn_ns()) {
                Heard::Bytes(bytes) => match self.client.receive(&bytes) {
                    Ok(steps) => {
                        for step in steps {
                            if let Some(end) = self.step(step, book)? {
                                return Ok(end);
                            }
                        }
                    }
                    Err(failure) => return Ok(End::Failed(failure)),
                },
                Heard::Nothing => {}
                Heard::Closed => {
                    let failure = self.client.closed().err();
                    return Ok(End::Failed(failure.unwrap_or(client::Failure::Vanished)));
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                self.give_up();
                return Ok(End::Interrupted);
            }
            self.tick(book);
            if let Some(end) = self.overdue() {
                self.give_up();
                return Ok(end);
            }
        }
    }

    /// Until when nothing is due but what the server says.
    fn next_turn_ns(&self) -> u64 {
        let now_ns = mono_ns();
        let tick = match (&self.flows, self.owing) {
            (Some(_), true) => now_ns + DRAIN_LOOK_NS,
            (Some(flows), false) => {
                let end = if self.ended_ns.is_none() { self.ends_ns() } else { None };
                flows.next_tick_ns().min(end.unwrap_or(u64::MAX))
            }
            // Ctrl-C is looked for this often while there is nothing else to do.
            (None, _) => now_ns + LOOK_NS,
        };
        tick.min(self.answer_by_ns.unwrap_or(u64::MAX))
    }

    /// When the test is to end; none: what does not count is not over.
    fn ends_ns(&self) -> Option<u64> {
        let from_ns = self.flows.as_ref()?.counted_from_ns()?;
        Some(from_ns.saturating_add(nanos(self.plan.duration)))
    }

    fn step(&mut self, step: Step, book: &mut Book) -> Result<Option<End>, Failure> {
        self.answer_by_ns = None;
        match step {
            Step::Send(bytes) => {
                self.say(&bytes);
                self.expect_answer(nanos(self.plan.config.timeout));
            }
            Step::OpenStreams => {
                self.open_streams(book)?;
                self.expect_answer(nanos(self.plan.config.timeout));
            }
            Step::Begin => {
                show::introduction(self.plan, book.shown().as_deref());
                let flows = Flows::begin(std::mem::take(&mut self.sockets), &self.plan.manner)
                    .map_err(|e| Failure::run(format!("cannot begin to send and receive: {e}")))?;
                self.begun_ns = flows.begun_ns();
                self.flows = Some(flows);
            }
            Step::GiveResults => self.owing = true,
            Step::Finish(theirs) => {
                self.say(&client::farewell());
                return Ok(Some(End::Finished(theirs)));
            }
        }
        Ok(None)
    }

    fn open_streams(&mut self, book: &mut Book) -> Result<(), Failure> {
        let target = self.plan.path().target.to_string();
        let sends = self.plan.direction.client_sends(self.plan.parallel);
        for (sends, stream) in sends.into_iter().zip(0..) {
            let (socket, connect_ns) = dial::stream(self.plan, self.remote, &self.cookie)
                .map_err(|e| Failure::run(format!("cannot open stream {stream} to {}: {e}", self.remote)))?;
            let local = socket.local_addr().unwrap_or(self.remote);
            book.opened(stream, &target, (local, self.remote), connect_ns);
            self.sockets.push((socket, sends));
        }
        Ok(())
    }

    /// What is due by the clock.
    fn tick(&mut self, book: &mut Book) {
        let now_ns = mono_ns();
        let due = self.ended_ns.is_none() && self.ends_ns().is_some_and(|end| now_ns >= end);
        let Some(flows) = &mut self.flows else { return };
        if !self.owing {
            let told = flows.tick();
            if !told.is_empty() {
                let anchored = now_ns.saturating_sub(self.anchored_ns) >= ANCHOR_NS;
                if anchored {
                    self.anchored_ns = now_ns;
                }
                write(self.plan, self.begun_ns, &told, book);
                book.keep(anchored);
            }
        }
        if let Some((stream, error)) = flows.broken().filter(|_| self.broken.is_none()) {
            self.broken = Some((now_ns, stream, error));
        }
        if due && self.broken.is_none() {
            self.ended_ns = Some(now_ns);
            if let Some(bytes) = self.client.end() {
                self.say(&bytes);
            }
            if let Some(flows) = &mut self.flows {
                flows.stop_sending();
            }
            self.expect_answer(END_PATIENCE_NS);
        }
        if self.owing && self.flows.as_ref().is_none_or(|flows| flows.is_drained(QUIET_NS)) {
            self.owing = false;
            if let Some(flows) = self.flows.take() {
                self.settle(flows, book);
                let bytes = self.ours.as_ref().map(|ours| self.client.results(ours));
                self.say(&bytes.unwrap_or_default());
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

    /// Ends the streams and takes down what they came to.
    fn settle(&mut self, flows: Flows, book: &mut Book) {
        let (told, ours) = flows.finish();
        write(self.plan, self.begun_ns, &told, book);
        for one in &told {
            let kind = EventKind::ConnectionClosed {
                cause: ClosingCause::Finished,
                verdict: None,
                errno: None,
                age_ns: one.at_ns.saturating_sub(self.begun_ns),
                evidence: Evidence::default(),
            };
            book.event_at(Some(one.stream), one.at_ns, kind);
        }
        self.ours = Some(ours);
    }

    fn say(&mut self, bytes: &[u8]) {
        // A connection that takes nothing any more says so when it is read from.
        let _ = self.control.send(bytes);
    }

    fn give_up(&mut self) {
        if let Some(bytes) = self.client.terminate() {
            self.say(&bytes);
        }
    }

    fn expect_answer(&mut self, within_ns: u64) {
        self.answer_by_ns = Some(mono_ns().saturating_add(within_ns));
    }

    fn never_began(&self, end: End) -> Failure {
        match end {
            End::Interrupted => Failure::run("ended before the test began"),
            other => Failure::run(self.reason(&other)),
        }
    }

    /// One line: what went wrong and what to do about it.
    fn reason(&self, end: &End) -> String {
        let target = &self.plan.path().target;
        let foreign = |why: &str| {
            format!(
                "{target} does not speak iperf3's protocol ({why}); start `fathom echo --throughput` or `iperf3 -s` there"
            )
        };
        let timeout = humantime::format_duration(self.plan.config.timeout);
        match end {
            End::Silent if !self.client.is_answered() => foreign(&format!("it said nothing for {timeout}")),
            End::Silent => format!("{target} stopped answering; is it, and the path to it, still there?"),
            End::Broken(stream, error) => {
                format!("stream {stream} to {target} broke ({error}); is the server still running?")
            }
            End::Failed(client::Failure::Foreign(why)) => foreign(why),
            End::Failed(client::Failure::Busy) => {
                format!("{target} runs another test, and one at a time only; try again when that is over")
            }
            End::Failed(client::Failure::Refused(refusal)) => {
                let words = refusal.words().map_or_else(String::new, |words| format!(": {words}"));
                format!("{target} refused the test (iperf3's error {}){words}", refusal.code)
            }
            End::Failed(client::Failure::Terminated) => format!("{target} ended the test before its time"),
            End::Failed(client::Failure::Vanished) => {
                format!(
                    "{target} vanished in mid-test: its control connection ended; is the server still running?"
                )
            }
            End::Failed(client::Failure::Broken(what)) => {
                format!(
                    "{target} broke iperf3's protocol ({what}); is it another version of it? please report it"
                )
            }
            End::Finished(_) | End::Interrupted => String::new(),
        }
    }

    fn summary(
        &self,
        ours: &Results,
        theirs: Option<&Results>,
        ended_early: Option<String>,
        recording: Option<String>,
    ) -> Summary {
        let plan = self.plan;
        Summary {
            format: 1,
            mode: MODE.to_owned(),
            label: plan.path().label.clone(),
            path: keep::labels(&plan.config),
            reflector: self.remote.to_string(),
            direction: plan.direction,
            parallel: plan.parallel,
            block_bytes: plan.manner.block,
            bitrate_bits_per_second: plan.manner.bitrate,
            omit_ns: plan.manner.omit_ns,
            duration_ns: ours.streams.iter().map(|stream| stream.duration_ns).max().unwrap_or(0),
            ended_early,
            congestion_here: ours.congestion.clone(),
            congestion_there: theirs.and_then(|theirs| theirs.congestion.clone()),
            ways: ways(plan.direction, plan.parallel, ours, theirs),
            recording,
        }
    }
}

/// Shows and records intervals that ended.
fn write(plan: &Plan, begun_ns: u64, told: &[Told], book: &mut Book) {
    show::intervals(plan, begun_ns, told);
    for one in told {
        let kind = EventKind::ThroughputInterval {
            way: if one.sends { "sent" } else { "received" }.to_owned(),
            interval_ns: one.interval.length_ns,
            bytes: one.interval.bytes,
            retransmits: one.interval.retransmits,
            cwnd_bytes: one.interval.cwnd_bytes,
            srtt_us: one.interval.srtt_us,
            omitted: one.omitted,
        };
        book.event_at(Some(one.stream), one.at_ns, kind);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
