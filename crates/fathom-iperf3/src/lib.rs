//! The throughput test, by the protocol of iperf3's TCP test: a client for `fathom probe --throughput` and a service for
//! `fathom echo --throughput`, which also meet iperf3's own server and clients.
//!
//! From the bottom up:
//!
//! * [`codec`]: what the two ends write to each other.
//! * [`machine`]: what each end does next, as pure state machines. No socket, no clock.
//! * [`account`], [`outcome`], [`replay`]: what counters come to.
//! * [`client`] and [`service`]: the drivers. One thread has the control connection and the clock, each stream has a
//!   thread of its own.
//!
//! Nothing here parses arguments, prints or records: what happens is handed to an [`client::Observer`] or told by a
//! [`service::Notice`].

pub mod account;
pub mod client;
pub mod codec;
mod control;
pub mod direction;
pub mod machine;
pub mod outcome;
pub mod pacer;
pub mod replay;
pub mod service;
mod stream;
mod streams;

pub use direction::Direction;
pub use streams::{StreamInterval, Traffic};
