//! The whole behaviour of a probe, without a clock, a socket, a file or a thread: when a sample goes out, when a silence
//! is a stall, whom to ask, when to give up, how to come back. A driver on sockets (`fathom probe`) and one on a TCP in
//! virtual time (`fathom fabric simulate`) feed it; neither has rules of its own.
//!
//! ```text
//!     run (this file) -> lane -> connection -> protocol/   what a request is, when its answer is whole
//!                         |          +-> diagnosis/        silence, canary connection, peer report -> verdict
//!                         +-> policy/                      what becomes of a connection that is silent or lost
//!     path: what the lanes to one target share             context: settings, clocks, timers, outputs
//! ```

mod anomalies;
mod connection;
mod context;
mod diagnosis;
mod hold_up;
mod io;
mod lane;
mod load;
mod openings;
mod path;
mod pauses;
mod policy;
pub mod protocol;
mod run;
mod settings;
mod timers;
mod unsent;
mod unwatched;
mod usual;
pub(crate) mod words;
mod workers;

pub use context::RunEnd;
pub use io::{ErrorSource, Input, LinkId, LoadOrder, LoadReport, NetError, Output, Piece, Progress, Purpose};
pub use policy::reconnect::AT_MOST_NS as RECONNECT_AT_MOST_NS;
pub use run::Probe;
pub use settings::{CONNECT_RATE, LoadSettings, Request, Settings, Transport};
pub use words::cause_of;
pub use workers::Worker;
