//! Closed segments of either layout hold the rows that were written, whatever these are, and few bytes of each.

use super::*;
use crate::columns::from_batch;
use crate::convert::ParquetSink;
use crate::layout::Layout;
use crate::{COLUMNS, Recorder, recover, verify};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Encoding, PageType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};

fn written(layout: Layout, samples: &[Sample]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut sink = ParquetSink::new(file.reopen().unwrap(), layout);
    samples.chunks(1_000).for_each(|chunk| sink.push(chunk).unwrap());
    assert_eq!(sink.finish().unwrap(), samples.len() as u64);
    file
}

/// The rows of a file, the layout that it shows, and the rows whose bucket is another's.
fn rows(file: File) -> (Vec<Sample>, Layout, u64) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let layout = Layout::of_schema(builder.schema()).unwrap();
    let batches =
        builder.build().unwrap().map(|batch| from_batch(layout.columns(), &batch.unwrap()).unwrap());
    let (rows, wrong): (Vec<_>, Vec<_>) = batches.unzip();
    (rows.concat(), layout, wrong.iter().sum())
}

/// The layouts of a recording's closed segments, in order.
fn layouts(dir: &Path) -> Vec<Layout> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "parquet")).collect();
    files.sort();
    files.iter().map(|path| rows(File::open(path).unwrap()).1).collect()
}

/// Any row at all: sums and differences of its columns overflow.
fn any_sample() -> impl Strategy<Value = Sample> {
    let ns = || prop_oneof![any::<i64>(), -1_000..1_000i64, Just(i64::MIN), Just(i64::MAX)];
    let some = || prop::option::of(ns());
    let rest = (any::<(u32, u64, u32)>(), any::<(Option<u32>, Option<u16>, u16)>());
    (ns(), ns(), some(), [some(), some(), some(), some(), some()], rest).prop_map(
        |(sent_ns, lateness_ns, rtt_ns, parts, ((connection, seq, size), (srtt_us, retransmits, flags)))| {
            let [send_stack_ns, recv_stack_ns, reflector_ns, forward_ns, backward_ns] = parts;
            let flags = Flags(flags);
            Sample {
                connection,
                seq,
                size,
                sent_ns,
                lateness_ns,
                rtt_ns,
                send_stack_ns,
                recv_stack_ns,
                reflector_ns,
                forward_ns,
                backward_ns,
                srtt_us,
                retransmits,
                flags,
            }
        },
    )
}

