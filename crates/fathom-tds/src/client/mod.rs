//! The client's end: a session with a server of SQL Server's kind, without a clock and without a socket.
//!
//! ```text
//!     new: prelogin ---> [handshake, within packets] ---> login ---> Event::Ready
//!                                                                        | ask: a batch
//!     Event::Row, Told, Done … <----------------------------------------+
//!     Event::Over: the whole answer is read, and the next question may be asked
//!            ^--- stop (ATTENTION): what is under way still comes, and then the server's word that it stopped
//! ```
//!
//! The driver sends what [`Client::take_out`] gives (after [`Client::new`], after every question, and whenever [`Client::event`] has
//! run), hands over what came ([`Client::received`]) and takes events until there is none. A row is read past as it comes: of a
//! result nothing is kept but the number of the column that is under way.

mod columns;
mod machine;
mod replies;
mod request;
mod secure;
#[cfg(test)]
mod tests;
mod tokens;

pub use machine::{Client, Event};
pub use replies::Counts;
pub use request::Login;
pub use tokens::Told;

/// How much of a session is to be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing: neither the password.
    Nothing,
    /// The login, and more where the server insists.
    Login,
    /// Everything where the server can, else nothing.
    IfOffered,
    /// Everything.
    Everything,
}

/// How much of it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encrypted {
    /// Nothing.
    #[default]
    Nothing,
    /// The login.
    Login,
    /// Everything.
    Everything,
}

/// What a login came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// What the server calls itself.
    pub program: String,
    /// Its release: major, minor, and two bytes of build.
    pub release: [u8; 4],
    /// How much is encrypted.
    pub encrypted: Encrypted,
    /// The database that the session is in.
    pub database: String,
    /// The size of packets that was asked for.
    pub asked: u16,
    /// The size that was granted.
    pub granted: u16,
}

impl Facts {
    /// `Microsoft SQL Server 16.0.1000`.
    pub fn version(&self) -> String {
        let [major, minor, high, low] = self.release;
        // Old servers end the name with null characters.
        let program = self.program.trim_end_matches('\0');
        format!("{program} {major}.{minor}.{}", u16::from_be_bytes([high, low]))
    }
}

/// Why a session cannot go on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// A kind of packet that no server sends.
    #[error("what answers does not speak TDS: a packet begins with the byte {0:#04x}")]
    Kind(u8),
    /// A length that no packet has.
    #[error("a packet's length is {0}; it is 8 to 32767")]
    PacketLength(usize),
    /// As [`crate::codec::Refusal::EmptyPacket`].
    #[error("a packet without anything in it that does not end its message")]
    EmptyPacket,
    /// Something came though nothing was asked.
    #[error("an answer to nothing that was asked")]
    Unasked,
    /// Something is cut off.
    #[error("a {0} that breaks off")]
    Torn(&'static str),
    /// It is more than such a thing can be.
    #[error("a {0} that is too long")]
    TooLong(&'static str),
    /// Not of TDS 7.2 to 7.4, or of something that was not asked for.
    #[error("a token {0:#04x}, which is not known")]
    Token(u8),
    /// As before.
    #[error("a column of the type {0:#04x}, which is not known")]
    Type(u8),
    /// A row, and nobody said of what columns.
    #[error("a row before its columns")]
    NoColumns,
    /// A size that was not to be granted.
    #[error("{0:?} is granted as the size of packets; it is 512 to 32767")]
    Granted(String),
    /// The handshake failed, or what came does not decipher.
    #[error("TLS: {0}")]
    Handshake(rustls::Error),
    /// What came under TLS could not be taken.
    #[error("TLS: {0}")]
    Tls(String),
    /// It was wanted.
    #[error("the server does not encrypt")]
    NotEncrypted,
    /// It was not wanted.
    #[error("the server insists on encryption")]
    InsistsOnEncryption,
    /// It names another server: Azure SQL does, where it redirects.
    #[error("the server sends its clients to {host}:{port}")]
    Elsewhere {
        /// Its name.
        host: String,
        /// Its port.
        port: u16,
    },
    /// It does not let the user in.
    #[error("{0}")]
    Refused(Told),
    /// The login ended, and neither was acknowledged nor refused.
    #[error("the login has no answer")]
    NoAnswer,
    /// It was asked while an answer is under way, or before its login.
    #[error("the session is not ready for another question")]
    NotReady,
    /// A row whose values were to be kept is longer than is kept, or has more columns.
    #[error("a row of the answer is longer than fathom reads")]
    RowNotKept,
}

impl Trouble {
    /// Whether it is of this side, whatever came: no bytes are to blame.
    pub fn is_of_this_side(&self) -> bool {
        matches!(self, Self::NotReady | Self::RowNotKept)
    }
}
