//! What a run amounts to, for people and for machines (`schema/summary.md`). Made from a run's statistics, or from a
//! recording's: the same code, so that both say the same. [`json`] and [`text`] take the same two things.

mod idle_gaps;
mod outages;
pub mod side_by_side;
mod sizes;
mod table;
mod under_load;

pub use sizes::sizes_in_words;
pub use under_load::Load;

use crate::cause::ClosingCause;
use crate::histogram::Histogram;
use crate::loss::Losses;
use crate::query::Outcome;
use crate::statistics::{Connection, Group, Statistics};
use crate::text::{cleaned, count};
use crate::units::duration_compact as duration;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The mode in which each sample is a connection.
pub const CONNECT: &str = "connect";
/// The same, with a TLS handshake.
pub const CONNECT_TLS: &str = "connect-tls";

/// A path in the user's words: from, to, and what lies between.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathLabels {
    /// Where the probe stands.
    #[serde(default)]
    pub from: Option<String>,
    /// Where the reflector stands.
    #[serde(default)]
    pub to: Option<String>,
    /// What lies between.
    #[serde(default)]
    pub via: Option<String>,
    /// Anything else, by name.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// What was measured, as far as it is not in the samples.
#[derive(Debug, Clone, Default)]
pub struct Heading {
    /// The scenario's name.
    pub label: String,
    /// What its figures may not be taken for ([`crate::marks`]); empty: they are of a real network.
    pub marks: Vec<String>,
    /// From where to where.
    pub path: PathLabels,
    /// Address of the reflector.
    pub reflector: String,
    /// How it was measured: `tcp`, `udp`, `stamp`, [`CONNECT`] and the like.
    pub mode: String,
    /// Bytes of every sample; none: they have several sizes.
    pub size: Option<u32>,
    /// The sizes of a sweep, ascending; empty: it is none.
    pub sizes: Vec<u32>,
    /// From one sample to the next; none: back to back.
    pub interval_ns: Option<u64>,
    /// The load beside the samples.
    pub load: Option<Load>,
    /// How long it took.
    pub duration_ns: u64,
    /// The recording's directory, if there is one.
    pub recording: Option<String>,
    /// The queries of a database, beside which the samples were measured; none: there were none.
    pub queries: Option<Box<Outcome>>,
}

/// A distribution in ns; percentiles that the count cannot support are null.
#[derive(Debug, Serialize)]
struct Distribution {
    count: u64,
    min: Option<u64>,
    mean: Option<u64>,
    stddev: Option<u64>,
    p50: Option<u64>,
    p95: Option<u64>,
    p99: Option<u64>,
    p99_9: Option<u64>,
    p99_99: Option<u64>,
    max: Option<u64>,
}

impl From<&Histogram> for Distribution {
    fn from(h: &Histogram) -> Self {
        let whole = |x: f64| x.round() as u64;
        Self {
            count: h.count(),
            min: h.min(),
            mean: h.mean().map(whole),
            stddev: h.stddev().map(whole),
            p50: h.supported_quantile(0.5),
            p95: h.supported_quantile(0.95),
            p99: h.supported_quantile(0.99),
            p99_9: h.supported_quantile(0.999),
            p99_99: h.supported_quantile(0.9999),
            max: h.max(),
        }
    }
}

/// Samples that may be pooled.
#[derive(Debug, Serialize)]
struct GroupLine {
    samples: u64,
    answered: u64,
    late: u64,
    unanswered: u64,
    corrupt: u64,
    warm_up: u64,
    rtt_ns: Distribution,
    latency_ns: Distribution,
    lateness_ns: Distribution,
}

impl From<&Group> for GroupLine {
    fn from(s: &Group) -> Self {
        Self {
            samples: s.samples,
            answered: s.answered,
            late: s.late,
            unanswered: s.unanswered,
            corrupt: s.corrupt,
            warm_up: s.warm_up,
            rtt_ns: (&s.rtt).into(),
            latency_ns: (&s.latency).into(),
            lateness_ns: (&s.lateness).into(),
        }
    }
}

#[derive(Debug, Serialize)]
struct ConnectionLine<'a> {
    id: u32,
    opened_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    age_ns: Option<u64>,
    samples: u64,
    cause: Option<&'static str>,
    verdict: Option<&'a str>,
    errno: Option<i32>,
}

