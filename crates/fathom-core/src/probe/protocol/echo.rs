//! The answer is the request (RFC 862: "any data received is sent back"), but for what a reflector of ours writes into
//! the header. Messages too short for a header are echoed too; they carry what fits of their number.

use super::contract::Protocol;
use fathom_wire::{Checker, Integrity, Key, Secret};

/// See the module.
#[derive(Debug)]
pub(crate) struct Echo {
    key: Key,
    checker: Checker,
    secret: Option<Secret>,
}

impl Echo {
    pub(crate) fn new(key: Key) -> Self {
        Self::sealed(key, None)
    }

    /// The same, with requests that bear the code of a secret, for reflectors that answer nobody else.
    pub(crate) fn sealed(key: Key, secret: Option<Secret>) -> Self {
        Self { key, checker: Checker::default(), secret }
    }
}

impl Protocol for Echo {
    fn fill(&self, seq: u64, size: u32, offset: usize, out: &mut [u8]) {
        self.key.fill_sealed(self.secret.as_ref(), seq, size, offset, out);
    }

    fn owed(&self, _seq: u64, size: u32) -> Option<usize> {
        Some((size - self.checker.position()) as usize)
    }

    fn feed(&mut self, seq: u64, size: u32, bytes: &[u8]) -> (usize, Option<Integrity>) {
        self.checker.feed(self.key, seq, size, bytes)
    }

    fn is_off_track(&self) -> bool {
        !self.checker.is_intact()
    }

    fn canary_may_ask(&self) -> bool {
        true
    }
}
