//! What the events of a client under a policy (`fathom probe --as-client`) tell of its requests.

use serde::{Deserialize, Serialize};

/// The mode of a client, as recordings name it.
pub const CLIENT_MODE: &str = "tcp-client";

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was answered. Its row says so, and no event.
    Answered,
    /// No try got as far as being sent.
    Failed,
    /// It was sent and no answer came: whether the server did it is not known.
    Ambiguous,
    /// The breaker was open: nothing was tried.
    Shed,
    /// The second target answered, or the last answer was good enough.
    Fallback,
}

/// How a request ended that was not simply answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its ordinal in the run, from 0.
    pub request: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// From due to its end, in ns.
    pub waited_ns: u64,
    /// How often it was tried; the fallback's try counts too.
    pub tries: u32,
    /// Another try had been decided on and was never made: the breaker was open then, or the run was ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry_not_made: bool,
}

/// What is known of the requests of a client that was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// So many had been due when that was last noted, which is done at most a second before.
    pub due: u64,
    /// Those of them that have no end in the recording.
    pub not_known: u64,
}

/// A try that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TryFailed {
    /// The request's ordinal in the run, from 0.
    pub request: u64,
    /// Which of its tries, from 1.
    pub attempt: u32,
    /// Why.
    pub why: Why,
    /// It had been sent: the server may have done what it asks.
    pub sent: bool,
    /// For how long it had been tried: since it was sent, or, if it was not, since it wanted a connection, in ns.
    pub after_ns: u64,
    /// It was the fallback's try, at the second target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// Until the next try, in ns. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ns: Option<u64>,
}

/// Why a try failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// No connection could be made.
    NotConnected,
    /// The pool had none to give in time.
    PoolWait,
    /// No answer came in time; the connection was closed.
    TimedOut,
    /// The connection was closed or broke before the answer.
    ConnectionLost,
}

/// What a circuit breaker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Circuit {
    /// Everything is tried.
    Closed,
    /// Nothing is.
    Open,
    /// A few are, to see whether it may close.
    HalfOpen,
}

/// A circuit breaker changed what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerChanged {
    /// What it did.
    pub from: Circuit,
    /// What it does now.
    pub to: Circuit,
}
