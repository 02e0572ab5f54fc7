//! `fathom echo`, on loopback.

mod acceptance;
mod key;
mod key_replay;
mod life;
mod questions;
pub(crate) mod reflector;
mod strangers;
mod tcp;
mod udp;
