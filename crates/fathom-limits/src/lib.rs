//! The searches for limits of connections (`fathom limits`) on sockets. What is done, and when, `fathom_core::limits` decides;
//! here it is done: connections are opened, written to, read and closed, and what happens is told.

mod ceiling;
mod drive;

pub use ceiling::{CeilingDriver, Stopping};
pub use drive::{Driver, Way};

use fathom_core::limits::Search;
use std::fmt::Debug;

/// Who watches a search while it runs, and may end it.
pub trait Watch: Debug {
    /// Shows how far it is, if it is time; when to be called again.
    fn tick(&mut self, now_ns: u64, search: &dyn Search) -> Option<u64>;
    /// Takes away what is shown, because it is over.
    fn clear(&mut self);
    /// Whether somebody wants it to end.
    fn is_to_stop(&self) -> bool;
}