/// The machine-readable summary, format 1.
#[derive(Debug, Serialize)]
struct Json<'a> {
    format: u32,
    marks: &'a [String],
    label: &'a str,
    path: &'a PathLabels,
    reflector: &'a str,
    mode: &'a str,
    size: Option<u32>,
    interval_ns: Option<u64>,
    duration_ns: u64,
    samples: u64,
    answered: u64,
    late: u64,
    unanswered: u64,
    corrupt: u64,
    warm_up: u64,
    due: u64,
    not_sent: u64,
    not_sent_by: &'a BTreeMap<String, u64>,
    in_flight: u64,
    not_recorded: &'a BTreeMap<String, u64>,
    availability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<outages::Local>,
    loss: Option<Losses>,
    clock_error_ns: Option<u64>,
    rtt_ns: Option<Distribution>,
    latency_ns: Option<Distribution>,
    lateness_ns: Option<Distribution>,
    connect_ns: Distribution,
    tls_ns: Option<Distribution>,
    first_sample_ns: Option<Distribution>,
    sizes: Option<Vec<sizes::Json>>,
    under_load: Option<under_load::Json>,
    idle_gaps: Option<Vec<idle_gaps::Json>>,
    connections: Vec<ConnectionLine<'a>>,
    connections_omitted: u64,
    outages: Vec<outages::Json>,
    outages_omitted: u64,
    events: &'a BTreeMap<String, u64>,
    recording: Option<&'a str>,
    /// As `fathom sql --json` prints it.
    queries: Option<serde_json::Value>,
}

/// Whether each sample is a datagram, which nobody sends again.
fn of_datagrams(heading: &Heading) -> bool {
    heading.mode.starts_with("udp") || heading.mode.starts_with("stamp")
}

/// One line of JSON.
pub fn json<'a>(heading: &'a Heading, s: &'a Statistics) -> String {
    let line = |(&id, c): (&u32, &'a Connection)| ConnectionLine {
        id,
        opened_at: c.opened_at,
        closed_at: c.closed_at,
        age_ns: c.age_ns,
        samples: c.samples,
        cause: c.cause.map(ClosingCause::name),
        verdict: c.verdict.as_deref(),
        errno: c.errno,
    };
    let sweep = sizes::is_sweep(heading, s);
    // Samples of several sizes, or after several silences, have no figure in common.
    let of_one_kind = |h: &Histogram| (!sweep && s.gaps.all.is_empty()).then(|| Distribution::from(h));
    let json = Json {
        format: 1,
        marks: &heading.marks,
        label: &heading.label,
        path: &heading.path,
        reflector: &heading.reflector,
        mode: &heading.mode,
        size: heading.size,
        interval_ns: heading.interval_ns,
        duration_ns: heading.duration_ns,
        samples: s.samples,
        answered: s.answered,
        late: s.late,
        unanswered: s.unanswered,
        corrupt: s.corrupt,
        warm_up: s.warm_up,
        due: s.due(),
        not_sent: s.not_sent.total(),
        not_sent_by: s.not_sent.by_name(),
        in_flight: s.in_flight,
        not_recorded: s.not_recorded.by_name(),
        availability: s.availability(),
        local: outages::local(s),
        loss: of_datagrams(heading).then(|| s.loss()),
        clock_error_ns: s.clock_error_ns,
        rtt_ns: of_one_kind(&s.rtt),
        latency_ns: of_one_kind(&s.latency),
        lateness_ns: of_one_kind(&s.lateness),
        connect_ns: (&s.connect).into(),
        tls_ns: (heading.mode == CONNECT_TLS).then(|| (&s.tls).into()),
        first_sample_ns: of_one_kind(&s.first_sample),
        sizes: sweep.then(|| sizes::json(&s.sizes())),
        idle_gaps: idle_gaps::json(&s.gaps),
        under_load: under_load::json(heading.load.as_ref(), &s.under_load),
        connections: s.connections.iter().map(line).collect(),
        connections_omitted: s.connections_omitted,
        outages: outages::json(s),
        outages_omitted: s.outages.omitted(),
        events: &s.events,
        recording: heading.recording.as_deref(),
        queries: heading.queries.as_ref().map(|outcome| outcome.json()),
    };
    // Plain data with string keys: nothing that serde_json could refuse.
    serde_json::to_string(&json).unwrap_or_default()
}

/// Connections that get a line of their own in the text.
const CONNECTIONS_SHOWN: usize = 12;

