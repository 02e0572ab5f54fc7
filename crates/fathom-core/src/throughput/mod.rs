//! The throughput test: iperf3's control protocol as two pure machines ([`client`], [`server`]), the pace of a stream
//! ([`pacer`]) and what its counters come to ([`account`]). Sockets, threads and clocks are the caller's.

pub mod account;
pub mod client;
pub mod pacer;
pub mod server;

use serde::{Deserialize, Serialize};

/// The mode as recordings and summaries name it.
pub const MODE: &str = "tcp-throughput";

/// Which end sends, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client sends.
    Forward,
    /// The server sends.
    Reverse,
    /// Both send, on streams of their own.
    Bidirectional,
}

impl Direction {
    /// For each stream, in the order in which their connections are made, whether the client sends on it.
    pub fn client_sends(self, parallel: u32) -> Vec<bool> {
        let way = |sends| std::iter::repeat_n(sends, parallel as usize);
        match self {
            Self::Forward => way(true).collect(),
            Self::Reverse => way(false).collect(),
            Self::Bidirectional => way(true).chain(way(false)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
