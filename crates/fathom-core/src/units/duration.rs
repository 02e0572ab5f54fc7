//! Durations.

use super::error::UnitError;
use std::time::Duration;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 86_400;

/// A duration: `500ms`, `72.9us`, `1m30s`, `11h 15m`. A bare `0` needs no unit; any other bare number does, because nobody
/// can tell it.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    duration_ns(text).map(Duration::from_nanos)
}

/// As [`duration`], in ns.
pub fn duration_ns(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    let wrong =
        |why: String| UnitError(format!("{why}; write a duration as in 250us, 1.5ms, 1s, 1m30s, 11h"));
    if text.starts_with('-') {
        return Err(wrong(format!("a duration cannot be negative (got {text})")));
    }
    if text == "0" {
        return Ok(0);
    }
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '_') {
        return Err(UnitError(format!("which unit? write {text}s, {text}ms or {text}us")));
    }
    // The micro sign and the Greek letter.
    let plain = text.replace("µs", "us").replace("μs", "us");
    let parsed = match fractional(&plain) {
        Some(duration) => duration,
        None => humantime::parse_duration(&plain).map_err(|e| wrong(format!("{text:?}: {e}")))?,
    };
    u64::try_from(parsed.as_nanos()).map_err(|_| wrong(format!("{text} is longer than 584 years")))
}

/// A duration in ns that may be negative: `-100us` is 100 µs less.
pub fn signed_duration_ns(text: &str) -> Result<i64, UnitError> {
    let text = text.trim();
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let ns = i64::try_from(duration_ns(magnitude)?)
        .map_err(|_| UnitError(format!("{text} is longer than 292 years; write less")))?;
    Ok(if negative { -ns } else { ns })
}

/// `0.5s`, `72.9us`: one number with a fraction and one unit.
fn fractional(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let number: f64 = number.trim().parse().ok()?;
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3_600e9,
        "d" => 86_400e9,
        _ => return None,
    };
    // Through whole ns: seconds as a float would make 72.9 µs 72,899 ns.
    let ns = (number * unit_ns).round();
    // Whole numbers beyond a float's digits are read by the parser of whole numbers.
    (ns.is_finite() && (0.0..9e15).contains(&ns)).then(|| Duration::from_nanos(ns as u64))
}

/// To the last nanosecond: `1m 30s 5ns`. [`duration_ns`] reads the same number back.
pub fn duration_exact(ns: u64) -> String {
    humantime::format_duration(Duration::from_nanos(ns)).to_string()
}

/// In a sentence, rounded: `310 ms`, `5.4 s`, `7m 3s`, `11h 15m`.
pub fn duration_text(ns: u64) -> String {
    spelled(ns, " ", "µs")
}

/// As options are written, rounded: `310ms`, `1.5us`, `20s`, `11h 15m`.
pub fn duration_compact(ns: u64) -> String {
    spelled(ns, "", "us")
}

fn spelled(ns: u64, gap: &str, micro: &str) -> String {
    if ns < 1_000 {
        return format!("{ns}{gap}ns");
    }
    for (unit, unit_ns, most_tenths) in
        [(micro, 1_000, 10_000), ("ms", 1_000_000, 10_000), ("s", 1_000_000_000, 600)]
    {
        let tenths = ns.saturating_add(unit_ns / 20) / (unit_ns / 10);
        // By the figure that is shown: 999.96 µs would read 1000 µs.
        if tenths < most_tenths {
            let fraction =
                if tenths.is_multiple_of(10) { String::new() } else { format!(".{}", tenths % 10) };
            return format!("{}{fraction}{gap}{unit}", tenths / 10);
        }
    }
    // To the nearest second, so that an hour less 11 ns is an hour.
    let s = (ns.saturating_add(500_000_000) / 1_000_000_000).max(MINUTE_S);
    match s {
        0..HOUR_S => format!("{}m {}s", s / MINUTE_S, s % MINUTE_S),
        HOUR_S..DAY_S => format!("{}h {}m", s / HOUR_S, s % HOUR_S / MINUTE_S),
        _ => format!("{}d {}h", s / DAY_S, s % DAY_S / HOUR_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A recording that is not ours may hold any number: a panic in a build that checks sums, a wrong figure in another.
    #[test]
    fn the_longest_duration_is_spelled() {
        assert_eq!(duration_compact(u64::MAX), "213503d 23h");
    }

    #[test]
    fn durations_as_people_write_them() {
        for (text, ns) in [
            ("250us", 250_000),
            ("72.9us", 72_900),
            ("72.9 µs", 72_900),
            ("72.9μs", 72_900),
            ("1062.29us", 1_062_290),
            ("500ms", 500_000_000),
            ("0.5s", 500_000_000),
            ("1m30s", 90_000_000_000),
            ("1m 30s", 90_000_000_000),
            ("11.25h", 40_500_000_000_000),
            ("2 days 1h", 176_400_000_000_000),
            (" 1s ", 1_000_000_000),
            ("1s 5µs", 1_000_005_000),
            ("0", 0),
        ] {
            assert_eq!(duration_ns(text), Ok(ns), "{text}");
            assert_eq!(duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        assert_eq!(signed_duration_ns("-1.5ms"), Ok(-1_500_000));
        assert_eq!(signed_duration_ns("+2s"), Ok(2_000_000_000));
    }

    #[test]
    fn invalid_duration_error_shows_the_syntax() {
        for (text, part) in [
            ("-1s", "negative"),
            ("250", "250us"),
            ("2.5", "unit"),
            ("soon", "as in"),
            ("", "as in"),
            ("1s,", "as in"),
            ("infs", "as in"),
            ("600000000000s", "584 years"),
        ] {
            let error = duration_ns(text).expect_err(text).to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
        }
        assert!(signed_duration_ns("--2s").is_err());
        assert!(signed_duration_ns("300years").is_err_and(|e| e.to_string().contains("292")));
    }

    #[test]
    fn durations_read_well() {
        for (ns, text, compact) in [
            (64, "64 ns", "64ns"),
            (1_500, "1.5 µs", "1.5us"),
            (450_000, "450 µs", "450us"),
            (999_960, "1 ms", "1ms"),
            (310_400_000, "310.4 ms", "310.4ms"),
            (5_400_000_000, "5.4 s", "5.4s"),
            (59_960_000_000, "1m 0s", "1m 0s"),
            (423_000_000_000, "7m 3s", "7m 3s"),
            (3_599_999_999_989, "1h 0m", "1h 0m"),
            (40_500_000_000_000, "11h 15m", "11h 15m"),
            (1_814_400_000_000_000, "21d 0h", "21d 0h"),
        ] {
            assert_eq!((duration_text(ns).as_str(), duration_compact(ns).as_str()), (text, compact));
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_exactly_reads_back_exactly(ns in prop_oneof![0..100_000_u64, any::<u64>()]) {
            prop_assert_eq!(duration_ns(&duration_exact(ns)), Ok(ns));
        }

        #[test]
        fn what_is_printed_reads_back(
            ns in prop_oneof![0..2_000_000_u64, 0..100_000_000_000_u64, 0..10_000_000_000_000_000_u64],
        ) {
            for print in [duration_text, duration_compact] {
                let text = print(ns);
                let back = duration_ns(&text).expect(&text);
                prop_assert_eq!(print(back), text.as_str());
                // Half of a tenth of the unit, or the whole of the lesser unit of two.
                prop_assert!(ns.abs_diff(back) as f64 <= ns as f64 / 20.0 + 1.0, "{text}");
            }
        }
    }
}
