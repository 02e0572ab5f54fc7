//! Segment files that no event lists: anyone can put thousands of them beside a recording.

use super::*;
use crate::{Error, Recorder, recover, segment_name, verify};
use jiff::Timestamp;
use std::fs;
use std::time::{Duration, Instant};

/// A finished recording beside this many one-byte files that are named like segments.
fn with_strays(strays: u32) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("r");
    let mut recorder = Recorder::create(&dir, manifest()).unwrap();
    (0..10).for_each(|n| recorder.push(&sample(n)).unwrap());
    let ended_at = Timestamp::from_nanosecond((START_NS + 10 * SECOND as i64).into()).unwrap();
    recorder.finish(ended_at, 0).unwrap();
    for n in 100..100 + strays {
        fs::write(dir.join(segment_name(n, "parquet")), b"x").unwrap();
    }
    home
}

/// Reads the samples in every way, once; each unreadable file is reported.
fn read(dir: &Path, strays: u32) -> Result<(), Error> {
    assert_eq!(Recording::open(dir)?.damage().len() as u32, strays);
    assert_eq!(verify(dir, |_| {})?.damage.len() as u32, strays);
    assert_eq!(recover(dir, Timestamp::UNIX_EPOCH)?.damage.len() as u32, strays);
    Ok(())
}

/// Each file made the reader list the whole directory again: 4,000 took 7 s. Four times as many files may take a little
/// over four times as long.
#[test]
fn unlisted_segments_cost_no_more_than_linear() {
    let least = |strays: u32| -> Duration {
        let home = with_strays(strays);
        let once = || {
            let began = Instant::now();
            read(&home.path().join("r"), strays).unwrap();
            began.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    let (few, many) = (least(500), least(2_000));
    assert!(many < few * 10, "{few:?} of 500, {many:?} of 2,000");
}
