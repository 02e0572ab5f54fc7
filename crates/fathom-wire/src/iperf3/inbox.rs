//! Bytes that came on a control connection, in whatever pieces, taken apart by what is expected next.

use super::{COOKIE_LEN, Cookie, MAX_DOCUMENT, Refusal, State};
use serde_json::Value;
use std::fmt;

/// What came is not what iperf3's protocol has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbled(pub &'static str);

impl fmt::Display for Garbled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Garbled {}

/// Bytes received and not yet understood. It never holds more than a document and what came with its end: whoever
/// feeds it takes what is whole before feeding more.
#[derive(Debug, Clone, Default)]
pub struct Inbox(Vec<u8>);

impl Inbox {
    /// Takes what came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Whether nothing waits to be understood.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte as a state; `None`: it has not come.
    pub fn state(&mut self) -> Result<Option<State>, Garbled> {
        let Some(&byte) = self.0.first() else { return Ok(None) };
        let state = State::from_byte(byte).ok_or(Garbled("a byte that is no state"))?;
        self.0.remove(0);
        Ok(Some(state))
    }

    /// The two numbers behind [`State::ServerError`]; `None`: they have not all come.
    pub fn refusal(&mut self) -> Option<Refusal> {
        let numbers = u64::from_be_bytes(*self.0.first_chunk()?);
        self.0.drain(..8);
        Some(Refusal { code: (numbers >> 32) as u32, errno: numbers as u32 })
    }

    /// The cookie with which a connection begins; `None`: it has not all come.
    pub fn cookie(&mut self) -> Result<Option<Cookie>, Garbled> {
        let Some(bytes) = self.0.first_chunk::<COOKIE_LEN>() else { return Ok(None) };
        let cookie = Cookie::decode(bytes).ok_or(Garbled("what came first is no cookie"))?;
        self.0.drain(..COOKIE_LEN);
        Ok(Some(cookie))
    }

    /// The next document, a JSON object; `None`: it has not all come. One that announces more than [`MAX_DOCUMENT`]
    /// bytes is refused before they come.
    pub fn document(&mut self) -> Result<Option<Value>, Garbled> {
        let Some(length) = self.0.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_DOCUMENT {
            return Err(Garbled("a document is longer than any"));
        }
        let Some(text) = self.0.get(4..4 + length) else { return Ok(None) };
        match serde_json::from_slice(text) {
            Ok(value @ Value::Object(_)) => {
                self.0.drain(..4 + length);
                Ok(Some(value))
            }
            _ => Err(Garbled("a document is no JSON object")),
        }
    }
}
