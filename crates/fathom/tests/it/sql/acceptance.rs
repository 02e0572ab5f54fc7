//! Databases in bulk, pauses, and paths that the kernel delays or cuts.

mod advice;
mod connections;
mod cut;
mod dead_path;
mod killed;
mod large_requests;
mod mariadb;
mod postgres;
mod search_path;
mod short;
mod stopped;
mod sweep;
