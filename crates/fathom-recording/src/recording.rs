//! Reading a recording: a finished one, an interrupted one, or one that is being written.

use crate::begun::is_written;
use crate::checksum::LogSum;
use crate::columns::from_batch;
use crate::convert::Closed;
use crate::damage::Damage;
use crate::events::{Entry, Events};
use crate::layout::Layout;
use crate::recorder::reserve::has_given_way;
use crate::remains::judged;
use crate::stream::Decoder;
use crate::{Begun, EVENTS, Error, MANIFEST, Manifest, checksum, segment_name, segment_ordinal};
use fathom_core::event::EventKind;
use fathom_core::limits::AnyRecorded;
use fathom_core::sample::Sample;
use fathom_core::text::count;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Seek};
use std::path::{Path, PathBuf};

/// Samples that are read at once.
const CHUNK_ROWS: usize = 8_192;

/// Why a file with other columns than ours is not read.
const OTHER_COLUMNS: &str = "its columns are those of no format version that this program knows";

/// Folders below one that are searched for recordings.
const DEPTH: usize = 3;

/// The recordings that `dir` stands for: itself, or those in it and in its folders, by name, with those that a probe had only begun when
/// it was killed ([`Begun::Empty`]). What holds none stands for itself, so that opening it says what it lacks.
pub fn recordings_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    search(dir, DEPTH, &mut found);
    if found.is_empty() {
        found.push(dir.to_owned());
    }
    found
}

fn search(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if dir.join(MANIFEST).exists() || Begun::of(dir) == Some(Begun::Empty) {
        return found.push(dir.to_owned());
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    // A link may lead back to where it stands.
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort_unstable();
    if depth > 0 {
        for folder in &folders {
            search(folder, depth - 1, found);
        }
    }
}

/// An opened recording.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    manifest: Manifest,
    /// What `segment.closed` events say, by ordinal.
    listed: BTreeMap<u32, Listed>,
    /// Every segment there is a trace of, in order.
    ordinals: Vec<u32>,
    event_damage: Vec<Damage>,
}

/// What the event log says of a closed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

impl From<&Closed> for Listed {
    fn from(closed: &Closed) -> Self {
        Self { rows: closed.rows, bytes: closed.bytes, crc32: closed.crc32 }
    }
}

