//! The control connection of iperf3's TCP test: what its two ends say to each other, as seen on the wire between
//! iperf3 3.12 and itself.
//!
//! ```text
//! client                                   server
//! cookie, 37 bytes                    ->
//!                                     <-   PARAM_EXCHANGE
//! document: parameters                ->
//!                                     <-   CREATE_STREAMS
//! one connection a stream, each begins
//! with the cookie                     ->
//!                                     <-   TEST_START, TEST_RUNNING
//! ............................ data on the streams ............................
//! TEST_END                            ->
//!                                     <-   EXCHANGE_RESULTS
//! document: results                   ->
//!                                     <-   document: results, DISPLAY_RESULTS
//! IPERF_DONE                          ->
//! ```
//!
//! A state is one byte. A document is its length (four bytes, big-endian) and JSON. A server that runs a test already
//! says `ACCESS_DENIED` and closes; one that will not do what it was asked says `SERVER_ERROR` and two numbers. Unknown
//! keys of a document are passed over by both; we add some of our own, whose names begin with `fathom_`.

mod inbox;
mod parameters;
mod results;
#[cfg(test)]
mod tests;

pub use inbox::{Garbled, Inbox};
pub use parameters::Parameters;
pub use results::{CpuUse, Range, Results, StreamResult};

use serde_json::Value;

/// The port where iperf3's servers listen unless told otherwise.
pub const PORT: u16 = 5201;
/// Bytes of a cookie: 36 characters and a NUL.
pub const COOKIE_LEN: usize = 37;
/// The longest document that is taken. 128 streams of results are about 30 kB; a server's own output, for which we do
/// not ask, would be longer.
pub const MAX_DOCUMENT: usize = 256 << 10;
/// Parallel streams each way that iperf3 allows ("number of parallel streams too large (maximum = 128)").
pub const MAX_PARALLEL: u32 = 128;
/// Bytes of a block that iperf3 allows ("block size too large (maximum = 1048576 bytes)").
pub const MAX_BLOCK: u32 = 1 << 20;

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

/// What ties the connections of one test together: 36 characters of `a-z2-7`, and a NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie([u8; COOKIE_LEN]);

impl Cookie {
    /// A cookie of these random numbers.
    pub fn new(random: [u64; 4]) -> Self {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut bytes = [0; COOKIE_LEN];
        for (i, byte) in bytes[..COOKIE_LEN - 1].iter_mut().enumerate() {
            // Nine letters of five bits from each number.
            *byte = LETTERS[(random[i / 9] >> (5 * (i % 9))) as usize & 31];
        }
        Self(bytes)
    }

    /// The cookie in these bytes; none: they are no text that ends with a NUL, so whoever sent them is no client.
    pub fn decode(bytes: &[u8; COOKIE_LEN]) -> Option<Self> {
        let (text, end) = bytes.split_at(COOKIE_LEN - 1);
        (end == [0] && text.iter().all(u8::is_ascii_graphic)).then_some(Self(*bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; COOKIE_LEN] {
        &self.0
    }
}

/// Why a server refuses, as it says after [`State::ServerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// iperf3's own number.
    pub code: u32,
    /// The system's, 0 where it has none to do with it.
    pub errno: u32,
}

impl Refusal {
    /// "test duration too long".
    pub const TOO_LONG: Self = Self { code: 5, errno: 0 };
    /// "number of parallel streams too large".
    pub const TOO_MANY_STREAMS: Self = Self { code: 6, errno: 0 };
    /// "block size too large".
    pub const BLOCK_TOO_LARGE: Self = Self { code: 7, errno: 0 };
    /// "an option you are trying to set is not implemented yet".
    pub const NOT_IMPLEMENTED: Self = Self { code: 13, errno: 0 };
    /// "no SCTP support available".
    pub const NO_SCTP: Self = Self { code: 18, errno: 0 };
    /// "cannot be both reverse and bidirectional".
    pub const BOTH_WAYS_TWICE: Self = Self { code: 25, errno: 0 };
    /// "unable to receive parameters from client".
    pub const PARAMETERS: Self = Self { code: 114, errno: 0 };
    /// "unable to set `TCP_CONGESTION`".
    pub const CONGESTION: Self = Self { code: 134, errno: 0 };
    /// "test authorization failed".
    pub const NOT_AUTHORIZED: Self = Self { code: 142, errno: 0 };

    /// The state and both numbers.
    pub fn encode(self) -> [u8; 9] {
        let mut bytes = [State::ServerError.byte(); 9];
        bytes[1..5].copy_from_slice(&self.code.to_be_bytes());
        bytes[5..].copy_from_slice(&self.errno.to_be_bytes());
        bytes
    }

    /// What it means, where we know; our words, not iperf3's.
    pub fn words(self) -> Option<&'static str> {
        Some(match self.code {
            5 => "it allows no test that long",
            6 => "it allows fewer parallel streams",
            7 => "it allows smaller blocks only",
            13 => "it does not implement an option that was asked for",
            18 => "it has no SCTP",
            25 => "reverse and bidirectional exclude each other",
            27 => "it allows less bandwidth than was asked for",
            114 => "it could not read the parameters",
            134 => "it has no such congestion control",
            142 => "it wants a user name and a password, which this client does not send",
            _ => return None,
        })
    }
}

/// The id that iperf3 gives to a test's stream of this ordinal (from 0): 1, 3, 4, 5, … Results name streams by it.
pub fn stream_id(ordinal: u32) -> u32 {
    if ordinal == 0 { 1 } else { ordinal + 2 }
}

/// A document as it stands on the wire.
fn document(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// A count under this key. iperf3's JSON library writes some integers as floating point, and -1 as 2^64 - 1: a number
/// below 0 or from 2^63 on is no count. 0 where the key is missing.
fn count(value: &Value, key: &str) -> Result<Option<u64>, Garbled> {
    match &value[key] {
        Value::Null => Ok(Some(0)),
        Value::Number(number) => {
            let whole = number.as_u64().or_else(|| number.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64));
            Ok(whole.filter(|n| *n < 1 << 63))
        }
        _ => Err(Garbled("a number in a document is none")),
    }
}

/// A count under this key that fits; 0 where the key is missing.
fn small(value: &Value, key: &str) -> Result<u32, Garbled> {
    let fits = count(value, key)?.and_then(|n| u32::try_from(n).ok());
    fits.ok_or(Garbled("a number in a document is out of bounds"))
}

/// A switch under this key: true, or a number that is not 0.
fn switch(value: &Value, key: &str) -> bool {
    match &value[key] {
        Value::Bool(on) => *on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

/// A text under this key, at most so many characters of it that print.
fn text(value: &Value, key: &str) -> Option<String> {
    const LONGEST: usize = 64;
    value[key].as_str().map(|text| text.chars().filter(|c| !c.is_control()).take(LONGEST).collect())
}
