//! What a request on a connection is, and when its answer is whole.
//!
//! A protocol is a file here that implements [`Protocol`]: it writes requests and reads answers, and knows no clock, no
//! socket and no other request than the one that is answered next. Which requests are out, which of them an answer
//! belongs to, and what becomes of both is [`crate::stream`]'s. Requests and answers may differ in length. The bytes
//! come in order (TCP); datagrams are matched by what [`crate::stream`] knows of echoes and STAMP packets.
//!
//! A connection that is itself the request is `connect`.

pub(super) mod connect;
mod contract;
mod echo;
pub(super) mod stamp;

pub use contract::{Make, Protocol};
pub(crate) use echo::Echo;