impl Recording {
    /// Opens the recording in `dir`: reads its manifest and event log, and lists its segments.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let manifest = Manifest::read(dir)?;
        let mut ordinals = Vec::new();
        // The directory first: a segment that closes in between is then known by either name.
        for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
            let name = entry.map_err(Error::io("list", dir))?.file_name();
            let name = name.to_string_lossy();
            ordinals.extend(segment_ordinal(&name, "arrows").or_else(|| segment_ordinal(&name, "parquet")));
        }
        let mut recording = Self {
            dir: dir.to_owned(),
            manifest,
            listed: BTreeMap::new(),
            ordinals,
            event_damage: Vec::new(),
        };
        for entry in recording.events()? {
            match entry {
                Ok(entry) => recording.list(&entry),
                Err(damage) => recording.event_damage.push(damage),
            }
        }
        recording.ordinals.extend(recording.listed.keys());
        recording.ordinals.sort_unstable();
        recording.ordinals.dedup();
        Ok(recording)
    }

    fn list(&mut self, entry: &Entry) {
        if let Some(EventKind::SegmentClosed { file, rows, bytes, crc32 }) = entry.known().map(|e| &e.kind)
            && let Some(ordinal) = segment_ordinal(file, "parquet")
        {
            self.listed.insert(ordinal, Listed { rows: *rows, bytes: *bytes, crc32: *crc32 });
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manifest as it stood when the recording was opened.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether somebody is writing it now.
    pub fn is_running(&self) -> bool {
        is_written(&self.dir)
    }

    /// Whether its probe was killed while there was no room for it: what was sent meanwhile may be missing. Once it is recovered a note says so
    /// ([`fathom_core::event::KILLED_WITHOUT_ROOM`]).
    pub fn was_killed_without_room(&self) -> bool {
        self.manifest.ended_at.is_none() && !self.is_running() && has_given_way(&self.dir)
    }

    /// What is known by the search for limits that is recorded here (nothing, where none is), and the events that cannot be
    /// read: what stands beside them holds.
    pub fn search(&self) -> Result<(AnyRecorded, Vec<Damage>), Error> {
        let (mut search, mut damage) = (AnyRecorded::default(), Vec::new());
        for entry in self.events()? {
            match entry {
                Ok(Entry::Known(event)) => search.event(&event),
                Ok(Entry::Other(_)) => {}
                Err(unreadable) => damage.push(unreadable),
            }
        }
        Ok((search, damage))
    }

    /// The events, in the order in which they were written.
    pub fn events(&self) -> Result<Events, Error> {
        Events::open(&self.dir)
    }

    /// The samples, in the order in which they were written, some thousands at a time.
    pub fn samples(&self) -> Samples<'_> {
        let later = Later::default();
        Samples { recording: self, next: 0, current: None, damage: Vec::new(), disagreeing: 0, later }
    }

    /// Everything that cannot be read. Reads all of it to know.
    pub fn damage(&self) -> Vec<Damage> {
        let mut samples = self.samples();
        samples.by_ref().for_each(drop);
        self.event_damage.iter().cloned().chain(samples.damage).collect()
    }

    /// Whether a segment still stands in the file in which it was written.
    pub(crate) fn has_open_segments(&self) -> bool {
        self.ordinals.iter().any(|&ordinal| self.dir.join(segment_name(ordinal, "arrows")).exists())
    }

    /// The event log as it is now.
    pub(crate) fn log_sum(&self) -> Result<LogSum, Error> {
        let path = self.dir.join(EVENTS);
        LogSum::of(&path).map_err(Error::io("read", &path))
    }

    pub(crate) fn event_damage(&self) -> &[Damage] {
        &self.event_damage
    }

    pub(crate) fn listed(&self) -> &BTreeMap<u32, Listed> {
        &self.listed
    }

    pub(crate) fn ordinals(&self) -> &[u32] {
        &self.ordinals
    }

    /// Opens a segment: the Parquet file if it is listed and whole, else the open segment if it is still there.
    fn segment(&self, ordinal: u32, later: &mut Later) -> Result<Source, Damage> {
        let parquet = self.parquet(ordinal);
        let name = segment_name(ordinal, "arrows");
        match (parquet, crate::plain::open(&self.dir.join(&name))) {
            (Ok(source), _) => Ok(source),
            (Err(_), Ok(file)) => {
                let len = file.metadata().map_err(|e| unreadable(&name, 0, &e))?.len();
                Ok(Source::Arrows(Decoder::new(BufReader::new(file), name, len)))
            }
            (Err(damage), Err(e)) if e.kind() == ErrorKind::NotFound => {
                // Closed since the recording was opened?
                self.closed_meanwhile(ordinal, later).unwrap_or(Err(damage))
            }
            (Err(_), Err(e)) => Err(unreadable(&name, 0, &e)),
        }
    }

    fn closed_meanwhile(&self, ordinal: u32, later: &mut Later) -> Option<Result<Source, Damage>> {
        if self.listed.contains_key(&ordinal) {
            return None;
        }
        let fresh = later.of(&self.dir)?;
        fresh.listed.contains_key(&ordinal).then(|| fresh.parquet(ordinal))
    }

    /// Whether the Parquet file of a segment is listed and whole.
    pub(crate) fn is_closed(&self, ordinal: u32) -> bool {
        self.parquet(ordinal).is_ok()
    }

    /// A Parquet file reaches its decoder only with the size and the checksum that its event states.
    fn parquet(&self, ordinal: u32) -> Result<Source, Damage> {
        let name = segment_name(ordinal, "parquet");
        let opened = crate::plain::open(&self.dir.join(&name));
        let Some(&listed) = self.listed.get(&ordinal) else {
            let bytes = opened.and_then(|f| f.metadata()).map_or(0, |m| m.len());
            return Err(broken(&name, bytes, "no event lists it, so it cannot be trusted"));
        };
        let mut file = opened.map_err(|e| match e.kind() {
            ErrorKind::NotFound => broken(&name, listed.bytes, "it is missing"),
            _ => unreadable(&name, listed.bytes, &e),
        })?;
        let len = file.metadata().map_err(|e| unreadable(&name, listed.bytes, &e))?.len();
        if len != listed.bytes {
            return Err(broken(&name, len, &format!("it should have {}", count(listed.bytes, "byte"))));
        }
        let summed = checksum::of(&mut file).and_then(|sum| file.rewind().map(|()| sum));
        let (_, crc32) = summed.map_err(|e| unreadable(&name, len, &e))?;
        if crc32 != listed.crc32 {
            return Err(broken(&name, len, "it does not have the checksum its event states"));
        }
        let builder =
            ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| broken(&name, len, &e.to_string()))?;
        let Some(layout) = Layout::of_schema(builder.schema()) else {
            return Err(broken(&name, len, OTHER_COLUMNS));
        };
        if builder.metadata().file_metadata().num_rows() as u64 != listed.rows {
            return Err(broken(&name, len, &format!("it should have {}", count(listed.rows, "row"))));
        }
        let reader =
            builder.with_batch_size(CHUNK_ROWS).build().map_err(|e| broken(&name, len, &e.to_string()))?;
        Ok(Source::Parquet { reader, layout, name, len })
    }
}

