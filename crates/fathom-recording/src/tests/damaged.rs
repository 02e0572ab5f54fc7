//! Whatever the bytes are: no panic, nothing guessed, a prefix.

use super::*;
use crate::stream::{BLOCK, Decoder, Encoder, head};
use crate::{Recorder, recover, verify};
use proptest::prelude::*;
use std::fs;

/// A stream of batches of three rows.
fn stream(rows: u64) -> Vec<u8> {
    let mut bytes = head().unwrap();
    let mut encoder = Encoder::default();
    samples(0..rows).chunks(3).for_each(|chunk| encoder.encode(chunk, &mut bytes));
    bytes
}

fn decode(bytes: &[u8]) -> (Vec<Sample>, Option<crate::Damage>) {
    let mut decoder = Decoder::new(bytes, "x".to_owned(), bytes.len() as u64);
    let rows = decoder.by_ref().flatten().collect();
    (rows, decoder.damage().cloned())
}

/// An interrupted recording: two closed segments and an open one.
fn interrupted(dir: &Path) {
    let mut recorder = Recorder::create_with(dir, manifest(), SMALL).unwrap();
    for n in 0..30 {
        recorder.push(&sample(n)).unwrap();
        recorder.flush(n * SECOND).unwrap();
    }
}

#[test]
fn arrow_itself_reads_the_stream() {
    let mut blocks = head().unwrap();
    let mut encoder = Encoder::default();
    for chunk in samples(0..20).chunks(3) {
        for sample in chunk {
            encoder.push(sample);
        }
        encoder.finish(BLOCK, &mut blocks);
        assert!(blocks.len().is_multiple_of(BLOCK), "{}", blocks.len());
    }
    for bytes in [stream(20), blocks] {
        let reader = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap();
        assert_eq!(*reader.schema(), crate::columns::arrow_schema());
        let read =
            reader.flat_map(|batch| crate::columns::from_batch(&crate::COLUMNS, &batch.unwrap()).unwrap().0);
        assert_eq!(read.collect::<Vec<_>>(), samples(0..20));
        assert_eq!(decode(&bytes), (samples(0..20), None));
    }
}

fn cut_streams_give_their_whole_batches(every: usize) {
    let bytes = stream(12);
    for cut in (0..bytes.len()).step_by(every) {
        let (rows, damage) = decode(&bytes[..cut]);
        assert_eq!(rows, samples(0..rows.len() as u64));
        let accounted = damage.map_or(cut as u64, |d| {
            assert!(d.torn, "cut at {cut}: {d}");
            assert_eq!(d.offset + d.bytes, cut as u64);
            d.offset
        });
        assert_eq!(
            stream(rows.len() as u64).len() as u64 * u64::from(accounted > 0),
            accounted,
            "cut at {cut}"
        );
    }
}

#[test]
fn a_stream_cut_anywhere_gives_its_whole_batches() {
    cut_streams_give_their_whole_batches(SOME);
}

/// Of a recording that is being written, what was cut off when it was read is whole a moment later. It was taken for a message
/// whose length is damaged.
fn cuts_completed_after_read_count_as_torn(every: usize) {
    let (bytes, dir) = (stream(12), tempfile::tempdir().unwrap());
    let path = dir.path().join("x");
    fs::write(&path, &bytes).unwrap();
    for cut in (head().unwrap().len()..bytes.len()).step_by(every) {
        if let Some(damage) = decode(&bytes[..cut]).1 {
            assert!(crate::remains::judged(&path, &damage).torn, "cut at {cut}: {damage}");
        }
    }
}

#[test]
fn cut_completed_after_read_counts_as_torn() {
    cuts_completed_after_read_count_as_torn(SOME);
}

fn flipped_bits_are_detected_or_harmless(every: usize) {
    let bytes = stream(6);
    let start = head().unwrap().len();
    for bit in (start * 8..bytes.len() * 8).step_by(every) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (rows, damage) = decode(&damaged);
        let whole = rows == samples(0..6);
        let prefix = damage.is_some() && rows == samples(0..rows.len() as u64);
        assert!(whole || prefix, "bit {bit}: {} rows, {damage:?}", rows.len());
    }
}

#[test]
fn flipped_bit_in_batch_is_detected_or_harmless() {
    flipped_bits_are_detected_or_harmless(SOME);
}

