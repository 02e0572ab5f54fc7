//! Durations, sizes and rates as people write them: `500ms`, `11h`, `64`, `1KiB`, `100Mbit`.

use fathom_core::gaps::APART;
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

/// A rate in bits a second: `100Mbit` or `1Gbps` (decimal, as networks count), `50MB` or `8MiB` (bytes a second); a
/// trailing `/s` may be there.
pub(crate) fn bits_per_s(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is no rate; write it as in 100Mbit, 1Gbit or 50MB (bytes) a second");
    let rate = text.trim();
    let rate = rate.strip_suffix("/s").unwrap_or(rate);
    let bits = match ["bit", "bps"].into_iter().find_map(|unit| rate.strip_suffix(unit)) {
        Some(multiple) => {
            let (number, power) = match multiple.char_indices().next_back() {
                Some((at, 'k' | 'K')) => (&multiple[..at], 1e3),
                Some((at, 'm' | 'M')) => (&multiple[..at], 1e6),
                Some((at, 'g' | 'G')) => (&multiple[..at], 1e9),
                Some((at, 't' | 'T')) => (&multiple[..at], 1e12),
                _ => (multiple, 1.0),
            };
            number.trim().parse::<f64>().map_err(|_| wrong())? * power
        }
        None if rate.ends_with('B') => size(rate).map_err(|_| wrong())? as f64 * 8.0,
        None => return Err(wrong()),
    };
    // Ten terabits a second is more than any host has, and far from where integers end.
    if (1.0..=1e13).contains(&bits) { Ok(bits.round() as u64) } else { Err(wrong()) }
}

/// Sizes in bytes of a sweep: ascending, each once, none of them 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<u64>);

/// Silences of a plan: ascending, and apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gaps(pub(crate) Vec<Duration>);

/// A shorter silence is none: timers and the machine's idle states are of that order.
const SHORTEST_GAP: Duration = Duration::from_millis(1);

/// `1s,10s,60s`: silences, of which a recording must be able to tell one from another by its length.
pub(crate) fn gaps(text: &str) -> Result<Gaps, String> {
    let wrong = |what: String| format!("{what}; write it as in 1s,10s,60s");
    let mut all =
        text.split(',').map(|part| duration(part.trim())).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    all.sort_unstable();
    all.dedup();
    if all[0] < SHORTEST_GAP {
        return Err(wrong(format!("{:?} is no silence; the shortest is 1ms", all[0])));
    }
    if all.len() > MOST_SIZES {
        return Err(format!("{} gaps are more than the {MOST_SIZES} of one run; name fewer", all.len()));
    }
    match all.windows(2).find(|two| two[1] < two[0].mul_f64(APART)) {
        Some(two) => Err(wrong(format!("{:?} and {:?} are too near to be told apart", two[0], two[1]))),
        None => Ok(Gaps(all)),
    }
}

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
    fn silences_as_people_write_them() {
        let seconds = |text: &str| gaps(text).map(|gaps| gaps.0.iter().map(Duration::as_secs_f64).collect());
        assert_eq!(seconds("60s, 1s,10s,1s"), Ok(vec![1.0, 10.0, 60.0]));
        assert_eq!(seconds("100ms"), Ok(vec![0.1]));
        for (text, part) in [
            ("", "1s,10s,60s"),
            ("1s,", "1s,10s,60s"),
            ("0", "shortest"),
            ("5", "unit"),
            ("1s,1100ms", "told apart"),
        ] {
            assert!(gaps(text).is_err_and(|e| e.contains(part)), "{text}: {:?}", gaps(text));
        }
    }

    #[test]
    fn rates_as_people_write_them() {
        for (text, bits) in [
            ("100Mbit", 100_000_000),
            ("1Gbit/s", 1_000_000_000),
            ("2.5Gbps", 2_500_000_000),
            ("500 kbit", 500_000),
            ("8bit", 8),
            ("50MB", 400_000_000),
            ("1MiB/s", 8 << 20),
        ] {
            assert_eq!(bits_per_s(text), Ok(bits), "{text}");
        }
        for text in ["100", "100M", "-1Mbit", "0Mbit", "Mbit", "fast", "", "99Tbit", "nanMbit"] {
            assert!(bits_per_s(text).is_err_and(|e| e.contains("100Mbit")), "{text}: {:?}", bits_per_s(text));
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
