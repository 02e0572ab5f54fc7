//! What a driver and the client say to each other.

use crate::cause::ClosingCause;
use crate::event::EventKind;

pub use crate::event::Outcome;

/// What the world did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing: the time has come that `next_wake` said.
    Wake,
    /// A connection is established.
    Connected {
        /// Which.
        id: u32,
    },
    /// A connection could not be made, was closed by the other end, or broke.
    Lost {
        /// Which.
        id: u32,
    },
    /// The answer to what was sent last on a connection.
    Answered {
        /// On which.
        id: u32,
        /// To what.
        ask: u64,
    },
    /// The user wants it to end: no request is due any more. Told again, those that are under way end at once too.
    Stop,
    /// Nothing happens any more. What fell due and could not begin, because this host did not run, has failed, and those that
    /// are under way end.
    Over,
}

/// What the driver is to do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Begin a connection; it is called this from now on.
    Open {
        /// Its number, which no other connection has.
        id: u32,
        /// To the first target (0) or to the fallback's (1).
        target: usize,
        /// Its place in the pool, counted over both targets. A place has one connection at a time.
        place: u32,
    },
    /// Send something.
    Send {
        /// On which connection, where nothing else waits for its answer.
        id: u32,
        /// Its ordinal on the connection, from 0.
        ask: u64,
        /// Which request it is, and when that was due. `None`: it only asks whether the connection works.
        request: Option<(u64, u64)>,
    },
    /// Close it. Nothing is to be told of it any more.
    Close {
        /// Which.
        id: u32,
        /// Why.
        cause: ClosingCause,
    },
    /// A request has ended.
    Ended {
        /// Which.
        request: u64,
        /// How.
        outcome: Outcome,
    },
    /// Record this.
    Event(EventKind),
}

/// How many requests were due, and what became of them: `due` is the sum of the others, at every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// They were due.
    pub due: u64,
    /// They were answered.
    pub answered: u64,
    /// They failed.
    pub failed: u64,
    /// They were sent, and no answer came.
    pub ambiguous: u64,
    /// They were shed.
    pub shed: u64,
    /// They were served by the fallback.
    pub fallback: u64,
    /// They have not ended.
    pub in_flight: u64,
}

impl Counts {
    pub(super) fn ended(&mut self, outcome: Outcome) {
        self.in_flight -= 1;
        *match outcome {
            Outcome::Answered => &mut self.answered,
            Outcome::Failed => &mut self.failed,
            Outcome::Ambiguous => &mut self.ambiguous,
            Outcome::Shed => &mut self.shed,
            Outcome::Fallback => &mut self.fallback,
        } += 1;
    }
}
