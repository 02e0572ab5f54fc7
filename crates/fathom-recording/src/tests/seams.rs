//! The law of a seam: wherever within a rotation a probe is killed, every sample that was sent is a row of exactly one recording,
//! or is told as lost by exactly one.

use super::durable::{Fault, FaultyDisk};
use super::*;
use crate::disk::Disk;
use crate::events::Entry;
use crate::recover::recover_on;
use crate::{Recorder, verify};
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind, Evidence};
use fathom_core::rotation::Tally;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What was sent on connections 0 to 2.
const SENT: [u64; 3] = [40, 25, 7];

/// What comes before a seam and behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// Rows are written before it, and two behind it; then comes a kill.
    Killed,
    /// Rows are written by the end of the recording that has them, which comes at once.
    Closed,
    /// What was out comes back behind it, and both recordings end.
    Ended,
}

/// A run and its two recordings, and how many operations of the disk there had been at moments of it.
struct Run {
    home: tempfile::TempDir,
    before_the_seam: u64,
    behind_the_seam: u64,
    in_all: u64,
}

impl Run {
    fn dirs(&self) -> [PathBuf; 2] {
        ["a", "b"].map(|name| self.home.path().join(name))
    }
}

pub(super) fn event(connection: Option<u32>, kind: EventKind) -> Event {
    Event { at: manifest().started_at, mono_ns: SECOND, connection, kind }
}

pub(super) fn begun(disk: &Arc<FaultyDisk>, dir: &Path, mode: &str) -> Recorder {
    let mut manifest = manifest();
    manifest.probe = serde_json::json!({ "mode": mode });
    Recorder::create_on(Arc::clone(disk) as Arc<dyn Disk>, dir, manifest, Options::default()).unwrap()
}

fn closed(connection: u32) -> Event {
    let (cause, verdict, errno, age_ns) = (ClosingCause::Finished, None, None, 1);
    let evidence = Evidence { sent: SENT[connection as usize], ..Evidence::default() };
    event(Some(connection), EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence })
}

/// Connection 0 has rows and samples behind them that are out; 1 lacks some, between others where they are datagrams, and a stall of
/// it names the first one; 2 is over before the seam. The rows of the second recording were out at it.
fn run(disk: &Arc<FaultyDisk>, mode: &str) -> Run {
    run_as(disk, mode, Course::Killed)
}

