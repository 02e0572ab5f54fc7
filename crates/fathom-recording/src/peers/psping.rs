//! PsPing's result with its histogram (`psping -h`). The shape, and where the buckets lie, are those of published outputs of
//! PsPing 2.10: its parser's examples in GoogleCloudPlatform/PerfKitBenchmarker (`windows_packages/psping.py`), and runs in
//! which the single times stand above their histogram.

use super::run::{Run, Totals};
use fathom_core::histogram::{Histogram, bucket_range};
use std::fmt::Write;
use std::str::FromStr;

/// Buckets as PsPing's `-h` takes them: how many there are, or a list of times in ms where they begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buckets {
    /// So many, the first beginning at the least value and the last at the greatest, which therefore holds nothing else.
    Count(u32),
    /// These beginnings, ns, ascending.
    From(Vec<u64>),
}

/// More rows than this are no histogram to read.
const MOST: usize = 10_000;

/// What was written is neither a number of buckets nor a list of their beginnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write a number of buckets, as in 10, or their beginnings in ms, as in 0.01,0.05,1,5,10")]
pub struct NoBuckets;

impl FromStr for Buckets {
    type Err = NoBuckets;

    fn from_str(text: &str) -> Result<Self, NoBuckets> {
        if let Ok(count) = text.parse::<u32>() {
            return if (1..=MOST).contains(&(count as usize)) {
                Ok(Self::Count(count))
            } else {
                Err(NoBuckets)
            };
        }
        let ms = |part: &str| part.trim().parse::<f64>().ok().filter(|ms| (0.0..1e9).contains(ms));
        let all: Option<Vec<u64>> =
            text.split(',').map(|part| ms(part).map(|ms| (ms * 1e6).round() as u64)).collect();
        let all = all.filter(|all| (2..=MOST).contains(&all.len()) && all.is_sorted_by(|a, b| a < b));
        all.map(Self::From).ok_or(NoBuckets)
    }
}

impl Buckets {
    /// Beginning and count of each, ns. What lies below the first beginning counts in the first.
    fn count(&self, values: &Histogram) -> Vec<(u64, u64)> {
        let beginnings = match self {
            Self::From(beginnings) => beginnings.clone(),
            Self::Count(n) => {
                let (Some(min), Some(max)) = (values.min(), values.max()) else { return Vec::new() };
                let steps = u128::from((*n - 1).max(1));
                let at = |i: u32| min + (u128::from(max - min) * u128::from(i) / steps) as u64;
                (0..*n).map(at).collect()
            }
        };
        let mut counted: Vec<(u64, u64)> = beginnings.into_iter().map(|from| (from, 0)).collect();
        for (bucket, count) in values.buckets() {
            let (low, width) = bucket_range(bucket);
            // The greatest value is known exactly, and alone reaches the last of so many buckets.
            let top = values.max().filter(|max| *max < low + width);
            let value = top.unwrap_or(low + (width - 1) / 2);
            let after = counted.partition_point(|(from, _)| *from <= value);
            if let Some((_, all)) = counted.get_mut(after.saturating_sub(1)) {
                *all += count;
            }
        }
        counted
    }
}

