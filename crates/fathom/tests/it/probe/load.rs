//! `fathom probe --load`: idle and loaded round trips from one run, kept apart in the recording and in the figures.

use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::{Echo, Reflector};
use crate::support::rows::{Events, Row, UNDER_LOAD, WARM_UP, events, has_kind, of_kind, rows};
use jiff::Timestamp;
use serde_json::Value;
use std::ops::Range;
use std::path::Path;
use std::thread;

/// The summary and the events of a run under load, checked against each other and the samples.
struct Run {
    summary: Value,
    events: Events,
}

fn run(home: &Path, reflector: &impl Reflector, options: &str) -> Run {
    let line = format!("{} {options} --record r --json --quiet", reflector.address());
    let summary = Probe::start(home, &line).finish().summary();
    let dir = home.join("r");
    assert_sound(&dir);
    let (rows, events) = (rows(&dir), events(&dir));
    let case = format!("{line}: {summary}");
    every_flag_agrees_with_its_phase(&rows, &events, &case);
    figures_are_kept_apart(&summary, &rows, &case);
    let read = fathom(home, &["recording", "summary", "r", "--json"]).summary();
    for field in ["rtt_ns", "under_load", "samples", "warm_up"] {
        assert_eq!(read[field], summary[field], "{field}: {case}");
    }
    Run { summary, events }
}

/// The loaded phases, from began to ended, ns since the Unix epoch.
fn loaded_phases(events: &Events) -> Vec<Range<i64>> {
    let at = |event: &Value| {
        let at: Timestamp = event["at"].as_str().expect("a time").parse().expect("a time");
        at.as_nanosecond() as i64
    };
    let (began, ended) = (of_kind(events, "load.began"), of_kind(events, "load.ended"));
    assert_eq!(began.len(), ended.len(), "{events:#?}");
    began.into_iter().zip(ended).map(|(began, ended)| at(began)..at(ended)).collect()
}

/// A loaded sample was under way in a loaded phase and nowhere else, an idle one in none; what was both is neither.
fn every_flag_agrees_with_its_phase(rows: &[Row], events: &Events, case: &str) {
    let phases = loaded_phases(events);
    assert!(!phases.is_empty(), "{case}");
    let mut kinds = [0; 3];
    for row in rows {
        let sent = row.at("sent_ns");
        let back = sent + row.rtt_ns().expect("answered");
        let inside = phases.iter().any(|phase| phase.start <= sent && back <= phase.end);
        let outside = phases.iter().all(|phase| back < phase.start || phase.end < sent);
        match (row.has(UNDER_LOAD), row.has(WARM_UP)) {
            (true, true) => kinds[1] += 1,
            (true, false) => {
                assert!(inside, "loaded, and not in {phases:?}: {row:?} {case}");
                kinds[2] += 1;
            }
            (false, false) => {
                assert!(outside, "idle, and in one of {phases:?}: {row:?} {case}");
                kinds[0] += 1;
            }
            (false, true) => panic!("nobody asked for a warm-up: {row:?} {case}"),
        }
    }
    assert!(kinds.iter().all(|n| *n > 0), "idle, between, loaded: {kinds:?} {case}");
}

fn figures_are_kept_apart(summary: &Value, rows: &[Row], case: &str) {
    let loaded = &summary["under_load"];
    for (of, flag) in [(summary, false), (loaded, true)] {
        let in_figures = |row: &&Row| row.has(UNDER_LOAD) == flag && !row.has(WARM_UP);
        let rtts: Vec<i64> = rows.iter().filter(in_figures).filter_map(Row::rtt_ns).collect();
        assert_eq!(of["rtt_ns"]["count"], rtts.len(), "{case}");
        assert_eq!(of["rtt_ns"]["min"].as_i64(), rtts.iter().min().copied(), "{case}");
        assert_eq!(of["rtt_ns"]["max"].as_i64(), rtts.iter().max().copied(), "{case}");
    }
    let under = rows.iter().filter(|row| row.has(UNDER_LOAD)).count();
    assert_eq!((&loaded["samples"], &summary["samples"]), (&under.into(), &rows.len().into()), "{case}");
}

/// The rate of each phase is that of its bytes.
fn assert_rates_match_bytes(run: &Run) {
    for event in of_kind(&run.events, "load.ended") {
        let number = |name: &str| event[name].as_f64().unwrap_or_else(|| panic!("{name}: {event}"));
        let rate = number("sent_bytes") * 8e9 / number("duration_ns");
        assert!((rate - number("sent_bits_per_s")).abs() <= 1.0, "{event}");
    }
}

#[test]
fn every_transport_is_measured_under_load() {
    let echo = Echo::start("127.0.0.1");
    let check = |options: &str, asked: f64, connections: u64| {
        let home = tempfile::tempdir().expect("a directory");
        let run = run(home.path(), &echo, &format!("{options} --for 1200ms --load-phase 300ms"));
        let load = &run.summary["under_load"]["load"];
        assert_eq!(
            (load["asked_bits_per_s"].as_f64(), &load["connections"]),
            (Some(asked), &connections.into())
        );
        assert!(load["echoed_bits_per_s"].as_u64() > Some(0), "{load}");
        assert_rates_match_bytes(&run);
    };
    thread::scope(|all| {
        for (options, asked, connections) in [
            ("--every 2ms --load 8Mbit --load-connections 3", 8e6, 3),
            ("--udp --every 2ms --load 8Mbit --timestamps off", 8e6, 1),
            ("--ping-pong --load 1MB --timestamps off", 8e6, 1),
        ] {
            all.spawn(move || check(options, asked, connections));
        }
    });
    // Five of the load and the probes' own; a stall may have led to another.
    assert!(echo.stop()["connections"].as_u64() >= Some(7));
}