fn broken(name: &str, bytes: u64, reason: &str) -> Damage {
    Damage { file: name.to_owned(), offset: 0, bytes, torn: false, reason: reason.to_owned() }
}

fn unreadable(name: &str, bytes: u64, error: &std::io::Error) -> Damage {
    broken(name, bytes, &format!("cannot be read: {error}"))
}

/// The recording's current state, with the segments that closed since it was opened. It is opened again only if its
/// event log has grown, so thousands of files that no event lists cost no more than one.
#[derive(Debug, Default)]
struct Later {
    log_bytes: u64,
    recording: Option<Box<Recording>>,
}

impl Later {
    fn of(&mut self, dir: &Path) -> Option<&Recording> {
        let log_bytes = fs::metadata(dir.join(EVENTS)).map_or(0, |log| log.len());
        if self.recording.is_none() || log_bytes != self.log_bytes {
            // Anything written from here on makes the log longer than this.
            self.log_bytes = log_bytes;
            self.recording = Recording::open(dir).ok().map(Box::new);
        }
        self.recording.as_deref()
    }
}

/// A segment being read.
#[derive(Debug)]
enum Source {
    Arrows(Decoder<BufReader<File>>),
    Parquet { reader: ParquetRecordBatchReader, layout: Layout, name: String, len: u64 },
}

/// The samples of a recording in bounded pieces. What cannot be read is left out and stands in
/// [`Samples::damage`], complete once the iterator has ended.
#[derive(Debug)]
pub struct Samples<'a> {
    recording: &'a Recording,
    next: usize,
    current: Option<Source>,
    damage: Vec<Damage>,
    disagreeing: u64,
    later: Later,
}

impl Samples<'_> {
    /// What could not be read so far.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Rows so far whose `rtt_bucket` is not that of their `rtt_ns`.
    pub(crate) fn disagreeing(&self) -> u64 {
        self.disagreeing
    }

    /// The next piece of the segment being read.
    fn piece(&mut self) -> Option<Vec<Sample>> {
        match self.current.as_mut()? {
            Source::Arrows(decoder) => decoder.next().or_else(|| {
                let damage = decoder.damage();
                self.damage.extend(damage.map(|found| judged(&self.recording.dir.join(&found.file), found)));
                None
            }),
            Source::Parquet { reader, layout, name, len } => {
                let batch = match reader.next()? {
                    Ok(batch) => batch,
                    Err(e) => {
                        self.damage.push(broken(name, *len, &e.to_string()));
                        return None;
                    }
                };
                let Some((samples, disagreeing)) = from_batch(layout.columns(), &batch) else {
                    self.damage.push(broken(name, *len, OTHER_COLUMNS));
                    return None;
                };
                self.disagreeing += disagreeing;
                Some(samples)
            }
        }
    }
}

impl Iterator for Samples<'_> {
    type Item = Vec<Sample>;

    fn next(&mut self) -> Option<Vec<Sample>> {
        loop {
            if let Some(piece) = self.piece() {
                return Some(piece);
            }
            let ordinal = *self.recording.ordinals.get(self.next)?;
            self.next += 1;
            self.current = None;
            match self.recording.segment(ordinal, &mut self.later) {
                Ok(source) => self.current = Some(source),
                Err(damage) => self.damage.push(damage),
            }
        }
    }
}
