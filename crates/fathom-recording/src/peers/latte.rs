//! latte's result with its histogram (`latte -hist`), of round trips; what was not measured (processor, context switches)
//! has no line. The shape is that of latte's output in microsoft/VirtualClient (`TestResources/latte-results.txt`) and in a
//! patch to KVM's list (29 August 2024, "Recover TDP MMU NX huge pages using MMU read lock").

use super::run::{Run, Totals};
use fathom_core::histogram::bucket_range;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Without a cap every interval up to this one has a row, the empty ones too: what `VirtualClient` asks of latte
/// (`-hc 9998`).
const EVERY_ROW_TO: u64 = 9_998;

/// The intervals of its histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// How long each is, in µs (`-hl`).
    pub length_us: u32,
    /// How many there are (`-hc`): a round trip above the last is counted in no row. `None`: as many as it takes.
    pub count: Option<u32>,
}

impl Default for Intervals {
    fn default() -> Self {
        Self { length_us: 1, count: None }
    }
}

/// The result of a run: its round trips without the warm-up. The rows begin at 0 and end with the last interval that has a
/// round trip. Without a cap none is cut off: above [`EVERY_ROW_TO`] an interval without any has no row.
pub(super) fn text(run: &Run, totals: &Totals<'_>, how: Intervals) -> String {
    let length_us = u64::from(how.length_us.max(1));
    let cap = how.count.map_or(u64::MAX, u64::from);
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
        let interval = (low + (width - 1) / 2) / 1_000 / length_us;
        if interval < cap {
            *intervals.entry(interval).or_default() += count;
        }
    }
    if let Some(last) = intervals.keys().next_back().copied() {
        let every = if how.count.is_some() { cap } else { EVERY_ROW_TO };
        for interval in 0..last.min(every) {
            intervals.entry(interval).or_default();
        }
    }
    out.push_str("\nInterval(usec)     Frequency\n");
    for (interval, count) in intervals {
        let _ = writeln!(out, "{:>7}      {count}", interval * length_us);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_core::histogram::Histogram;

    fn printed(run: &Run, rtt: &Histogram) -> String {
        text(run, &Totals { rtt, sent: rtt.count(), warm_up: 0 }, Intervals::default())
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

    #[test]
    fn interval_cap_drops_rows_but_not_iterations() {
        let rtt = of(&[400, 1_400, 1_600, 29_900, 30_100, 300_500_000]);
        let rows = |length_us, count| {
            let totals = Totals { rtt: &rtt, sent: rtt.count(), warm_up: 0 };
            let text = text(&Run::default(), &totals, Intervals { length_us, count });
            assert!(text.contains("Iterations    6\n"), "{text}");
            let rows = text.lines().skip_while(|line| !line.starts_with("Interval(")).skip(1);
            rows.map(|row| row.split_whitespace().map(|n| n.parse().unwrap()).collect::<Vec<u64>>())
                .collect::<Vec<_>>()
        };
        // `-hl 1 -hc 30`: 0 to 29 µs, the empty ones too; two of six have no row.
        let capped = rows(1, Some(30));
        assert_eq!(
            (capped.len(), &capped[0], &capped[1], &capped[29]),
            (30, &vec![0, 1], &vec![1, 2], &vec![29, 1])
        );
        assert_eq!(capped.iter().map(|row| row[1]).sum::<u64>(), 4);
        // `-hl 1000 -hc 30`, as in the patch to KVM's list: intervals of a millisecond, named by where they begin.
        assert_eq!(rows(1_000, Some(30)), [[0, 5]]);
        // The last interval that has a round trip is the last row, however many there could be.
        assert_eq!(rows(10, Some(1_000)).last(), Some(&vec![30, 1]));
        assert_eq!(rows(10, Some(1)), [[0, 3]]);
        let whole = rows(1_000, None);
        assert_eq!((whole.len(), whole.iter().map(|row| row[1]).sum::<u64>()), (301, 6));
    }
}
