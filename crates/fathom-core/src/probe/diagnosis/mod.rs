//! What a silence, a delay or a death was about: what this end saw, what a canary connection met, what the peer reports.

pub(super) mod canary;
pub(super) mod delay;
mod notices;
pub(super) mod peer_window;
pub(super) mod silence;
pub(super) mod ways;
