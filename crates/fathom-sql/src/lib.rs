//! `fathom sql`: queries of a real database, each timed and split into the server's, the path's and this client's part.
//!
//! One thread a connection asks and reads ([`run()`], `asking`, `query`), one looks at what the server's backends do (`looks`), one
//! measures round trips of the same path at the same moments (`beside`), one writes the recording (`record`). What the server itself
//! counts is read before and after (`counts`). What the times mean decides
//! `fathom_core::query`, which has neither sockets nor clocks; the messages are encoded and decoded by `postgres-protocol`,
//! `fathom_mysql` and `fathom_tds::client`, which have none either, so that no asynchronous runtime is needed.
//!
//! What a run needs of a protocol is `protocol`; `postgres` (with `session` and `reader`), `mysql` and `tds` give it, and nothing
//! else here knows one.

mod asking;
mod backlog;
mod beside;
mod cancel;
mod channel;
mod config;
mod connections;
mod counts;
mod done;
mod ending;
mod environment;
mod error;
mod failed;
mod inbox;
mod limit;
mod link;
mod lock;
mod login;
mod looks;
mod lookup;
mod measured;
mod mysql;
mod patience;
mod pauses;
mod pgpass;
mod postgres;
mod protocol;
mod query;
mod reader;
mod record;
mod remedy;
mod run;
mod sending;
mod session;
mod ssl_mode;
mod statement;
mod stood;
mod stop;
mod stranger;
mod target;
mod tds;
#[cfg(test)]
mod tests;
mod tls;
mod turns;
mod under_way;
mod unfit;
mod violation;
mod work;

pub use config::{Config, Recording, Source, Turn};
pub use error::Error;
pub use run::run;
pub use ssl_mode::SslMode;
pub use stop::Stop;
pub use target::{Server, Target, Unreadable};
