//! What a protocol has to do. See [`super`].

use fathom_wire::{Integrity, Key};
use std::fmt::Debug;

/// Writes the requests of one connection and reads their answers, which come in the order of the requests.
///
/// For each request [`Protocol::fill`] is called once or several times, from its beginning to its end. What comes back
/// goes to [`Protocol::feed`] in whatever pieces the network made of it, with the request whose answer is next.
pub trait Protocol: Debug + Send {
    /// Bytes of a request for which the run plans `size` bytes.
    fn request_len(&self, size: u32) -> usize {
        size as usize
    }

    /// Writes the bytes `offset..offset + out.len()` of request `seq`.
    fn fill(&self, seq: u64, size: u32, offset: usize, out: &mut [u8]);

    /// Bytes to come until the answer to request `seq`, the next one, is whole; `None`: only its bytes will tell.
    fn owed(&self, seq: u64, size: u32) -> Option<usize>;

    /// Takes bytes of the answer to request `seq`: how many of `bytes` belong to it, and, once it is whole, whether it
    /// is the right one. Takes at least one byte.
    fn feed(&mut self, seq: u64, size: u32, bytes: &[u8]) -> (usize, Option<Integrity>);

    /// Whether the first bytes of the answer that is being read cannot be an answer, though it is not whole.
    fn is_off_track(&self) -> bool;

    /// Whether request 0 is answered on any fresh connection and changes nothing at the peer, so that a canary connection
    /// may ask it. If not, a canary only connects, and nothing is claimed about answers.
    fn canary_may_ask(&self) -> bool;
}

/// Makes the protocol of a fresh connection; the key is what makes its messages its own.
pub type Make = fn(Key) -> Box<dyn Protocol>;
