//! Documents: JSON behind its length, and its values as iperf3's JSON library writes them.

use serde_json::Value;

/// What came is not what iperf3's protocol has there, and why that is thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// A document as it stands on the wire.
pub(super) fn encode(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// A count under this key. iperf3's JSON library writes some integers as floating point, and -1 as 2^64 - 1: a number
/// below 0 or from 2^63 on is no count. 0 where the key is missing.
pub(super) fn count(value: &Value, key: &str) -> Result<Option<u64>, Malformed> {
    match &value[key] {
        Value::Null => Ok(Some(0)),
        Value::Number(number) => {
            let whole = number.as_u64().or_else(|| number.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64));
            Ok(whole.filter(|n| *n < 1 << 63))
        }
        _ => Err(Malformed("a number in a document is none")),
    }
}

/// A count under this key that fits; 0 where the key is missing.
pub(super) fn small(value: &Value, key: &str) -> Result<u32, Malformed> {
    let fits = count(value, key)?.and_then(|n| u32::try_from(n).ok());
    fits.ok_or(Malformed("a number in a document is out of bounds"))
}

/// A switch under this key: true, or a number that is not 0.
pub(super) fn switch(value: &Value, key: &str) -> bool {
    match &value[key] {
        Value::Bool(on) => *on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

/// A text under this key, at most so many characters of it. Only what a terminal shows as itself: the text of a stranger
/// ends up in a log.
pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    const LONGEST: usize = 64;
    let shown = |c: &char| c.is_ascii_graphic() || *c == ' ';
    value[key].as_str().map(|text| text.chars().filter(shown).take(LONGEST).collect())
}
