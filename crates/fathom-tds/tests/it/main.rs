//! A TDS server and its clients.

mod client;
mod encrypted;
mod service;
mod sessions;
