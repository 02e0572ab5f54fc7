//! Durations and sizes as people write them: `500ms`, `11h`, `64`, `1KiB`.

use std::time::Duration;

/// A duration with its unit. A bare `0` is allowed; any other bare number is not, because nobody can tell its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text.trim_start().starts_with('-') {
        return Err(format!("a duration cannot be negative; write it as in 500ms, 1s, 11h (got {text})"));
    }
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(format!("which unit? write {text}s, {text}ms or {text}us"));
    }
    fractional(text)
        .map_or_else(|| humantime::parse_duration(text).map_err(|e| e.to_string()), Ok)
        .map_err(|e| format!("{e}; write it as in 500ms, 1s, 1m30s, 11h"))
}

/// `off`, or how often something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffOr(pub(crate) Option<Duration>);

/// `off`, or the period of a clock that ticks.
pub(crate) fn off_or_period(text: &str) -> Result<OffOr, String> {
    if text == "off" {
        return Ok(OffOr(None));
    }
    match duration(text)? {
        period if period < Duration::from_millis(1) => {
            Err("shorter than 1ms costs more than it tells; write off to have none".to_owned())
        }
        period => Ok(OffOr(Some(period))),
    }
}

/// `0.5s`, `1.5ms`: one number with a fraction and one unit.
fn fractional(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ')?);
    let number: f64 = number.trim().parse().ok()?;
    let second = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * second).ok()
}

/// A size in bytes: `64`, `1KiB`, `1MB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    if text.trim_start().starts_with('-') {
        return Err(format!("a size cannot be negative (got {text})"));
    }
    text.parse::<bytesize::ByteSize>()
        .map(|size| size.as_u64())
        .map_err(|_| format!("{text} is no size; write it as in 64, 1KiB, 1MB"))
}

/// A rate in bits a second: `100Mbit`, `2.5Gbit/s`, `1Gbps`.
pub(crate) fn bitrate(text: &str) -> Result<u64, String> {
    let whole = if text.ends_with("bit") { format!("{text}/s") } else { text.to_owned() };
    fathom_fabric::units::rate_bits_per_s(&whole)
        .map_err(|_| format!("{text} is no rate; write it as in 100Mbit, 2.5Gbit/s"))
}

/// Sizes in bytes of a sweep: ascending, each once, none of them 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<u64>);

/// More sizes than this in one run would leave each with too few samples to say anything.
const MOST_SIZES: usize = 32;

/// `64,1KiB,4KiB..1MiB`: sizes, and ranges that double from their beginning and have their end in any case.
pub(crate) fn sizes(text: &str) -> Result<Sizes, String> {
    let wrong = |what: &str| format!("{what}; write it as in 64,1KiB,4KiB..1MiB");
    let one = |text: &str| match size(text.trim()) {
        Ok(0) => Err(wrong("an empty message has no echo")),
        Ok(bytes) => Ok(bytes),
        Err(e) => Err(wrong(&format!("{text:?}: {e}"))),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let Some((from, to)) = part.split_once("..") else {
            all.push(one(part)?);
            continue;
        };
        let (from, to) = (one(from)?, one(to)?);
        if from > to {
            return Err(wrong(&format!("{part}: the range ends below its beginning")));
        }
        all.extend(std::iter::successors(Some(from), |bytes| bytes.checked_mul(2)).take_while(|b| *b < to));
        all.push(to);
    }
    all.sort_unstable();
    all.dedup();
    if all.len() > MOST_SIZES {
        return Err(format!("{} sizes are more than the {MOST_SIZES} of one run; name fewer", all.len()));
    }
    Ok(Sizes(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        for (text, nanos) in [
            ("500ms", 500_000_000),
            ("1s", 1_000_000_000),
            ("0.5s", 500_000_000),
            ("1m30s", 90_000_000_000),
            ("11h", 39_600_000_000_000),
            ("100us", 100_000),
            ("0", 0),
        ] {
            assert_eq!(duration(text).map(|d| d.as_nanos()), Ok(nanos), "{text}");
        }
        assert!(duration("-1s").unwrap_err().contains("negative"));
        assert!(duration("5").unwrap_err().contains("unit"));
        assert!(duration("soon").unwrap_err().contains("as in"));
        assert!(duration("").is_err());
    }

    #[test]
    fn rates_as_people_write_them() {
        for (text, bits) in [("100Mbit", 100_000_000), ("2.5Gbit/s", 2_500_000_000), ("64kbps", 64_000)] {
            assert_eq!(bitrate(text), Ok(bits), "{text}");
        }
        for text in ["", "100", "0Mbit", "-1Mbit", "fast"] {
            assert!(bitrate(text).unwrap_err().contains("as in"), "{text}");
        }
    }

    #[test]
    fn a_period_can_be_off() {
        assert_eq!(off_or_period("off"), Ok(OffOr(None)));
        assert_eq!(off_or_period("15ms"), Ok(OffOr(Some(Duration::from_millis(15)))));
        assert!(off_or_period("0").unwrap_err().contains("off"));
    }

    #[test]
    fn sweeps_as_people_write_them() {
        let all = |text: &str| sizes(text).map(|sizes| sizes.0);
        assert_eq!(all("64"), Ok(vec![64]));
        assert_eq!(all("64, 1KiB,4KiB..16KiB"), Ok(vec![64, 1_024, 4_096, 8_192, 16_384]));
        assert_eq!(all("1000..5000"), Ok(vec![1_000, 2_000, 4_000, 5_000]));
        assert_eq!(all("8,2..8,2"), Ok(vec![2, 4, 8]));
        for (text, part) in [
            ("", "as in"),
            ("64,", "as in"),
            ("0,64", "no echo"),
            ("0..8", "no echo"),
            ("8..4", "below its beginning"),
            ("1..2..3", "as in"),
            ("big", "as in"),
            ("1,2,3,4,5,6,7,9,10,11,12,13,14,15,16..64MiB", "name fewer"),
        ] {
            assert!(sizes(text).is_err_and(|e| e.contains(part)), "{text}: {:?}", sizes(text));
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [("64", 64), ("1KiB", 1_024), ("1KB", 1_000), ("1MiB", 1 << 20)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert!(size("-1").is_err());
        assert!(size("big").is_err());
    }
}
