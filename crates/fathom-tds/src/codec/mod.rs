//! What a client and a TDS server write to each other, by Microsoft's open specification \[MS-TDS\].

pub mod login;
pub mod packet;
pub mod prelogin;
pub mod request;
pub mod token;
pub(crate) mod unread;

/// Why a client is not understood, for its operator and ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No kind of message that a client sends.
    #[error("no message of a TDS client begins with the byte {0:#04x}")]
    Kind(u8),
    /// A length that no packet has.
    #[error("a packet's length is {0}; it is 8 to 32767")]
    PacketLength(usize),
    /// Of a packet that is not its message's last, MS-TDS 2.2.3.1.3 (from TDS 7.3 on): "Length MUST be the negotiated packet size".
    #[error("a packet without anything in it that does not end its message")]
    EmptyPacket,
    /// A packet of one message within another.
    #[error("a message begins before the one before it has ended")]
    Interleaved,
    /// More than a query's text.
    #[error("a message longer than 256 KiB")]
    MessageLength,
    /// Something is cut off, or points outside of its message.
    #[error("a {0} message that breaks off")]
    Torn(&'static str),
    /// TDS 7.1 and older lay out rows and counts otherwise.
    #[error("the client speaks TDS {major}.{minor}; 7.2 (SQL Server 2005) or newer is needed")]
    Version {
        /// 7.
        major: u8,
        /// 1.
        minor: u8,
    },
    /// Something that belongs to another moment.
    #[error("a {got} message where {wanted} should come")]
    OutOfTurn {
        /// What came.
        got: &'static str,
        /// What should have.
        wanted: &'static str,
    },
    /// Others have all the room.
    #[error("all sessions that are served at one time are taken; try again when one has ended")]
    Full,
    /// It wants a domain's tickets.
    #[error("the client logs in with a domain's tickets; log in with a user name and any password")]
    Integrated,
    /// The two ends cannot agree on encryption, or what came does not decipher.
    #[error("encryption: {0}")]
    Tls(String),
}

/// Reads the numbers and texts of a message from its beginning; `None` beyond its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|b| u16::from_le_bytes([b[0], b[1]]))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }
}

/// Text of two bytes a unit, as TDS has it; what is no UTF-16 shows as U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    String::from_utf16_lossy(&units)
}
