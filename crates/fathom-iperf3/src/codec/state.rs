//! The states: what one byte on the control connection says.

/// What one byte on the control connection says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// All streams are there.
    TestStart,
    /// Send and receive.
    TestRunning,
    /// The client's time is over.
    TestEnd,
    /// Send your parameters.
    ParamExchange,
    /// Make the streams' connections.
    CreateStreams,
    /// The server ends the test before its time.
    ServerTerminate,
    /// The client ends the test before its time.
    ClientTerminate,
    /// Send your results; mine follow.
    ExchangeResults,
    /// That is all from me.
    DisplayResults,
    /// That is all from me too.
    IperfDone,
    /// Another test runs here, or this connection is not wanted.
    AccessDenied,
    /// This cannot be done; two numbers of four bytes follow, iperf3's own and the system's `errno`.
    ServerError,
}

const STATES: [(State, u8); 12] = [
    (State::TestStart, 1),
    (State::TestRunning, 2),
    (State::TestEnd, 4),
    (State::ParamExchange, 9),
    (State::CreateStreams, 10),
    (State::ServerTerminate, 11),
    (State::ClientTerminate, 12),
    (State::ExchangeResults, 13),
    (State::DisplayResults, 14),
    (State::IperfDone, 16),
    (State::AccessDenied, 0xFF),
    (State::ServerError, 0xFE),
];

impl State {
    /// Its byte.
    pub fn byte(self) -> u8 {
        STATES.iter().find(|(state, _)| *state == self).map_or(0, |(_, byte)| *byte)
    }

    /// The state of this byte; none: no state that either end of a TCP test says.
    pub fn from_byte(byte: u8) -> Option<Self> {
        STATES.iter().find(|(_, of)| *of == byte).map(|(state, _)| *state)
    }
}
