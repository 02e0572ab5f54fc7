//! `fathom fabric`.

#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod migration;
mod models;
#[cfg(target_os = "linux")]
mod presets;
mod simulate_clients;
#[cfg(target_os = "linux")]
mod two_worlds;
