//! A disk that fails for another reason than want of room stops a recording, and the run goes on: every sample from then on
//! is a told loss, and nothing from before is forgiven.

use super::*;
use crate::disk::{Disk, RealDisk};
use crate::events::Entry;
use crate::{Recorder, recover, verify};
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind, Evidence};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A disk that refuses record batches while it is broken, and takes everything else.
#[derive(Debug, Default)]
pub(super) struct Failing(pub(super) AtomicBool);

impl Disk for Failing {
    fn write(&self, file: &File, parts: &[&[u8]]) -> io::Result<()> {
        let rows = parts.concat().first() != Some(&b'{');
        if rows && self.0.load(Ordering::Relaxed) {
            return Err(io::Error::other("input/output error"));
        }
        RealDisk.write(file, parts)
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn push(recorder: &mut Recorder, connection: u32, seqs: std::ops::Range<u64>) {
    for seq in seqs {
        let _ = recorder.push(&Sample { connection, seq, ..sample(0) });
    }
}

fn closed(connection: u32, sent: u64, mono_ns: u64) -> Event {
    let (cause, verdict, errno, age_ns) = (ClosingCause::Finished, None, None, 1);
    let evidence = Evidence { sent, ..Evidence::default() };
    let kind = EventKind::ConnectionClosed { cause, verdict, errno, age_ns, evidence };
    Event { at: manifest().started_at, mono_ns, connection: Some(connection), kind }
}

/// A run of three connections whose disk breaks in the second; that one says that it sent so many.
fn run(home: &Path, sent: u64) -> Recorder {
    let disk = Arc::new(Failing::default());
    let mut manifest = manifest();
    manifest.probe = serde_json::json!({ "mode": "tcp" });
    let mut recorder = Recorder::create_on(
        Arc::clone(&disk) as Arc<dyn Disk>,
        &home.join("r"),
        manifest,
        Options::default(),
    )
    .unwrap();
    push(&mut recorder, 0, 0..10);
    recorder.flush(SECOND).unwrap();
    recorder.event(&closed(0, 10, SECOND)).unwrap();
    push(&mut recorder, 1, 0..5);
    recorder.flush(2 * SECOND).unwrap();
    push(&mut recorder, 1, 5..8);
    disk.0.store(true, Ordering::Relaxed);
    recorder.flush(3 * SECOND).unwrap_err();
    disk.0.store(false, Ordering::Relaxed);
    assert!(recorder.stopped().is_some() && !recorder.waits_for_room());
    push(&mut recorder, 1, 8..12);
    recorder.event(&closed(1, sent, 50 * SECOND)).unwrap();
    push(&mut recorder, 2, 0..6);
    recorder.event(&closed(2, 6, 100 * SECOND)).unwrap();
    recorder
}

fn findings(dir: &Path) -> Vec<String> {
    verify(dir, |_| {}).unwrap().findings.into_iter().map(|finding| finding.first).collect()
}

fn losses(dir: &Path) -> Vec<(u32, u64, String)> {
    let lost = |entry| match entry {
        Ok(Entry::Known(Event {
            connection, kind: EventKind::RecordingOverflowed { lost, reason }, ..
        })) => Some((connection.unwrap(), lost, reason.unwrap())),
        _ => None,
    };
    Recording::open(dir).unwrap().events().unwrap().filter_map(lost).collect()
}

/// Samples after the stop had neither a row nor a told loss.
#[test]
fn finish_reports_samples_lost_after_stop() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = run(home.path(), 12);
    assert!(Manifest::read(&dir).unwrap().ended_at.is_none(), "its events go on");
    recorder.finish_with(manifest().started_at, 101 * SECOND, None).unwrap_err();
    let of = |connection, lost| (connection, lost, "stopped".to_owned());
    assert_eq!(losses(&dir), [of(1, 3), of(1, 4), of(2, 6)]);
    assert_eq!(findings(&dir), Vec::<String>::new());
    assert_eq!(read(&dir).len(), 15);
}

/// An error forgave every row that was missing, whenever.
#[test]
fn an_error_forgives_no_missing_row() {
    let home = tempfile::tempdir().unwrap();
    run(home.path(), 14).finish(manifest().started_at, 101 * SECOND).unwrap_err();
    assert_eq!(
        findings(&home.path().join("r")),
        ["connection 1: 14 sent, 5 rows, 7 recorded as lost or in flight: 2 missing"]
    );
}

#[test]
fn recovery_completes_recording_killed_after_stop() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    drop(run(home.path(), 12));
    assert_eq!(findings(&dir).len(), 1, "{:?}", findings(&dir));
    assert!(findings(&dir)[0].contains("interrupted"));
    assert_eq!(recover(&dir, manifest().started_at).unwrap().lost, 10);
    assert_eq!(findings(&dir), Vec::<String>::new());
}
