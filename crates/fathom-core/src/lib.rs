//! The pure logic of a probe. Nothing here reads a clock, opens a socket or touches a file: time and bytes are
//! arguments, so that eleven hours are tested in milliseconds.
//!
//! Times: `mono_ns` is a monotonic clock of this host (origin arbitrary, never steps), `utc_ns` is nanoseconds
//! since the Unix epoch. Intervals end in `_ns`. A round trip is always measured between two `mono_ns`.

pub mod backoff;
pub mod cause;
pub mod clock;
pub mod event;
pub mod exposition;
pub mod gaps;
pub mod histogram;
pub mod host_port;
pub mod interleave;
pub mod interval;
pub mod limits;
pub mod load;
pub mod loss;
pub mod marks;
pub mod notice;
pub mod peer_report;
pub mod plain;
pub mod policy;
pub mod probe;
pub mod query;
pub mod queue;
pub mod rotation;
pub mod sample;
pub mod schedule;
pub mod spans;
pub mod stall;
pub mod statistics;
pub mod story;
pub mod stream;
pub mod strip;
pub mod summary;
pub mod text;
pub mod units;
pub mod values;
pub mod verdict;
