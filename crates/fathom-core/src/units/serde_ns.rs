//! For `#[serde(with = "fathom_core::units::serde_ns")]` on a `u64` of ns: text with a unit, or an integer of ns.

use super::duration::{duration_exact, duration_ns};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Text as people write it, exact.
pub fn serialize<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&duration_exact(*ns))
}

/// `"250us"`, or an integer of ns.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Ns(u64),
    }
    let written = Written::deserialize(deserializer)
        .map_err(|_| Error::custom("a duration is text with a unit, as in \"250us\" or \"4m\""))?;
    match written {
        Written::Text(text) => duration_ns(&text).map_err(Error::custom),
        Written::Ns(ns) => Ok(ns),
    }
}
