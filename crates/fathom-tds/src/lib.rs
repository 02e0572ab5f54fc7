//! A small TDS server for measuring (`fathom echo --tds`): clients of SQL Server log in, are granted a size of packets, and read
//! rows from a source that has no disk and no planner, so that what is left is network and client. It is no database.
//!
//! * [`codec`]: what the two ends write to each other.
//! * [`machine`]: one session, pure.
//! * [`service`]: the driver on sockets, a thread for each session.

pub mod codec;
pub mod machine;
pub mod service;
