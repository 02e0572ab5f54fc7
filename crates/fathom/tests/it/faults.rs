//! Faults in real namespaces, and the verdicts about them.

mod deaths;
mod directions;
mod ipv6;
mod pauses;
mod senders;
mod stalls;
#[cfg(target_os = "linux")]
mod starved_loops;
