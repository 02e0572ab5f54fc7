//! Writing a recording. What was flushed is on the disk; what was acknowledged reads back.

pub(crate) mod appender;
pub(crate) mod directory;
mod ending;
mod kept;
pub(crate) mod log;
mod losses;
pub(crate) mod progress;
pub(crate) mod reserve;
mod room;
pub(crate) mod seam;
mod segments;
mod syncer;

pub use room::Gaps;

use crate::convert::Closed;
use crate::disk::{self, Disk};
use crate::manifest::ClockAnchor;
use crate::packed::Packed;
use crate::stream::Encoder;
use crate::{Error, LOCK, Manifest};
use directory::{holds_recording, is_there, lock, sync_above};
use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind, LOST_NO_SPACE};
use fathom_core::sample::Sample;
use jiff::Timestamp;
use kept::Kept;
use log::Log;
use losses::Losses;
use progress::Progress;
use reserve::Reserve;
use room::Waiting;
use segments::OpenSegment;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use syncer::Syncer;

/// Rows that are written without waiting for a flush.
const FLUSH_ROWS: usize = 4_096;
/// Between two syncs, while flushes come more often. A caller that flushes twice a second thus loses less than a
/// second to a power failure.
const SYNC_EVERY_NS: u64 = 500_000_000;
/// A segment of more rows is converted on a thread of its own, so that samples are taken meanwhile; a smaller one
/// takes some tens of ms, and a thread would cost a slow probe more memory than the conversion.
pub(crate) const INLINE_ROWS: u64 = 128 << 10;

/// The end of a connection has its rows written before it, where this long passed since rows were last written. Ends that
/// come faster (`--connect`) wait for the next flush: a batch of rows costs some 2 KB, whatever the number of rows.
const ENDS_EVERY_NS: u64 = 100_000_000;
/// Bytes of events that wait for the next flush while the disk has room.
const KEPT_AT_MOST: usize = 64 << 10;

/// When segments close, and who may read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Rows after which a segment closes.
    pub segment_rows: u64,
    /// Age at which a segment closes, in ns.
    pub segment_age_ns: u64,
    /// Whether other accounts of this host may read the recording, as far as the process's umask lets them.
    pub readable: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_rows: 2 << 20, segment_age_ns: 3_600_000_000_000, readable: false }
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
    _lock: File,
    events: Log,
    open: Option<OpenSegment>,
    next_segment: u32,
    closing: Option<(u32, JoinHandle<Result<Closed, Error>>)>,
    pending: Vec<Sample>,
    encoder: Encoder,
    encoded: Vec<u8>,
    /// Rows written (not those pending).
    rows: u64,
    now_ns: u64,
    synced_ns: u64,
    syncer: Syncer,
    /// When what was pending was last written.
    written_ns: u64,
    stopped: Option<Stopped>,
    /// Its files were removed: what has their names now is none of ours.
    gone: bool,
    /// Set while the disk is full.
    waiting: Option<Waiting>,
    reserve: Reserve,
    /// Events that are written after what is pending, or when there is room.
    kept: Kept,
    /// Samples that have no row, and why; not told yet.
    losses: Losses,
    why_lost: &'static str,
    gaps: Gaps,
    /// The manifest on the disk is older than this one.
    manifest_due: bool,
    /// Segments that are to be closed; their rows stand in their open files.
    unclosed: Vec<u32>,
    /// How far the run has come, as far as that is to be known after a kill.
    progress: Progress,
    /// What this recorder itself had to tell of the run.
    told: Vec<Event>,
    ending: bool,
    /// The log tells of the end.
    end_told: bool,
}

/// Why and when a recording stopped early.
#[derive(Debug)]
struct Stopped {
    reason: String,
    at: Timestamp,
}

impl Recorder {
    /// Begins a recording in `dir`, which is made where it does not exist and must hold no recording yet. The first
    /// of the manifest's clock anchors, where it has one, is the recording's first moment.
    pub fn create(dir: &Path, manifest: Manifest) -> Result<Self, Error> {
        Self::create_with(dir, manifest, Options::default())
    }

    /// As [`Recorder::create`], with other limits for segments.
    pub fn create_with(dir: &Path, manifest: Manifest, options: Options) -> Result<Self, Error> {
        Self::create_on(disk::real(options.readable), dir, manifest, options)
    }

