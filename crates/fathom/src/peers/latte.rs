//! latte's result with its histogram (`latte -hist`), of round trips; what was not measured (processor, context switches)
//! has no line.

use crate::summary::Heading;
use fathom_core::histogram::{Histogram, bucket_range};
use std::collections::BTreeMap;
use std::fmt::Write;

/// An interval is 1 µs (latte's `-hl 1`, its default).
const INTERVAL_NS: u64 = 1_000;

/// The result of a run: its round trips without the warm-up. An interval without any has no row, and none is cut off at
/// latte's cap (`-hc`).
pub(crate) fn text(heading: &Heading, rtt: &Histogram) -> String {
    let protocol = if heading.mode.starts_with("udp") { "UDP" } else { "TCP" };
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<13} {value:>22}");
    };
    line("Protocol", protocol.to_owned());
    if let Some(size) = heading.size {
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
    if let Some(first) = intervals.keys().next().copied() {
        // Readers tell the width of an interval by the closest two.
        intervals.entry(first + 1).or_default();
    }
    out.push_str("\nInterval(usec)     Frequency\n");
    for (interval, count) in intervals {
        let _ = writeln!(out, "{interval:>14} {count:>13}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_whole_microseconds() {
        let heading = Heading { mode: "tcp-ping-pong".into(), size: Some(4), ..Heading::default() };
        let mut rtt = Histogram::default();
        for ns in [103_104, 103_900, 104_500, 300_000_000] {
            rtt.record(ns);
        }
        let text = text(&heading, &rtt);
        // The mean: 300,311,504 ns / 4.
        for row in [
            "Protocol                         TCP\n",
            "MsgSize(byte)                      4\n",
            "Iterations                         4\n",
            "Latency(usec)               75077.88\n",
            "\nInterval(usec)     Frequency\n           103             2\n           104             1\n",
        ] {
            assert!(text.contains(row), "{row:?} in {text}");
        }
        let last = text.lines().last().unwrap();
        let (interval, count) = last.trim().split_once(' ').unwrap();
        let interval: i64 = interval.parse().unwrap();
        assert!((interval - 300_000).abs() <= 150, "within a bucket of the recording: {last}");
        assert_eq!(count.trim(), "1");
    }

    #[test]
    fn a_lone_interval_still_shows_its_width() {
        let mut rtt = Histogram::default();
        rtt.record(7_400);
        let text = text(&Heading::default(), &rtt);
        assert!(text.ends_with("             7             1\n             8             0\n"), "{text}");
    }
}
