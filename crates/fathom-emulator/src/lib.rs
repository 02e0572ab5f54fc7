//! An emulated network between hosts on this machine, driven by `fathom-fabric`.
//!
//! Each host is a network namespace with one TUN device (`hosts`). A daemon ([`daemon`]) moves packets between them through
//! the pure core of `fathom-fabric` (`engine`, which waits as `waiting` says), stops the processes of frozen hosts
//! (`freeze`), writes what it did ([`truth`]) and answers a control socket ([`control`]). What it made stands in a directory
//! before it is made ([`directory`]), so that whoever comes next can take it away ([`processes`], [`take_down`]), also after
//! a kill -9.
#![cfg(target_os = "linux")]

pub mod control;
pub mod daemon;
pub mod directory;
mod engine;
mod error;
mod freeze;
mod hosts;
pub mod processes;
mod take_down;
pub mod truth;
mod users;
mod waiting;

pub use error::Error;
pub use take_down::take_down;
pub use waiting::{Spinning, Wait};
