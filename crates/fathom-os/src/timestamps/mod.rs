//! Software timestamps of the kernel (`SO_TIMESTAMPING`), where the system has them: 64-bit Linux. Elsewhere enabling
//! them is an error that says so, and nothing else is ever called.

#[cfg_attr(all(target_os = "linux", target_pointer_width = "64"), path = "linux.rs")]
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), path = "elsewhere.rs")]
mod system;

pub use system::{
    Keeper, Stampable, drain_error_queue, enable, enable_received, keep_enabled, recv_appending,
    recv_with_timestamp,
};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(crate) use system::{receive, receive_named};

/// What happened to the sent bytes that a stamp speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxKind {
    /// They were handed to the driver.
    Software,
    /// TCP: the peer's kernel acknowledged them all.
    Ack,
}
