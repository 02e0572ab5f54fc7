//! Which frames of ours a stream or a datagram holds.

use fathom_wire::frame::{IDENTITY_LEN, Identity};
use fathom_wire::{HEADER_LEN, Question};

/// A frame of ours, as its head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Echo(Identity),
    Question,
}

/// Reads the head.
pub(crate) fn frame_of(bytes: &[u8]) -> Option<Frame> {
    let head = bytes.first_chunk::<IDENTITY_LEN>().filter(|_| bytes.len() >= HEADER_LEN)?;
    let echo = Identity::decode(head).map(Frame::Echo);
    echo.or_else(|| Question::decode(head).map(|_| Frame::Question))
}