#[test]
fn text_shows_idle_and_loaded_side_by_side() {
    let echo = Echo::start("127.0.0.1");
    let home = tempfile::tempdir().expect("a directory");
    let line =
        format!("{} --every 2ms --for 700ms --load 8Mbit --load-phase 200ms --no-record", echo.address());
    let outcome = Probe::start(home.path(), &line).finish();
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    for part in ["idle rtt", "loaded rtt", "asked: 8 Mbit/s over 1 connection", "echoed ("] {
        assert!(outcome.out.contains(part), "{part}: {}", outcome.out);
    }
    assert!(outcome.err.contains("under load from now on: 8 Mbit/s over 1 connection"), "{}", outcome.err);
}

#[test]
fn invalid_load_options_are_rejected() {
    let home = tempfile::tempdir().expect("a directory");
    for (target, options, part) in [
        ("127.0.0.1", "--load 100", "100Mbit"),
        ("127.0.0.1", "--load max --for 5s", "--load-phase"),
        ("127.0.0.1", "--load max --sizes 64,128", "cannot be used with"),
        ("127.0.0.1 127.0.0.1:8", "--load max", "one target"),
        // A documentation address (RFC 5737): never reached, because refused before.
        ("192.0.2.1", "--load 100Mbit", "--allow-high-rate"),
        ("192.0.2.1", "--load max", "--allow-high-rate"),
    ] {
        let outcome = Probe::start(home.path(), &format!("{target} {options} --no-record")).finish();
        assert_eq!(outcome.code(), 2, "{options}: {}", outcome.err);
        assert!(outcome.err.contains(part), "{options}: {}", outcome.err);
    }
}

/// Rates that a busy machine lowers, peers, and a load that is waited for for ten seconds.
mod acceptance {
    use super::*;
    use crate::support::needs;
    use crate::support::rate::assert_rate;
    use crate::support::reflector::Xinetd;
    use std::net::TcpListener;

    /// The load sent what it was asked for, and all of it came back but what was in flight.
    fn assert_rate_was_kept(run: &Run, asked: f64) {
        let load = &run.summary["under_load"]["load"];
        assert_eq!(load["asked_bits_per_s"], asked, "{load}");
        for way in ["sent_bits_per_s", "echoed_bits_per_s"] {
            let share = load[way].as_f64().expect("a rate") / asked;
            // More: what was in flight when the phase began. Less: this host did not run for a while.
            assert!((0.25..1.2).contains(&share), "{way}: {share} of what was asked: {load}");
        }
        assert_rates_match_bytes(run);
    }

    #[test]
    fn load_keeps_the_rate_asked_for() {
        assert_rate(2, 3, || {
            let echo = Echo::start("127.0.0.1");
            for (options, asked) in [
                ("--every 2ms --for 3500ms --load 40Mbit --load-connections 3 --load-phase 500ms", 40e6),
                ("--udp --every 2ms --for 1s --load 8Mbit --load-phase 300ms --timestamps off", 8e6),
                ("--ping-pong --for 1s --load 8Mbit --load-phase 300ms --timestamps off", 8e6),
            ] {
                let home = tempfile::tempdir().expect("a directory");
                assert_rate_was_kept(&run(home.path(), &echo, options), asked);
            }
        });
    }

    #[test]
    fn xinetd_carries_given_and_maximum_load() {
        if !needs("xinetd") {
            return;
        }
        assert_rate(2, 3, || {
            let xinetd = Xinetd::start("127.0.0.1");
            let home = tempfile::tempdir().expect("a directory");
            let options = "--every 2ms --for 1500ms --load-phase 500ms";
            assert_rate_was_kept(&run(home.path(), &xinetd, &format!("{options} --load 4MB")), 32e6);
            let home = tempfile::tempdir().expect("a directory");
            let most = run(home.path(), &xinetd, &format!("{options} --load max"));
            let load = &most.summary["under_load"]["load"];
            assert!(load["asked_bits_per_s"].is_null(), "{load}");
            assert!(load["echoed_bits_per_s"].as_u64() > Some(0), "{load}");
        });
    }

    #[test]
    fn unaccepted_load_is_noted_and_excluded() {
        // Only the samples' connection is echoed; those of the load wait in the backlog for ever.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("the samples");
            std::io::copy(&mut peer.try_clone().expect("a socket"), &mut peer).expect("echoed");
            listener
        });
        let home = tempfile::tempdir().expect("a directory");
        let line = format!("{address} --every 5ms --load 1Mbit --load-phase 100ms --record r --json --quiet");
        let probe = Probe::start(home.path(), &line);
        let told = |events: &Events| {
            of_kind(events, "note")
                .iter()
                .any(|note| note["text"].as_str().is_some_and(|text| text.contains("did not come up")))
        };
        wait_for_events(&home.path().join("r"), "the load to be missed", told);
        probe.signal("INT");
        let summary = probe.finish().summary();
        drop(server.join().expect("it ends with the samples' connection"));
        let dir = home.path().join("r");
        assert!(!has_kind(&events(&dir), "load.began"));
        let (under, warm) = rows(&dir).iter().fold((0, 0), |(under, warm), row| {
            (under + u64::from(row.has(UNDER_LOAD)), warm + u64::from(row.has(WARM_UP)))
        });
        assert!(under > 0 && under == warm, "{under} under load, {warm} left out");
        assert_eq!(summary["under_load"]["rtt_ns"]["count"], 0, "{summary}");
        assert!(summary["under_load"]["load"]["sent_bits_per_s"].is_null(), "{summary}");
    }
}
