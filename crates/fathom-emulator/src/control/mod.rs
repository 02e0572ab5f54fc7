//! The control socket of a fabric: requests and answers, one JSON object a line.

mod protocol;
mod server;

pub use protocol::{Entry, Request, ask};
pub(crate) use server::{ControlState, DownRequest, Stop, listen, serve};
