//! The server's side of the control connection, from the cookie on.

use super::agreement::{Agreement, Limits};
use crate::codec::{Inbox, Malformed, Parameters, Refusal, Results, State};

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
    AwaitingResults,
    /// Its farewell is.
    Reported,
    Over,
}

/// The server of one test whose client has given its cookie.
///
/// The caller writes [`Server::opening`], feeds what it reads to [`Server::receive`], and does the steps that come back,
/// in their order:
///
/// 1. On [`Step::AwaitStreams`] wait for as many connections with the same cookie as [`Server::agreement`] has streams,
///    write [`Server::streams_are_there`], and let data flow.
/// 2. On [`Step::Stop`] stop sending; when all that is under way is read, write [`Server::drained`].
/// 3. On [`Step::GiveResults`] write [`Server::results`].
/// 4. On [`Step::Finish`] close.
///
/// [`Step::Send`] may stand before any of them. After a failure nothing more may be fed; one that is a refusal is written
/// first. When the connection ends, [`Server::closed`] says whether that was in order. The machine has no clock: how long
/// a client may take for each step is the caller's to bound.
#[derive(Debug)]
pub struct Server {
    phase: Phase,
    limits: Limits,
    inbox: Inbox,
    agreement: Option<Agreement>,
}

impl Server {
    /// A server that agrees to nothing above these limits.
    pub fn new(limits: Limits) -> Self {
        Self { phase: Phase::Asking, limits, inbox: Inbox::default(), agreement: None }
    }

    /// What to write when the cookie has come.
    pub fn opening() -> [u8; 1] {
        [State::ParamExchange.byte()]
    }

    /// What was agreed; none before [`Step::AwaitStreams`], and none after a refusal.
    pub fn agreement(&self) -> Option<&Agreement> {
        self.agreement.as_ref()
    }

    /// Takes what came on the control connection.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Step>, Failure> {
        let broken = |e: Malformed| Failure::Broken(e.0);
        self.inbox.feed(bytes);
        let mut steps = Vec::new();
        loop {
            match self.phase {
                Phase::Asking => {
                    let Some(document) = self.inbox.document().map_err(broken)? else { return Ok(steps) };
                    let asked = Parameters::decode(&document)
                        .map_err(|e| Failure::Refused(Refusal::PARAMETERS, e.0))?;
                    let agreement = Agreement::new(asked, self.limits)
                        .map_err(|(refusal, why)| Failure::Refused(refusal, why))?;
                    self.agreement = Some(agreement);
                    self.phase = Phase::Opening;
                    steps.push(Step::Send(vec![State::CreateStreams.byte()]));
                    steps.push(Step::AwaitStreams);
                }
                Phase::AwaitingResults => {
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
        self.phase = Phase::AwaitingResults;
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
}
