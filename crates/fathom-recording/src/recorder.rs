//! Writing a recording. What was flushed is on the disk; what was acknowledged reads back.

pub(crate) mod appender;

use crate::convert::{Closed, convert};
use crate::disk::{Disk, RealDisk};
use crate::manifest::ClockAnchor;
use crate::stream::{Encoder, head};
use crate::{EVENTS, Error, LOCK, MANIFEST, Manifest, RESERVE, segment_name};
use appender::Appender;
use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};
use fathom_core::sample::Sample;
use jiff::Timestamp;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Rows that are written without waiting for a flush.
const FLUSH_ROWS: usize = 4_096;
/// Between two syncs, while flushes come more often. A caller that flushes twice a second thus loses less than a
/// second to a power failure.
const SYNC_EVERY_NS: u64 = 500_000_000;
/// Kept back for the last events and the manifest on a full disk.
const RESERVE_BYTES: usize = 64 << 10;
/// A segment of more rows is converted on a thread of its own, so that samples are taken meanwhile; a smaller one
/// takes some tens of ms, and a thread would cost a slow probe more memory than the conversion.
const INLINE_ROWS: u64 = 128 << 10;

/// When segments close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Rows after which a segment closes.
    pub segment_rows: u64,
    /// Age at which a segment closes, in ns.
    pub segment_age_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_rows: 2 << 20, segment_age_ns: 3_600_000_000_000 }
    }
}

/// Writes one recording. Dropped without [`Recorder::finish`], it leaves what a killed probe leaves.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    options: Options,
    manifest: Manifest,
    /// Locked for as long as it is open.
    lock: File,
    events: Appender,
    open: Option<OpenSegment>,
    next_segment: u32,
    closing: Option<(u32, JoinHandle<Result<Closed, Error>>)>,
    pending: Vec<Sample>,
    encoder: Encoder,
    /// Rows written (not those pending).
    rows: u64,
    now_ns: u64,
    synced_ns: u64,
    stopped: Option<String>,
}

#[derive(Debug)]
struct OpenSegment {
    ordinal: u32,
    file: Appender,
    rows: u64,
    opened_ns: u64,
}

impl Recorder {
    /// Begins a recording in `dir`, which is made where it does not exist and must hold no recording yet. The first
    /// of the manifest's clock anchors, where it has one, is the recording's first moment.
    pub fn create(dir: &Path, manifest: Manifest) -> Result<Self, Error> {
        Self::create_with(dir, manifest, Options::default())
    }

    /// As [`Recorder::create`], with other limits for segments.
    pub fn create_with(dir: &Path, manifest: Manifest, options: Options) -> Result<Self, Error> {
        Self::create_on(Arc::new(RealDisk), dir, manifest, options)
    }

