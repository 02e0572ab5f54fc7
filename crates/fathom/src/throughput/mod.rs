//! The summary of a throughput test, which `probe` and `recording summary` print. The test itself is `fathom-iperf3`'s;
//! `probe::throughput` and `echo::throughput` compose it.

pub(crate) mod summary;
