//! Faults that were seen in the field, or by strangers who tried the program, each played in virtual time.

mod connecting;
mod datagrams;
mod ends;
mod hosts;
mod silences;
use crate::world::{Fault, MS, S, START, World};
use fathom_core::event::EventKind;
use fathom_core::probe::Settings;
use fathom_core::schedule::Pace;

fn every(interval_ns: u64, duration_ns: u64) -> Settings {
    Settings {
        pace: Pace::Every(interval_ns),
        duration_ns: Some(duration_ns),
        ..Settings::new(vec!["host:7007".into()])
    }
}

/// The kernel took the last message in part, and the peer read no more: nothing was armed that would end the run.
#[test]
fn partly_written_last_message_ends_run() {
    let settings = Settings { count: Some(2), size: 100_000, duration_ns: None, ..every(100 * MS, S) };
    let mut world = World::new(settings, 1).with([(50 * MS, Fault::Silence(1_000_000 * S))]);
    (world.user_timeout_ns, world.must_end_ns) = (u64::MAX / 2, 600 * S);
    let outcome = world.run();
    outcome.check_laws();
    assert!(outcome.ended_ns < START.mono_ns + 30 * S, "{}", outcome.ended_ns);
}

tiers! {
    samples_due_near_the_end_are_sent: &[1, 10], &[1, 10, 1_000];
}

/// The probe's host does not run for the last milliseconds of a run: what fell due in it is still sent. The end used to
/// come in the same turn, before the driver had sent: of 150,000 samples of ten thousand connections up to nine were not.
fn samples_due_near_the_end_are_sent(connections: &[u32]) {
    for &connections in connections {
        let settings = Settings { connections, ..every(u64::from(connections) * 100_000, S) };
        let pause = (S - MS, Fault::LocalPause(20 * MS));
        let outcome = World::new(settings, 1).with([pause]).run();
        outcome.check_laws();
        assert_eq!((outcome.samples.len(), outcome.skipped()), (10_000, 0), "{connections} connections");
    }
}

/// chrony slews at up to 83,333 ppm: that was a step every second.
#[test]
fn a_slewed_clock_is_not_set_every_second() {
    let faults = [(20 * S, Fault::Slew(83_333, 60 * S)), (120 * S, Fault::Step(2 * S as i64))];
    let outcome = World::new(every(S, 200 * S), 1).with(faults).run();
    let steps =
        outcome.of(|kind| if let EventKind::ClockStepped { step_ns } = kind { Some(*step_ns) } else { None });
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(steps[0].2, 2 * S as i64);
}
