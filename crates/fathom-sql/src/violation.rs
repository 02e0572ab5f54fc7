//! Bytes that are not of the protocol as fathom knows it. Nobody closed the connection then, and no log of the server's says
//! anything of it: what was read is told, and how to find out whose bytes they are.

use std::fmt;
use std::io;

/// See the module.
#[derive(Debug)]
pub(crate) struct Violation {
    why: String,
    /// How the message begins, five bytes at most: where the stream is out of step they may be of a value.
    begins: Vec<u8>,
}

impl Violation {
    /// What is wrong with a message that was read and begins so; empty where no bytes are known.
    pub(crate) fn error(why: &dyn fmt::Display, begins: &[u8]) -> io::Error {
        let violation = Self { why: why.to_string(), begins: begins.to_vec() };
        io::Error::new(io::ErrorKind::InvalidData, violation)
    }
}

/// Of an answer that had come before its request.
pub(crate) const STALE: &str = "an answer that was there before anything was asked";

/// What this side cannot do with a session, whatever came over it: nothing that was read is to blame, and nobody closed anything. The system
/// gives no error of this kind.
const OF_THIS_SIDE: io::ErrorKind = io::ErrorKind::Other;
/// What to do about that.
pub(crate) const REPORT_IT: &str = "it may be a bug of fathom's: report it with this line";

/// See [`OF_THIS_SIDE`].
pub(crate) fn of_this_side(why: &dyn fmt::Display) -> io::Error {
    io::Error::new(OF_THIS_SIDE, why.to_string())
}

/// Whether an error of this kind that ended an exchange is one of [`of_this_side`].
pub(crate) fn is_of_this_side(kind: io::ErrorKind) -> bool {
    kind == OF_THIS_SIDE
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        if self.begins.is_empty() { Ok(()) } else { write!(f, ", in what begins with {}", hex(&self.begins)) }
    }
}

impl std::error::Error for Violation {}

/// Whether this is what came, and not the end of the connection.
pub(crate) fn is_violation(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<Violation>())
}

/// Bytes as they are read in a capture.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

/// What to do about them, of a server on this port.
pub(crate) fn to_do(port: u16) -> String {
    format!(
        "capture it (tcpdump -i any -w fathom.pcap tcp port {port}) and see whether a proxy, pooler or balancer between sent it; if the server \
         did, it may be a bug of fathom's: report it with this line"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violation_shows_received_bytes() {
        let error = Violation::error(&"unknown message tag `H`", b"HTTP/");
        assert!(is_violation(&error));
        assert_eq!(error.to_string(), "unknown message tag `H`, in what begins with 48 54 54 50 2f");
        assert!(!is_violation(&io::ErrorKind::InvalidData.into()));
        assert!(to_do(5432).contains("tcp port 5432"));
        let ours = of_this_side(&"the session is not ready for another question");
        assert!(!is_violation(&ours) && is_of_this_side(ours.kind()));
    }
}
