//! Settings of pools and drivers, held against limits of a path.

mod advice;
mod documents;
mod files;
mod laws;
mod versions;
