//! What a setting's value is written in. Times are ns in an `i64`, as far as that reaches (292 years); switches are 0 or 1.

use crate::version::Version;
use fathom_core::units::{duration_exact, duration_ns, duration_text};

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const S: i64 = 1_000 * MS;
pub(crate) const MIN: i64 = 60 * S;
pub(crate) const H: i64 = 60 * MIN;

/// The version of `HikariCP` since which it reads [`Unit::MillisOrSuffix`].
pub(crate) const SUFFIXES: Version = Version(6, 3, 0);

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A number of milliseconds.
    Millis,
    /// A number of milliseconds, or a whole number with `ms`, `s`, `m`, `h` or `d` (`HikariCP` since 6.3.0 in its own files).
    MillisOrSuffix,
    /// A number of seconds.
    Seconds,
    /// As Go writes durations: `1h30m`, `500ms`.
    Go,
    /// A switch.
    Bool,
    /// A number of things.
    Count,
}

impl Unit {
    /// Reads a value; what would be right where it cannot.
    pub(crate) fn read(self, text: &str) -> Result<i64, &'static str> {
        let text = text.trim();
        match self {
            Self::Millis => scaled(text, MS).ok_or("a number of milliseconds, as in 120000"),
            Self::MillisOrSuffix => {
                suffixed(text).ok_or("a number of milliseconds, as in 120000, or (since 6.3.0) 2m")
            }
            Self::Seconds => scaled(text, S).ok_or("a number of seconds, as in 120"),
            Self::Go => go(text).ok_or("a duration with its unit, as in 90s or 1h30m"),
            Self::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok(1),
                "false" | "no" | "off" | "0" => Ok(0),
                _ => Err("true or false"),
            },
            Self::Count => text.parse::<i32>().map(i64::from).map_err(|_| "a whole number"),
        }
    }

    /// Writes it, as a file has it.
    pub(crate) fn spell(self, value: i64) -> String {
        match self {
            Self::Millis | Self::MillisOrSuffix => (value / MS).to_string(),
            Self::Seconds => (value / S).to_string(),
            Self::Go if value % S == 0 => go_seconds(value / S),
            Self::Go => format!("{}ms", value / MS),
            Self::Bool => (value != 0).to_string(),
            Self::Count => value.to_string(),
        }
    }

    /// For people.
    pub(crate) fn show(self, value: i64) -> String {
        match self {
            Self::Bool | Self::Count => self.spell(value),
            _ if value <= 0 => "off".to_owned(),
            _ => exactly(value as u64),
        }
    }

    /// The smallest step that it can express.
    pub(crate) fn step(self) -> i64 {
        if self == Self::Seconds { S } else { MS }
    }
}

/// In a sentence, and never rounded: 29,999 ms is not 30 s, which may be the limit.
pub(crate) fn exactly(ns: u64) -> String {
    let rounded = duration_text(ns);
    if duration_ns(&rounded) == Ok(ns) { rounded } else { duration_exact(ns) }
}

fn scaled(text: &str, unit: i64) -> Option<i64> {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.checked_mul(unit);
    }
    // 1e4 and 30.5 are numbers too; words (inf, NaN) are none.
    let number: f64 =
        text.starts_with(|c: char| c.is_ascii_digit() || c == '-').then(|| text.parse().ok())??;
    let ns = number * unit as f64;
    (ns.is_finite() && ns.abs() < 9e18).then_some(ns as i64)
}

fn suffixed(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" | "ms" => MS,
        "s" => S,
        "m" => MIN,
        "h" => H,
        "d" => 24 * H,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
}

fn go(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut all = 0_i64;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?);
        let (unit, after) =
            after.split_at(after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len()));
        let unit = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => MS,
            "s" => S,
            "m" => MIN,
            "h" => H,
            _ => return None,
        };
        all = all.checked_add(scaled(number, unit)?)?;
        rest = after;
    }
    (!text.is_empty() && text.ends_with(|c: char| c.is_ascii_alphabetic())).then_some(if negative {
        -all
    } else {
        all
    })
}

fn go_seconds(seconds: i64) -> String {
    match (seconds / 3_600, seconds % 3_600 / 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, 0, 0) => format!("{h}h"),
        (h, m, 0) => format!("{h}h{m}m"),
        (h, m, s) => format!("{h}h{m}m{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_files_have_them() {
        for (unit, text, value) in [
            (Unit::Millis, "1800000", 30 * MIN),
            (Unit::Millis, "1e4", 10 * S),
            (Unit::MillisOrSuffix, "2m", 2 * MIN),
            (Unit::MillisOrSuffix, "30000", 30 * S),
            (Unit::Seconds, " 300 ", 5 * MIN),
            (Unit::Seconds, "-1", -S),
            (Unit::Go, "1h30m", 90 * MIN),
            (Unit::Go, "1.5h", 90 * MIN),
            (Unit::Go, "0", 0),
            (Unit::Go, "-5s", -5 * S),
            (Unit::Bool, "True", 1),
            (Unit::Bool, "off", 0),
            (Unit::Count, "10", 10),
        ] {
            assert_eq!(unit.read(text), Ok(value), "{text}");
        }
        for (unit, text) in [
            (Unit::Millis, "30m"),
            (Unit::Millis, "inf"),
            (Unit::Millis, "99999999999999999999"),
            (Unit::MillisOrSuffix, "2 weeks"),
            (Unit::Seconds, "5 Password=x"),
            (Unit::Go, "300"),
            (Unit::Go, "1h30"),
            (Unit::Go, ""),
            (Unit::Go, "h"),
            (Unit::Bool, "2"),
            (Unit::Count, "1.5"),
        ] {
            assert!(unit.read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for unit in [Unit::Millis, Unit::MillisOrSuffix, Unit::Seconds, Unit::Go] {
            for value in [unit.step(), S, 59 * S, 2 * MIN, 61 * S, H, H + S, 26 * H + 61 * S] {
                assert_eq!(unit.read(&unit.spell(value)), Ok(value), "{unit:?}");
            }
        }
    }
}
