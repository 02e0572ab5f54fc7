//! As `serde_ns`, for an `Option<u64>`; add `#[serde(default)]`.

use super::serde_ns;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
struct Ns(#[serde(with = "serde_ns")] u64);

/// Text as people write it, or nothing.
pub fn serialize<S: Serializer>(ns: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    ns.map(Ns).serialize(serializer)
}

/// As [`serde_ns::deserialize`].
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Ns>::deserialize(deserializer)?.map(|ns| ns.0))
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[test]
    fn both_ways_of_writing_are_read() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Config {
            #[serde(rename = "idle", with = "super::serde_ns")]
            idle_ns: u64,
            #[serde(default, with = "super")]
            hold: Option<u64>,
        }
        let config = Config { idle_ns: 240_000_000_000, hold: Some(5) };
        for text in [r#"{"idle":"4m","hold":"5ns"}"#, r#"{"idle":240000000000,"hold":5}"#] {
            assert_eq!(serde_json::from_str::<Config>(text).unwrap(), config);
        }
        let again = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&again).unwrap(), config);
        let error = serde_json::from_str::<Config>(r#"{"idle":true}"#).unwrap_err();
        assert!(error.to_string().contains("250us"), "{error}");
    }
}
