//! An application under a policy on real sockets: it connects, sends, reads, waits and writes down. What is done, and when,
//! `fathom_core::policy` decides.

mod account;
mod driver;
mod policy_file;
mod socket;

pub use account::Account;
pub use driver::{Driver, Setup, Standing};
pub use policy_file::read_policy;
