//! A damaged recording is opened, read, verified, recovered and exported: no panic, and recovery loses nothing that
//! could be read before it.
//!
//! The first byte chooses the file that is attacked in a sound, interrupted recording; the second how: replaced by
//! the bytes that follow, overwritten in the middle with them, or cut.
#![no_main]

use fathom_core::sample::Sample;
use fathom_recording::{Format, Manifest, Options, Recorder, Recording, Tool, export, recover, verify};
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const FILES: [&str; 4] = ["recording.json", "events.jsonl", "samples-00001.arrows", "samples-00000.parquet"];

/// In memory where there is such a place: a fuzzer opens thousands of recordings a second.
fn base() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    root.join(format!("fathom-fuzz-{}", std::process::id()))
}

fn seed() -> &'static [(&'static str, Vec<u8>)] {
    static SEED: OnceLock<Vec<(&'static str, Vec<u8>)>> = OnceLock::new();
    SEED.get_or_init(|| {
        let dir = base();
        let _ = fs::remove_dir_all(&dir);
        let manifest = Manifest::new("fuzz", Timestamp::UNIX_EPOCH, Tool::default());
        let options = Options { segment_rows: 8, segment_age_ns: u64::MAX, readable: false };
        let mut recorder = Recorder::create_with(&dir, manifest, options).unwrap();
        for seq in 0..14 {
            let sample =
                Sample { seq, size: 64, sent_ns: seq as i64, rtt_ns: Some(100_000), ..Sample::default() };
            recorder.push(&sample).unwrap();
            if seq % 2 == 1 {
                recorder.flush(seq).unwrap();
            }
        }
        drop(recorder);
        FILES.map(|name| (name, fs::read(dir.join(name)).unwrap())).into()
    })
}

fn attacked(original: &[u8], how: u8, bytes: &[u8]) -> Vec<u8> {
    let at =
        bytes.first_chunk::<2>().map_or(0, |b| usize::from(u16::from_le_bytes(*b))) % (original.len() + 1);
    match how % 3 {
        0 => bytes.to_vec(),
        1 => original[..at].to_vec(),
        _ => {
            let mut out = original.to_vec();
            for (to, from) in out[at..].iter_mut().zip(bytes.iter().skip(2)) {
                *to = *from;
            }
            out
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [which, how, bytes @ ..] = data else { return };
    let seed = seed();
    let dir = base();
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    for (i, (name, original)) in seed.iter().enumerate() {
        let content = if i == usize::from(*which) % seed.len() {
            attacked(original, *how, bytes)
        } else {
            original.clone()
        };
        fs::write(dir.join(name), content).unwrap();
    }
    let Ok(recording) = Recording::open(&dir) else { return };
    let before: Vec<Sample> = recording.samples().flatten().collect();
    recording.damage();
    verify(&dir, |_| {}).unwrap();
    export(&recording, Format::Csv, std::io::sink(), |_| {}).unwrap();
    recover(&dir, Timestamp::UNIX_EPOCH).unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(recording.samples().flatten().collect::<Vec<_>>(), before);
    assert!(!recover(&dir, Timestamp::UNIX_EPOCH).unwrap().needed);
});
