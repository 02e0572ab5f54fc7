//! An application's recording: each request that was due has one of five ends, or is told as not known; and the keeper that writes
//! it, on a disk that is full for a while.

use super::room::{Filling, kinds};
use super::*;
use crate::{Keeper, Recorder, recover, verify};
use fathom_core::clock::Anchor;
use fathom_core::event::{CLIENT_MODE, Ended, Event, EventKind, Interrupted, Outcome};
use fathom_core::policy::Tally;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;

fn of_client() -> Manifest {
    let mut manifest = manifest();
    manifest.probe = serde_json::json!({ "mode": CLIENT_MODE });
    manifest
}

fn tell(recorder: &mut Recorder, kind: EventKind) {
    let at = manifest().started_at;
    recorder.event(&Event { at, mono_ns: SECOND, connection: None, kind }).unwrap();
}

fn failed(request: u64) -> EventKind {
    let (outcome, waited_ns, tries, retry_not_made) = (Outcome::Failed, 1, 1, false);
    EventKind::RequestEnded(Ended { request, outcome, waited_ns, tries, retry_not_made })
}

/// Seven were due: one was answered, two failed. Killed, or ended with this as the client's own count.
fn recording(home: &Path, due: Option<u64>) -> PathBuf {
    let dir = home.join("r");
    let mut recorder = Recorder::create(&dir, of_client()).unwrap();
    for request in [1, 3] {
        tell(&mut recorder, failed(request));
    }
    recorder.push(&sample(0)).unwrap();
    tell(&mut recorder, EventKind::ScheduleProgress { due: 7, sent: std::collections::BTreeMap::new() });
    recorder.flush(SECOND).unwrap();
    if let Some(due) = due {
        tell(&mut recorder, EventKind::ClientEnded { result: serde_json::json!({ "due": due }) });
        recorder.finish(manifest().started_at, SECOND).unwrap();
    }
    dir
}

fn findings(dir: &Path) -> Vec<String> {
    verify(dir, |_| {}).unwrap().findings.into_iter().map(|finding| finding.first).collect()
}

/// After a kill the requests that were under way had never been.
#[test]
fn killed_client_reports_pending_requests_as_unknown() {
    let home = tempfile::tempdir().unwrap();
    let dir = recording(home.path(), None);
    let of = |dir: &Path| Recording::open(dir).unwrap().requests().unwrap().expect("a client's");
    let before = of(&dir);
    assert_eq!((before.counts.due, before.not_known), (7, 4));
    let interrupted = Recording::open(&dir).unwrap().client(Tally::new("")).expect("a client's");
    assert_eq!(interrupted.uncounted_ns, SECOND);
    assert!(findings(&dir).iter().any(|first| first.starts_with("7 due, 4 of them without an end")));
    recover(&dir, Timestamp::UNIX_EPOCH).unwrap();
    let told = kinds(&dir).into_iter().filter(|kind| matches!(kind, EventKind::ClientInterrupted(_)));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [EventKind::ClientInterrupted(Interrupted { due: 7, not_known: 4 })]
    );
    assert!(findings(&dir).is_empty(), "{:?}", findings(&dir));
    let after = of(&dir);
    assert_eq!((after.counts, after.not_known, after.uncounted_ns), (before.counts, 4, SECOND));
    assert!(!recover(&dir, Timestamp::UNIX_EPOCH).unwrap().needed);
}

/// What a client that ended in order counted is what its rows and events say.
#[test]
fn a_request_without_an_end_breaks_the_law() {
    for (due, breaks) in [(4, false), (5, true)] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("r");
        let mut recorder = Recorder::create(&dir, of_client()).unwrap();
        (0..3).for_each(|request| tell(&mut recorder, failed(request)));
        recorder.push(&sample(0)).unwrap();
        recorder.flush(SECOND).unwrap();
        tell(&mut recorder, EventKind::ClientEnded { result: serde_json::json!({ "due": due }) });
        recorder.finish(manifest().started_at, SECOND).unwrap();
        let findings = findings(&dir);
        assert_eq!(!findings.is_empty(), breaks, "{due}: {findings:?}");
    }
    let home = tempfile::tempdir().unwrap();
    let too_many = recording(home.path(), Some(2));
    assert!(findings(&too_many)[0].starts_with("2 due, and "), "{:?}", findings(&too_many));
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = Recorder::create(&dir, of_client()).unwrap();
    for request in [0, 0] {
        tell(&mut recorder, failed(request));
    }
    tell(&mut recorder, EventKind::ClientEnded { result: serde_json::json!({ "due": 2 }) });
    recorder.finish(manifest().started_at, SECOND).unwrap();
    assert_eq!(findings(&dir), ["request 0"]);
    let other = Recording::open(&dir).unwrap();
    assert!(other.client(Tally::new("")).is_some());
}

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn read_clocks() -> Anchor {
    let mono_ns = NOW.get();
    Anchor { mono_ns, utc_ns: START_NS + mono_ns as i64 }
}

/// A search's recording ended for good at the first write that found no room; an application's said nothing until the end. Both
/// have this keeper.
#[test]
fn keeper_reports_full_disk_once_and_resumes() {
    let home = tempfile::tempdir().unwrap();
    let (dir, disk) = (home.path().join("r"), Arc::new(Filling::default()));
    let recorder = Recorder::create_on(disk.clone(), &dir, of_client(), Options::default()).unwrap();
    let mut keeper = Keeper::new(Some(recorder), read_clocks, |line| {
        TOLD.with_borrow_mut(|told| told.push(line.to_owned()));
    });
    for second in 0..60 {
        NOW.set(second * SECOND);
        match second {
            10 => disk.fill(),
            40 => disk.empty(),
            _ => {}
        }
        keeper.event(None, failed(second));
        for seq in 200 * second..200 * (second + 1) {
            keeper.sample(&Sample { connection: 0, seq, ..sample(0) });
        }
        assert_eq!(keeper.due_ns().map(|due| due.saturating_sub(NOW.get()) <= SECOND), Some(true));
        keeper.flush(NOW.get());
    }
    let result = serde_json::json!({ "due": 12_060 });
    assert_eq!(keeper.finish(EventKind::ClientEnded { result }), Ok(()));
    let told = TOLD.with_borrow(Clone::clone);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("the recording waits for room, the run goes on: "), "{told:?}");
    assert!(told[1].contains("has room again"), "{told:?}");
    assert_eq!(findings(&dir), Vec::<String>::new());
    assert_eq!(read(&dir).len(), 12_000);
}

/// Without a recorder it asks for no wake-up, and events have their time all the same.
#[test]
fn a_keeper_of_nothing_stamps_events() {
    NOW.set(5 * SECOND);
    let mut keeper = Keeper::new(None, read_clocks, |_| unreachable!("there is no trouble"));
    keeper.flush(90 * SECOND);
    assert_eq!((keeper.due_ns(), keeper.event(None, failed(0)).mono_ns), (None, 5 * SECOND));
    assert_eq!(keeper.finish(failed(1)), Ok(()));
}
