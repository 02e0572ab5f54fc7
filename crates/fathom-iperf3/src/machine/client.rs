//! The client's side of the control connection.

use crate::codec::{Cookie, Inbox, Malformed, Parameters, Refusal, Results, State};

/// What the caller does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write this to the control connection.
    Send(Vec<u8>),
    /// Make the streams' connections; each begins with the cookie.
    OpenStreams,
    /// Send and receive, from now on.
    Begin,
    /// The server has stopped: when all is read from the streams, call [`Client::results`].
    GiveResults,
    /// The test is over. These are the server's results.
    Finish(Results),
}

/// How a test fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The server runs another test.
    Busy,
    /// What answered does not speak this protocol, and why that is thought.
    Foreign(&'static str),
    /// The server will not do what was asked.
    Refused(Refusal),
    /// The server ended the test before its time.
    Terminated,
    /// The control connection ended in mid-test.
    Vanished,
    /// It spoke the protocol and then broke it, and how.
    Broken(&'static str),
}

/// Where the test stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The cookie is on its way.
    Greeted,
    /// The parameters are.
    Asked,
    /// The streams are made.
    Opening,
    /// They are all there.
    Starting,
    /// Data flows.
    Running,
    /// The end has been told.
    Ending,
    /// The server waits for the results.
    Owing,
    /// The results are on their way.
    Reported,
    /// The server's have come.
    Informed,
    /// Both have said all.
    Over,
}

/// The client of one test.
///
/// The caller writes what [`Client::opening`] gives, feeds what it reads to [`Client::receive`], and does the steps that
/// come back, in their order:
///
/// 1. On [`Step::OpenStreams`] make the streams' connections, each beginning with the same cookie.
/// 2. On [`Step::Begin`] let data flow. When the time is over, write [`Client::end`] and stop sending.
/// 3. On [`Step::GiveResults`] when all is read from the streams, write [`Client::results`].
/// 4. On [`Step::Finish`] write [`farewell`] and close.
///
/// [`Step::Send`] may stand before any of them. To give up at any time, write [`Client::terminate`] and close. After a
/// failure nothing more may be fed. When the connection ends, [`Client::closed`] says whether that was in order.
#[derive(Debug)]
pub struct Client {
    phase: Phase,
    parameters: Parameters,
    inbox: Inbox,
    /// `SERVER_ERROR` has come, its numbers not yet.
    refused: bool,
    theirs: Option<Results>,
}

impl Client {
    /// A client that will ask for this.
    pub fn new(parameters: Parameters) -> Self {
        Self { phase: Phase::Greeted, parameters, inbox: Inbox::default(), refused: false, theirs: None }
    }

    /// What to write first.
    pub fn opening(cookie: &Cookie) -> Vec<u8> {
        cookie.bytes().to_vec()
    }

    /// Takes what came on the control connection. After a failure nothing more is understood.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Step>, Failure> {
        self.inbox.feed(bytes);
        let mut steps = Vec::new();
        loop {
            if self.refused {
                let Some(refusal) = self.inbox.refusal() else { return Ok(steps) };
                return Err(Failure::Refused(refusal));
            }
            if self.phase == Phase::Reported && self.theirs.is_none() {
                let Some(document) = self.inbox.document().map_err(|e| self.malformed(e))? else {
                    return Ok(steps);
                };
                self.theirs = Some(Results::decode(&document).map_err(|e| self.malformed(e))?);
                self.phase = Phase::Informed;
                continue;
            }
            let Some(state) = self.inbox.state().map_err(|e| self.malformed(e))? else { return Ok(steps) };
            steps.extend(self.state(state)?);
        }
    }

    /// The control connection has ended; whether that is well.
    pub fn closed(&self) -> Result<(), Failure> {
        match self.phase {
            Phase::Over => Ok(()),
            // Whoever closes instead of answering a cookie wanted none.
            Phase::Greeted => Err(Failure::Foreign("it closed the connection instead of answering")),
            _ => Err(Failure::Vanished),
        }
    }

    /// The time is over: what to write, once, while data flows.
    pub fn end(&mut self) -> Option<Vec<u8>> {
        (self.phase == Phase::Running).then(|| {
            self.phase = Phase::Ending;
            vec![State::TestEnd.byte()]
        })
    }

    /// The test is given up: what to write, unless it is over.
    pub fn terminate(&self) -> Option<Vec<u8>> {
        (self.phase != Phase::Over).then(|| vec![State::ClientTerminate.byte()])
    }

    /// Our results, asked for by [`Step::GiveResults`]: what to write.
    pub fn results(&mut self, ours: &Results) -> Vec<u8> {
        self.phase = Phase::Reported;
        ours.encode()
    }

    /// Whether the server has said anything that a server of this protocol says.
    pub fn is_answered(&self) -> bool {
        self.phase != Phase::Greeted
    }

    fn state(&mut self, state: State) -> Result<Option<Step>, Failure> {
        let (next, step) = match (self.phase, state) {
            (_, State::AccessDenied) => return Err(Failure::Busy),
            (_, State::ServerTerminate) => return Err(Failure::Terminated),
            (phase, State::ServerError) => {
                self.refused = true;
                (phase, None)
            }
            (Phase::Greeted, State::ParamExchange) => {
                (Phase::Asked, Some(Step::Send(self.parameters.encode())))
            }
            (Phase::Asked, State::CreateStreams) => (Phase::Opening, Some(Step::OpenStreams)),
            (Phase::Opening, State::TestStart) => (Phase::Starting, None),
            (Phase::Starting, State::TestRunning) => (Phase::Running, Some(Step::Begin)),
            (Phase::Ending, State::ExchangeResults) => (Phase::Owing, Some(Step::GiveResults)),
            (Phase::Informed, State::DisplayResults) => {
                let theirs = self.theirs.take().unwrap_or_default();
                return Ok(Some(self.finish(theirs)));
            }
            (Phase::Greeted, _) => return Err(Failure::Foreign("it answered with another state")),
            _ => return Err(Failure::Broken("a state came out of turn")),
        };
        self.phase = next;
        Ok(step)
    }

    fn finish(&mut self, theirs: Results) -> Step {
        self.phase = Phase::Over;
        Step::Finish(theirs)
    }

    fn malformed(&self, what: Malformed) -> Failure {
        if self.is_answered() { Failure::Broken(what.0) } else { Failure::Foreign(what.0) }
    }
}

/// What to write when [`Step::Finish`] has come.
pub fn farewell() -> [u8; 1] {
    [State::IperfDone.byte()]
}
