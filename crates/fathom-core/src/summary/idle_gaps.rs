//! What the first echo after a silence costs, a row a gap.

use super::{GroupLine, duration, line, number, unit_for};
use crate::histogram::Histogram;
use crate::statistics::{Gap, Gaps};
use serde::Serialize;
use std::fmt::Write;

/// One gap.
#[derive(Debug, Serialize)]
pub(super) struct Json {
    gap_ns: u64,
    first: GroupLine,
    warm: GroupLine,
    cost_ns: Cost,
}

/// What the first sample took beyond the median of the warm ones; null where either is not supported by its count.
#[derive(Debug, Serialize)]
struct Cost {
    p50: Option<i64>,
    p95: Option<i64>,
}

impl Cost {
    fn of(gap: &Gap) -> Self {
        let cost = |q| {
            let (first, warm) = (gap.first.rtt.supported_quantile(q)?, gap.warm.rtt.supported_quantile(0.5)?);
            Some(first as i64 - warm as i64)
        };
        Self { p50: cost(0.5), p95: cost(0.95) }
    }
}

/// The gaps of a run; none where it has no silences.
pub(super) fn json(gaps: &Gaps) -> Option<Vec<Json>> {
    let gap = |gap: &Gap| Json {
        gap_ns: gap.gap_ns,
        first: (&gap.first).into(),
        warm: (&gap.warm).into(),
        cost_ns: Cost::of(gap),
    };
    (!gaps.all.is_empty()).then(|| gaps.all.iter().map(gap).collect())
}

/// Round trips, a row a gap.
pub(super) fn text(out: &mut String, gaps: &Gaps) {
    let typical = gaps.all.iter().filter_map(|gap| gap.first.rtt.quantile(0.5)).max().unwrap_or(0);
    let (divisor, unit) = unit_for(typical);
    let figure = |ns: Option<i64>| ns.map_or("-".to_owned(), |ns| number(ns as f64 / divisor));
    let quantile = |h: &Histogram, q| figure(h.supported_quantile(q).map(|ns| ns as i64));
    let mut row = |cells: [&str; 9]| {
        let [gap, count, lost, figures @ ..] = cells;
        let mut text = format!("  {gap:>7} {count:>6} {lost:>5}");
        for cell in figures {
            let _ = write!(text, " {cell:>8}");
        }
        line(out, format_args!("{}", text.trim_end()));
    };
    row(["silence", "count", "lost", "first", "", "warm", "", "cost", ""]);
    row([unit, "", "", "p50", "p95", "p50", "p95", "p50", "p95"]);
    for gap in &gaps.all {
        let (first, warm, cost) = (&gap.first.rtt, &gap.warm.rtt, Cost::of(gap));
        let lost = gap.first.unanswered + gap.first.corrupt;
        row([
            &duration(gap.gap_ns),
            &first.count().to_string(),
            &lost.to_string(),
            &quantile(first, 0.5),
            &quantile(first, 0.95),
            &quantile(warm, 0.5),
            &quantile(warm, 0.95),
            &figure(cost.p50),
            &figure(cost.p95),
        ]);
    }
    line(out, format_args!("  (cost: of the first beyond the median of the warm; -: too few samples;"));
    line(out, format_args!("  what follows a handshake is warm-up; lost: firsts that were not answered)"));
}

#[cfg(test)]
mod tests {
    use crate::sample::Sample;
    use crate::statistics::Statistics;
    use crate::summary::{Heading, json, text};

    const MS: i64 = 1_000_000;

    #[test]
    fn idle_gaps_are_never_pooled() {
        let mut s = Statistics::with_gaps(&[1_000_000_000, 60_000_000_000]);
        let mut sent_ns = 0;
        let mut send = |wait_ns: i64, rtt_ns: i64| {
            sent_ns += wait_ns;
            s.sample(&Sample { size: 64, sent_ns, rtt_ns: Some(rtt_ns), ..Sample::default() });
            sent_ns += rtt_ns;
        };
        send(0, 9 * MS);
        for _ in 0..60 {
            for (gap_ns, first_ns) in [(1_000 * MS, 3 * MS), (60_000 * MS, 5 * MS)] {
                send(gap_ns, first_ns);
                send(0, 2 * MS);
            }
        }
        let heading = Heading { size: Some(64), mode: "tcp-idle-gap".into(), ..Heading::default() };
        let value: serde_json::Value = serde_json::from_str(&json(&heading, &s)).unwrap();
        for pooled in ["rtt_ns", "latency_ns", "lateness_ns", "first_sample_ns"] {
            assert!(value[pooled].is_null(), "{pooled}: {value}");
        }
        let gaps = value["idle_gaps"].as_array().unwrap();
        for (gap, (gap_ns, first, cost)) in
            gaps.iter().zip([(1_000 * MS, 3 * MS, MS), (60_000 * MS, 5 * MS, 3 * MS)])
        {
            assert_eq!(gap["gap_ns"], gap_ns);
            assert_eq!((&gap["first"]["samples"], &gap["warm"]["samples"]), (&60.into(), &60.into()));
            assert_eq!(gap["first"]["rtt_ns"]["p95"], first);
            assert_eq!(
                (&gap["cost_ns"]["p50"], &gap["cost_ns"]["p95"]),
                (&cost.into(), &cost.into()),
                "{gap}"
            );
        }
        let text = text(&heading, &s);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        let row = text.lines().find(|l| l.trim_start().starts_with("1m ")).unwrap();
        let row: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            row[row.len() - 6..],
            ["5000.0", "5000.0", "2000.0", "2000.0", "3000.0", "3000.0"],
            "{text}"
        );
    }
}
