//! A line for a sample or an event, as a run without a live view prints them while it goes on.

use crate::event::{Event, EventKind, why_lost};
use crate::sample::{Flags, Sample};
use crate::story::changed;
use crate::summary::{clock_time, number, unit_for};
use crate::text::{self, count};
use crate::units::duration_compact as duration;
use crate::units::rate_text as rate;
use std::fmt::Write;

/// A line for a sample, as ping writes them.
pub fn sample(label: &str, remote: &str, sample: &Sample, several: bool) -> String {
    let mut out = if several { format!("{label} #{} ", sample.connection) } else { String::new() };
    match sample.rtt_ns {
        Some(rtt_ns) if sample.size == 0 => {
            let (divisor, unit) = unit_for(rtt_ns as u64);
            let rtt = number(rtt_ns as f64 / divisor);
            let _ = write!(out, "connected to {remote}: connection={} time={rtt} {unit}", sample.connection);
        }
        None if sample.size == 0 => {
            let _ = write!(out, "not connected: connection={}", sample.connection);
        }
        Some(rtt_ns) => {
            let (divisor, unit) = unit_for(rtt_ns as u64);
            let rtt = number(rtt_ns as f64 / divisor);
            let bytes = count(sample.size.into(), "byte");
            let _ = write!(out, "{bytes} from {remote}: seq={} rtt={rtt} {unit}", sample.seq);
        }
        None if sample.flags.contains(Flags::CORRUPTED) => {
            let _ = write!(out, "corrupted echo from {remote}: seq={}", sample.seq);
        }
        None => {
            let _ = write!(out, "no echo from {remote}: seq={}", sample.seq);
        }
    }
    if sample.lateness_ns > 1_000_000 {
        let _ = write!(out, " sent {} late", duration(sample.lateness_ns as u64));
    }
    let told = [Flags::FIRST_ON_CONNECTION, Flags::WARM_UP, Flags::ANSWERED_LATE];
    for (flag, name) in told.into_iter().zip(["first on its connection", "warm-up", "late"]) {
        if sample.flags.contains(flag) {
            let _ = write!(out, " ({name})");
        }
    }
    out
}

