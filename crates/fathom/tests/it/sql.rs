//! `fathom sql`.

#[cfg(target_os = "linux")]
mod acceptance;
#[cfg(target_os = "linux")]
mod advice;
#[cfg(target_os = "linux")]
mod connections;
#[cfg(target_os = "linux")]
mod downgraded;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod full_disk;
mod interrupted;
mod mistakes;
#[cfg(target_os = "linux")]
mod mssql;
#[cfg(target_os = "linux")]
mod postgres;
#[cfg(target_os = "linux")]
mod sweep;
