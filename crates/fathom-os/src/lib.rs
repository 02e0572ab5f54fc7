//! The operating system edge: clocks, waiting, sockets, the kernel's view of a connection, help from the machine,
//! facts about the host. Linux first. Where another system offers less, a sibling file behind the same interface
//! says so, by `None` or by an error that names what is missing; nothing is pretended.
//!
//! This is the only crate of the workspace with unsafe code; each block states why it is sound.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

pub mod assist;
pub mod clock;
pub mod egress;
pub mod host;
pub mod interfaces;
#[cfg(target_os = "linux")]
pub mod namespace;
pub mod pause;
#[cfg(target_os = "linux")]
pub mod peer;
pub mod process;
pub mod reactor;
pub mod replace;
pub mod signals;
pub mod socket;
pub mod terminal;
pub mod timestamps;
#[cfg(target_os = "linux")]
pub mod tun;
