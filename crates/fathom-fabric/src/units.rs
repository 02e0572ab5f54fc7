//! Durations, sizes and rates as people write them: `250us`, `1m30s`, `1MiB`, `1Gbit/s`.

use std::time::Duration;

/// A duration in ns. A bare `0` needs no unit; any other bare number does, because nobody can tell it.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(format!(
            "a duration cannot be negative here (got {text}); write it as in 250us, 1s, 1m30s"
        ));
    }
    if text == "0" {
        return Ok(0);
    }
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '_') {
        return Err(format!("which unit? write \"{text}us\", \"{text}ms\" or \"{text}s\""));
    }
    fractional(text)
        .map_or_else(|| humantime::parse_duration(text).map_err(|e| e.to_string()), Ok)
        .map_err(|e| format!("{e}; write a duration as in 250us, 1.5ms, 1s, 1m30s, 11h"))
        .and_then(|d| u64::try_from(d.as_nanos()).map_err(|_| format!("{text} is longer than 584 years")))
}

/// A duration in ns that may be negative: `-100us` is 100 µs less.
pub fn signed_duration_ns(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let ns =
        i64::try_from(duration_ns(magnitude)?).map_err(|_| format!("{text} is longer than 292 years"))?;
    Ok(if negative { -ns } else { ns })
}

/// `0.5s`, `72.9us`: one number with a fraction and one unit.
fn fractional(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ')?);
    let number: f64 = number.trim().parse().ok()?;
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3_600e9,
        "d" => 86_400e9,
        _ => return None,
    };
    // Through whole ns: seconds as a float would make 72.9 µs 72,899 ns.
    let ns = (number * unit_ns).round();
    (ns.is_finite() && (0.0..1.8e19).contains(&ns)).then(|| Duration::from_nanos(ns as u64))
}

/// A size in bytes: `64`, `1KiB`, `1MB`.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    text.trim()
        .parse::<bytesize::ByteSize>()
        .map(|size| size.as_u64())
        .map_err(|_| format!("{text} is no size; write it as in 64KiB, 1MiB, 9000"))
}

/// A rate in bits a second: `2.01Gbit/s`, `100Mbit/s`, `1Gbps`. Decimal multiples, as networks count.
pub fn rate_bits_per_s(text: &str) -> Result<u64, String> {
    let bad = || format!("{text} is no rate; write it as in 100Mbit/s, 2.5Gbit/s");
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?);
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let multiple = match unit.trim().to_ascii_lowercase().as_str() {
        "bit/s" | "bps" => 1.0,
        "kbit/s" | "kbps" => 1e3,
        "mbit/s" | "mbps" => 1e6,
        "gbit/s" | "gbps" => 1e9,
        "tbit/s" | "tbps" => 1e12,
        _ => return Err(bad()),
    };
    let bits = (number * multiple).round();
    if (1.0..1e18).contains(&bits) { Ok(bits as u64) } else { Err(bad()) }
}

/// For `#[serde(with = "crate::units::serde_ns")]` on a `u64` of ns: text with a unit, or an integer of ns.
pub mod serde_ns {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Text as people write it, exact.
    pub fn serialize<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(std::time::Duration::from_nanos(*ns)))
    }

    /// `"250us"`, or an integer of ns.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Ns(u64),
        }
        match Written::deserialize(deserializer).map_err(|_| {
            serde::de::Error::custom("a duration is text with a unit, as in \"250us\" or \"4m\"")
        })? {
            Written::Text(text) => super::duration_ns(&text).map_err(serde::de::Error::custom),
            Written::Ns(ns) => Ok(ns),
        }
    }
}

/// As [`serde_ns`], for an `Option<u64>`; add `#[serde(default)]`.
pub mod serde_ns_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Ns(#[serde(with = "super::serde_ns")] u64);

    /// Text as people write it, or nothing.
    pub fn serialize<S: Serializer>(ns: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        ns.map(Ns).serialize(serializer)
    }

    /// As [`super::serde_ns::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(Option::<Ns>::deserialize(deserializer)?.map(|ns| ns.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        for (text, ns) in [
            ("250us", 250_000),
            ("72.9us", 72_900),
            ("1062.29us", 1_062_290),
            ("1m30s", 90_000_000_000),
            ("11.25h", 40_500_000_000_000),
            ("145ms", 145_000_000),
            ("0", 0),
        ] {
            assert_eq!(duration_ns(text), Ok(ns), "{text}");
        }
        assert!(duration_ns("250").unwrap_err().contains("250us"));
        assert!(duration_ns("-1s").unwrap_err().contains("negative"));
        assert_eq!(signed_duration_ns("-1.5ms"), Ok(-1_500_000));
        assert_eq!(signed_duration_ns("+2s"), Ok(2_000_000_000));
        assert!(signed_duration_ns("--2s").is_err());
    }

    #[test]
    fn rates_and_sizes() {
        assert_eq!(rate_bits_per_s("2.01Gbit/s"), Ok(2_010_000_000));
        assert_eq!(rate_bits_per_s("100 Mbps"), Ok(100_000_000));
        assert!(rate_bits_per_s("100").unwrap_err().contains("Mbit/s"));
        assert!(rate_bits_per_s("-1Mbit/s").is_err());
        assert_eq!(size_bytes("1MiB"), Ok(1 << 20));
        assert!(size_bytes("big").is_err());
    }

    #[test]
    fn serde_reads_both_ways_of_writing() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct Config {
            #[serde(rename = "idle", with = "serde_ns")]
            idle_ns: u64,
            #[serde(default, with = "serde_ns_option")]
            hold: Option<u64>,
        }
        let config = Config { idle_ns: 240_000_000_000, hold: Some(5) };
        assert_eq!(serde_json::from_str::<Config>(r#"{"idle":"4m","hold":"5ns"}"#).unwrap(), config);
        assert_eq!(serde_json::from_str::<Config>(r#"{"idle":240000000000,"hold":5}"#).unwrap(), config);
        let again = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&again).unwrap(), config);
        assert!(toml::from_str::<Config>("idle = true").unwrap_err().to_string().contains("250us"));
    }
}
