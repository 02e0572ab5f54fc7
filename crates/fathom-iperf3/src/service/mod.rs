//! Throughput tests for our clients and for iperf3's, one at a time.
//!
//! Nobody is sent anything who has not made a connection and given a cookie on it, so that a forged address draws
//! nothing. The acceptor takes connections and reads cookies, a session runs one test, and both share the slot that says
//! whose test runs.

mod acceptor;
mod counts;
mod notice;
mod session;
mod slot;

pub use acceptor::{Service, ServiceOptions};
pub use counts::Counts;
pub use notice::Notice;
