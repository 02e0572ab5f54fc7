//! The middleboxes in virtual time: hours pass in milliseconds, and every packet is one that the test made.

mod bench;
mod config;
mod firewall;
mod flow_table;
mod gateway;
mod load_balancer;
mod nat;
mod packets;
mod private_endpoint;
