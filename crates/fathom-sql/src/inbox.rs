//! Bytes that were read and not yet taken, where the kernel has put them: of an answer nothing is moved, but what of a message has not
//! come whole when the memory is at its end.

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// So many from the beginning were taken.
    taken: usize,
}

impl Inbox {
    /// What is there.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// The first so many are taken.
    pub(crate) fn advance(&mut self, n: usize) {
        debug_assert!(n <= self.rest().len());
        self.taken += n;
    }

    /// All of it is taken.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
    }

    /// Where more is put: behind what is there.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_bytes_follow_unread_ones() {
        let mut inbox = Inbox::default();
        inbox.end().extend(b"a row and half of");
        inbox.advance(10);
        assert_eq!(inbox.rest(), b"half of");
        inbox.end().extend(b" another");
        assert_eq!(inbox.rest(), b"half of another");
        inbox.advance(15);
        assert!(inbox.is_empty() && inbox.end().is_empty());
        inbox.end().extend(b"more");
        inbox.clear();
        assert!(inbox.is_empty());
    }
}
