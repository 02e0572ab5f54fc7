//! Tests of the whole crate: what is written reads back, whatever the disk or the bytes do.

mod clients;
mod closings;
mod conservation;
mod damaged;
pub(crate) mod durable;
mod golden;
mod killed;
mod layouts;
mod many;
mod mended;
#[cfg(unix)]
mod modes;
mod ordinary;
mod out;
mod packed;
#[cfg(unix)]
mod pipes;
mod queries;
#[cfg(unix)]
mod removed;
mod room;
mod seams;
mod stopped;
mod unlisted;
mod without_room;

use crate::{ClockAnchor, Manifest, Options, Recording, Tool};
use fathom_core::sample::{Flags, Sample};
use jiff::Timestamp;
use std::path::Path;

const START_NS: i64 = 1_750_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Long after any recording here, and with ns that fit into 64 bits.
fn much_later() -> Timestamp {
    Timestamp::from_second(7_258_118_400).unwrap()
}

fn manifest() -> Manifest {
    let started_at = Timestamp::from_nanosecond(START_NS.into()).unwrap();
    let mut manifest = Manifest::new("test", started_at, Tool { version: "0".to_owned(), revision: None });
    manifest.clock_anchors.push(ClockAnchor { mono_ns: 0, utc: started_at, stepped: false });
    manifest
}

/// A sample whose every column follows from `n`; every fifth is unanswered.
fn sample(n: u64) -> Sample {
    let answered = n % 5 != 4;
    let some = |v: i64| answered.then_some(v);
    Sample {
        connection: (n % 3) as u32,
        seq: n / 3,
        size: 64,
        sent_ns: START_NS + (n * SECOND) as i64,
        lateness_ns: (n % 7) as i64 * 1_000 - 1_000,
        rtt_ns: some(100_000 + (n * n % 9_973) as i64),
        send_stack_ns: if n.is_multiple_of(2) { some(2_700) } else { None },
        recv_stack_ns: None,
        reflector_ns: some(5_000),
        forward_ns: some(-400_000),
        backward_ns: some(500_000),
        srtt_us: answered.then_some(120),
        retransmits: answered.then_some((n % 2) as u16),
        flags: if answered { Flags::default() } else { Flags::UNANSWERED },
    }
}

fn samples(range: std::ops::Range<u64>) -> Vec<Sample> {
    range.map(sample).collect()
}

/// Each `every`th operation. Each course begins at another one, so that several courses cover more operations than one.
fn some_of(operations: impl Iterator<Item = u64>, every: usize, course: usize) -> impl Iterator<Item = u64> {
    operations.skip(course % every).step_by(every)
}

/// `make test` lets each seventh operation fail, `make acceptance` each one.
const SOME: usize = 7;

fn read(dir: &Path) -> Vec<Sample> {
    Recording::open(dir).unwrap().samples().flatten().collect()
}

/// Segments of a dozen rows, so that a short test closes several.
const SMALL: Options = Options { segment_rows: 12, segment_age_ns: u64::MAX, readable: false };
