//! Every sample that was sent has exactly one row, or its loss is told: through silences whose end delivers at once more
//! than any ring holds, survived and not.

use crate::support::probe::{Probe, assert_sound};
use crate::support::rows::{UNANSWERED, events, number, of_kind, rows};
use crate::support::withholding::{Plan, Withholding};
use std::path::Path;
use std::thread;

/// Runs a probe through a silence of so many frames. Its recording must have a row for each sample that was sent.
fn silence(every: &str, count: u64, plan: Plan) {
    let home = tempfile::tempdir().expect("a directory");
    let reflector = Withholding::start(64, plan);
    let arguments = format!(
        "{} --every {every} --count {count} --no-reconnect --record r --json --quiet",
        reflector.address
    );
    let outcome = Probe::start(home.path(), &arguments).finish();
    let came = reflector.frames();
    assert_eq!(outcome.code(), i32::from(!plan.recovers), "{}", outcome.err);
    let summary = outcome.objects().pop().expect("a summary");
    assert_every_sample_has_a_row(
        &home.path().join("r"),
        came,
        if plan.recovers { came } else { plan.answered },
    );
    assert_eq!(summary["samples"], came, "{summary}");
    if plan.recovers {
        assert_eq!(came as u64 + number(&summary, "not_sent"), count, "{summary}");
    }
}

fn assert_every_sample_has_a_row(dir: &Path, came: usize, answered: usize) {
    assert_sound(dir);
    let (log, rows) = (events(dir), rows(dir));
    assert!(of_kind(&log, "recording.overflowed").is_empty(), "{log:#?}");
    let closed = of_kind(&log, "connection.closed");
    assert_eq!(closed.len(), 1, "{closed:?}");
    // What the reflector read, what the probe says it sent, and the rows agree.
    assert_eq!(closed[0]["evidence"]["sent"], came, "{}", closed[0]);
    assert_eq!(rows.len(), came);
    let mut seqs: Vec<i64> = rows.iter().map(|row| row.at("seq")).collect();
    seqs.sort_unstable();
    assert!(seqs.iter().copied().eq(0..came as i64), "each once");
    assert_eq!(rows.iter().filter(|row| !row.has(UNANSWERED)).count(), answered);
}

/// Silences that end with answers, and silences that end the connection, side by side.
fn silences(every: &str, count: u64, answered: usize, withheld: usize) {
    thread::scope(|scope| {
        for recovers in [true, false] {
            scope.spawn(move || silence(every, count, Plan { answered, withheld, recovers }));
        }
    });
}

#[test]
fn silence_accounts_for_every_sample() {
    silences("2ms", 800, 100, 400);
}

mod acceptance {
    use super::*;

    /// 613 of 2,600 samples had no row; of a connection that ended 1,181, and `verify` called the recording sound.
    #[test]
    fn silence_of_eight_seconds_accounts_for_every_sample() {
        silences("5ms", 2_600, 500, 1_600);
    }

    /// More comes at once than the ring holds. (The outbox's own tests do the same without a probe.)
    #[test]
    fn silence_overrunning_ring_accounts_for_every_sample() {
        silences("500us", 14_000, 500, 12_000);
    }
}