    pub(crate) fn create_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        manifest: Manifest,
        options: Options,
    ) -> Result<Self, Error> {
        disk.create_dirs(dir).map_err(Error::io("create the directory", dir))?;
        let lock = lock(disk.as_ref(), dir)?;
        if holds_recording(dir)? {
            // Nothing in somebody's recording is changed, and nobody else had the lock.
            let _ = disk.remove(&dir.join(LOCK));
            return Err(Error::Exists { dir: dir.to_owned() });
        }
        // A recording that could not be begun (a full disk, say) must not be in the way of the next attempt.
        Self::begin(disk, dir, lock, manifest, options).inspect_err(|_| crate::discard_empty(dir))
    }

    fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        lock: File,
        manifest: Manifest,
        options: Options,
    ) -> Result<Self, Error> {
        let reserve = dir.join(RESERVE);
        let file = disk.create(&reserve).map_err(Error::io("create", &reserve))?;
        // Real bytes: a hole would reserve nothing.
        disk.write(&file, &vec![0x46; RESERVE_BYTES]).map_err(Error::io("reserve space in", &reserve))?;
        disk.sync(&file).map_err(Error::io("sync", &reserve))?;
        manifest.write(disk.as_ref(), dir)?;
        let events = Appender::open(disk.as_ref(), dir.join(EVENTS))?;
        let now_ns = manifest.clock_anchors.first().map_or(0, |a| a.mono_ns);
        let at = manifest.started_at;
        let mut recorder = Self {
            dir: dir.to_owned(),
            disk,
            options,
            manifest,
            lock,
            events,
            open: None,
            next_segment: 0,
            closing: None,
            pending: Vec::new(),
            encoder: Encoder::default(),
            rows: 0,
            now_ns,
            synced_ns: now_ns,
            stopped: None,
        };
        recorder.event(&Event {
            at,
            mono_ns: now_ns,
            connection: None,
            kind: EventKind::RecordingStarted {},
        })?;
        recorder.events.sync(recorder.disk.as_ref())?;
        recorder.disk.sync_dir(dir).map_err(Error::io("sync", dir))?;
        Ok(recorder)
    }

    /// Where the recording is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manifest as it stands.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Rows written so far; those of an unfinished flush are not counted.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Why the recording stopped early, where it did.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Takes a sample. It is on the disk after the next [`Recorder::flush`].
    pub fn push(&mut self, sample: &Sample) -> Result<(), Error> {
        self.refuse_if_stopped()?;
        self.pending.push(*sample);
        if self.pending.len() >= FLUSH_ROWS { self.guarded(Self::write_pending) } else { Ok(()) }
    }

    /// Writes what was pushed, syncs it (at most twice a second), and closes the segment when it is time.
    /// To be called at least once a second.
    pub fn flush(&mut self, now_mono_ns: u64) -> Result<(), Error> {
        self.refuse_if_stopped()?;
        self.now_ns = now_mono_ns;
        self.guarded(|r| {
            r.write_pending()?;
            if now_mono_ns.saturating_sub(r.synced_ns) >= SYNC_EVERY_NS {
                r.sync()?;
            }
            let old = |s: &OpenSegment| now_mono_ns.saturating_sub(s.opened_ns) >= r.options.segment_age_ns;
            if r.open.as_ref().is_some_and(old) {
                r.close_segment()?;
            }
            r.collect_closed(false)
        })
    }

    /// Writes an event at once. Works after the recording stopped for want of space, while the reserve lasts.
    pub fn event(&mut self, event: &Event) -> Result<(), Error> {
        let mut line = serde_json::to_vec(event)
            .map_err(|e| Error::Segment { path: self.dir.join(EVENTS), reason: e.to_string() })?;
        line.push(b'\n');
        self.events.append(self.disk.as_ref(), &line).or_else(|error| {
            if !error.is_full() {
                return Err(error);
            }
            self.release_reserve();
            self.events.append(self.disk.as_ref(), &line)
        })
    }

    /// Adds a clock anchor and rewrites the manifest.
    pub fn anchor(&mut self, anchor: Anchor, stepped: bool) -> Result<(), Error> {
        self.refuse_if_stopped()?;
        self.manifest.add_anchor(ClockAnchor::new(anchor, stepped));
        self.guarded(|r| r.manifest.write(r.disk.as_ref(), &r.dir))
    }

    /// Changes the manifest (what became known of the reflector, say) and rewrites it.
    pub fn amend(&mut self, change: impl FnOnce(&mut Manifest)) -> Result<(), Error> {
        self.refuse_if_stopped()?;
        change(&mut self.manifest);
        self.guarded(|r| r.manifest.write(r.disk.as_ref(), &r.dir))
    }

    /// Ends the recording in order and gives the number of its rows.
    pub fn finish(mut self, ended_at: Timestamp, now_mono_ns: u64) -> Result<u64, Error> {
        if self.stopped.is_none() {
            self.now_ns = now_mono_ns;
            self.guarded(|r| {
                r.write_pending()?;
                r.sync()?;
                r.close_segment()?;
                r.collect_closed(true)?;
                let kind = EventKind::RecordingEnded { samples: r.rows, error: None };
                r.event(&Event { at: ended_at, mono_ns: now_mono_ns, connection: None, kind })?;
                r.events.sync(r.disk.as_ref())?;
                r.manifest.ended_at = Some(ended_at);
                r.manifest.write(r.disk.as_ref(), &r.dir)
            })?;
        }
        // A conversion that outlived the stop must not outlive the lock.
        let _ = self.collect_closed(true);
        let _ = self.events.sync(self.disk.as_ref());
        tidy(self.disk.as_ref(), &self.dir);
        self.refuse_if_stopped()?;
        drop(self.lock);
        Ok(self.rows)
    }

    fn refuse_if_stopped(&self) -> Result<(), Error> {
        match &self.stopped {
            Some(reason) => Err(Error::Stopped { dir: self.dir.clone(), reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Does something that must succeed for the recording to go on; otherwise stops it, with a last word.
    fn guarded(&mut self, act: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        act(self).inspect_err(|error| {
            let reason = error.to_string();
            self.stopped = Some(reason.clone());
            self.pending = Vec::new();
            self.release_reserve();
            let at = self.wall_clock();
            let kind = EventKind::RecordingEnded { samples: self.rows, error: Some(reason) };
            // The disk has just failed; these are attempts, and the error that matters is on its way to the caller.
            let _ = self.event(&Event { at, mono_ns: self.now_ns, connection: None, kind });
            let _ = self.events.sync(self.disk.as_ref());
            self.manifest.ended_at = Some(at);
            let _ = self.manifest.write(self.disk.as_ref(), &self.dir);
        })
    }

    fn release_reserve(&self) {
        let _ = self.disk.remove(&self.dir.join(RESERVE));
    }

    fn wall_clock(&self) -> Timestamp {
        self.manifest.clock_anchors.last().map_or(self.manifest.started_at, |a| a.at(self.now_ns))
    }

    fn write_pending(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.open.is_none() {
            self.open_segment()?;
        }
        let Some(segment) = &mut self.open else { return Ok(()) };
        for chunk in self.pending.chunks(FLUSH_ROWS) {
            segment.file.append(self.disk.as_ref(), self.encoder.encode(chunk))?;
            segment.rows += chunk.len() as u64;
            self.rows += chunk.len() as u64;
        }
        self.pending.clear();
        if segment.rows >= self.options.segment_rows { self.close_segment() } else { Ok(()) }
    }

    fn open_segment(&mut self) -> Result<(), Error> {
        let ordinal = self.next_segment;
        let path = self.dir.join(segment_name(ordinal, "arrows"));
        let mut file = Appender::open(self.disk.as_ref(), path.clone())?;
        let schema = head().map_err(|e| Error::Segment { path, reason: e.to_string() })?;
        file.append(self.disk.as_ref(), &schema)?;
        self.disk.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))?;
        self.next_segment += 1;
        self.open = Some(OpenSegment { ordinal, file, rows: 0, opened_ns: self.now_ns });
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.synced_ns = self.now_ns;
        if let Some(segment) = &mut self.open {
            segment.file.sync(self.disk.as_ref())?;
        }
        self.events.sync(self.disk.as_ref())
    }

    fn close_segment(&mut self) -> Result<(), Error> {
        let Some(mut segment) = self.open.take() else { return Ok(()) };
        segment.file.sync(self.disk.as_ref())?;
        self.collect_closed(true)?;
        if segment.rows <= INLINE_ROWS {
            let closed = convert(self.disk.as_ref(), &self.dir, segment.ordinal, true)?;
            return self.list_closed(segment.ordinal, &closed);
        }
        let (disk, dir, ordinal) = (Arc::clone(&self.disk), self.dir.clone(), segment.ordinal);
        let thread = std::thread::Builder::new()
            .name("segment".to_owned())
            .spawn(move || convert(disk.as_ref(), &dir, ordinal, true))
            .map_err(Error::io("start a thread to close", &segment.file.path))?;
        self.closing = Some((segment.ordinal, thread));
        Ok(())
    }

    fn collect_closed(&mut self, wait: bool) -> Result<(), Error> {
        match self.closing.take() {
            Some((ordinal, thread)) if wait || thread.is_finished() => {
                let path = self.dir.join(segment_name(ordinal, "arrows"));
                let closed = thread
                    .join()
                    .map_err(|_| Error::Segment { path, reason: "its conversion panicked".into() })??;
                self.list_closed(ordinal, &closed)
            }
            still => {
                self.closing = still;
                Ok(())
            }
        }
    }

    fn list_closed(&mut self, ordinal: u32, closed: &Closed) -> Result<(), Error> {
        let (at, mono_ns) = (self.wall_clock(), self.now_ns);
        self.event(&closed.event(at, mono_ns))?;
        self.events.sync(self.disk.as_ref())?;
        let old = self.dir.join(segment_name(ordinal, "arrows"));
        self.disk.remove(&old).map_err(Error::io("remove", &old))
    }
}

impl Closed {
    /// The event that lists the segment: from here on readers trust the Parquet file.
    pub(crate) fn event(&self, at: Timestamp, mono_ns: u64) -> Event {
        let kind = EventKind::SegmentClosed {
            file: self.file.clone(),
            rows: self.rows,
            bytes: self.bytes,
            crc32: self.crc32,
        };
        Event { at, mono_ns, connection: None, kind }
    }
}

/// Takes the lock that a writer of `dir` holds.
pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let file = disk.append_to(&path).map_err(Error::io("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Running { dir: dir.to_owned() }),
        Err(TryLockError::Error(e)) => Err(Error::io("lock", &path)(e)),
    }
}

/// Removes what only a running recording needs. A leftover does no harm.
pub(crate) fn tidy(disk: &dyn Disk, dir: &Path) {
    let _ = disk.remove(&dir.join(RESERVE));
    let _ = disk.remove(&dir.join(LOCK));
}

fn holds_recording(dir: &Path) -> Result<bool, Error> {
    let entries = std::fs::read_dir(dir).map_err(Error::io("list", dir))?;
    for entry in entries {
        let name = entry.map_err(Error::io("list", dir))?.file_name();
        let name = name.to_string_lossy();
        if name == MANIFEST || name == EVENTS || name.starts_with("samples-") {
            return Ok(true);
        }
    }
    Ok(false)
}