/// The result of a run, of its round trips (or connection times) without the warm-up.
pub(super) fn text(run: &Run, totals: &Totals<'_>, buckets: &Buckets) -> String {
    let Totals { rtt, sent, warm_up } = *totals;
    let target = fathom_core::text::cleaned(&run.reflector);
    let mut out = String::new();
    let ms = |ns: f64| format!("{:.2}ms", ns / 1e6);
    let extremes = [rtt.min(), rtt.max()].map(|ns| ms(ns.unwrap_or(0) as f64));
    let ([min, max], mean) = (extremes, ms(rtt.mean().unwrap_or(0.0)));
    // Writing to a String cannot fail.
    let _ = if run.connects {
        let lost = sent.saturating_sub(rtt.count());
        writeln!(
            out,
            "TCP connect statistics for {target}:\n  Sent = {sent}, Received = {}, Lost = {lost} ({}% loss),\n  Minimum = {min}, Maximum = {max}, Average = {mean}",
            rtt.count(),
            (lost * 100).checked_div(sent).unwrap_or(0),
        )
    } else {
        let protocol = if run.udp { "UDP" } else { "TCP" };
        let size = run.size.unwrap_or(0);
        writeln!(
            out,
            "{protocol} latency test connecting to {target}: Connected\n{} iterations (warmup {warm_up}) sending {size} bytes {protocol} latency test: 100%\n\n\
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

    fn printed(run: &Run, rtt: &Histogram, sent: u64, warm_up: u64, buckets: &Buckets) -> String {
        text(run, &Totals { rtt, sent, warm_up }, buckets)
    }

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
            assert!(text.parse::<Buckets>().is_err_and(|e| e.to_string().contains("as in")), "{text}");
        }
    }

    #[test]
    fn a_count_covers_all_values_evenly() {
        let values: Vec<i64> = (0..1_000).map(|i| 200 + i).collect();
        let rows = Buckets::Count(10).count(&of(&values));
        assert_eq!(rows.len(), 10);
        for (i, (from, count)) in rows.iter().enumerate() {
            assert_eq!(*from, 200_000 + 111_000 * i as u64);
            let expected = if i < 9 { 110..=112 } else { 1..=2 };
            assert!(expected.contains(count), "{rows:?}");
        }
        assert_eq!(rows.iter().map(|(_, n)| n).sum::<u64>(), 1_000);
        assert_eq!(Buckets::Count(3).count(&of(&[7, 7])), [(7_000, 0), (7_000, 0), (7_000, 2)], "no width");
        assert_eq!(Buckets::Count(1).count(&of(&[7, 9])), [(7_000, 2)]);
    }

    #[test]
    fn buckets_lie_where_pspings_do() {
        // PsPing 2.10, `psping -4 -n 10 -w 2 -h 10 HOST:443`: ten connections and the histogram printed of them, as
        // published with "how to use psping under microsoft" (17 December 2019). It knew more digits than it printed.
        let ms = [43.91, 43.50, 39.25, 41.05, 39.27, 40.40, 38.30, 43.74, 43.54, 41.26];
        let printed = [
            (38.30, 1),
            (38.92, 2),
            (39.55, 0),
            (40.17, 1),
            (40.79, 2),
            (41.41, 0),
            (42.04, 0),
            (42.66, 0),
            (43.28, 3),
            (43.91, 1),
        ];
        let values: Vec<i64> = ms.iter().map(|ms| (ms * 1e3_f64).round() as i64).collect();
        let rows = Buckets::Count(10).count(&of(&values));
        assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), printed.map(|row| row.1));
        for ((from, _), (label, _)) in rows.iter().zip(printed) {
            assert!((*from as f64 / 1e6 - label).abs() < 0.01, "{from} ns, printed {label} ms");
        }
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
        let run = Run { size: Some(64), reflector: "10.0.0.4:5001".into(), ..Run::default() };
        let text = printed(&run, &of(&[190, 270, 580]), 3, 5, &Buckets::Count(2));
        assert_eq!(
            text,
            "TCP latency test connecting to 10.0.0.4:5001: Connected\n\
             8 iterations (warmup 5) sending 64 bytes TCP latency test: 100%\n\n\
             TCP roundtrip latency statistics (post warmup):\n\
             \x20 Sent = 3, Size = 64, Total Bytes: 192,\n\
             \x20 Minimum = 0.19ms, Maxiumum = 0.58ms, Average = 0.35ms\n\n\
             Latency\tCount\n0.19\t2\n0.58\t1\n"
        );
    }

    #[test]
    fn connections_have_their_own_words() {
        let run = Run { connects: true, reflector: "10.0.0.4:443".into(), ..Run::default() };
        let text = printed(&run, &of(&[540, 600]), 3, 0, &Buckets::Count(1));
        assert!(
            text.contains(
                "Sent = 3, Received = 2, Lost = 1 (33% loss),\n  Minimum = 0.54ms, Maximum = 0.60ms"
            )
        );
    }
}