    pub(crate) fn create_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        manifest: Manifest,
        options: Options,
    ) -> Result<Self, Error> {
        let same = Arc::clone(&disk);
        let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !is_there(dir)).collect();
        disk.create_dirs(dir).map_err(Error::io("create the directory", dir))?;
        let lock = lock(disk.as_ref(), dir)?;
        if holds_recording(dir)? {
            // Nothing in somebody's recording is changed, and nobody else had the lock.
            let _ = disk.remove(&dir.join(LOCK));
            return Err(Error::Exists { dir: dir.to_owned() });
        }
        // A recording that could not be begun (a full disk, say) must not be in the way of the next attempt.
        Self::begin(disk, dir, lock, manifest, options)
            .and_then(|recorder| sync_above(same.as_ref(), &missing).map(|()| recorder))
            .inspect_err(|_| crate::discard_empty(dir))
    }

    fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        lock: File,
        manifest: Manifest,
        options: Options,
    ) -> Result<Self, Error> {
        let reserve = Reserve::begin(disk.as_ref(), dir, &manifest)?;
        manifest.write(disk.as_ref(), dir)?;
        let events = Log::create(disk.as_ref(), dir)?;
        let now_ns = manifest.clock_anchors.first().map_or(0, |a| a.mono_ns);
        let at = manifest.started_at;
        let mut recorder = Self {
            dir: dir.to_owned(),
            disk,
            options,
            manifest,
            _lock: lock,
            events,
            open: None,
            next_segment: 0,
            closing: None,
            pending: Vec::new(),
            encoder: Encoder::default(),
            encoded: Vec::new(),
            rows: 0,
            now_ns,
            synced_ns: now_ns,
            syncer: Syncer::default(),
            written_ns: now_ns,
            stopped: None,
            gone: false,
            waiting: None,
            reserve,
            kept: Kept::default(),
            losses: Losses::default(),
            why_lost: LOST_NO_SPACE,
            gaps: Gaps::default(),
            manifest_due: false,
            unclosed: Vec::new(),
            progress: Progress::default(),
            told: Vec::new(),
            ending: false,
            end_told: false,
        };
        let kind = EventKind::RecordingStarted {};
        let line = recorder.line(&Event { at, mono_ns: now_ns, connection: None, kind })?;
        recorder.append_event(&line)?;
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
        self.stopped.as_ref().map(|stopped| stopped.reason.as_str())
    }

    /// Takes a sample. It is on the disk after the next [`Recorder::flush`] that succeeds. Once the recording has stopped, the
    /// sample is counted instead, and [`Recorder::finish`] tells its loss.
    pub fn push(&mut self, sample: &Sample) -> Result<(), Error> {
        if self.stopped.is_some() {
            self.losses.add(Some(sample.connection), 1);
            return Ok(());
        }
        if let Some(waiting) = &mut self.waiting {
            if self.pending.len() < room::ROWS_KEPT {
                self.pending.push(*sample);
            } else {
                waiting.lost += 1;
                self.losses.add(Some(sample.connection), 1);
            }
            return Ok(());
        }
        self.pending.push(*sample);
        if self.pending.len() >= FLUSH_ROWS { self.guarded(Self::write_pending) } else { Ok(()) }
    }

    /// Takes samples that were made ready for the disk, in order; they are written at once, and together. Otherwise as
    /// [`Recorder::push`].
    pub fn push_packed(&mut self, rows: &[Packed]) -> Result<(), Error> {
        if self.stopped.is_some() || self.waiting.is_some() {
            return self.push_each(rows);
        }
        if rows.is_empty() {
            return Ok(());
        }
        let mut written = 0;
        let done = self.guarded(|recorder| recorder.write_rows(rows, &mut written));
        if done.is_err() {
            // The others wait for room, or are counted as lost.
            self.push_each(&rows[written..])?;
        }
        done?;
        let full = self.open.as_ref().is_some_and(|segment| segment.rows >= self.options.segment_rows);
        if full { self.guarded(Self::close_segment) } else { Ok(()) }
    }

    fn push_each(&mut self, rows: &[Packed]) -> Result<(), Error> {
        rows.iter().flat_map(Packed::samples).try_for_each(|sample| self.push(&sample))
    }

    /// Writes what was pushed, has it synced (at most twice a second), and closes the segment when it is time. To be called at least
    /// once a second. It does not wait for the syncs of rows and of events; what was wrong with one the next flush says. It waits for
    /// those by which a segment begins, closes and is listed, as [`Recorder::anchor`] and [`Recorder::amend`] wait for the manifest's:
    /// a disk that takes seconds over a sync holds rows up there. While the disk is full it looks whether there is room again, and
    /// fails where there is none ([`Recorder::waits_for_room`]).
    pub fn flush(&mut self, now_mono_ns: u64) -> Result<(), Error> {
        self.refuse_if_stopped()?;
        self.now_ns = now_mono_ns;
        self.guarded(Self::refuse_if_gone)?;
        if self.waiting.is_some() {
            return self.guarded(Self::resume);
        }
        self.guarded(|r| {
            r.write_through(now_mono_ns)?;
            r.reserve.fill_again(r.disk.as_ref(), now_mono_ns);
            if r.syncer.is_done()? && now_mono_ns.saturating_sub(r.synced_ns) >= SYNC_EVERY_NS {
                r.sync_beside()?;
            }
            let old = |s: &OpenSegment| now_mono_ns.saturating_sub(s.opened_ns) >= r.options.segment_age_ns;
            if r.open.as_ref().is_some_and(old) {
                r.close_segment()?;
            }
            r.collect_closed(false)
        })
    }

    /// Adds a clock anchor and rewrites the manifest.
    pub fn anchor(&mut self, anchor: Anchor, stepped: bool) -> Result<(), Error> {
        self.refuse_if_stopped()?;
        self.manifest.add_anchor(ClockAnchor::new(anchor, stepped));
        self.guarded(Self::write_manifest)
    }

    /// Changes the manifest (what became known of the reflector, say) and rewrites it.
    pub fn amend(&mut self, change: impl FnOnce(&mut Manifest)) -> Result<(), Error> {
        self.refuse_if_stopped()?;
        change(&mut self.manifest);
        self.guarded(Self::write_manifest)
    }

    fn write_manifest(&mut self) -> Result<(), Error> {
        self.manifest_due = true;
        if self.waiting.is_none() || self.ending {
            self.manifest.write(self.disk.as_ref(), &self.dir)?;
            self.manifest_due = false;
        }
        Ok(())
    }

    fn refuse_if_stopped(&self) -> Result<(), Error> {
        match &self.stopped {
            Some(Stopped { reason, .. }) => {
                Err(Error::Stopped { dir: self.dir.clone(), reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    /// Looks whether its files are still there: two looks at open files, which no other disk and no network is asked for.
    fn refuse_if_gone(&mut self) -> Result<(), Error> {
        let Some(path) = self.removed().map(Path::to_owned) else { return Ok(()) };
        self.gone = true;
        // It takes room until it is closed.
        self.open = None;
        Err(Error::Gone { path })
    }

    /// What somebody removed: all of it, or a file.
    fn removed(&self) -> Option<&Path> {
        let files = [Some(self.events.file()), self.open.as_ref().map(|segment| &segment.file)];
        let file = files.into_iter().flatten().find(|file| file.is_removed())?;
        Some(if self.dir.exists() { &file.path } else { &self.dir })
    }

    /// Does something that must succeed for the recording to go on. Where the disk is full the recording waits for room;
    /// anything else stops it, with a last word.
    fn guarded(&mut self, act: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        // That its files were removed says more than what could not be done with them.
        let done = act(self).map_err(|error| self.refuse_if_gone().err().unwrap_or(error));
        done.inspect_err(|error| {
            if error.wants_room() && !self.ending {
                return self.wait_for_room(error);
            }
            let (reason, at) = (error.to_string(), self.wall_clock());
            self.stopped = Some(Stopped { reason: reason.clone(), at });
            self.why_lost = error.why_lost();
            self.give_way(false);
            // The disk has just failed; this and what follows are attempts.
            self.give_up_rows();
            // The error that matters is on its way to the caller. There is one end.
            if !self.end_told {
                let kind = EventKind::RecordingEnded { samples: self.rows, error: Some(reason) };
                let _ = self.event(&Event { at, mono_ns: self.now_ns, connection: None, kind });
            }
            let _ = self.events.sync(self.disk.as_ref());
        })
    }

    fn give_way(&mut self, rows_wait: bool) {
        if self.gone {
            return;
        }
        progress::remove(self.disk.as_ref(), &self.dir);
        self.reserve.give_way(self.disk.as_ref(), rows_wait);
    }

    fn wall_clock(&self) -> Timestamp {
        self.manifest.clock_anchors.last().map_or(self.manifest.started_at, |a| a.at(self.now_ns))
    }

    /// Has another thread sync what was written, where syncs take their time.
    fn sync_beside(&mut self) -> Result<(), Error> {
        if !self.disk.takes_its_time() {
            return self.sync();
        }
        self.synced_ns = self.now_ns;
        let segment = self.open.as_mut().map(|segment| segment.file.take_unsynced());
        let files: Vec<_> = [segment.flatten(), self.events.take_unsynced()].into_iter().flatten().collect();
        if files.is_empty() { Ok(()) } else { self.syncer.sync(&self.disk, files) }
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.syncer.wait()?;
        self.synced_ns = self.now_ns;
        if let Some(segment) = &mut self.open {
            segment.file.sync(self.disk.as_ref())?;
        }
        self.events.sync(self.disk.as_ref())
    }
}
