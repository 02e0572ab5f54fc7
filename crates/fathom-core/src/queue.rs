//! A queue that may grow long where nothing may take long.

use std::collections::VecDeque;

/// What waits, in order, in blocks: one long buffer would be copied whole when it grows, for tens of ms in which no echo gets its
/// stamp, and would keep its memory.
#[derive(Debug)]
pub struct Queue<T> {
    /// None of them is empty.
    blocks: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { blocks: VecDeque::new(), len: 0 }
    }
}

impl<T> Queue<T> {
    const BLOCK: usize = 512;

    /// Whether nothing waits; then it keeps no memory.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    /// Adds one at the end.
    pub fn push(&mut self, message: T) {
        self.len += 1;
        match self.blocks.back_mut() {
            Some(block) if block.len() < Self::BLOCK => block.push_back(message),
            _ => {
                let mut block = VecDeque::with_capacity(Self::BLOCK);
                block.push_back(message);
                self.blocks.push_back(block);
            }
        }
    }

    /// Takes the first.
    pub fn pop(&mut self) -> Option<T> {
        let block = self.blocks.front_mut()?;
        let message = block.pop_front();
        self.len -= 1;
        if block.is_empty() {
            self.blocks.pop_front();
        }
        message
    }

    /// Takes back what [`Queue::pop`] gave.
    pub fn put_back(&mut self, message: T) {
        self.len += 1;
        match self.blocks.front_mut() {
            Some(block) if block.len() < Self::BLOCK => block.push_front(message),
            _ => self.blocks.push_front(VecDeque::from([message])),
        }
    }
}
