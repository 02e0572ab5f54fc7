//! Rows that were made ready by who took the samples: each is a row or a told loss, whatever the disk does.

use super::room::{Filling, kinds};
use super::stopped::Failing;
use super::*;
use crate::disk::{Disk, RealDisk};
use crate::stream::BLOCK;
use crate::{AT_ONCE, Packer, Recorder, verify};
use fathom_core::event::EventKind;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SENT: u64 = 20 * AT_ONCE as u64 + 100;

fn row(seq: u64) -> Sample {
    Sample { connection: 0, seq, ..sample(0) }
}

/// Packs [`SENT`] samples and hands so many packed pieces over `together`, flushes after each thousand and does something before
/// some; the rows, and how many losses are told.
fn run(
    disk: Arc<dyn Disk>,
    options: Options,
    together: usize,
    mut before: impl FnMut(u64),
) -> (Vec<Sample>, u64) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = Recorder::create_on(disk, &dir, manifest(), options).unwrap();
    let (mut packer, mut pieces) = (Packer::default(), Vec::new());
    for seq in 0..SENT {
        before(seq);
        pieces.extend(packer.push(&row(seq)));
        if pieces.len() == together {
            // An error here is the disk's, and told by the next flush too.
            let _ = recorder.push_packed(&std::mem::take(&mut pieces));
        }
        if seq % 1_000 == 999 {
            let _ = recorder.flush(seq / 1_000 * SECOND);
        }
    }
    pieces.extend(packer.finish());
    let _ = recorder.push_packed(&pieces);
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
    for together in [1, 3, 50] {
        assert_eq!(run(crate::disk::real(false), options, together, |_| {}), (all(), 0));
    }
    let mut packer = Packer::default();
    let early = samples(0..AT_ONCE as u64).iter().filter_map(|sample| packer.push(sample)).count();
    assert_eq!(early, 0, "the last batch is ended while the next one fills");
    let packed = packer.finish().unwrap();
    assert_eq!(packed.samples(), samples(0..AT_ONCE as u64));
    assert_eq!(packed.by_connection().values().sum::<u64>(), AT_ONCE as u64);
    assert_eq!(packed.by_connection().len(), 3);
}

/// A batch of 256 rows was ended in one go, 410 times a second: that took longer than an echo, and each such round trip was slow.
#[test]
fn packer_spreads_batch_work_over_samples() {
    let (mut packer, mut before, mut given) = (Packer::default(), 0, 0);
    for seq in 0..SENT {
        if let Some(packed) = packer.push(&row(seq)) {
            given += packed.count() as u64;
            before = 0;
            continue;
        }
        // A column of 256 values and their validity, or the head of a batch.
        let more = packer.ready_bytes() - before;
        assert!(more <= 2 * BLOCK, "{more} bytes at once, with sample {seq}");
        before += more;
    }
    assert_eq!(given + packer.finish().map_or(0, |packed| packed.count() as u64), SENT);
}

#[test]
fn temporarily_full_disk_loses_no_packed_row() {
    for together in [1, 3] {
        let disk = Arc::new(Filling::default());
        let full = Arc::clone(&disk);
        let before = |seq| match seq {
            4_000 => full.fill(),
            12_000 => full.empty(),
            _ => {}
        };
        assert_eq!(run(disk, Options::default(), together, before), (all(), 0));
    }
}

/// What is written together finds no room together: what fits is written all the same, and the rest waits.
#[test]
fn full_disk_writes_pieces_that_fit() {
    let home = tempfile::tempdir().unwrap();
    let disk = Arc::new(Filling::default());
    let as_disk = Arc::clone(&disk) as Arc<dyn Disk>;
    let dir = home.path().join("r");
    let mut recorder = Recorder::create_on(as_disk, &dir, manifest(), Options::default()).unwrap();
    let mut packer = Packer::default();
    let mut all = (0..5 * AT_ONCE as u64).filter_map(|seq| packer.push(&row(seq))).collect::<Vec<_>>();
    all.extend(packer.finish());
    let four = all.split_off(1);
    recorder.push_packed(&all).unwrap();
    let room = four[..3].iter().map(|piece| piece.bytes().len() as u64).sum::<u64>();
    disk.fill_but(room + 100);
    assert!(recorder.push_packed(&four).unwrap_err().is_full());
    assert_eq!(recorder.rows(), 4 * AT_ONCE as u64);
    disk.empty();
    recorder.flush(SECOND).unwrap();
    assert_eq!(recorder.finish(manifest().started_at, 60 * SECOND).unwrap(), 5 * AT_ONCE as u64);
    assert_eq!(read(&dir).len(), 5 * AT_ONCE);
    let findings = verify(&dir, |_| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:?}");
}

