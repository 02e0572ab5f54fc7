//! The kernel's view of a connection, on systems that do not give it.

use super::{ReceiveRoom, Segments, TransferTimes};
use fathom_core::event::TcpInfo;

/// None: this system does not tell.
pub fn tcp_info<S>(_stream: &S) -> Option<TcpInfo> {
    None
}

/// None: this system does not tell.
pub fn segments_sent<S>(_stream: &S) -> Option<Segments> {
    None
}

/// None: this system does not tell.
pub fn transfer_times<S>(_stream: &S) -> Option<TransferTimes> {
    None
}

/// None: this system does not tell.
pub fn receive_room<S>(_stream: &S) -> Option<ReceiveRoom> {
    None
}