fn run_as(disk: &Arc<FaultyDisk>, mode: &str, course: Course) -> Run {
    let home = tempfile::tempdir().unwrap();
    let (mut tally, mut run) =
        (Tally::default(), Run { home, before_the_seam: 0, behind_the_seam: 0, in_all: 0 });
    let [a, b] = run.dirs();
    let mut first = begun(disk, &a, mode);
    let both = |tally: &mut Tally, recorder: &mut Recorder, event: &Event| {
        tally.event(event);
        recorder.event(event).unwrap();
    };
    for connection in [0, 1, 2] {
        let (target, local, remote) = (String::new(), String::new(), String::new());
        let (connect_ns, tls_ns, interface, lane) = (0, None, None, Some(0));
        let kind = EventKind::ConnectionOpened { target, local, remote, connect_ns, tls_ns, interface, lane };
        both(&mut tally, &mut first, &event(Some(connection), kind));
    }
    let sent = (0..).zip(SENT).collect();
    both(&mut tally, &mut first, &event(None, EventKind::ScheduleProgress { due: SENT.iter().sum(), sent }));
    let stalled = EventKind::StallBegan { seq: 15, outstanding: 10, threshold_ns: 1 };
    both(&mut tally, &mut first, &event(Some(1), stalled));
    let of_the_second = if mode == "udp" { vec![0, 1, 4, 9, 14] } else { (0..15).collect() };
    let before = [(0, (0..10).collect()), (1, of_the_second), (2, (0..SENT[2]).collect::<Vec<_>>())];
    for (connection, seq) in before.iter().flat_map(|(of, seqs)| seqs.iter().map(|seq| (*of, *seq))) {
        let row = Sample { connection, seq, ..sample(0) };
        tally.sample(&row);
        first.push(&row).unwrap();
    }
    both(&mut tally, &mut first, &closed(2));
    if course != Course::Closed {
        first.flush(SECOND).unwrap();
    }

    let mut second = begun(disk, &b, mode);
    run.before_the_seam = disk.done.load(Ordering::Relaxed);
    let carried = tally.carried(SECOND);
    let (previous, next) = (first.manifest().id.clone(), second.manifest().id.clone());
    let continues = EventKind::RecordingContinues { previous, carried: carried.clone() };
    if second.event(&event(None, continues)).is_ok() {
        let rotated = event(None, EventKind::RecordingRotated { next, carried });
        // What becomes of its last event the recorder knows.
        let _ = first.goes_on_in(&mut second, &tally.sent_with_gaps(), &rotated);
        run.behind_the_seam = disk.done.load(Ordering::Relaxed);
        match course {
            Course::Killed => {
                for seq in 10..12 {
                    let _ = second.push(&Sample { connection: 0, seq, ..sample(0) });
                }
                let _ = second.flush(2 * SECOND);
            }
            Course::Closed => drop(first.finish(manifest().started_at, 2 * SECOND)),
            Course::Ended => {
                // Rows that were last written just now wait for the end.
                let _ = second.flush(SECOND);
                let mut push = |connection, seq| drop(second.push(&Sample { connection, seq, ..sample(0) }));
                (10..SENT[0]).for_each(|seq| push(0, seq));
                let lacked = (0..SENT[1]).filter(|seq| !before[1].1.contains(seq));
                lacked.for_each(|seq| push(1, seq));
                let due = EventKind::ScheduleEnded { due: SENT.iter().sum() };
                for event in [closed(0), closed(1), event(None, due)] {
                    let _ = second.event(&event);
                }
                let _ = first.finish(manifest().started_at, 2 * SECOND);
                let _ = second.finish(manifest().started_at, 2 * SECOND);
            }
        }
    }
    run.in_all = disk.done.load(Ordering::Relaxed);
    run
}

