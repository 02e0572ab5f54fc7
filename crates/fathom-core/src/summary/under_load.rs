//! Idle and loaded side by side.

use super::{GroupLine, duration, line, table};
use crate::statistics::{Statistics, UnderLoad};
use crate::text::count;
use crate::units::rate_text as rate;
use serde::Serialize;

/// The load that a run was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Bits a second each way; none: as much as its connections take.
    pub asked_bits_per_s: Option<u64>,
    /// Connections that carry it.
    pub connections: u32,
}

/// The samples under load, and the load.
#[derive(Debug, Serialize)]
pub(super) struct Json {
    #[serde(flatten)]
    samples: GroupLine,
    load: LoadLine,
}

#[derive(Debug, Serialize)]
struct LoadLine {
    asked_bits_per_s: Option<u64>,
    connections: Option<u32>,
    phases: u64,
    duration_ns: u64,
    sent_bits_per_s: Option<u64>,
    echoed_bits_per_s: Option<u64>,
}

/// What there is to say of samples under load; none where the run had no load.
pub(super) fn json(asked: Option<&Load>, loaded: &UnderLoad) -> Option<Json> {
    (asked.is_some() || loaded.samples.samples > 0).then(|| Json {
        samples: (&loaded.samples).into(),
        load: LoadLine {
            asked_bits_per_s: asked.and_then(|load| load.asked_bits_per_s),
            connections: asked.map(|load| load.connections),
            phases: loaded.phases,
            duration_ns: loaded.duration_ns,
            sent_bits_per_s: loaded.sent_bits_per_s(),
            echoed_bits_per_s: loaded.echoed_bits_per_s(),
        },
    })
}

/// Both in one table, with what the load was.
pub(super) fn text(out: &mut String, load: &Load, s: &Statistics) {
    let loaded = &s.under_load;
    let asked = load.asked_bits_per_s.map_or("as much as the path carries".to_owned(), rate);
    let carriers = count(load.connections.into(), "connection");
    line(out, format_args!("  load         asked: {asked} over {carriers}"));
    if let (Some(sent), Some(echoed)) = (loaded.sent_bits_per_s(), loaded.echoed_bits_per_s()) {
        let (sent, echoed) = (rate(sent), rate(echoed));
        let (n, length) = (loaded.phases, duration(loaded.duration_ns));
        let phases = count(n, "phase");
        line(out, format_args!("               {sent} sent, {echoed} echoed ({phases}, {length})"));
    } else {
        line(out, format_args!("               no loaded phase came to its end"));
    }
    let columns = [
        ("idle rtt", &s.rtt),
        ("idle latency", &s.latency),
        ("loaded rtt", &loaded.samples.rtt),
        ("loaded latency", &loaded.samples.latency),
    ];
    table::of(out, &columns);
    line(out, format_args!("  (rtt: from sent; latency: from due; -: too few samples for this figure)"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Flags, Sample};
    use crate::summary::{Heading, json, text};

    #[test]
    fn idle_and_loaded_stand_side_by_side() {
        let mut s = Statistics::default();
        for _ in 0..60 {
            for (flags, rtt_ns) in [(Flags::default(), 50_000), (Flags::UNDER_LOAD, 4_000_000)] {
                s.sample(&Sample { size: 64, rtt_ns: Some(rtt_ns), flags, ..Sample::default() });
            }
        }
        let load = Load { asked_bits_per_s: Some(1_000_000_000), connections: 16 };
        let heading = Heading { load: Some(load), size: Some(64), ..Heading::default() };
        let of = |s: &Statistics| -> serde_json::Value { serde_json::from_str(&json(&heading, s)).unwrap() };
        let value = of(&s);
        assert_eq!((&value["samples"], &value["rtt_ns"]["max"]), (&120.into(), &50_000.into()));
        let loaded = &value["under_load"];
        assert_eq!((&loaded["samples"], &loaded["rtt_ns"]["min"]), (&60.into(), &4_000_000.into()));
        assert!(loaded["load"]["sent_bits_per_s"].is_null(), "no loaded phase is over: {value}");
        assert!(text(&heading, &s).contains("no loaded phase came to its end"));
        s.under_load.phases = 2;
        s.under_load.duration_ns = 2_000_000_000;
        (s.under_load.sent_bytes, s.under_load.echoed_bytes) = (249_000_000, 248_000_000);
        let value = of(&s);
        let load = &value["under_load"]["load"];
        assert_eq!(
            (&load["asked_bits_per_s"], &load["sent_bits_per_s"], &load["echoed_bits_per_s"]),
            (&1_000_000_000.into(), &996_000_000.into(), &992_000_000.into())
        );
        let text = text(&heading, &s);
        for part in
            ["asked: 1 Gbit/s over 16 connections", "996 Mbit/s sent, 992 Mbit/s echoed (2 phases, 2s)"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        let p50 = text.lines().find(|l| l.trim_start().starts_with("p50")).unwrap();
        assert_eq!(p50.split_whitespace().collect::<Vec<_>>(), ["p50", "50.00", "50.00", "4000.0", "4000.0"]);
        let without: serde_json::Value =
            serde_json::from_str(&json(&Heading::default(), &Statistics::default())).unwrap();
        assert!(without["under_load"].is_null());
    }
}
