//! The client of a test, with sockets and clock.

mod connect;
mod error;
mod options;
mod test;

pub use error::Error;
pub use options::{Target, TestOptions};
pub use test::{Finished, Observer, Test};
