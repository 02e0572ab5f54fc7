//! Both ends of the control connection as pure machines: bytes in, steps out. Sockets, threads and clocks are the
//! caller's.

pub mod agreement;
pub mod client;
pub mod server;
#[cfg(test)]
mod tests;
