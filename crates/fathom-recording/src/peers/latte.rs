//! latte's result with its histogram (`latte -hist`), of round trips; what was not measured (processor, context switches)
//! has no line. The shape is that of latte's output in microsoft/VirtualClient (`TestResources/latte-results.txt`) and in a
//! patch to KVM's list (29 August 2024, "Recover TDP MMU NX huge pages using MMU read lock").

use super::run::{Run, Totals};
use fathom_core::histogram::bucket_range;
use std::collections::BTreeMap;
use std::fmt::Write;

/// An interval is 1 µs (`-hl 1`).
const INTERVAL_NS: u64 = 1_000;

/// Up to here every interval has a row, the empty ones too: what `VirtualClient` asks of latte (`-hc 9998`).
const EVERY_ROW_TO: u64 = 9_998;

/// The result of a run: its round trips without the warm-up. The rows begin at 0 and end with the last interval that has a
/// round trip. None is cut off: above [`EVERY_ROW_TO`] an interval without any has no row.
pub(super) fn text(run: &Run, totals: &Totals<'_>) -> String {
    let rtt = totals.rtt;
    let protocol = if run.udp { "UDP" } else { "TCP" };
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<13} {value}");
    };
    line("Protocol", protocol.to_owned());
    if let Some(size) = run.size {
        line("MsgSize(byte)", size.to_string());
    }
    line("Iterations", rtt.count().to_string());
    if let Some(mean_ns) = rtt.mean() {
        line("Latency(usec)", format!("{:.2}", mean_ns / 1e3));
    }
    let mut intervals: BTreeMap<u64, u64> = BTreeMap::new();
    for (bucket, count) in rtt.buckets() {
        let (low, width) = bucket_range(bucket);
        *intervals.entry((low + (width - 1) / 2) / INTERVAL_NS).or_default() += count;
    }
    if let Some(last) = intervals.keys().next_back().copied() {
        for interval in 0..last.min(EVERY_ROW_TO) {
            intervals.entry(interval).or_default();
        }
    }
    out.push_str("\nInterval(usec)     Frequency\n");
    for (interval, count) in intervals {
        let _ = writeln!(out, "{interval:>7}      {count}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_core::histogram::Histogram;

    fn printed(run: &Run, rtt: &Histogram) -> String {
        text(run, &Totals { rtt, sent: rtt.count(), warm_up: 0 })
    }

    fn of(values_ns: &[i64]) -> Histogram {
        let mut rtt = Histogram::default();
        for ns in values_ns {
            rtt.record(*ns);
        }
        rtt
    }

    #[test]
    fn the_lines_are_as_latte_prints_them() {
        let run = Run { udp: true, size: Some(4), ..Run::default() };
        let text = printed(&run, &of(&[103_104, 103_900, 104_500, 300_000_000]));
        // As in VirtualClient's example: names from column 1, values from column 15. The mean: 300,311,504 ns / 4.
        let (lines, rows) = text.split_once("\n\n").expect("an empty line before the histogram");
        assert_eq!(lines, "Protocol      UDP\nMsgSize(byte) 4\nIterations    4\nLatency(usec) 75077.88");
        // "    103      1664" there.
        assert!(rows.starts_with("Interval(usec)     Frequency\n      0      0\n      1      0\n"), "{rows}");
        assert!(
            rows.contains("\n    102      0\n    103      2\n    104      1\n    105      0\n"),
            "{rows}"
        );
        let last = rows.lines().last().unwrap();
        let (interval, count) = last.trim().split_once(' ').unwrap();
        let interval: i64 = interval.parse().unwrap();
        assert!((interval - 300_000).abs() <= 150, "within a bucket of the recording: {last}");
        assert_eq!(count.trim(), "1");
    }

    #[test]
    fn a_stall_does_not_fill_the_page() {
        let rows = |ns: &[i64]| printed(&Run::default(), &of(ns)).lines().count() - 4;
        let empty = rows(&[7_400]) - 8;
        assert_eq!(rows(&[400]) - empty, 1, "an interval that begins at 0");
        assert_eq!(rows(&[7_400, 9_000]) - empty, 10, "0 to 9 µs");
        assert_eq!(rows(&[7_400, 300_000_000_000]) - empty, 9_999, "0 to 9,997 µs, and where the stall is");
    }
}
