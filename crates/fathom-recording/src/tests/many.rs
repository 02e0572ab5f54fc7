//! A seam at which thousands of connections are open. What it carries was one line of megabytes, and readers stop at a line
//! of 1 MiB: no sample of either recording could be read.

use super::durable::{Fault, FaultyDisk};
use super::seams::{begun, event, lost};
use super::*;
use crate::Recorder;
use crate::events::{Entry, MAX_LINE};
use fathom_core::cause::ClosingCause;
use fathom_core::event::{
    Carried, CarriedConnection, CarriedOutage, CarriedStall, CarriedStallOver, EventKind,
};
use fathom_core::verdict::{Confidence, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Enough for two lines. One line of them is longer than half of what readers take.
const MANY: u32 = 3_000;
/// One line of them is several times longer than what readers take.
const MOST: u32 = 8_000;
/// On each of them: one stands in the recording before the first, one is a row of the first, and one is out.
const SENT: u64 = 3;

/// All are in a stall soon after another one, and all lanes of others without a connection.
fn carried(connections: u32, samples: u64) -> Carried {
    let connection = |connection| CarriedConnection {
        connection,
        samples,
        lane: Some(connection),
        remote: Some("[2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff]:65535".to_owned()),
        stall: Some(CarriedStall { seq: samples, outstanding: 1, threshold_ns: 1, since_ns: SECOND - 1 }),
        stall_over: Some(CarriedStallOver {
            since_ns: 1,
            over_ns: 2,
            waiting: 1,
            verdict: Some(Verdict::PeerPaused),
            confidence: Some(Confidence::Medium),
        }),
    };
    let outage = |lane| CarriedOutage {
        lane,
        began_at: manifest().started_at,
        began_ns: 1,
        connection: None,
        cause: Some(ClosingCause::Reset),
        attempt_ns: Some(1),
        tried: true,
        down_ns: 1,
        opened_ns: None,
        opened: None,
        local: false,
    };
    Carried {
        samples: samples * u64::from(connections),
        connections: (0..connections).map(connection).collect(),
        outages: (connections..2 * connections).map(outage).collect(),
        ..Carried::default()
    }
}

/// A recording in the middle of a run, a seam, and the one behind it.
struct Run {
    home: tempfile::TempDir,
    connections: u32,
    /// Operations of the disk until the seam, and behind it.
    seam: std::ops::RangeInclusive<u64>,
}

impl Run {
    fn dirs(&self) -> [PathBuf; 2] {
        ["a", "b"].map(|name| self.home.path().join(name))
    }
}

fn run(connections: u32, sound: u64, ends: bool) -> Run {
    let (home, disk) = (tempfile::tempdir().unwrap(), FaultyDisk::new(sound, Fault::Dead));
    let mut run = Run { home, connections, seam: 0..=0 };
    let [a, b] = run.dirs();
    let continues = |before: &Recorder, samples| {
        let (previous, carried) = (before.manifest().id.clone(), carried(connections, samples));
        event(None, EventKind::RecordingContinues { previous, carried })
    };
    let mut first = begun(&disk, &a, "tcp");
    first.event(&continues(&first, 1)).unwrap();
    let sent = (0..connections).map(|connection| (connection, SENT)).collect();
    let due = SENT * u64::from(connections);
    first.event(&event(None, EventKind::ScheduleProgress { due, sent })).unwrap();
    for connection in 0..connections {
        first.push(&Sample { connection, seq: 1, ..sample(0) }).unwrap();
    }
    first.flush(SECOND).unwrap();
    let mut second = begun(&disk, &b, "tcp");
    let began = disk.done.load(Ordering::Relaxed);
    if second.event(&continues(&first, 2)).is_ok() {
        let next = second.manifest().id.clone();
        let rotated = event(None, EventKind::RecordingRotated { next, carried: carried(connections, 2) });
        let _ = first.goes_on_in(&mut second, &BTreeMap::default(), &rotated);
    }
    run.seam = began..=disk.done.load(Ordering::Relaxed);
    if ends {
        first.finish(manifest().started_at, 2 * SECOND).unwrap();
        for connection in 0..connections {
            second.push(&Sample { connection, seq: 2, ..sample(0) }).unwrap();
        }
        // It ends by a kill: nobody tells the ends of its connections.
        second.flush(2 * SECOND).unwrap();
    }
    run
}

/// Of each connection both recordings together have a row of all but the first sample, or tell its loss, once.
fn hold(run: &Run, case: &str) {
    let (mut rows, mut told) = (BTreeSet::new(), vec![0; run.connections as usize]);
    for dir in run.dirs() {
        assert_eq!(Recording::open(&dir).unwrap().event_damage().iter().find(|d| !d.torn), None, "{case}");
        for (connection, lost) in lost(&dir) {
            told[connection.expect("the connection is known") as usize] += lost;
        }
        rows.extend(read(&dir).into_iter().map(|row| (row.connection, row.seq)));
        let log = std::fs::read(dir.join("events.jsonl")).unwrap();
        let longest = log.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::len).max();
        assert!(longest.unwrap() < MAX_LINE as usize / 2, "{case}: {longest:?}");
    }
    for (connection, told) in (0..).zip(told) {
        let stand = rows.range((connection, 0)..(connection + 1, 0)).count() as u64;
        assert_eq!(1 + stand + told, SENT, "{case}: connection {connection}: {told} told");
    }
}

