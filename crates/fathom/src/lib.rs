//! The `fathom` command: arguments become a validated configuration, the configuration a run, the run an exit code.

mod cli;
mod command_line;
mod echo;
mod exit;
mod external;
#[cfg(target_os = "linux")]
mod fabric;
#[cfg(target_os = "linux")]
mod fabric_simulate;
#[cfg(target_os = "linux")]
mod host;
mod key_file;
mod limits;
mod limits_check;
mod log;
mod output;
mod probe;
mod recording;
mod signals;
mod sql;
mod throughput;
mod version;

pub use cli::main;
use fathom_core::values;
