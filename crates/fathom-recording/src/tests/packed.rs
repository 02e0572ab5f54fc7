//! Rows that were made ready by who took the samples: each is a row or a told loss, whatever the disk does.

use super::room::{Filling, kinds};
use super::stopped::Failing;
use super::*;
use crate::disk::Disk;
use crate::{AT_ONCE, Packer, Recorder, verify};
use fathom_core::event::EventKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SENT: u64 = 20 * AT_ONCE as u64 + 100;

fn row(seq: u64) -> Sample {
    Sample { connection: 0, seq, ..sample(0) }
}

/// Packs [`SENT`] samples, flushes after each thousand and does something before some; the rows, and how many losses are told.
fn run(disk: Arc<dyn Disk>, options: Options, mut before: impl FnMut(u64)) -> (Vec<Sample>, u64) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = Recorder::create_on(disk, &dir, manifest(), options).unwrap();
    let mut packer = Packer::default();
    for seq in 0..SENT {
        before(seq);
        // An error here is the disk's, and told by the next flush too.
        let _ = packer.push(&row(seq)).map(|packed| recorder.push_packed(&packed));
        if seq % 1_000 == 999 {
            let _ = recorder.flush(seq / 1_000 * SECOND);
        }
    }
    let _ = packer.finish().map(|packed| recorder.push_packed(&packed));
    assert!(packer.finish().is_none());
    let _ = recorder.finish_with(manifest().started_at, 60 * SECOND, None);
    let lost =
        |kind: &EventKind| if let EventKind::RecordingOverflowed { lost, .. } = kind { *lost } else { 0 };
    let findings = verify(&dir, |_| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
    (read(&dir), kinds(&dir).iter().map(lost).sum())
}

fn all() -> Vec<Sample> {
    (0..SENT).map(row).collect()
}

#[test]
fn what_was_packed_reads_back_over_many_segments() {
    let options = Options { segment_rows: 600, ..SMALL };
    assert_eq!(run(crate::disk::real(false), options, |_| {}), (all(), 0));
    let mut packer = Packer::default();
    let packed = samples(0..AT_ONCE as u64).iter().filter_map(|sample| packer.push(sample)).last().unwrap();
    assert_eq!(packed.samples(), samples(0..AT_ONCE as u64));
    assert_eq!(packed.by_connection().iter().map(|(_, samples)| samples).sum::<u64>(), AT_ONCE as u64);
    assert_eq!(packed.by_connection().len(), 3);
}

#[test]
fn a_disk_that_is_full_for_a_while_costs_no_row() {
    let disk = Arc::new(Filling::default());
    let full = Arc::clone(&disk);
    let before = |seq| match seq {
        1_500 => full.fill(),
        3_500 => full.empty(),
        _ => {}
    };
    assert_eq!(run(disk, Options::default(), before), (all(), 0));
}

#[test]
fn every_sample_after_a_failure_is_told_as_lost() {
    let disk = Arc::new(Failing::default());
    let failing = Arc::clone(&disk);
    let (rows, lost) = run(disk, Options::default(), |seq| {
        failing.0.store((1_500..3_500).contains(&seq), Ordering::Relaxed);
    });
    assert_eq!(rows, all()[..rows.len()]);
    assert!((1_000..1_600).contains(&rows.len()), "{}", rows.len());
    assert_eq!(rows.len() as u64 + lost, SENT);
}