/// The system takes 1,024 parts at once, and fewer bytes than it was given.
#[test]
fn many_parts_are_written_whole_and_in_order() {
    let mut file = tempfile::tempfile().unwrap();
    let parts: Vec<Vec<u8>> = (0..3_000u32).map(|i| vec![i as u8; (i % 7 * 41) as usize]).collect();
    let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    RealDisk.write(&file, &slices).unwrap();
    RealDisk.write(&file, &[&[], &[]]).unwrap();
    let mut written = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut written).unwrap();
    assert_eq!(written, parts.concat());
}

#[test]
fn samples_after_write_failure_count_as_lost() {
    // With three together the first three come when the disk fails.
    for (together, written) in [(1, AT_ONCE), (3, 0)] {
        let disk = Arc::new(Failing::default());
        let failing = Arc::clone(&disk);
        let (rows, lost) = run(disk, Options::default(), together, |seq| {
            failing.0.store((4_000..12_000).contains(&seq), Ordering::Relaxed);
        });
        assert_eq!(rows, all()[..written]);
        assert_eq!(rows.len() as u64 + lost, SENT);
    }
}

/// What the disk was asked for, and whether past the system's cache.
#[derive(Debug)]
struct Direct {
    /// Whether the file system knows of it at all; that it does, and refuses such writes, is worse.
    known: bool,
    refuses: bool,
    on: AtomicBool,
    written: [AtomicU64; 2],
}

impl Disk for Direct {
    fn set_direct(&self, _: &File, direct: bool) -> bool {
        self.on.store(direct && self.known, Ordering::Relaxed);
        self.known
    }
    fn write(&self, file: &File, parts: &[&[u8]]) -> io::Result<()> {
        let on = self.on.load(Ordering::Relaxed);
        if on {
            let is_block =
                |part: &&[u8]| part.len().is_multiple_of(BLOCK) && part.as_ptr().align_offset(BLOCK) == 0;
            assert!(parts.iter().all(is_block));
            assert!(file.metadata().unwrap().len().is_multiple_of(BLOCK as u64));
            if self.refuses {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        self.written[usize::from(on)].fetch_add(1, Ordering::Relaxed);
        RealDisk.write(file, parts)
    }
}

#[test]
fn rows_bypass_page_cache_where_supported() {
    // 21 pieces in all, the last with what is over.
    let ways = [(true, false, 1, 21), (true, false, 4, 6), (true, true, 1, 0), (false, false, 1, 0)];
    for (known, refuses, together, expected) in ways {
        let written = Default::default();
        let disk = Arc::new(Direct { known, refuses, on: AtomicBool::new(false), written });
        let as_disk = Arc::clone(&disk) as Arc<dyn Disk>;
        assert_eq!(run(as_disk, Options::default(), together, |_| {}), (all(), 0));
        assert_eq!(disk.written[1].load(Ordering::Relaxed), expected, "{disk:?}");
    }
}

/// A row that was not packed stands between others: what follows does not begin where a block does.
#[test]
fn rows_of_both_kinds_stand_in_one_segment() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = Recorder::create(&dir, manifest()).unwrap();
    let mut packer = Packer::default();
    for seq in 0..SENT {
        if seq % 7_001 == 0 {
            let _ = packer.finish().map(|packed| recorder.push_packed(&[packed]).unwrap());
            recorder.push(&row(seq)).unwrap();
        } else {
            let _ = packer.push(&row(seq)).map(|packed| recorder.push_packed(&[packed]).unwrap());
        }
    }
    let _ = packer.finish().map(|packed| recorder.push_packed(&[packed]).unwrap());
    recorder.finish(manifest().started_at, 60 * SECOND).unwrap();
    assert_eq!(read(&dir), all());
}
