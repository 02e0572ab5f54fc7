//! Searches for the highest rate that a path carries.

mod laws;
mod recorded;
