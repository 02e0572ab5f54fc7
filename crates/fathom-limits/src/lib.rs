//! The searches for limits of connections (`fathom limits`) on sockets. What is done, and when, `fathom_core::limits` decides;
//! here it is done: connections are opened, written to, read and closed, what happens is told, and how far it is is shown.

mod ceiling;
mod drive;
mod show;

pub use ceiling::CeilingDriver;
pub use drive::{Driver, Way};
pub use show::{Stopping, Ticker};
