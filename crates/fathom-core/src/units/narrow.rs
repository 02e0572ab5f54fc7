//! Numbers for narrow cells: each with its unit, none wider than its column.

use crate::histogram::{Histogram, bucket_range, supports};

/// Percentiles of the table.
pub const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// What stands where there is no figure, or too few samples for one.
pub const NONE: &str = "–";

/// A duration with so many significant digits and its unit, such as `74.23µs`; with three digits six columns wide at
/// most, with four seven, up to 10,000 s.
pub fn time(ns: u64, digits: usize) -> String {
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
pub fn time_or_dash(ns: Option<u64>, digits: usize) -> String {
    ns.map_or_else(|| NONE.to_owned(), |ns| time(ns, digits))
}

/// A count in at most five columns: exact below 10,000, then rounded down to three digits.
pub fn count(n: u64) -> String {
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

/// The percentiles of the table in one walk over the buckets: [`Histogram::supported_quantile`] walks once for each,
/// and a long run over a wide range fills tens of thousands of buckets.
pub fn supported(h: &Histogram) -> [Option<u64>; 4] {
    let n = h.count();
    let wanted =
        QUANTILES.map(|(_, q)| (supports(n, q) && n > 0).then(|| ((q * n as f64).ceil() as u64).clamp(1, n)));
    let (min, max) = (h.min().unwrap_or(0), h.max().unwrap_or(0));
    let mut found = [None; 4];
    let mut next = 0;
    let mut seen = 0;
    for (bucket, count) in h.buckets() {
        seen += count;
        while next < wanted.len() {
            match wanted[next] {
                Some(rank) if seen >= rank => {
                    let (low, width) = bucket_range(bucket);
                    found[next] = Some((low + (width - 1) / 2).clamp(min, max));
                    next += 1;
                }
                Some(_) => break,
                // The percentiles rise: where one lacks support, those after it do too.
                None => return found,
            }
        }
        if next == wanted.len() {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_walk_finds_what_four_find() {
        for n in [0_i64, 1, 4, 5, 58, 59, 298, 299, 2_994, 2_995, 10_000] {
            let mut h = Histogram::default();
            for i in 0..n {
                h.record(1_000 + i * i % 70_001);
            }
            assert_eq!(supported(&h), QUANTILES.map(|(_, q)| h.supported_quantile(q)), "{n} values");
        }
    }

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
