//! What a run lacks: samples that were not sent or have no row, and the times without a connection.

use super::{date_and_time, duration, line, percent};
use crate::cause::ClosingCause;
use crate::event::why_lost;
use crate::statistics::{LOCAL, Outage, Statistics};
use crate::text::count;
use jiff::Timestamp;
use serde::Serialize;

/// Outages that get a line of their own in the text: the latest.
const SHOWN: usize = 5;

/// One outage of a lane.
#[derive(Debug, Serialize)]
pub(super) struct Json {
    began_at: Timestamp,
    lasted_ns: u64,
    over: bool,
    /// It goes on in the recording that follows this one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    goes_on: bool,
    uncertain_ns: Option<u64>,
    connection: Option<u32>,
    cause: Option<&'static str>,
    /// True if this host failed, not the target.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    local: bool,
    /// Address of the first failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    remote: Option<String>,
    next_connection: Option<u32>,
}

/// How long an outage lasted; one that is not over, until the last event of the run.
fn lasted_ns(outage: &Outage, s: &Statistics) -> u64 {
    outage.lasted_ns(s.last_told_ns.unwrap_or(outage.began_ns))
}

/// Failures in this host, which lower no availability.
#[derive(Debug, Serialize)]
pub(super) struct Local {
    not_sent: u64,
    unanswered: u64,
    lasted_ns: u64,
}

/// `None`: nothing failed in this host.
pub(super) fn local(s: &Statistics) -> Option<Local> {
    let all = s.outages.all();
    let here = all.iter().filter(|outage| outage.local);
    let (not_sent, unanswered) = (s.not_sent.of(LOCAL), s.lost_here());
    let lasted_ns = here.map(|outage| lasted_ns(outage, s)).sum();
    (not_sent + unanswered + lasted_ns > 0).then_some(Local { not_sent, unanswered, lasted_ns })
}

/// Each outage.
pub(super) fn json(s: &Statistics) -> Vec<Json> {
    let one = |outage: &Outage| Json {
        began_at: outage.began_at,
        lasted_ns: lasted_ns(outage, s),
        over: outage.end.is_some(),
        goes_on: outage.goes_on,
        uncertain_ns: outage.end.map(|end| end.uncertain_ns),
        connection: outage.connection,
        cause: outage.cause.map(ClosingCause::name),
        local: outage.local,
        remote: outage.remote.clone(),
        next_connection: outage.end.and_then(|end| end.connection),
    };
    s.outages.all().iter().map(one).collect()
}

/// A line for each kind of lack that there is.
pub(super) fn text(out: &mut String, s: &Statistics) {
    let words = |reason: &str| match reason {
        "unconnected" => "no connection".to_owned(),
        "blocked" => "the connection took no more".to_owned(),
        "late" => "this host was late".to_owned(),
        LOCAL => "this host could not connect".to_owned(),
        other => other.to_owned(),
    };
    if s.not_sent.total() > 0 {
        let parts: Vec<String> =
            s.not_sent.iter().map(|(reason, n)| format!("{n} {}", words(reason))).collect();
        line(out, format_args!("  not sent     {}", parts.join(", ")));
    }
    for (reason, n) in s.not_recorded.iter() {
        line(out, format_args!("  not recorded {}: {}", count(n, "sample"), why_lost(Some(reason))));
    }
    if s.lost_here() > 0 {
        let lost = count(s.lost_here(), "sample");
        line(out, format_args!("  lost here    {lost} unanswered for a cause in this host"));
    }
    if let Some(share) = s.availability().filter(|share| *share < 1.0) {
        line(out, format_args!("  availability {:.3} %", percent(share)));
    }
    let all = s.outages.all();
    let earlier = all.len().saturating_sub(SHOWN) as u64 + s.outages.omitted();
    for outage in all.iter().rev().take(SHOWN).rev() {
        let (at, lasted) = (date_and_time(outage.began_at), duration(lasted_ns(outage, s)));
        let how = match outage.end {
            Some(end) if end.uncertain_ns > 0 => {
                format!("for {lasted} (or up to {} less)", duration(end.uncertain_ns))
            }
            Some(_) => format!("for {lasted}"),
            None if outage.goes_on => format!("goes on in the next recording after {lasted}"),
            None => format!("not over after {lasted}"),
        };
        let connection = match (outage.connection, outage.cause) {
            (Some(id), Some(cause)) => format!(", #{id} {cause}"),
            (Some(id), None) => format!(", #{id} silent"),
            (None, _) => String::new(),
        };
        let remote = outage.remote.as_ref().map_or_else(String::new, |remote| format!(", {remote}"));
        let local = if outage.local { ", local: this host failed, not the target" } else { "" };
        line(out, format_args!("  outage       from {at} UTC, {how}{connection}{remote}{local}"));
    }
    if earlier > 0 {
        line(out, format_args!("               ({earlier} earlier ones; --json has the latest 1,000)"));
    }
}