/// A line for an event, where it is worth one.
pub fn event(label: Option<&str>, event: &Event) -> Option<String> {
    let at = clock_time(event.at);
    let label = label.unwrap_or("all paths");
    let connection = event.connection.map_or_else(String::new, |n| format!(" #{n}"));
    let text = match &event.kind {
        EventKind::ConnectionOpened { local, remote, connect_ns, .. } => {
            // A datagram socket is connected to nobody, and at once.
            let within =
                if *connect_ns > 0 { format!(" in {}", duration(*connect_ns as u64)) } else { String::new() };
            format!("connected {local} -> {remote}{within}")
        }
        // (Where no attempt follows, the error is the command's own last word.)
        EventKind::ConnectionRefused { target, error, retry_in_ns: Some(wait), .. } => {
            // A target without a label is called by its address, which the line begins with.
            let shorter = error.strip_prefix(target.as_str()).filter(|_| label == target);
            let error = shorter.map_or(error.as_str(), str::trim_start);
            format!("{error}; next attempt in {}", duration(*wait))
        }
        EventKind::ConnectionUnanswered { remote, attempts, waited_ns, .. } => {
            let (attempts, waited) = (count(*attempts, "attempt"), duration(*waited_ns));
            format!(
                "{remote} does not answer: {attempts} to connect without an answer, the first for {waited}"
            )
        }
        EventKind::ConnectionClosed { cause, errno, age_ns, evidence, .. } => {
            let errno = errno.map_or_else(String::new, |n| format!(", errno {n}"));
            let error = evidence.error.as_ref().map_or_else(String::new, |e| format!(": {e}"));
            let out = evidence.outstanding;
            let out = if out > 0 { format!(", {} unanswered", count(out, "sample")) } else { String::new() };
            format!("closed after {}: {cause}{errno}{error}{out}", duration(*age_ns))
        }
        EventKind::StallBegan { seq, outstanding, .. } => {
            format!("stalled: no echo of sample {seq} ({outstanding} outstanding)")
        }
        EventKind::StallEnded { duration_ns, samples, recovered, .. } => {
            let how = if *recovered { "over" } else { "ended with its connection" };
            let samples = count(*samples, "sample");
            format!("stall {how} after {} ({samples} sent meanwhile)", duration(*duration_ns))
        }
        EventKind::Pause { host, duration_ns, .. } => {
            format!("{host} host did not run for {}", duration(*duration_ns))
        }
        EventKind::ConnectionExplained { about, explanation, .. } => {
            format!("{about} explained: {} ({})", explanation.verdict, explanation.because.join("; "))
        }
        EventKind::Maintenance { host, cloud, what, state, .. } => {
            let whose = match host.as_str() {
                "local" => "",
                "remote" => " of the reflector's host",
                _ => " of other machines",
            };
            format!("{cloud} announces {what}{whose}: {state}")
        }
        EventKind::ClockStepped { step_ns } => {
            let way = if *step_ns < 0 { "back" } else { "forward" };
            format!(
                "the wall clock was set {way} by {}; round trips are not affected",
                duration(step_ns.unsigned_abs())
            )
        }
        EventKind::AddressChanged { what, from, to } => changed(what, from, to),
        EventKind::LoadBegan { asked_bits_per_s, connections, .. } => {
            let asked = asked_bits_per_s.map_or("as much as the path carries".to_owned(), rate);
            let carriers = count((*connections).into(), "connection");
            format!("under load from now on: {asked} over {carriers}")
        }
        EventKind::LoadEnded { duration_ns, sent_bits_per_s, echoed_bits_per_s, error, .. } => {
            let error = error.as_ref().map_or_else(String::new, |e| format!(": {e}"));
            let (sent, echoed) = (rate(*sent_bits_per_s), rate(*echoed_bits_per_s));
            format!("load over after {}: {sent} sent, {echoed} echoed{error}", duration(*duration_ns))
        }
        EventKind::ScheduleOverrun { skipped, reason, .. } => {
            format!("{} due but not sent ({reason})", count(*skipped, "sample"))
        }
        EventKind::SamplesInFlight { samples } => {
            format!("{} in flight as the run ended", count(*samples, "sample"))
        }
        EventKind::EchoCorrupted { seq, count } => {
            format!("{}, the first of sample {seq}", text::count(*count, "corrupted echo"))
        }
        EventKind::EchoForeign { count, first } => {
            format!("{} not of an echo of ours: {first}", text::count(*count, "byte"))
        }
        EventKind::EchoDuplicated { seq, count } => {
            format!("{} came again, the first of sample {seq}", text::count(*count, "echo"))
        }
        EventKind::RecordingOverflowed { lost, reason } => {
            format!("{} not recorded: {}", count(*lost, "sample"), why_lost(reason.as_deref()))
        }
        EventKind::RecordingResumed { waited_ns, lost } => {
            let lost =
                if *lost > 0 { format!("; {} without a row", count(*lost, "sample")) } else { String::new() };
            format!("there is room again after {}: the recording goes on{lost}", duration(*waited_ns))
        }
        EventKind::Note { text } => text.clone(),
        _ => return None,
    };
    Some(format!("{at} {label}{connection} {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_reads_like_ping() {
        let base = Sample { size: 64, seq: 3, rtt_ns: Some(74_230), ..Sample::default() };
        assert_eq!(
            sample("z", "10.0.0.4:7007", &base, false),
            "64 bytes from 10.0.0.4:7007: seq=3 rtt=74.23 µs"
        );
        let late = Sample {
            rtt_ns: Some(20_000_000_000),
            flags: Flags::ANSWERED_LATE,
            lateness_ns: 2_000_000,
            ..base
        };
        assert_eq!(
            sample("z", "h:7", &late, true),
            "z #0 64 bytes from h:7: seq=3 rtt=20000 ms sent 2ms late (late)"
        );
        let made = Sample { size: 0, connection: 4, ..base };
        assert_eq!(sample("z", "h:22", &made, false), "connected to h:22: connection=4 time=74.23 µs");
        let lost = Sample { rtt_ns: None, flags: Flags::UNANSWERED, ..base };
        assert_eq!(sample("z", "h:7", &lost, false), "no echo from h:7: seq=3");
    }

    /// "127.0.0.1:7107 127.0.0.1:7107 refused the connection", at each attempt.
    #[test]
    fn a_target_without_a_label_is_named_once() {
        let refused = |label: &str| {
            let kind = EventKind::ConnectionRefused {
                target: "10.0.0.4:7007".into(),
                remote: None,
                errno: None,
                error: "10.0.0.4:7007 refused the connection".into(),
                retry_in_ns: Some(80_000_000),
                waited_ns: None,
                local: false,
                lane: None,
            };
            let at = jiff::Timestamp::UNIX_EPOCH;
            event(Some(label), &Event { at, mono_ns: 0, connection: None, kind }).expect("a line")
        };
        assert_eq!(
            refused("10.0.0.4:7007"),
            "00:00:00 10.0.0.4:7007 refused the connection; next attempt in 80ms"
        );
        assert_eq!(refused("db1"), "00:00:00 db1 10.0.0.4:7007 refused the connection; next attempt in 80ms");
    }
}
