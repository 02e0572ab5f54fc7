//! Numbers for narrow cells: each with its unit, none wider than its column.

/// Percentiles of the table.
pub(super) const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// What stands where there is no figure, or too few samples for one.
pub(super) const NONE: &str = "–";

/// A duration with so many significant digits and its unit, such as `74.23µs`; with three digits six columns wide at
/// most, with four seven, up to 10,000 s.
pub(super) fn time(ns: u64, digits: usize) -> String {
    if ns < 1_000 {
        return format!("{ns}ns");
    }
    let units = [(1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    for (i, (divisor, unit)) in units.into_iter().enumerate() {
        let value = ns as f64 / divisor;
        let whole = if value < 9.9995 {
            1
        } else if value < 99.995 {
            2
        } else {
            3
        };
        let text = format!("{value:.*}", digits.saturating_sub(whole));
        // 999.96 µs rounds to 1000.0: then it reads better in the next unit.
        if i == 2 || text.parse::<f64>().is_ok_and(|rounded| rounded < 1_000.0) {
            return format!("{text}{unit}");
        }
    }
    NONE.to_owned()
}

/// As [`time`], or a dash.
pub(super) fn time_or_dash(ns: Option<u64>, digits: usize) -> String {
    ns.map_or_else(|| NONE.to_owned(), |ns| time(ns, digits))
}

/// A count in at most five columns: exact below 10,000, then rounded down to three digits.
pub(super) fn count(n: u64) -> String {
    if n < 10_000 {
        return n.to_string();
    }
    let mut unit = 1_000;
    let mut letters = "kMGTPE".chars();
    let mut letter = letters.next().unwrap_or('k');
    while n / unit >= 1_000 {
        unit *= 1_000;
        letter = letters.next().unwrap_or(letter);
    }
    let whole = n / unit;
    let hundredths = n % unit / (unit / 100);
    match whole {
        0..10 => format!("{whole}.{hundredths:02}{letter}"),
        10..100 => format!("{whole}.{}{letter}", hundredths / 10),
        _ => format!("{whole}{letter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_digits_and_their_width() {
        for (ns, three, four) in [
            (0, "0ns", "0ns"),
            (999, "999ns", "999ns"),
            (1_000, "1.00µs", "1.000µs"),
            (74_230, "74.2µs", "74.23µs"),
            (999_960, "1.00ms", "1.000ms"),
            (1_234_567, "1.23ms", "1.235ms"),
            (20_000_000_000, "20.0s", "20.00s"),
            (4_000_000_000_000, "4000s", "4000.0s"),
        ] {
            assert_eq!((time(ns, 3).as_str(), time(ns, 4).as_str()), (three, four));
        }
        let mut ns: u64 = 1;
        while ns < 9_999_000_000_000 {
            assert!(time(ns, 3).chars().count() <= 6 && time(ns, 4).chars().count() <= 7, "{ns}");
            ns += 1 + ns / 97;
        }
    }

    #[test]
    fn counts_are_never_rounded_up_and_never_wide() {
        for (n, text) in
            [(9_999, "9999"), (12_399, "12.3k"), (999_999, "999k"), (1_239_999, "1.23M"), (u64::MAX, "18.4E")]
        {
            assert_eq!(count(n), text);
        }
    }
}