/// Recovers it, and gives the losses that are told. Nothing is synced: the machine stays up.
pub(super) fn lost(dir: &Path) -> Vec<(Option<u32>, u64)> {
    let recover =
        || recover_on(FaultyDisk::new(u64::MAX, Fault::Dead).as_ref(), dir, manifest().started_at).unwrap();
    recover();
    let findings = verify(dir, |_| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
    assert!(!recover().needed, "a second recovery found something");
    let lost = |entry| match entry {
        Ok(Entry::Known(Event { connection, kind: EventKind::RecordingOverflowed { lost, .. }, .. })) => {
            Some((connection, lost))
        }
        _ => None,
    };
    Recording::open(dir).unwrap().events().unwrap().filter_map(lost).collect()
}

/// The law of both recordings, which are recovered in an order.
fn hold(run: &Run, order: [usize; 2], case: &str) {
    let dirs = run.dirs();
    let (mut rows, mut told) = (BTreeSet::new(), BTreeMap::new());
    for of in order {
        let dir = &dirs[of];
        for (connection, lost) in lost(dir) {
            let connection = connection.expect("the connection is known");
            let other = told.insert(connection, lost);
            assert_eq!(other, None, "{case}: both recordings tell losses of connection {connection}");
        }
        for row in read(dir) {
            assert!(rows.insert((row.connection, row.seq)), "{case}: {row:?} stands twice");
        }
        let hidden: Vec<_> =
            std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(hidden.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{case}: {hidden:?}");
    }
    for (connection, sent) in (0..).zip(SENT) {
        let rows = rows.iter().filter(|(of, _)| *of == connection).count() as u64;
        let told = told.get(&connection).copied().unwrap_or(0);
        assert_eq!(rows + told, sent, "{case}: connection {connection}: {rows} rows, {told} told");
    }
}

/// Faults, and the operations of a course in which they come.
struct Trial {
    course: Course,
    faults: &'static [Fault],
    operations: fn(&Run) -> Range<u64>,
    /// The orders in which the two recordings are recovered.
    orders: &'static [[usize; 2]],
    /// The least number of operations.
    at_least: usize,
}

const TRIALS: [Trial; 4] = [
    // A kill within the seam or just behind it.
    Trial {
        course: Course::Killed,
        faults: &[Fault::Dead],
        operations: |run| run.before_the_seam..run.in_all + 1,
        orders: &[[0, 1], [1, 0]],
        at_least: 10,
    },
    // One operation of the seam fails, and a kill comes later. An error behind the seam stops the next recording: `stopped.rs`.
    Trial {
        course: Course::Killed,
        faults: &[Fault::Once(io::ErrorKind::Other), Fault::Once(io::ErrorKind::StorageFull)],
        operations: |run| run.before_the_seam..run.behind_the_seam,
        orders: &[[0, 1]],
        at_least: 9,
    },
    // The first recording's last event waits for room that never comes. Its end removed `.seam`, and with it the losses.
    Trial {
        course: Course::Closed,
        faults: &[Fault::Full, Fault::FullForGood],
        operations: |run| run.before_the_seam..run.in_all,
        orders: &[[0, 1]],
        at_least: 11,
    },
    // A kill within the ends. An end removed `.progress` before it wrote the last rows.
    Trial {
        course: Course::Ended,
        faults: &[Fault::Dead],
        operations: |run| run.behind_the_seam..run.in_all,
        orders: &[[0, 1]],
        at_least: 21,
    },
];

/// The law, where each `every`th operation of each trial is the first that fails.
fn law_holds(every: usize) {
    let mut course = 0;
    for (trial, mode) in TRIALS.iter().flat_map(|trial| ["tcp", "udp"].map(|mode| (trial, mode))) {
        let whole = run_as(&FaultyDisk::new(u64::MAX, Fault::Dead), mode, trial.course);
        hold(&whole, [0, 1], mode);
        for fault in trial.faults {
            let mut held = 0;
            for sound in some_of((trial.operations)(&whole), every, course) {
                for order in trial.orders {
                    let run = run_as(&FaultyDisk::new(sound, *fault), mode, trial.course);
                    let is_full = matches!(fault, Fault::Full | Fault::FullForGood);
                    // While the disk is full nothing is promised; once this file was moved, it is.
                    if !is_full || run.dirs()[1].join(".progress").exists() {
                        held += 1;
                        hold(&run, *order, &format!("{mode}, {fault:?} at operation {sound}, {order:?}"));
                    }
                }
            }
            assert!((held + 1) * every > trial.at_least, "{mode}, {fault:?}: only {held}");
            course += 1;
        }
    }
}

/// A recovery that is killed too is taken up by the next one.
fn interrupted_recoveries_hold(every: usize) {
    let whole = run(&FaultyDisk::new(u64::MAX, Fault::Dead), "udp");
    for sound in some_of(whole.before_the_seam..=whole.behind_the_seam, every, 0) {
        for interrupted in (sound % 6..24).step_by(6) {
            let run = run(&FaultyDisk::new(sound, Fault::Dead), "udp");
            for dir in run.dirs() {
                let disk = FaultyDisk::new(interrupted, Fault::Dead);
                let _ = recover_on(disk.as_ref(), &dir, manifest().started_at);
            }
            hold(&run, [0, 1], &format!("killed at operation {sound}, recovery at {interrupted}"));
        }
    }
}

#[test]
fn each_sample_counts_once_around_seam() {
    law_holds(SOME);
}

#[test]
fn seam_survives_interrupted_recoveries() {
    interrupted_recoveries_hold(SOME);
}

mod acceptance {
    use super::*;

    #[test]
    fn each_sample_counts_once_around_seam() {
        law_holds(1);
    }

    #[test]
    fn seam_survives_interrupted_recoveries() {
        interrupted_recoveries_hold(1);
    }
}
