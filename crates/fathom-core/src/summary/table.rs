//! Distributions side by side.

use super::{CONNECT, CONNECT_TLS, Distribution, Heading, line, number, unit_for};
use crate::histogram::Histogram;
use crate::statistics::Statistics;
use std::fmt::Write;

/// What is taken of a distribution for a row.
type Figure = fn(&Distribution) -> Option<u64>;

/// The distributions of a run that has one of each: what they are called, and they.
pub(super) fn text(out: &mut String, heading: &Heading, s: &Statistics) {
    let all = [
        ("rtt", &s.rtt),
        ("latency", &s.latency),
        ("connect", &s.connect),
        ("tls", &s.tls),
        ("first sample", &s.first_sample),
    ];
    // Where a connection is the sample, its set-up is the round trip.
    let connect = heading.mode == CONNECT;
    let columns = all.into_iter().filter(|(name, h)| h.count() > 0 && !(connect && *name == "connect"));
    of(out, &columns.collect::<Vec<_>>());
    let rtt = match heading.mode.as_str() {
        CONNECT => "rtt: SYN to established",
        CONNECT_TLS => "rtt: SYN to the end of the TLS handshake",
        _ => "rtt: from sent",
    };
    line(out, format_args!("  ({rtt}; latency: from due; -: too few samples for this figure)"));
}

/// A row a figure and a column a distribution, so that it fits a terminal of eighty columns.
pub(super) fn of(out: &mut String, columns: &[(&str, &Histogram)]) {
    let typical = columns.iter().find_map(|(_, h)| h.quantile(0.5)).unwrap_or(0);
    let (divisor, unit) = unit_for(typical);
    let columns: Vec<(&str, Distribution)> = columns.iter().map(|(name, h)| (*name, (*h).into())).collect();
    row(out, unit, columns.iter().map(|(name, _)| (*name).to_owned()));
    row(out, "count", columns.iter().map(|(_, d)| d.count.to_string()));
    let figures: [(&str, Figure); 9] = [
        ("min", |d| d.min),
        ("mean", |d| d.mean),
        ("sd", |d| d.stddev),
        ("p50", |d| d.p50),
        ("p95", |d| d.p95),
        ("p99", |d| d.p99),
        ("p99.9", |d| d.p99_9),
        ("p99.99", |d| d.p99_99),
        ("max", |d| d.max),
    ];
    for (name, figure) in figures {
        let cell = |(_, d): &(&str, Distribution)| {
            figure(d).map_or("-".to_owned(), |ns| number(ns as f64 / divisor))
        };
        if columns.iter().any(|(_, d)| figure(d).is_some()) {
            row(out, name, columns.iter().map(cell));
        }
    }
}

fn row(out: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    let mut text = format!("  {name:<8}");
    for cell in cells {
        let _ = write!(text, " {cell:>13}");
    }
    line(out, format_args!("{text}"));
}
