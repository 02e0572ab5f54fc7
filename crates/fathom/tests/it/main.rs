//! End-to-end tests of the built binary, one module a subject.
//!
//! Modules named `acceptance` hold what needs time, load or a kernel in bulk: `make acceptance` runs them, `make test` does not.

mod support;

mod cli;
mod echo;
mod fabric;
mod faults;
mod limits;
mod probe;
mod recording;
mod sql;
mod throughput;
