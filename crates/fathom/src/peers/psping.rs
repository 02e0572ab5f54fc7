//! PsPing's result with its histogram (`psping -h`).

use crate::summary::{CONNECT, Heading};
use fathom_core::histogram::{Histogram, bucket_range};
use std::fmt::Write;
use std::str::FromStr;

/// Buckets as PsPing's `-h` takes them: "If you specify a single argument, it's interpreted as a bucket count and the
/// histogram will contain that number of buckets covering the entire time range of values. Specify a comma-separated
/// list of times to create a custom histogram (e.g. "0.01,0.05,1,5,10")" (PsPing's documentation; the times are in ms).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Buckets {
    /// So many of the same width, from the least value to the greatest.
    Count(u32),
    /// These beginnings, ns, ascending.
    From(Vec<u64>),
}

/// More rows than this are no histogram to read.
const MOST: usize = 10_000;

impl FromStr for Buckets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write a number of buckets, as in 10, or their beginnings in ms, as in 0.01,0.05,1,5,10"
                .to_owned()
        };
        if let Ok(count) = text.parse::<u32>() {
            return if (1..=MOST).contains(&(count as usize)) {
                Ok(Self::Count(count))
            } else {
                Err(wrong())
            };
        }
        let ms = |part: &str| part.trim().parse::<f64>().ok().filter(|ms| (0.0..1e9).contains(ms));
        let all: Option<Vec<u64>> =
            text.split(',').map(|part| ms(part).map(|ms| (ms * 1e6).round() as u64)).collect();
        let all = all.filter(|all| (2..=MOST).contains(&all.len()) && all.is_sorted_by(|a, b| a < b));
        all.map(Self::From).ok_or_else(wrong)
    }
}

impl Buckets {
    /// Beginning and count of each, ns. What lies below the first beginning counts in the first.
    fn count(&self, values: &Histogram) -> Vec<(u64, u64)> {
        let beginnings = match self {
            Self::From(beginnings) => beginnings.clone(),
            Self::Count(n) => {
                let (Some(min), Some(max)) = (values.min(), values.max()) else { return Vec::new() };
                let at = |i: u32| min + (u128::from(max - min) * u128::from(i) / u128::from(*n)) as u64;
                (0..*n).map(at).collect()
            }
        };
        let mut counted: Vec<(u64, u64)> = beginnings.into_iter().map(|from| (from, 0)).collect();
        for (bucket, count) in values.buckets() {
            let (low, width) = bucket_range(bucket);
            let value = low + (width - 1) / 2;
            let after = counted.partition_point(|(from, _)| *from <= value);
            if let Some((_, all)) = counted.get_mut(after.saturating_sub(1)) {
                *all += count;
            }
        }
        counted
    }
}

/// The result of a run, of its round trips (or connection times) without the warm-up.
pub(crate) fn text(heading: &Heading, rtt: &Histogram, sent: u64, warm_up: u64, buckets: &Buckets) -> String {
    let target = &heading.reflector;
    let mut out = String::new();
    let ms = |ns: f64| format!("{:.2}ms", ns / 1e6);
    let extremes = [rtt.min(), rtt.max()].map(|ns| ms(ns.unwrap_or(0) as f64));
    let ([min, max], mean) = (extremes, ms(rtt.mean().unwrap_or(0.0)));
    // Writing to a String cannot fail.
    let _ = if heading.mode == CONNECT {
        let lost = sent - rtt.count();
        writeln!(
            out,
            "TCP connect statistics for {target}:\n  Sent = {sent}, Received = {}, Lost = {lost} ({}% loss),\n  Minimum = {min}, Maximum = {max}, Average = {mean}",
            rtt.count(),
            (lost * 100).checked_div(sent).unwrap_or(0),
        )
    } else {
        let protocol = if heading.mode.starts_with("udp") { "UDP" } else { "TCP" };
        let size = heading.size.unwrap_or(0);
        writeln!(
            out,
            "{protocol} latency test connecting to {target}:\n{} iterations (warmup {warm_up}) sending {size} bytes {protocol} latency test: 100%\n\n\
             {protocol} roundtrip latency statistics (post warmup):\n  Sent = {sent}, Size = {size}, Total Bytes: {},\n  Minimum = {min}, Maxiumum = {max}, Average = {mean}",
            sent + warm_up,
            sent * u64::from(size),
        )
    };
    out.push_str("\nLatency\tCount\n");
    for (from, count) in buckets.count(rtt) {
        let _ = writeln!(out, "{:.2}\t{count}", from as f64 / 1e6);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values_us: &[i64]) -> Histogram {
        let mut histogram = Histogram::default();
        for us in values_us {
            histogram.record(us * 1_000);
        }
        histogram
    }

    #[test]
    fn buckets_as_psping_takes_them() {
        assert_eq!("10".parse(), Ok(Buckets::Count(10)));
        assert_eq!("0.01,0.05, 1".parse(), Ok(Buckets::From(vec![10_000, 50_000, 1_000_000])));
        for text in ["0", "", "-3", "5,1", "1,1", "0.5", "a,b", "1,-2"] {
            assert!(text.parse::<Buckets>().is_err_and(|e| e.contains("as in")), "{text}");
        }
    }

    #[test]
    fn a_count_covers_all_values_evenly() {
        let values: Vec<i64> = (0..1_000).map(|i| 200 + i).collect();
        let rows = Buckets::Count(10).count(&of(&values));
        assert_eq!(rows.len(), 10);
        assert_eq!(rows[0].0, 200_000);
        for (i, (from, count)) in rows.iter().enumerate() {
            assert_eq!(*from, 200_000 + 99_900 * i as u64);
            assert!((99..=101).contains(count), "{rows:?}");
        }
        assert_eq!(rows.iter().map(|(_, n)| n).sum::<u64>(), 1_000);
        assert_eq!(Buckets::Count(3).count(&of(&[7, 7])), [(7_000, 0), (7_000, 0), (7_000, 2)], "no width");
    }

    #[test]
    fn a_list_takes_everything_in() {
        let buckets: Buckets = "0.01,0.05,1".parse().unwrap();
        assert_eq!(
            buckets.count(&of(&[5, 20, 49, 51, 999, 5_000])),
            [(10_000, 3), (50_000, 2), (1_000_000, 1)],
        );
    }

    #[test]
    fn the_result_reads_as_psping_prints_it() {
        let heading = Heading {
            mode: "tcp-ping-pong".into(),
            size: Some(64),
            reflector: "10.0.0.4:5001".into(),
            ..Heading::default()
        };
        let text = text(&heading, &of(&[190, 270, 580]), 3, 5, &Buckets::Count(2));
        assert_eq!(
            text,
            "TCP latency test connecting to 10.0.0.4:5001:\n\
             8 iterations (warmup 5) sending 64 bytes TCP latency test: 100%\n\n\
             TCP roundtrip latency statistics (post warmup):\n\
             \x20 Sent = 3, Size = 64, Total Bytes: 192,\n\
             \x20 Minimum = 0.19ms, Maxiumum = 0.58ms, Average = 0.35ms\n\n\
             Latency\tCount\n0.19\t2\n0.39\t1\n"
        );
    }

    #[test]
    fn connections_have_their_own_words() {
        let heading =
            Heading { mode: CONNECT.into(), reflector: "10.0.0.4:443".into(), ..Heading::default() };
        let text = text(&heading, &of(&[540, 600]), 3, 0, &Buckets::Count(1));
        assert!(
            text.contains(
                "Sent = 3, Received = 2, Lost = 1 (33% loss),\n  Minimum = 0.54ms, Maximum = 0.60ms"
            )
        );
    }
}
