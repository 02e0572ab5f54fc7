//! One session of the server, without a clock and without a socket.
//!
//! ```text
//!                prelogin            login             a question           its last packet is out
//!     hello ---------------> login ----------> ready -------------> serving --------------------> ready
//!                                                                     | attention: no further row, and the end says so
//!                                                                     +------------------------------------------> ready
//! ```
//!
//! The driver gives it what came ([`Session::received`]), does what [`Session::step`] asks for, and says how long sending was held
//! up. A reply is made packet by packet as it is sent, so that a result of any length takes no more memory than a packet.

mod answers;
pub mod question;
mod reply;
mod secure;
mod session;
pub mod waits;

pub use answers::{Doing, Seen, Transfer};
pub use secure::identity;
pub use session::{Served, Session, Step};
