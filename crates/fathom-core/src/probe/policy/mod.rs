//! What becomes of a connection that is silent, or that was lost. A policy says what is to be done; it does nothing
//! itself.

pub(super) mod give_up;
pub(super) mod reconnect;
