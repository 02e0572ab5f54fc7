//! The server's side of the control connection, from the cookie on.

use super::Direction;
use fathom_wire::iperf3::{Garbled, Inbox, MAX_BLOCK, MAX_PARALLEL, Parameters, Refusal, Results, State};

/// What this server allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seconds of a test, its omitted beginning included.
    pub longest_s: u32,
    /// Streams in all.
    pub streams: u32,
}

/// What the caller does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write this to the control connection.
    Send(Vec<u8>),
    /// Wait for the streams' connections, then call [`Server::streams_are_there`].
    AwaitStreams,
    /// The client's time is over: when all is read from the streams, call [`Server::drained`].
    Stop,
    /// Give the results to [`Server::results`]; these are the client's.
    GiveResults(Results),
    /// Both have said all.
    Finish,
}

/// How a test fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// What was asked is not done here; the refusal has to be written.
    Refused(Refusal, &'static str),
    /// The client ended the test before its time.
    Terminated,
    /// The control connection ended in mid-test.
    Vanished,
    /// It broke the protocol, and how.
    Broken(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The parameters are to come.
    Asking,
    /// The streams are.
    Opening,
    Running,
    /// The client's end has come; what is under way is still read.
    Draining,
    /// The client's results are to come.
    Hearing,
    /// Its farewell is.
    Reported,
    Over,
}

/// The server of one test.
#[derive(Debug)]
pub struct Server {
    phase: Phase,
    limits: Limits,
    inbox: Inbox,
    asked: Parameters,
}

impl Server {
    /// A server whose client has given its cookie.
    pub fn new(limits: Limits) -> Self {
        Self { phase: Phase::Asking, limits, inbox: Inbox::default(), asked: Parameters::default() }
    }

    /// What to write when the cookie has come.
    pub fn opening() -> [u8; 1] {
        [State::ParamExchange.byte()]
    }

    /// What was asked for; nothing before [`Step::AwaitStreams`].
    pub fn asked(&self) -> &Parameters {
        &self.asked
    }

    /// Which way data flows.
    pub fn direction(&self) -> Direction {
        match (self.asked.reverse, self.asked.bidirectional) {
            (_, true) => Direction::Bidirectional,
            (true, false) => Direction::Reverse,
            (false, false) => Direction::Forward,
        }
    }

    /// Takes what came on the control connection.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Step>, Failure> {
        let broken = |e: Garbled| Failure::Broken(e.0);
        self.inbox.feed(bytes);
        let mut steps = Vec::new();
        loop {
            match self.phase {
                Phase::Asking => {
                    let Some(document) = self.inbox.document().map_err(broken)? else { return Ok(steps) };
                    let asked = Parameters::decode(&document);
                    self.asked = asked.map_err(|e| Failure::Refused(Refusal::PARAMETERS, e.0))?;
                    self.check()?;
                    self.phase = Phase::Opening;
                    steps.push(Step::Send(vec![State::CreateStreams.byte()]));
                    steps.push(Step::AwaitStreams);
                }
                Phase::Hearing => {
                    let Some(document) = self.inbox.document().map_err(broken)? else { return Ok(steps) };
                    self.phase = Phase::Reported;
                    steps.push(Step::GiveResults(Results::decode(&document).map_err(broken)?));
                }
                _ => {
                    let Some(state) = self.inbox.state().map_err(broken)? else { return Ok(steps) };
                    steps.push(self.state(state)?);
                }
            }
        }
    }

    /// The control connection has ended; whether that is well.
    pub fn closed(&self) -> Result<(), Failure> {
        // A client that has our results owes us nothing but a farewell.
        if matches!(self.phase, Phase::Reported | Phase::Over) { Ok(()) } else { Err(Failure::Vanished) }
    }

    /// All streams are there: what to write; data flows from now on.
    pub fn streams_are_there(&mut self) -> [u8; 2] {
        self.phase = Phase::Running;
        [State::TestStart.byte(), State::TestRunning.byte()]
    }

    /// Everything is read: what to write.
    pub fn drained(&mut self) -> [u8; 1] {
        self.phase = Phase::Hearing;
        [State::ExchangeResults.byte()]
    }

    /// Our results: what to write.
    pub fn results(&mut self, ours: &Results) -> Vec<u8> {
        let mut bytes = ours.encode();
        bytes.push(State::DisplayResults.byte());
        bytes
    }

    /// This server ends the test before its time: what to write.
    pub fn terminate() -> [u8; 1] {
        [State::ServerTerminate.byte()]
    }

    /// Another test runs: what to write.
    pub fn deny() -> [u8; 1] {
        [State::AccessDenied.byte()]
    }

    fn state(&mut self, state: State) -> Result<Step, Failure> {
        match (self.phase, state) {
            (Phase::Running, State::TestEnd) => {
                self.phase = Phase::Draining;
                Ok(Step::Stop)
            }
            (Phase::Reported, State::IperfDone) => {
                self.phase = Phase::Over;
                Ok(Step::Finish)
            }
            // iperf3's client says the second when it gives up for a reason of its own.
            (_, State::ClientTerminate | State::IperfDone) => Err(Failure::Terminated),
            _ => Err(Failure::Broken("a state came out of turn")),
        }
    }

    /// Refuses what is not done here.
    fn check(&self) -> Result<(), Failure> {
        let asked = &self.asked;
        let streams = asked.parallel.saturating_mul(if asked.bidirectional { 2 } else { 1 });
        let seconds = asked.time_s.saturating_add(asked.omit_s);
        let reasons = [
            (asked.authenticates, Refusal::NOT_AUTHORIZED, "it names a user, and none is known here"),
            (asked.sctp, Refusal::NO_SCTP, "SCTP is not served"),
            (!asked.tcp, Refusal::NOT_IMPLEMENTED, "only TCP is served"),
            (
                asked.reverse && asked.bidirectional,
                Refusal::BOTH_WAYS_TWICE,
                "both reverse and bidirectional",
            ),
            (
                asked.parallel == 0 || asked.parallel > MAX_PARALLEL || streams > self.limits.streams,
                Refusal::TOO_MANY_STREAMS,
                "too many streams",
            ),
            (asked.block > MAX_BLOCK, Refusal::BLOCK_TOO_LARGE, "too large a block"),
            (seconds > self.limits.longest_s, Refusal::TOO_LONG, "a longer test than --throughput-longest"),
        ];
        let first = reasons.into_iter().find(|(holds, ..)| *holds);
        first.map_or(Ok(()), |(_, refusal, why)| Err(Failure::Refused(refusal, why)))
    }
}
