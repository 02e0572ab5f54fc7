//! Bytes that came and have not been read yet.

/// A queue that is read from its front in parts of any size.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    bytes: Vec<u8>,
    /// So many of them have been read.
    read: usize,
    /// Bytes that were moved to make room.
    #[cfg(test)]
    pub(crate) moved: usize,
}

impl Unread {
    /// Takes what came.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        // Moved only when as many have been read: a peer that sends the smallest packets there are makes no more work than its bytes.
        let rest = self.rest().len();
        if self.read >= rest {
            self.bytes.drain(..self.read);
            self.read = 0;
            #[cfg(test)]
            {
                self.moved += rest;
            }
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// So much of it has been read now.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.read += bytes;
    }
}
