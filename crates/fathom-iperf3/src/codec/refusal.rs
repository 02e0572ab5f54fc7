//! Why a server refuses, by iperf3's numbers.

use super::state::State;

/// Why a server refuses, as it says after [`State::ServerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// iperf3's own number.
    pub code: u32,
    /// The system's, 0 where it has none to do with it.
    pub errno: u32,
}

impl Refusal {
    /// "test duration too long".
    pub const TOO_LONG: Self = Self { code: 5, errno: 0 };
    /// "number of parallel streams too large".
    pub const TOO_MANY_STREAMS: Self = Self { code: 6, errno: 0 };
    /// "block size too large".
    pub const BLOCK_TOO_LARGE: Self = Self { code: 7, errno: 0 };
    /// "an option you are trying to set is not implemented yet".
    pub const NOT_IMPLEMENTED: Self = Self { code: 13, errno: 0 };
    /// "no SCTP support available".
    pub const NO_SCTP: Self = Self { code: 18, errno: 0 };
    /// "cannot be both reverse and bidirectional".
    pub const BOTH_WAYS_TWICE: Self = Self { code: 25, errno: 0 };
    /// "unable to receive parameters from client".
    pub const PARAMETERS: Self = Self { code: 114, errno: 0 };
    /// "unable to set `TCP_CONGESTION`".
    pub const CONGESTION: Self = Self { code: 134, errno: 0 };
    /// "test authorization failed".
    pub const NOT_AUTHORIZED: Self = Self { code: 142, errno: 0 };

    /// The state and both numbers.
    pub fn encode(self) -> [u8; 9] {
        let mut bytes = [State::ServerError.byte(); 9];
        bytes[1..5].copy_from_slice(&self.code.to_be_bytes());
        bytes[5..].copy_from_slice(&self.errno.to_be_bytes());
        bytes
    }

    /// What it means, where we know; our words, not iperf3's.
    pub fn words(self) -> Option<&'static str> {
        Some(match self.code {
            5 => "it allows no test that long",
            6 => "it allows fewer parallel streams",
            7 => "it allows smaller blocks only",
            13 => "it does not implement an option that was asked for",
            18 => "it has no SCTP",
            25 => "reverse and bidirectional exclude each other",
            27 => "it allows less bandwidth than was asked for",
            114 => "it could not read the parameters",
            134 => "it has no such congestion control",
            142 => "it wants a user name and a password, which this client does not send",
            _ => return None,
        })
    }
}
