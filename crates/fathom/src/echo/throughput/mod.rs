//! `fathom echo --throughput`: throughput tests for our probes and for iperf3's clients, one at a time.
//!
//! Nobody is sent anything who has not made a connection and given a cookie on it, so that a forged address draws
//! nothing. The [`door`] takes connections and reads cookies, a [`session`] runs one test.

mod args;
mod door;
mod served;
mod session;

pub(in crate::echo) use args::{Settings, ThroughputArgs};
pub(in crate::echo) use door::Service;
pub(in crate::echo) use served::Served;
