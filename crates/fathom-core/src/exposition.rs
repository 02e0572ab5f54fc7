//! A run as Prometheus reads it (the text exposition format 0.0.4), for `node_exporter`'s textfile collector. Names follow
//! Prometheus' conventions: base units, `_total` for what only grows.

use crate::histogram::bucket_range;
use crate::statistics::Statistics;
use std::fmt::Write;

/// Upper ends of the buckets of round trips, in ns: 1, 2 and 5 in each decade from 10 µs to 10 s.
const BOUNDS_NS: [u64; 19] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// One path of a run, as it stands.
#[derive(Debug)]
pub struct Exposed<'a> {
    /// What tells it from other paths, by name: label, target, and what the user called its ends.
    pub labels: Vec<(&'static str, &'a str)>,
    /// What was counted so far.
    pub statistics: &'a Statistics,
    /// Connections that are open.
    pub open: u32,
    /// Connections in a stall.
    pub stalled: u32,
}

/// All of a file. `started_s`: when the run began, in seconds since the Unix epoch; `running`: false, once it has ended.
pub fn exposition(paths: &[Exposed<'_>], started_s: f64, running: bool) -> String {
    let mut out = String::new();
    let mut families = Families { out: &mut out, paths };
    families.gauge("fathom_running", "1 while the probe runs, 0 once it has ended.", |_| {
        Some(f64::from(u8::from(running)))
    });
    families
        .gauge("fathom_start_time_seconds", "When the run began, since the Unix epoch.", |_| Some(started_s));
    families.counter("fathom_samples_total", "Samples sent whose fate is known.", |p| {
        let s = p.statistics;
        let by = |outcome, count| ("outcome", outcome, count);
        vec![by("answered", s.answered), by("unanswered", s.unanswered), by("corrupt", s.corrupt)]
    });
    families.counter(
        "fathom_samples_late_total",
        "Samples answered after --timeout; they are among the answered.",
        |p| vec![("", "", p.statistics.late)],
    );
    families.counter("fathom_samples_not_sent_total", "Samples that were due and never sent.", |p| {
        // All reasons from the beginning: a counter that appears late has no rate.
        let of = |reason| ("reason", reason, p.statistics.not_sent.of(reason));
        vec![of("unconnected"), of("blocked"), of("late")]
    });
    families.counter("fathom_connections_opened_total", "Connections established.", |p| {
        vec![("", "", p.events("connection.opened"))]
    });
    families.counter("fathom_connections_closed_total", "Connections that ended.", |p| {
        vec![("", "", p.events("connection.closed"))]
    });
    families.gauge("fathom_connections_open", "Connections that are open.", |p| Some(f64::from(p.open)));
    families
        .counter("fathom_stalls_total", "Stalls that began.", |p| vec![("", "", p.events("stall.began"))]);
    families.gauge(
        "fathom_connections_stalled",
        "Connections that owe an echo for longer than usual.",
        |p| Some(f64::from(p.stalled)),
    );
    families.counter("fathom_outages_total", "Times without a connection that answers.", |p| {
        let outages = &p.statistics.outages;
        vec![("", "", outages.all().len() as u64 + outages.omitted())]
    });
    families.gauge("fathom_outage_ongoing", "1 while there is no connection that answers.", |p| {
        Some(f64::from(u8::from(p.statistics.outages.current().is_some())))
    });
    families.gauge(
        "fathom_availability_ratio",
        "Share of the samples due that were answered, so far.",
        |p| p.statistics.availability(),
    );
    families.round_trips();
    out
}

impl Exposed<'_> {
    fn events(&self, kind: &str) -> u64 {
        self.statistics.events.get(kind).copied().unwrap_or(0)
    }

    /// Its labels and one more, in braces.
    fn labels(&self, name: &str, value: &str) -> String {
        let own = self.labels.iter().copied();
        let all = own.chain((!name.is_empty()).then_some((name, value)));
        let all: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        format!("{{{}}}", all.join(","))
    }
}

