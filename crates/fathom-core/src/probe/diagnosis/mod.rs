//! What a silence or a death was about: what this end saw, what a canary connection met, what the peer reports.

pub(super) mod canary;
pub(super) mod silence;
