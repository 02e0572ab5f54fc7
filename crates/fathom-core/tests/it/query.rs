//! How a query is split into server, path and client.

mod believed;
mod split;
mod sweeps;
