//! `MySQL`'s protocol, as `MySQL` and `MariaDB` speak it: the client's end of a session, without a clock and without a socket.
//!
//! ```text
//!     new ... the server's greeting ---> [Event::Secure: TLS begins] ---> login ---> Event::Ready
//!                                                                                       | ask: COM_QUERY
//!     Event::Row … <-------------------------------------------------------------------+
//!     Event::Over, or Event::Refused: the whole answer is read, and the next question may be asked
//! ```
//!
//! Rows in pieces, by a cursor: [`Client::prepare`], [`Event::Prepared`], [`Client::execute`]; then after each [`Event::Suspended`]
//! [`Client::fetch`], until [`Event::Over`].
//!
//! The driver sends what [`Client::take_out`] gives (whenever [`Client::event`] has run, and after every question), and hands over
//! what came ([`Client::event`] takes it until it gives nothing more). A row is read past as it comes: of a result nothing is kept
//! but how much of a packet is still to come, whatever length the server announces.
//!
//! Why not `mysql_common`: it is sans-I/O too, but brings values, parameters, compression and 15 crates that are not here yet
//! (0.38, zlib in C among them), and reads a packet when all of it is in memory. What is needed is a tenth of it.

mod answer;
mod auth;
mod client;
mod greeting;
mod packet;
mod reading;
#[cfg(test)]
mod tests;

pub use client::{Client, Event};
pub use greeting::Facts;
pub use packet::LONGEST;

/// What is to be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    Nothing,
    /// Everything where the server can, else nothing.
    IfOffered,
    /// Everything.
    Everything,
}

/// Who logs in.
#[derive(Clone)]
pub struct Login {
    /// The user.
    pub user: String,
    /// Its password; `None`: it has none.
    pub password: Option<String>,
    /// The database to be in; empty: none.
    pub database: String,
    /// What the server is told that we are.
    pub program: String,
    /// What is to be encrypted.
    pub encryption: Wanted,
    /// The certificate of whoever answers is checked, so that it may be told the password itself.
    pub is_checked: bool,
    /// A question may be several statements.
    pub several: bool,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What an error of the server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its number, as 1064.
    pub number: u16,
    /// Its SQLSTATE; `HY000` where it says none.
    pub state: String,
    /// In words, on one line.
    pub message: String,
    /// The connection is at its end.
    pub is_fatal: bool,
}

/// Why a session cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Its greeting is none.
    #[error("what answers does not speak MySQL's protocol")]
    OtherProtocol,
    /// It is older than `MySQL` 4.1.
    #[error("the server speaks no protocol since MySQL 4.1")]
    TooOld,
    /// Something is cut off, or is not what may stand there.
    #[error("a {0} that is none")]
    Malformed(&'static str),
    /// A packet that does not follow the one before it.
    #[error("packet {0} where {1} follows")]
    Order(u8, u8),
    /// It is more than such a thing can be.
    #[error("a {0} that is too long")]
    TooLong(&'static str),
    /// Something came though nothing was asked, or before TLS began.
    #[error("an answer to nothing that was asked")]
    Unasked,
    /// TLS was wanted.
    #[error("the server does not speak TLS")]
    NotEncrypted,
    /// The login is to be proved by what is not known here.
    #[error("the server asks for a login by {0}")]
    Plugin(String),
    /// By sending the password itself, to whoever answers on a path that anybody may read.
    #[error("the server asks for the password itself, and nothing is encrypted")]
    InTheClear,
    /// By sending the password itself to somebody whose certificate nobody checked.
    #[error("the server asks for the password itself, and its certificate is not checked")]
    Unchecked,
    /// A file of this host.
    #[error("the server asks for a file of this host")]
    File,
    /// It was asked while an answer is under way, or after its end, or for more of what was never prepared.
    #[error("the session is not ready for another question")]
    NotReady,
    /// A row whose values were to be kept is longer than is kept.
    #[error("a row of the answer is longer than fathom reads")]
    RowNotKept,
}

impl Trouble {
    /// Whether it is of this side, whatever came: no bytes are to blame.
    pub fn is_of_this_side(&self) -> bool {
        matches!(self, Self::NotReady | Self::RowNotKept)
    }
}
