//! Laws of the core, held in virtual time.

mod ceiling;
mod chance;
mod limits;
mod policy;
mod probe;
mod query;
mod world;
