//! A run of several sizes, a row a size.

use super::{Distribution, GroupLine, Heading, line, number, unit_for};
use crate::statistics::{Group, Statistics};
use crate::text::count;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// One size of a sweep.
#[derive(Debug, Serialize)]
pub(super) struct Json {
    size: u32,
    #[serde(flatten)]
    samples: GroupLine,
}

/// The sizes of a run.
pub(super) fn json(sizes: &BTreeMap<u32, Group>) -> Vec<Json> {
    sizes.iter().map(|(&size, samples)| Json { size, samples: samples.into() }).collect()
}

/// Whether a run has samples of several sizes, by its configuration or by what it recorded.
pub(super) fn is_sweep(heading: &Heading, s: &Statistics) -> bool {
    !heading.sizes.is_empty() || !s.by_size.is_empty()
}

/// The size of samples, or what sizes they have, in words.
pub fn sizes_in_words(size: Option<u32>, sizes: &[u32]) -> String {
    match (size, sizes) {
        (Some(size), _) => count(size.into(), "byte"),
        (None, [least, .., most]) => {
            format!("{} sizes from {least} to {most} bytes in random order,", sizes.len())
        }
        (None, [only]) => count((*only).into(), "byte"),
        (None, []) => "several sizes".to_owned(),
    }
}

/// Round trips, a row a size: figures of several sizes have no common one. Lateness, latency and the rest are in the
/// JSON.
pub(super) fn text(out: &mut String, sizes: &BTreeMap<u32, Group>) {
    let typical = sizes.values().filter_map(|s| s.rtt.quantile(0.5)).max().unwrap_or(0);
    let (divisor, unit) = unit_for(typical);
    let names = ["size", "count", "lost", "min", "p50", "p95", "p99", "max"];
    let cells = |cells: [String; 8]| {
        let mut text = format!("  {:>9} {:>8} {:>6}", cells[0], cells[1], cells[2]);
        for cell in &cells[3..] {
            let _ = write!(text, " {cell:>9}");
        }
        text
    };
    line(out, format_args!("  round trips by size, {unit}"));
    line(out, format_args!("{}", cells(names.map(str::to_owned))));
    for (size, s) in sizes {
        let d = Distribution::from(&s.rtt);
        let figure = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| number(ns as f64 / divisor));
        let [min, p50, p95, p99, max] = [d.min, d.p50, d.p95, d.p99, d.max].map(figure);
        let lost = (s.unanswered + s.corrupt).to_string();
        let row = [size.to_string(), d.count.to_string(), lost, min, p50, p95, p99, max];
        line(out, format_args!("{}", cells(row)));
    }
    line(out, format_args!("  (lost: unanswered or corrupt; -: too few samples for this figure)"));
}

#[cfg(test)]
mod tests {
    use crate::sample::Sample;
    use crate::statistics::Statistics;
    use crate::summary::{Heading, json, text};

    /// "Several sizes back to back, tcp-age-limit", of a search that was killed at once.
    #[test]
    fn killed_age_search_mentions_no_sizes() {
        let heading = Heading { mode: crate::event::AGE_LIMIT_MODE.to_owned(), ..Heading::default() };
        let said = text(&heading, &Statistics::default());
        assert!(
            said.contains("connections that were kept in use, tcp-age-limit") && !said.contains("sizes"),
            "{said}"
        );
    }

    #[test]
    fn size_sweep_is_never_pooled() {
        let mut s = Statistics::default();
        let heading = Heading { sizes: vec![64, 1 << 20], ..Heading::default() };
        let of = |heading: &Heading, s: &Statistics| -> serde_json::Value {
            serde_json::from_str(&json(heading, s)).unwrap()
        };
        // One that ended before its second size is a sweep all the same.
        s.sample(&Sample { size: 64, rtt_ns: Some(1_000), ..Sample::default() });
        let one = of(&heading, &s);
        assert!(one["rtt_ns"].is_null() && one["size"].is_null(), "{one}");
        assert_eq!(
            (&one["sizes"][0]["size"], &one["sizes"][0]["rtt_ns"]["max"]),
            (&64.into(), &1_000.into())
        );
        s.sample(&Sample { size: 1 << 20, rtt_ns: Some(9_000_000), ..Sample::default() });
        for heading in [&heading, &Heading::default()] {
            let both = of(heading, &s);
            for pooled in ["rtt_ns", "latency_ns", "lateness_ns", "first_sample_ns"] {
                assert!(both[pooled].is_null(), "{pooled}: {both}");
            }
            let sizes: Vec<_> =
                both["sizes"].as_array().unwrap().iter().map(|of| of["size"].clone()).collect();
            assert_eq!(sizes, [64, 1 << 20]);
            assert_eq!(both["sizes"][1]["rtt_ns"]["max"], 9_000_000);
            let text = text(heading, &s);
            assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
            assert!(text.lines().any(|l| l.trim_start().starts_with("1048576 ")), "{text}");
        }
        let mut single = Statistics::default();
        single.sample(&Sample { size: 64, ..Sample::default() });
        assert!(of(&Heading { size: Some(64), ..Heading::default() }, &single)["sizes"].is_null());
    }
}
