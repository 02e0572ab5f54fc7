//! Sockets and pauses, as this kernel has them.

#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
mod pause;
#[cfg(unix)]
mod socket;
