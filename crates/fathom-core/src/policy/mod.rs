//! What an application does about failures, as rules without a clock, a socket or a file: timeouts, retries, a pool of
//! connections, a circuit breaker, a fallback. A driver on sockets feeds it (`fathom probe --as-client`), and one in
//! virtual time (`fathom fabric simulate --as-client`). docs/policies.md draws each rule.
//!
//! ```text
//!     file -> settings         POLICY.toml, and what it means
//!     client                   the application: requests that are due at a rate, each until its one end
//!         -> pool              its connections: how many, which next, how old, whether they still work
//!         -> retry, budget     whether a failed try is repeated, and when
//!         -> breaker           whether anything is tried at all
//!         -> recovery          whether a target that nothing is tried on is back
//!     link                     one connection as it is written down; both drivers use it
//!     tally                    what the rows and events of a recording amount to
//! ```
//!
//! Each request ends as exactly one of: *answered*; *failed* (nothing was sent that was not answered); *ambiguous* (sent, and
//! no answer came: the server may have done it); *shed* (the breaker was open); *served by fallback*. A request that was sent
//! and not answered is never sent again unless the policy says that requests are idempotent.

mod breaker;
mod budget;
mod client;
mod file;
mod io;
mod link;
mod pool;
mod request;
mod retry;
mod settings;
mod tally;
mod timers;

pub use crate::event::{Circuit, Ended, TryFailed, Why};
pub use breaker::{Breaker, Permit};
pub use budget::Budget;
pub use client::Client;
pub use file::PolicyError;
pub use io::{Counts, Input, Outcome, Output};
pub use link::{Broken, Came, Link, Out, Place};
pub use retry::Waits;
pub use settings::{
    Age, Backoff, BreakerRule, BudgetRule, Fallback, Jitter, Order, Policy, PoolRule, RecoveryRule, Requests,
    Retry, Window,
};
pub use tally::{Amounts, NOTED_EVERY_NS, Tally, Waited};