/// The summary for people.
pub fn text(heading: &Heading, s: &Statistics) -> String {
    let mut out = String::new();
    let connect = matches!(heading.mode.as_str(), CONNECT | CONNECT_TLS);
    let size = if connect { "a connection".to_owned() } else { sizes_in_words(heading.size, &heading.sizes) };
    let sought = crate::event::sought_with(&heading.mode);
    let what = match heading.interval_ns {
        _ if sought.is_some() => sought.unwrap_or_default().to_owned(),
        _ if !s.gaps.all.is_empty() => format!("{size} after silences"),
        None if heading.queries.is_some() => format!("{size} beside the queries"),
        Some(every) => format!("{size} every {}", duration(every)),
        None => format!("{size} back to back"),
    };
    let route = [&heading.path.from, &heading.path.to].map(|w| w.as_deref().unwrap_or("?"));
    let route = match (&heading.path.from, &heading.path.to) {
        (None, None) => String::new(),
        _ => format!("  {} -> {}", route[0], route[1]),
    };
    let via = heading.path.via.as_ref().map_or(String::new(), |via| format!(" via {via}"));
    for mark in &heading.marks {
        line(&mut out, format_args!("{}", crate::marks::in_words(mark)));
    }
    if let Some(outcome) = &heading.queries {
        out.push_str(&outcome.text());
        out.push('\n');
    }
    line(&mut out, format_args!("{}  {}{route}{via}", heading.label, heading.reflector));
    line(&mut out, format_args!("  {what}, {}, for {}", heading.mode, duration(heading.duration_ns)));
    line(&mut out, format_args!("  {}", counts(s)));
    if let Some(lost) = of_datagrams(heading).then(|| losses(s.loss())).flatten() {
        line(&mut out, format_args!("  {lost}"));
    }
    if s.samples > 0 {
        if !s.gaps.all.is_empty() {
            idle_gaps::text(&mut out, &s.gaps);
        } else if sizes::is_sweep(heading, s) {
            sizes::text(&mut out, &s.sizes());
        } else if let Some(load) = &heading.load {
            under_load::text(&mut out, load, s);
        } else {
            table::text(&mut out, heading, s);
        }
    }
    outages::text(&mut out, s);
    connections(&mut out, s);
    let quiet = [
        "recording.started",
        "recording.ended",
        "segment.closed",
        "queries.closed",
        "connection.opening",
        "connection.opened",
        "connection.closed",
        "loss.attributed",
        "clock.bounded",
        "samples.in_flight",
        "schedule.ended",
    ];
    let events: Vec<String> = s
        .events
        .iter()
        .filter(|(kind, _)| !quiet.contains(&kind.as_str()))
        .map(|(kind, n)| format!("{n} x {kind}"))
        .collect();
    if !events.is_empty() {
        line(&mut out, format_args!("  events       {}", events.join(", ")));
    }
    // What the queries came to has named it.
    if let Some(recording) = heading.recording.as_ref().filter(|_| heading.queries.is_none()) {
        line(&mut out, format_args!("  recording    {recording}"));
    }
    out
}

/// One line, whatever the label and the events hold.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", cleaned(&text.to_string()));
}

fn counts(s: &Statistics) -> String {
    let share = |n: u64| {
        if s.samples > 0 { format!(" ({:.3} %)", 100.0 * n as f64 / s.samples as f64) } else { String::new() }
    };
    let mut parts = vec![format!("{}, {} answered", count(s.samples, "sample"), s.answered)];
    parts.push(format!("{} late", s.late));
    parts.push(format!(
        "{} unanswered{}",
        s.unanswered,
        if s.unanswered > 0 { share(s.unanswered) } else { String::new() }
    ));
    if s.corrupt > 0 {
        parts.push(format!("{} corrupt{}", s.corrupt, share(s.corrupt)));
    }
    if s.in_flight > 0 {
        parts.push(format!("{} in flight at the end", s.in_flight));
    }
    if s.not_sent.total() > 0 {
        parts.push(format!("{} due but not sent", s.not_sent.total()));
    }
    if s.warm_up > 0 {
        parts.push(format!("{} warm-up, not in the figures below", s.warm_up));
    }
    parts.join(", ")
}

