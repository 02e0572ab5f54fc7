//! The echo message of Fathometer: what a probe sends, what a reflector writes into it, and how the probe
//! knows its own echo again.
//!
//! Everything here is a function of its arguments: no socket, no clock, no allocation on the hot path, no
//! `unsafe`. Sizes are bytes, times are integer nanoseconds, integers on the wire are big-endian.
//!
//! A message of [`HEADER_LEN`] bytes or more is a **frame**: a header (see [`frame`]) and a keyed
//! [`pattern`]. A shorter message has no room for a header; it is the first bytes of its sequence number and
//! the pattern (see [`message`]). Any RFC 862 server echoes either kind byte for byte; a reflector of ours
//! recognises frames in the stream and writes its stamps into them ([`stamp`]), and answers what it is asked
//! ([`question`]); with a [`secret`], for those alone who know it; and sends nothing back for what asks for that
//! ([`one_way`]). STAMP, which other measuring systems speak, is beside it
//! ([`rfc8762`]).

pub mod frame;
pub mod message;
pub mod notice;
pub mod one_way;
pub mod pattern;
pub mod question;
pub mod rfc8762;
pub mod secret;
pub mod silence;
pub mod stamp;

pub use frame::{HEADER_LEN, IDENTITY_MOST, Identity, MAX_LEN, ReflectorStamps, identity_of, is_same_place};
pub use message::{Checker, Integrity, Key};
pub use notice::Announced;
pub use one_way::{OneWay, Sieve};
pub use question::{About, Answer, Failure, Introduction, Question, Reply, Standing};
pub use secret::Secret;
pub use silence::{LongPauses, Silence, WAKING_NS};
pub use stamp::{ConnectionView, Stamper};
