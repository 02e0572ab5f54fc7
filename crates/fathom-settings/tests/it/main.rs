//! Settings of pools and drivers, held against limits of a path.

mod advice;
mod files;
mod laws;