/// Metrics of one name follow one another, after what they are.
struct Families<'a, 'b> {
    out: &'a mut String,
    paths: &'a [Exposed<'b>],
}

impl Families<'_, '_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Fn(&Exposed<'_>) -> Option<f64>) {
        self.head(name, "gauge", help);
        for path in self.paths {
            if let Some(value) = value(path) {
                let _ = writeln!(self.out, "{name}{} {value}", path.labels("", ""));
            }
        }
    }

    fn counter(
        &mut self,
        name: &str,
        help: &str,
        values: impl Fn(&Exposed<'_>) -> Vec<(&'static str, &'static str, u64)>,
    ) {
        self.head(name, "counter", help);
        for path in self.paths {
            for (key, word, count) in values(path) {
                let _ = writeln!(self.out, "{name}{} {count}", path.labels(key, word));
            }
        }
    }

    /// The distribution of round trips that the summary has: a run of several sizes, or with silences, has none in common.
    fn round_trips(&mut self) {
        let name = "fathom_rtt_seconds";
        self.head(name, "histogram", "Round trips, warm-up left out.");
        for path in self.paths {
            let rtt = &path.statistics.rtt;
            let mut counts = [0_u64; BOUNDS_NS.len()];
            for (bucket, count) in rtt.buckets() {
                let (low, width) = bucket_range(bucket);
                let place = BOUNDS_NS.partition_point(|&bound| bound < low + width - 1);
                if let Some(counted) = counts.get_mut(place) {
                    *counted += count;
                }
            }
            let mut below = 0;
            for (bound_ns, count) in BOUNDS_NS.into_iter().zip(counts) {
                below += count;
                let labels = path.labels("le", &format!("{}", bound_ns as f64 / 1e9));
                let _ = writeln!(self.out, "{name}_bucket{labels} {below}");
            }
            let _ = writeln!(self.out, "{name}_bucket{} {}", path.labels("le", "+Inf"), rtt.count());
            let sum_s = rtt.mean().unwrap_or(0.0) * rtt.count() as f64 / 1e9;
            let _ = writeln!(self.out, "{name}_sum{} {sum_s}", path.labels("", ""));
            let _ = writeln!(self.out, "{name}_count{} {}", path.labels("", ""), rtt.count());
        }
    }
}

/// A label's value: `\`, `"` and the end of a line would end it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn rtt_buckets_are_cumulative() {
        let mut s = Statistics::default();
        for rtt_ns in [1, 9_000, 15_000, 999_000, 3_000_000_000, 60_000_000_000] {
            s.sample(&Sample { rtt_ns: Some(rtt_ns), size: 64, ..Sample::default() });
        }
        let labels = vec![("label", "a \"b\"\\\nc")];
        let path = Exposed { labels, statistics: &s, open: 1, stalled: 0 };
        let text = exposition(&[path], 1.5, true);
        let value = |line: &str| {
            let of = text.lines().find_map(|l| l.strip_prefix(line));
            of.unwrap_or_else(|| panic!("{line}: {text}")).trim().to_owned()
        };
        let label = r#"label="a \"b\"\\\nc""#;
        for (le, count) in
            [("0.00001", 2), ("0.00002", 3), ("0.001", 4), ("2", 4), ("5", 5), ("10", 5), ("+Inf", 6)]
        {
            assert_eq!(
                value(&format!("fathom_rtt_seconds_bucket{{{label},le=\"{le}\"}}")),
                count.to_string(),
                "{le}"
            );
        }
        assert!(value(&format!("fathom_rtt_seconds_sum{{{label}}}")).starts_with("63.00102"));
        assert_eq!(value(&format!("fathom_samples_total{{{label},outcome=\"answered\"}}")), "6");
        assert_eq!(text.lines().filter(|l| !l.starts_with('#') && !l.contains(label)).count(), 0, "{text}");
    }
}