#[cfg(test)]
mod tests {
    use crate::cause::ClosingCause;
    use crate::event::{Event, EventKind, Evidence, LOST_CRASH};
    use crate::sample::Sample;
    use crate::statistics::Statistics;
    use crate::summary::{Heading, json, text};
    use jiff::Timestamp;

    const S: u64 = 1_000_000_000;

    /// A reflector died at 2.7 s of 10 s and never came back: "27 samples, 27 answered, 0 unanswered", and nothing of what was not sent.
    #[test]
    fn summary_counts_due_samples_and_outage() {
        let mut s = Statistics::default();
        let mut event = |at_ns: u64, connection, kind| {
            let at = Timestamp::from_nanosecond(i128::from(at_ns)).unwrap();
            s.event(&Event { at, mono_ns: at_ns, connection, kind });
        };
        let [target, local, remote] = ["t", "l", "r"].map(String::from);
        let (connect_ns, tls_ns, interface, lane) = (1, None, None, Some(0));
        event(
            0,
            Some(0),
            EventKind::ConnectionOpened { target, local, remote, connect_ns, tls_ns, interface, lane },
        );
        let (cause, verdict, errno, age_ns) = (ClosingCause::Reset, None, Some(104), 28 * S / 10);
        let evidence = Evidence { sent: 28, answered: 27, silent_ns: Some(S / 10), ..Evidence::default() };
        event(age_ns, Some(0), EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence });
        for (skipped, reason) in [(70, "unconnected"), (2, "late")] {
            event(
                10 * S,
                None,
                EventKind::ScheduleOverrun { skipped, behind_ns: 1, reason: reason.to_owned() },
            );
        }
        event(10 * S, None, EventKind::RecordingOverflowed { lost: 3, reason: Some(LOST_CRASH.to_owned()) });
        event(10 * S, None, EventKind::ScheduleEnded { due: 103 });
        for n in 0..28 {
            s.sample(&Sample { size: 64, rtt_ns: (n < 27).then_some(50_000), ..Sample::default() });
        }
        let text = text(&Heading::default(), &s);
        for expected in [
            "28 samples, 27 answered, 0 late, 1 unanswered (3.571 %), 72 due but not sent",
            "  not sent     2 this host was late, 70 no connection\n",
            "  not recorded 3 samples: the probe was killed, or its host failed\n",
            "  availability 27.551 %\n",
            "  outage       from 1970-01-01 00:00:02 UTC, not over after 7.3s, #0 reset\n",
        ] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        let value: serde_json::Value = serde_json::from_str(&json(&Heading::default(), &s)).unwrap();
        assert_eq!((&value["due"], &value["not_sent"]), (&103.into(), &72.into()));
        assert_eq!(value["not_sent_by"], serde_json::json!({ "unconnected": 70, "late": 2 }));
        assert_eq!(value["not_recorded"], serde_json::json!({ "crash": 3 }));
        assert_eq!(value["availability"], 27.0 / 98.0);
        let outage = &value["outages"][0];
        assert_eq!((&outage["lasted_ns"], &outage["over"]), (&(73 * S / 10).into(), &false.into()));
        assert_eq!(
            (&outage["cause"], &outage["began_at"]),
            (&"reset".into(), &"1970-01-01T00:00:02.7Z".into())
        );
    }
}
