//! What a sample costs in either format version: ns to push and flush, ns to convert, bytes in a closed segment, by column. Of made
//! up samples, or of those of a recording.
//! `cargo run --release -p fathom-recording --example cost [ROWS|RECORDING] [plain]`

use fathom_core::sample::{Flags, Sample};
use fathom_recording::{FORMAT_VERSION, Manifest, Options, Recorder, Recording, Tool};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::time::Instant;

/// A small generator, so that the figures repeat.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
    /// Exponential with the given mean: the shape of waiting.
    fn wait(&mut self, mean: f64) -> f64 {
        -(1.0 - self.uniform()).ln() * mean
    }
}

/// One connection at one a second over a cloud path: a base that wanders, autocorrelated queueing, wake-up noise,
/// stamps of a reflector (medians of the blocking case in kernel.md).
fn realistic(rows: u64) -> impl Iterator<Item = Sample> {
    let (mut noise, mut queue, mut srtt) = (Noise(1), 0.0, 600.0_f64);
    (0..rows).map(move |seq| {
        queue = 0.9 * queue + noise.wait(2_000.0);
        let one_way = 250_000.0 + 20_000.0 * (seq as f64 / 20_000.0).sin() + queue;
        let spike = if noise.uniform() < 0.001 { noise.wait(2e6) } else { 0.0 };
        let (stay, wake) = (35_000.0 + noise.wait(6_000.0), 33_000.0 + noise.wait(6_000.0));
        let (there, back) = (one_way + noise.wait(4_000.0), one_way + noise.wait(4_000.0) + wake + spike);
        let (forward, reflector, backward) = (there as i64, stay as i64, back as i64);
        let rtt = forward + reflector + backward;
        srtt += (rtt as f64 / 1_000.0 - srtt) / 8.0;
        let lateness = 55_000 + noise.wait(12_000.0) as i64;
        Sample {
            seq,
            size: 64,
            sent_ns: 1_750_000_000_000_000_000 + seq as i64 * 1_000_000_000 + lateness,
            lateness_ns: lateness,
            rtt_ns: Some(rtt),
            reflector_ns: Some(reflector),
            forward_ns: Some(forward),
            backward_ns: Some(backward),
            srtt_us: Some(srtt as u32),
            retransmits: Some(0),
            flags: if seq == 0 { Flags::FIRST_ON_CONNECTION } else { Flags::default() },
            ..Sample::default()
        }
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let what = std::env::args().nth(1).unwrap_or_else(|| "120000".to_owned());
    let stamped = std::env::args().nth(2).is_none_or(|kind| kind != "plain");
    let samples: Vec<Sample> = match what.parse() {
        Ok(rows) => realistic(rows).collect(),
        Err(_) => Recording::open(what.as_ref())?.samples().flatten().collect(),
    };
    let plain = |s: &Sample| Sample { reflector_ns: None, forward_ns: None, backward_ns: None, ..*s };
    let samples: Vec<Sample> = if stamped { samples } else { samples.iter().map(plain).collect() };
    (1..=FORMAT_VERSION).try_for_each(|version| tell(&samples, version))
}

fn tell(samples: &[Sample], format_version: u64) -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("fathom-cost-{}", std::process::id()));
    let manifest = Manifest::new("cost", "2026-01-01T00:00:00Z".parse()?, Tool::default());
    let manifest = Manifest { format_version, ..manifest };
    let started_at = manifest.started_at;
    let options = Options { segment_rows: u64::MAX, segment_age_ns: u64::MAX, readable: false };
    let mut recorder = Recorder::create_with(&dir, manifest, options)?;
    let begun = Instant::now();
    for (n, sample) in (1_u64..).zip(samples) {
        recorder.push(sample)?;
        if n % 2_000 == 0 {
            // Time stands still, so that no sync is measured: this is the cost in processor time.
            recorder.flush(0)?;
        }
    }
    let pushed = begun.elapsed();
    let begun = Instant::now();
    recorder.finish(started_at, 0)?;
    let converted = begun.elapsed();

    let file = std::fs::File::open(dir.join("samples-00000.parquet"))?;
    let bytes = file.metadata()?.len();
    let per_row = |amount: f64| amount / samples.len() as f64;
    println!(
        "format version {format_version}, {} rows: push + flush {:.0} ns a row, conversion {:.0} ns a row",
        samples.len(),
        per_row(pushed.as_nanos() as f64),
        per_row(converted.as_nanos() as f64)
    );
    let reader = SerializedFileReader::new(file)?;
    let mut columns = Vec::new();
    let mut in_columns = 0;
    for (i, column) in reader.metadata().row_groups().iter().flat_map(|g| g.columns().iter().enumerate()) {
        if i == columns.len() {
            columns.push((column.column_path().string(), 0));
        }
        columns[i].1 += column.compressed_size();
        in_columns += column.compressed_size();
    }
    println!(
        "closed segment {:.2} bytes a row, {} of all bytes in no column",
        per_row(bytes as f64),
        bytes as i64 - in_columns
    );
    for (name, bytes) in columns {
        println!("{name:>16} {:.3}", per_row(bytes as f64));
    }
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
