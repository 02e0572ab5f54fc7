//! Which end sends.

use crate::codec::MAX_PARALLEL;
use serde::{Deserialize, Serialize};

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
    /// For each stream, in the order in which their connections are made, whether the client sends on it. More than
    /// [`MAX_PARALLEL`] streams each way are in no test, whatever a recording or a peer says.
    pub fn client_sends(self, parallel: u32) -> Vec<bool> {
        let way = |sends| std::iter::repeat_n(sends, parallel.min(MAX_PARALLEL) as usize);
        match self {
            Self::Forward => way(true).collect(),
            Self::Reverse => way(false).collect(),
            Self::Bidirectional => way(true).chain(way(false)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_the_client_sends_on_come_first() {
        assert_eq!(Direction::Bidirectional.client_sends(2), [true, true, false, false]);
        assert_eq!(Direction::Reverse.client_sends(1), [false]);
        assert_eq!(Direction::Forward.client_sends(3), [true; 3]);
    }

    #[test]
    fn claimed_stream_count_is_capped() {
        assert_eq!(Direction::Bidirectional.client_sends(u32::MAX).len(), 256);
    }
}
