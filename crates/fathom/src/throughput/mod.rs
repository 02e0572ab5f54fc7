//! What both ends of a throughput test have: streams with their threads, the control connection, the summary.
//! `probe::throughput` is the client and `echo::throughput` the server.

pub(crate) mod control;
pub(crate) mod flows;
pub(crate) mod replay;
pub(crate) mod stream;
pub(crate) mod summary;
pub(crate) mod words;

pub(crate) use fathom_core::throughput::MODE;

/// Bytes of a block where nobody says, as iperf3 has it for TCP.
pub(crate) const BLOCK: u32 = 128 << 10;
