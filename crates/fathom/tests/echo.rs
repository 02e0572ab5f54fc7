//! `fathom echo`, the built binary, on loopback.

#[path = "support/echo_reflector.rs"]
mod reflector;

#[path = "support/echo_life.rs"]
mod life;
#[path = "support/echo_questions.rs"]
mod questions;
#[path = "support/echo_strangers.rs"]
mod strangers;
#[path = "support/echo_tcp.rs"]
mod tcp;
#[path = "support/echo_udp.rs"]
mod udp;
