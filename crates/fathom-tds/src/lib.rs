//! TDS for measuring. The server's end (`fathom echo --tds`): clients of SQL Server log in, are granted a size of packets, and read
//! rows from a source that has no disk and no planner, so that what is left is network and client. It is no database.
//!
//! * [`codec`]: what the two ends write to each other.
//! * [`client`]: the other end of a session (`fathom sql mssql://`), pure.
//! * [`machine`]: one session of the server, pure.
//! * [`service`]: the driver on sockets, a thread for each session.

pub mod client;
pub mod codec;
pub mod machine;
pub mod service;
