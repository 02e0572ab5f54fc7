//! What an open segment still tells behind the place where it cannot be read on: how many rows stood there, and up to which
//! number of each connection. None of it is taken for a sample: reading ends at the first thing that does not fit.

use crate::damage::Damage;
use crate::stream::{Behind, CONTINUATION, Decoder, MESSAGE_HEAD, behind};
use crate::{Error, segment_ordinal};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// How the name of a segment ends that recovery has set aside.
pub(crate) const SET_ASIDE: &str = "arrows.damaged";
/// Messages begin at multiples of this, in bytes.
const UNIT: u64 = 8;
/// Bytes that are read at once.
const READ: u64 = 1 << 20;

/// The rows of segments that cannot be read.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// Rows of the messages that say how many they have.
    pub(crate) rows: u64,
    /// Of these, the ones behind the last batch that is intact.
    pub(crate) last_rows: u64,
    /// Of batches that are intact, by connection: the rows, and one more than the greatest sequence number.
    pub(crate) connections: BTreeMap<u32, (u64, u64)>,
    /// The files with bytes behind all that is intact that are no message, and not only zeros: nobody can say how many rows those were.
    pub(crate) uncounted: Vec<String>,
}

impl Remains {
    /// Of all segments in `dir` that recovery has set aside.
    pub(crate) fn set_aside(dir: &Path) -> Result<Self, Error> {
        let mut all = Self::default();
        for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
            let name = entry.map_err(Error::io("list", dir))?.file_name().to_string_lossy().into_owned();
            if segment_ordinal(&name, SET_ASIDE).is_some() {
                let path = dir.join(&name);
                if let Some(damage) = damage_of(&path).map_err(Error::io("read", &path))? {
                    all.add(&path, &damage).map_err(Error::io("read", &path))?;
                }
            }
        }
        Ok(all)
    }

    /// Whether there is nothing that cannot be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 && self.uncounted.is_empty()
    }

    /// Adds those of a segment that cannot be read from the damage on, where a message should begin; as long as it was when it was read:
    /// one that is being written has grown since, and what was cut off then is whole now.
    fn add(&mut self, path: &Path, damage: &Damage) -> io::Result<()> {
        let (mut input, mut at) = (Window::open(path, damage.offset + damage.bytes)?, damage.offset);
        let (mut begins, mut cut_off, mut last_rows, mut uncounted) = (true, false, 0, false);
        while at < input.len {
            let left = input.len - at;
            let next = input.from(at, UNIT)?;
            let zeros = next.iter().all(|byte| *byte == 0);
            let found = if begins || next.starts_with(&CONTINUATION) {
                match behind(input.from(at, MESSAGE_HEAD)?, left, begins) {
                    Behind::Wanted(bytes) => behind(input.from(at, bytes)?, left, begins),
                    found => found,
                }
            } else {
                Behind::Nothing
            };
            at += match found {
                Behind::Batch { rows, bytes, samples } => {
                    self.rows += rows;
                    for sample in samples.iter().flatten() {
                        let (rows, next_seq) = self.connections.entry(sample.connection).or_default();
                        *rows += 1;
                        *next_seq = sample.seq.saturating_add(1).max(*next_seq);
                    }
                    // What stands before one that is intact is missing in the sequence.
                    last_rows = if samples.is_some() { 0 } else { last_rows + rows };
                    uncounted &= samples.is_none();
                    (begins, cut_off) = (bytes > UNIT, false);
                    bytes
                }
                // The end that a kill tears; or its length is damaged, and more follows.
                Behind::CutOff => {
                    (begins, cut_off) = (false, true);
                    UNIT
                }
                Behind::Nothing | Behind::Wanted(_) => {
                    begins = false;
                    uncounted |= !zeros && !cut_off;
                    UNIT
                }
            };
        }
        self.last_rows += last_rows;
        if uncounted {
            self.uncounted.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        Ok(())
    }
}

/// What is wrong with an open segment, where it cannot be read to its end.
pub(crate) fn damage_of(path: &Path) -> io::Result<Option<Damage>> {
    let file = crate::plain::open(path)?;
    let len = file.metadata()?.len();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut decoder = Decoder::new(BufReader::new(file), name, len);
    decoder.by_ref().for_each(drop);
    Ok(decoder.damage().map(|damage| judged(path, damage)))
}

/// The damage that ended the reading of an open segment. A message that is cut off is no torn end where rows stand behind it: its
/// length is damaged.
pub(crate) fn judged(path: &Path, damage: &Damage) -> Damage {
    let mut remains = Remains::default();
    let torn = damage.torn && remains.add(path, damage).is_ok() && remains.rows == 0;
    let reason = match &damage.reason {
        _ if damage.torn && !torn => "a message has a wrong length".to_owned(),
        reason => reason.clone(),
    };
    Damage { torn, reason, ..damage.clone() }
}

/// A part of a file, of which no more is in memory than is looked at.
struct Window {
    file: File,
    len: u64,
    at: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Its first so many bytes.
    fn open(path: &Path, most: u64) -> io::Result<Self> {
        let file = crate::plain::open(path)?;
        let len = file.metadata()?.len().min(most);
        Ok(Self { file, len, at: 0, bytes: Vec::new() })
    }

    /// The bytes from there on, up to so many; fewer where the file ends.
    fn from(&mut self, at: u64, most: u64) -> io::Result<&[u8]> {
        let wanted = most.min(self.len - at);
        let has = self.at..self.at + self.bytes.len() as u64;
        if at < has.start || at + wanted > has.end {
            self.file.seek(SeekFrom::Start(at))?;
            self.bytes.clear();
            (&mut self.file).take(wanted.max(READ)).read_to_end(&mut self.bytes)?;
            self.at = at;
        }
        let bytes = self.bytes.get((at - self.at) as usize..).unwrap_or_default();
        Ok(&bytes[..bytes.len().min(wanted as usize)])
    }
}