fn seam_reads_back(connections: u32) {
    let run = run(connections, u64::MAX, true);
    let [a, b] = run.dirs();
    let carried_by = |dir: &Path, kind: &str| {
        let events = Recording::open(dir).unwrap().events().unwrap();
        let events = events.map(|entry| match entry.unwrap() {
            Entry::Known(event) => event,
            other @ Entry::Other(_) => panic!("{other:?}"),
        });
        let of_kind: Vec<_> = events.filter(|event| event.kind.name() == kind).collect();
        assert_eq!(of_kind.len(), 1, "{kind}");
        match of_kind.into_iter().next().unwrap().kind {
            EventKind::RecordingContinues { carried, .. } | EventKind::RecordingRotated { carried, .. } => {
                carried
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(carried_by(&a, "recording.continues") == carried(connections, 1));
    assert!(carried_by(&a, "recording.rotated") == carried(connections, 2));
    assert!(carried_by(&b, "recording.continues") == carried(connections, 2));
    hold(&run, "the first one ended in order");
}

#[test]
fn seam_with_many_connections_reads_back() {
    seam_reads_back(MANY);
}

/// A line of them is lost, or was changed: the event must not be read as one with fewer connections.
#[test]
fn a_seam_that_lacks_a_line_is_damage() {
    let whole = run(MANY, u64::MAX, true);
    let [_, dir] = whole.dirs();
    let log = std::fs::read_to_string(dir.join("events.jsonl")).unwrap();
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let parts = lines.iter().filter(|line| line.contains("\"recording.carries\"")).count();
    assert_eq!(parts, 2 * MANY.div_ceil(1_000) as usize);
    for missing in 1..=parts {
        let left = [&lines[..missing], &lines[missing + 1..]].concat().concat();
        std::fs::write(dir.join("events.jsonl"), left).unwrap();
        let damage = Recording::open(&dir).unwrap().event_damage().to_vec();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert!(damage[0].reason.contains("are missing") && !damage[0].torn, "{damage:?}");
    }
    // What a kill left of the same seam, before the whole of it.
    let left = [&lines[..3], &lines[1..]].concat().concat();
    std::fs::write(dir.join("events.jsonl"), left).unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert!(recording.event_damage().is_empty(), "{:?}", recording.event_damage());
    let carries = |entry: &Entry| match entry.known().map(|event| &event.kind) {
        Some(EventKind::RecordingContinues { carried: c, .. }) => *c == carried(MANY, 2),
        _ => false,
    };
    assert!(recording.events().unwrap().flatten().any(|entry| carries(&entry)));
}

mod acceptance {
    use super::*;

    #[test]
    fn seam_with_many_connections_reads_back() {
        seam_reads_back(MOST);
    }

    #[test]
    fn kill_within_large_seam_is_recovered() {
        let seam = run(MOST, u64::MAX, false).seam;
        // `seams.rs` kills at each operation of a seam of few connections.
        let third = (seam.end() - seam.start()).div_ceil(3) as usize;
        for sound in seam.clone().step_by(third).skip(1) {
            hold(&run(MOST, sound, false), &format!("killed at operation {sound} of {seam:?}"));
        }
    }
}
