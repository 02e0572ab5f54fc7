//! `fathom sql`.

#[cfg(target_os = "linux")]
mod advice;
#[cfg(target_os = "linux")]
mod connections;
#[cfg(target_os = "linux")]
mod cut;
#[cfg(target_os = "linux")]
mod dead_path;
#[cfg(target_os = "linux")]
mod downgraded;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod full_disk;
mod interrupted;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(target_os = "linux")]
mod large_requests;
#[cfg(unix)]
mod mssql;
#[cfg(target_os = "linux")]
mod mysql;
#[cfg(target_os = "linux")]
mod postgres;
#[cfg(target_os = "linux")]
mod procedures;
#[cfg(target_os = "linux")]
mod recorded;
#[cfg(target_os = "linux")]
mod search_path;
#[cfg(target_os = "linux")]
mod short;
#[cfg(target_os = "linux")]
mod stopped;
#[cfg(target_os = "linux")]
mod sweep;
