//! The end of a run with many targets: one table, a row each. Each recording's own summary has the rest.

use super::{Heading, number, percent, unit_for};
use crate::marks;
use crate::statistics::Statistics;
use crate::text::cleaned;
use std::fmt::Write;

/// From so many targets on a summary each would not fit a screen.
const MANY: usize = 4;
/// Characters of a label at most.
const LABEL: usize = 28;

/// The table; none: the targets are few, or their samples are of several kinds that have no figure in common.
pub fn text(paths: &[(Heading, &Statistics)]) -> Option<String> {
    let of_kinds = |(heading, s): &(Heading, &Statistics)| {
        heading.load.is_some() || !heading.sizes.is_empty() || !s.gaps.all.is_empty()
    };
    if paths.len() < MANY || paths.iter().any(of_kinds) {
        return None;
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    for mark in paths.first().map(|(heading, _)| &heading.marks).into_iter().flatten() {
        let _ = writeln!(out, "{}", marks::in_words(mark));
    }
    let medians = paths.iter().filter_map(|(_, s)| s.rtt.quantile(0.5));
    let (divisor, unit) = unit_for(medians.min().unwrap_or(0));
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| number(ns as f64 / divisor));
    let mut rows = vec![
        ["target", "sent", "unanswered", "not sent", "available", "p50", "p95", "p99", "max"]
            .map(str::to_owned),
    ];
    for (heading, s) in paths {
        rows.push([
            shortened(&cleaned(&heading.label), LABEL),
            s.samples.to_string(),
            (s.unanswered + s.corrupt).to_string(),
            s.not_sent.total().to_string(),
            s.availability().map_or_else(|| "-".to_owned(), |share| format!("{} %", percent(share))),
            time(s.rtt.supported_quantile(0.5)),
            time(s.rtt.supported_quantile(0.95)),
            time(s.rtt.supported_quantile(0.99)),
            time(s.rtt.max()),
        ]);
    }
    let widths: Vec<usize> =
        (0..9).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(n, (cell, &width))| match n {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "));
    }
    let _ = writeln!(out, "Round trips in {unit}; -: too few samples for this figure.");
    for (heading, s) in paths {
        let outages = s.outages.all();
        let number = outages.len() as u64 + s.outages.omitted();
        if number > 0 {
            let noun = if number == 1 { "outage" } else { "outages" };
            let over = if s.outages.current().is_some() { ", one of them not over at the end" } else { "" };
            let _ = writeln!(out, "{}: {number} {noun}{over}", cleaned(&heading.label));
        }
    }
    if let Some(dir) = paths.iter().find_map(|(heading, _)| heading.recording.as_ref()) {
        let above = std::path::Path::new(dir).parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.map_or_else(|| ".".to_owned(), |above| above.display().to_string());
        let _ = writeln!(out, "recorded in {above} (a summary each: fathom recording summary {above})");
    }
    Some(out)
}

/// A name of so many characters at most, without what stands in its middle: what tells names apart is at their ends.
fn shortened(name: &str, most: usize) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= most {
        return name.to_owned();
    }
    let end = most * 2 / 3;
    let begin = most.saturating_sub(end + 1);
    all[..begin].iter().chain(&['…']).chain(&all[all.len() - end..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn only_many_targets_share_a_table() {
        let mut s = Statistics::default();
        for n in 0..1_000 {
            s.sample(&Sample { rtt_ns: (n > 0).then_some(250_000), size: 64, ..Sample::default() });
        }
        let heading = |n: usize| Heading {
            label: format!("a-zone-with-a-name-that-is-long-and-then-a-number-{n}:7007"),
            recording: Some(format!("recordings/{n}")),
            ..Heading::default()
        };
        let paths = |n: usize| (0..n).map(|n| (heading(n), &s)).collect::<Vec<_>>();
        assert_eq!(text(&paths(3)), None);
        let table = text(&paths(5)).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 1 + 5 + 2, "{table}");
        for (n, line) in lines[1..6].iter().enumerate() {
            // The distinguishing end is there.
            assert!(line.contains(&format!("number-{n}:7007")), "{line}");
            assert!(line.contains(" 1000 ") && line.contains("99.9 %") && line.contains("250.0"), "{line}");
            assert_eq!(line.chars().count(), lines[0].chars().count());
        }
        assert!(lines[7].contains("recorded in recordings "), "{table}");
        let of_sizes = Heading { sizes: vec![64, 128], ..heading(9) };
        let mixed: Vec<_> = paths(5).into_iter().chain([(of_sizes, &s)]).collect();
        assert_eq!(text(&mixed), None, "samples of several sizes have no figure in common");
    }

    #[test]
    fn a_short_name_keeps_its_ends() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcdefghij", 6), "a…ghij");
        assert_eq!(shortened("zürich-östlich", 7), "zü…lich");
    }
}