/// Which way datagrams were lost, and what else happened to them.
fn losses(of: Losses) -> Option<String> {
    let parts = [
        (of.forward, "lost on the way there"),
        (of.backward, "lost on the way back"),
        (of.unknown, "lost, not known where"),
        (of.duplicates, "came twice"),
        (of.reordered, "overtaken"),
    ];
    let told: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn connections(out: &mut String, s: &Statistics) {
    let all = s.connections.len() as u64 + s.connections_omitted;
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for c in s.connections.values() {
        *causes.entry(c.cause.map_or("open", ClosingCause::name)).or_default() += 1;
    }
    if all == 1 {
        if let Some((id, c)) = s.connections.iter().next() {
            line(out, format_args!("  connection   {}", connection(*id, c)));
        }
        return;
    }
    if all == 0 {
        return;
    }
    let causes: Vec<String> = causes.iter().map(|(cause, n)| format!("{n} {cause}")).collect();
    line(out, format_args!("  connections  {all}: {}", causes.join(", ")));
    // A connection that was made to be timed, and carried nothing else, has no story.
    if s.connections.values().all(|c| c.samples <= 1 && c.cause == Some(ClosingCause::Finished)) {
        return;
    }
    for (id, c) in s.connections.iter().rev().take(CONNECTIONS_SHOWN).rev() {
        line(out, format_args!("               {}", connection(*id, c)));
    }
    if all > CONNECTIONS_SHOWN as u64 {
        line(
            out,
            format_args!("               (the last {CONNECTIONS_SHOWN}; --json and the recording have more)"),
        );
    }
}

fn connection(id: u32, c: &Connection) -> String {
    let opened = c.opened_at.map_or_else(|| "?".to_owned(), date_and_time);
    let age = c.age_ns.map_or_else(|| "still open".to_owned(), |ns| format!("lived {}", duration(ns)));
    let cause = c.cause.map_or_else(String::new, |cause| format!(", {cause}"));
    let errno = c.errno.map_or_else(String::new, |n| format!(" (errno {n})"));
    let samples = count(c.samples, "sample");
    format!("#{id} opened {opened} UTC, {age}, {samples}{cause}{errno}")
}

/// Hours, minutes and seconds of a moment, UTC.
pub fn clock_time(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}

/// The day and time of a moment, UTC: a run may take weeks, and its recording is read years later.
pub fn date_and_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The unit in which a table of such values reads best: its name, and ns in one of it.
pub fn unit_for(typical_ns: u64) -> (f64, &'static str) {
    if typical_ns >= 10_000_000 { (1e6, "ms") } else { (1e3, "µs") }
}

/// A share in percent, rounded down to a thousandth: what was not always so is not called 100 %.
pub fn percent(share: f64) -> f64 {
    (share * 1e5).floor() / 1e3
}

/// A number with as many decimals as it deserves.
pub fn number(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => format!("{v:.0}"),
        v if v >= 100.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn unsupported_percentile_is_null_and_dash() {
        let mut s = Statistics::default();
        for i in 0..100 {
            s.sample(&Sample { rtt_ns: Some(1_000 + i), ..Sample::default() });
        }
        let heading = Heading { label: "zone".into(), ..Heading::default() };
        let value: serde_json::Value = serde_json::from_str(&json(&heading, &s)).unwrap();
        assert_eq!(value["rtt_ns"]["count"], 100);
        assert_eq!(value["rtt_ns"]["p50"], 1_049);
        assert_eq!(value["rtt_ns"]["p95"], 1_094);
        assert!(value["rtt_ns"]["p99"].is_null());
        s.connect.record(5);
        let text = text(&heading, &s);
        let row = |name: &str| text.lines().find(|l| l.trim_start().starts_with(name)).map(str::to_owned);
        assert_eq!(row("p95").unwrap().split_whitespace().collect::<Vec<_>>(), ["p95", "1.09", "1.09", "-"]);
        assert_eq!(row("p99"), None, "a row of dashes says nothing");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }

    /// `--udp` had a column `connect` with 0.00 in each row.
    #[test]
    fn connectionless_run_has_no_connect_time() {
        let mut s = Statistics::default();
        let opened = |connect_ns| {
            let kind = serde_json::json!({"at": "2026-11-22T10:00:00Z", "mono_ns": 1, "connection": 0, "kind": "connection.opened",
                "target": "t", "local": "l", "remote": "r", "connect_ns": connect_ns});
            serde_json::from_value(kind).unwrap()
        };
        s.sample(&Sample { rtt_ns: Some(1_000), ..Sample::default() });
        let heading = Heading { mode: "udp".into(), ..Heading::default() };
        let told = |s: &Statistics| {
            let value: serde_json::Value = serde_json::from_str(&json(&heading, s)).unwrap();
            (
                text(&heading, s).split_whitespace().any(|word| word == "connect"),
                value["connect_ns"]["count"].clone(),
            )
        };
        s.event(&opened(0));
        assert_eq!(told(&s), (false, 0.into()));
        s.event(&opened(5));
        assert_eq!(told(&s), (true, 1.into()));
    }

    #[test]
    fn a_run_without_samples_says_so_without_figures() {
        let text = text(&Heading::default(), &Statistics::default());
        assert!(text.contains("0 samples") && !text.contains("p50"), "{text}");
    }
}
