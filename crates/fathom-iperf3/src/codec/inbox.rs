//! Bytes that came on a control connection, in whatever pieces, taken apart by what is expected next.

use super::cookie::{COOKIE_LEN, Cookie};
use super::document::Malformed;
use super::limits::MAX_DOCUMENT;
use super::refusal::Refusal;
use super::state::State;
use serde_json::Value;

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
    pub fn state(&mut self) -> Result<Option<State>, Malformed> {
        let Some(&byte) = self.0.first() else { return Ok(None) };
        let state = State::from_byte(byte).ok_or(Malformed("a byte that is no state"))?;
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
    pub fn cookie(&mut self) -> Result<Option<Cookie>, Malformed> {
        let Some(bytes) = self.0.first_chunk::<COOKIE_LEN>() else { return Ok(None) };
        let cookie = Cookie::decode(bytes).ok_or(Malformed("what came first is no cookie"))?;
        self.0.drain(..COOKIE_LEN);
        Ok(Some(cookie))
    }

    /// The next document, a JSON object; `None`: it has not all come. One that announces more than [`MAX_DOCUMENT`]
    /// bytes is refused before they come.
    pub fn document(&mut self) -> Result<Option<Value>, Malformed> {
        let Some(length) = self.0.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_DOCUMENT {
            return Err(Malformed("a document is longer than any"));
        }
        let Some(text) = self.0.get(4..4 + length) else { return Ok(None) };
        match serde_json::from_slice(text) {
            Ok(value @ Value::Object(_)) => {
                self.0.drain(..4 + length);
                Ok(Some(value))
            }
            _ => Err(Malformed("a document is no JSON object")),
        }
    }
}