/// It said "nothing to recover", which is no word of what cannot be read.
#[test]
fn recovery_of_ended_recording_reports_damage() {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    recover(dir.path(), manifest().started_at).unwrap();
    assert!(recover(dir.path(), manifest().started_at).unwrap().damage.is_empty());
    let path = dir.path().join("samples-00000.parquet");
    let len = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len - 100).unwrap();
    let again = recover(dir.path(), manifest().started_at).unwrap();
    assert!(!again.needed && again.damage.iter().any(|damage| !damage.torn), "{again:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, at in 0usize..4_000, start in any::<bool>()) {
        decode(&bytes);
        let mut mixed = stream(9);
        let at = if start { head().unwrap().len() + at % 64 } else { at % mixed.len() };
        let end = (at + bytes.len()).min(mixed.len());
        mixed[at..end].copy_from_slice(&bytes[..end - at]);
        decode(&mixed);
    }
}

fn truncate_and_recover(share: f64, which: usize) {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    let name = ["samples-00002.arrows", "events.jsonl"][which];
    let path = dir.path().join(name);
    let len = fs::metadata(&path).unwrap().len();
    let cut = (len as f64 * share) as u64;
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
    let before = read(dir.path());
    recover(dir.path(), manifest().started_at).unwrap();
    let rows = read(dir.path());
    assert_eq!(&rows, &before);
    assert!(!recover(dir.path(), manifest().started_at).unwrap().needed);
    let found = verify(dir.path(), |_| {}).unwrap();
    if which == 0 {
        assert_eq!(&rows, &samples(0..rows.len() as u64));
        assert!(rows.len() >= 24);
        assert!(found.is_sound(), "{found:?}");
    } else {
        // A closed segment whose event is gone is not trusted: it is left out whole, and said to be.
        let missing = found.damage.len();
        assert_eq!(rows.len(), 30 - 12 * missing);
        assert_eq!(
            rows,
            samples(12 * missing as u64..30)
                .into_iter()
                .filter(|_| missing != 1)
                .chain(if missing == 1 { [samples(0..12), samples(24..30)].concat() } else { vec![] })
                .collect::<Vec<_>>()
        );
    }
}

fn damage_parquet(at: usize, bit: u8) {
    let dir = tempfile::tempdir().unwrap();
    interrupted(dir.path());
    let path = dir.path().join("samples-00000.parquet");
    let mut bytes = fs::read(&path).unwrap();
    let at = at % bytes.len();
    bytes[at] ^= 1 << bit;
    fs::write(&path, bytes).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.samples().flatten().collect::<Vec<_>>(), samples(12..30));
    assert!(recording.damage()[0].reason.contains("checksum"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn recovering_a_truncated_recording_yields_a_prefix(share in 0.0f64..=1.0, which in 0usize..2) {
        truncate_and_recover(share, which);
    }

    #[test]
    fn a_damaged_parquet_file_never_reaches_its_decoder(at in 0usize..1_000, bit in 0u8..8) {
        damage_parquet(at, bit);
    }
}

/// Of two runs that were killed the event logs were exchanged: nothing but their own beginnings tells that.
#[test]
fn foreign_event_log_is_found() {
    let home = tempfile::tempdir().unwrap();
    let [mine, theirs] = ["mine", "theirs"].map(|name| home.path().join(name));
    let mut other = manifest();
    other.started_at += jiff::SignedDuration::from_secs(60);
    for (dir, manifest) in [(&mine, manifest()), (&theirs, other)] {
        let mut recorder = Recorder::create(dir, manifest).unwrap();
        recorder.push(&sample(0)).unwrap();
        recorder.flush(SECOND).unwrap();
    }
    let laws = |dir: &Path| {
        let found = verify(dir, |_| {}).unwrap();
        found.findings.into_iter().map(|f| (f.file, f.law)).collect::<Vec<_>>()
    };
    let law = ("events.jsonl".to_owned(), "the events are of this recording, and of no other");
    assert!(!laws(&mine).contains(&law));
    fs::copy(theirs.join("events.jsonl"), mine.join("events.jsonl")).unwrap();
    assert!(laws(&mine).contains(&law), "{:?}", laws(&mine));
}

mod acceptance {
    use super::*;

    #[test]
    fn a_stream_cut_anywhere_gives_its_whole_batches() {
        cut_streams_give_their_whole_batches(1);
    }

    #[test]
    fn cut_completed_after_read_counts_as_torn() {
        cuts_completed_after_read_count_as_torn(1);
    }

    #[test]
    fn flipped_bit_in_batch_is_detected_or_harmless() {
        flipped_bits_are_detected_or_harmless(1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn recovering_a_truncated_recording_yields_a_prefix(share in 0.0f64..=1.0, which in 0usize..2) {
            truncate_and_recover(share, which);
        }

        #[test]
        fn a_damaged_parquet_file_never_reaches_its_decoder(at in 0usize..1_000, bit in 0u8..8) {
            damage_parquet(at, bit);
        }
    }
}
