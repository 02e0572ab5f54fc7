//! Commands that measure nothing, and what holds for every command.

mod cloud;
mod docs_options;
mod external;
#[cfg(target_os = "linux")]
mod host;
mod log;
mod mistakes;
mod operations;
mod plurals;
mod provenance;
mod readme_story;
mod shells;