fn read_back(samples: &[Sample]) {
    for layout in [Layout::Whole, Layout::Derived] {
        let file = written(layout, samples);
        let (read, shown, wrong) = rows(file.reopen().unwrap());
        assert_eq!(read, samples);
        assert_eq!((shown, wrong), (layout, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_row_reads_back_as_it_was_written(samples in prop::collection::vec(any_sample(), 0..60)) {
        read_back(&samples);
    }
}

/// The first rows say how the rest is encoded, also where the rest is of another kind.
#[test]
fn rows_unlike_the_first_ones_read_back_too() {
    let begin = |n: u64| Sample { rtt_ns: Some(50_000 + (n % 3 * 977) as i64), ..sample(n) };
    let noise = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64;
    let rest = |n: u64| Sample { rtt_ns: Some(noise(n)), lateness_ns: noise(!n), ..sample(n) };
    let samples: Vec<_> = (0..40_000).map(begin).chain((40_000..300_000).map(rest)).collect();
    let file = written(Layout::Derived, &samples);
    let (read, _, _) = rows(file.reopen().unwrap());
    assert!(read == samples);
}

#[test]
fn format_version_decides_segment_layout() {
    for (format_version, layout) in [(1, Layout::Whole), (2, Layout::Derived)] {
        let home = tempfile::tempdir().unwrap();
        let (ended, killed) = (home.path().join("ended"), home.path().join("killed"));
        for dir in [&ended, &killed] {
            let manifest = Manifest { format_version, ..manifest() };
            let mut recorder = Recorder::create_with(dir, manifest, SMALL).unwrap();
            for n in 0..30 {
                recorder.push(&sample(n)).unwrap();
                recorder.flush(n * SECOND).unwrap();
            }
            if dir == &ended {
                recorder.finish(super::manifest().started_at, 30 * SECOND).unwrap();
            }
        }
        assert!(recover(&killed, manifest().started_at).unwrap().needed);
        for dir in [&ended, &killed] {
            assert_eq!(layouts(dir), [layout; 3]);
            assert_eq!(read(dir), samples(0..30));
            let found = verify(dir, |_| {}).unwrap();
            assert!(found.is_sound(), "{found:?}");
            assert_eq!(Recording::open(dir).unwrap().manifest().format_version, format_version);
        }
    }
    assert_eq!(manifest().format_version, 2);
}

#[test]
fn the_schema_lists_the_columns_of_closed_segments() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/samples.json");
    let stated: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let closed = stated["closed"].as_array().unwrap();
    let ours = Layout::Derived.columns();
    assert_eq!(closed.len(), ours.len());
    for (stated, column) in closed.iter().zip(ours) {
        let whole = COLUMNS.iter().find(|c| c.name == column.name);
        // One that whole rows have is told there.
        let told = if whole.is_some() { &serde_json::json!(column.name) } else { &stated["name"] };
        assert_eq!(told, column.name);
        if whole.is_none() {
            assert_eq!(stated["type"], column.kind.name());
            assert_eq!(stated["nullable"], column.nullable);
            assert_eq!(stated["unit"], column.unit);
        } else {
            assert_eq!(stated, told);
        }
    }
}

/// What waiting adds: mostly little, sometimes much.
struct Noise(u64);

impl Noise {
    fn wait(&mut self, mean: f64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        (-(1.0 - uniform).ln() * mean) as i64
    }
}

/// Rows of a blocking probe and a reflector that stamps, as their wake-ups make them; `interval_ns` 0: back to back.
fn stamped(rows: u64, interval_ns: i64, wake_ns: f64) -> Vec<Sample> {
    let (mut noise, mut due_ns, mut srtt) = (Noise(1), START_NS, 60.0);
    let rows = (0..rows).map(|seq| {
        let lateness_ns = if interval_ns > 0 { noise.wait(wake_ns) } else { 300 + noise.wait(50.0) };
        let mut part = |least| least + noise.wait(wake_ns) + if seq % 100 == 7 { 200_000 } else { 0 };
        let (forward, reflector, backward) = (part(5_000), part(2_000) / 10, part(5_000));
        let (rtt, sent_ns) = (forward + reflector + backward, due_ns + lateness_ns);
        due_ns = if interval_ns > 0 { due_ns + interval_ns } else { sent_ns + rtt };
        srtt += (rtt as f64 / 1_000.0 - srtt) / 8.0;
        Sample {
            seq,
            size: 64,
            sent_ns,
            lateness_ns,
            rtt_ns: Some(rtt),
            reflector_ns: Some(reflector),
            forward_ns: Some(forward),
            backward_ns: Some(backward),
            srtt_us: Some(srtt as u32),
            retransmits: Some(0),
            ..Sample::default()
        }
    });
    rows.collect()
}

/// The figures of docs/benchmarks.md are of real runs; this holds what they rest on.
#[test]
fn a_sample_takes_few_bytes() {
    for (samples, most) in [(stamped(100_000, 0, 300.0), 10), (stamped(3_600, SECOND as i64, 20_000.0), 15)] {
        let bytes = written(Layout::Derived, &samples).as_file().metadata().unwrap().len();
        assert!(
            bytes <= most * samples.len() as u64,
            "{} bytes a sample",
            bytes as f64 / samples.len() as f64
        );
        let whole = written(Layout::Whole, &samples).as_file().metadata().unwrap().len();
        assert!(bytes < whole, "{bytes} without what can be derived, {whole} with it");
    }
}

/// The encodings of the data pages of each column. A column's own list of encodings tells less: that of a dictionary page is PLAIN.
fn data_encodings(file: &tempfile::NamedTempFile) -> BTreeMap<String, BTreeSet<Encoding>> {
    let reader = SerializedFileReader::new(file.reopen().unwrap()).unwrap();
    let mut encodings = BTreeMap::<_, BTreeSet<_>>::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).unwrap();
        for (at, column) in group.metadata().columns().iter().enumerate() {
            let pages = group.get_column_page_reader(at).unwrap().map(Result::unwrap);
            let data = pages.filter(|page| page.page_type() != PageType::DICTIONARY_PAGE);
            let of_column = encodings.entry(column.column_path().string()).or_default();
            of_column.extend(data.map(|page| page.encoding()));
        }
    }
    encodings
}

/// Each column as suits it, and none in `BYTE_STREAM_SPLIT`: Spark 4 reads no integers in that.
#[test]
fn column_encodings_suit_data_and_readers() {
    let mut noise = Noise(3);
    let samples: Vec<_> = stamped(40_000, SECOND as i64, 20_000.0)
        .into_iter()
        .map(|sample| Sample { size: [64, 1_400, 65_536][noise.wait(1_000.0) as usize % 3], ..sample })
        .collect();
    let used = data_encodings(&written(Layout::Derived, &samples));
    assert_eq!(used.len(), Layout::Derived.columns().len());
    for (name, encoding) in [
        // It rises steadily.
        ("seq", Encoding::DELTA_BINARY_PACKED),
        // Near each other, with some far off.
        ("forward_ns", Encoding::PLAIN),
        // One of few, in no order.
        ("size", Encoding::RLE_DICTIONARY),
    ] {
        assert_eq!(used[name], BTreeSet::from([encoding]), "{name}");
    }
    let known = [Encoding::PLAIN, Encoding::RLE_DICTIONARY, Encoding::DELTA_BINARY_PACKED];
    assert!(used.values().flatten().all(|encoding| known.contains(encoding)), "{used:?}");
}

mod acceptance {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn every_row_reads_back_as_it_was_written(samples in prop::collection::vec(any_sample(), 0..60)) {
            read_back(&samples);
        }
    }
}
