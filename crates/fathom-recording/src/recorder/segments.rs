//! The segments of a recording: rows go into an open one, which is closed into Parquet when it is large or old enough.

use super::appender::Appender;
use super::{FLUSH_ROWS, INLINE_ROWS, Recorder};
use crate::convert::{Closed, convert};
use crate::layout::Layout;
use crate::packed::Packed;
use crate::stream::head;
use crate::{Error, segment_name};
use fathom_core::event::{Event, EventKind};
use jiff::Timestamp;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct OpenSegment {
    ordinal: u32,
    pub(super) file: Appender,
    pub(super) rows: u64,
    pub(super) opened_ns: u64,
}

impl Recorder {
    pub(super) fn write_pending(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.open.is_none() {
            self.open_segment()?;
        }
        let Some(segment) = &mut self.open else { return Ok(()) };
        let mut written = 0;
        let done = self.pending.chunks(FLUSH_ROWS).try_for_each(|chunk| {
            self.encoded.clear();
            self.encoder.encode(chunk, &mut self.encoded);
            segment.file.append(self.disk.as_ref(), &self.encoded)?;
            written += chunk.len();
            Ok(())
        });
        segment.rows += written as u64;
        self.rows += written as u64;
        self.pending.drain(..written);
        done?;
        if segment.rows >= self.options.segment_rows { self.close_segment() } else { Ok(()) }
    }

    /// Writes rows that are ready, after those that are pending, and counts in `written` how many pieces of them were. Of the one that
    /// fails nothing was.
    pub(super) fn write_rows(&mut self, rows: &[Packed], written: &mut usize) -> Result<(), Error> {
        self.write_pending()?;
        if self.open.is_none() {
            self.open_segment()?;
        }
        let Some(segment) = &mut self.open else { return Ok(()) };
        let blocks: Vec<&[u8]> = rows.iter().map(Packed::bytes).collect();
        let mut done = segment.file.append_blocks(self.disk.as_ref(), &blocks);
        if done.is_ok() {
            *written = rows.len();
        } else if rows.len() > 1 {
            // A disk that has no room for all has room for some.
            done = blocks.iter().try_for_each(|block| {
                segment.file.append_blocks(self.disk.as_ref(), &[block])?;
                *written += 1;
                Ok(())
            });
        }
        let rows = rows[..*written].iter().map(|rows| rows.count() as u64).sum::<u64>();
        segment.rows += rows;
        self.rows += rows;
        done
    }

    /// Before losses are told: what a failed write left of rows must not stand there too.
    pub(super) fn take_back(&mut self) {
        if let Some(segment) = &mut self.open {
            segment.file.take_back(self.disk.as_ref());
        }
    }

    pub(super) fn open_segment(&mut self) -> Result<(), Error> {
        let ordinal = self.next_segment;
        let path = self.dir.join(segment_name(ordinal, "arrows"));
        // Without its beginning it is damage to whoever reads it.
        let file = self.begin_segment(&path).inspect_err(|_| _ = self.disk.remove(&path))?;
        self.next_segment += 1;
        self.open = Some(OpenSegment { ordinal, file, rows: 0, opened_ns: self.now_ns });
        Ok(())
    }

    fn begin_segment(&self, path: &Path) -> Result<Appender, Error> {
        let mut file = Appender::open(self.disk.as_ref(), path.to_owned())?;
        // An attempt that found no room may have left its beginning.
        file.empty(self.disk.as_ref())?;
        let schema = head().map_err(|e| Error::Segment { path: path.to_owned(), reason: e.to_string() })?;
        file.append(self.disk.as_ref(), &schema)?;
        self.disk.sync_dir(&self.dir).map_err(Error::io("sync", &self.dir))?;
        Ok(file)
    }

    pub(super) fn close_segment(&mut self) -> Result<(), Error> {
        let Some(mut segment) = self.open.take() else { return Ok(()) };
        self.syncer.wait()?;
        segment.file.sync(self.disk.as_ref())?;
        tracing::debug!(dir = %self.dir.display(), segment = segment.ordinal, rows = segment.rows, "closing a segment");
        // Whatever fails from here on, it is closed later.
        self.unclosed.push(segment.ordinal);
        self.collect_closed(true)?;
        if segment.rows <= INLINE_ROWS {
            return self.close_unclosed();
        }
        let (disk, dir, ordinal) = (Arc::clone(&self.disk), self.dir.clone(), segment.ordinal);
        let layout = self.layout();
        let thread = std::thread::Builder::new()
            .name("segment".to_owned())
            .spawn(move || convert(disk.as_ref(), &dir, ordinal, layout, true))
            .map_err(Error::io("start a thread to close", &segment.file.path))?;
        self.closing = Some((segment.ordinal, thread));
        self.unclosed.retain(|&ordinal| ordinal != segment.ordinal);
        Ok(())
    }

    fn layout(&self) -> Layout {
        Layout::of_version(self.manifest.format_version)
    }

    /// Closes what could not be closed at its time.
    pub(super) fn close_unclosed(&mut self) -> Result<(), Error> {
        while let Some(&ordinal) = self.unclosed.first() {
            let closed = convert(self.disk.as_ref(), &self.dir, ordinal, self.layout(), true)?;
            self.list_closed(ordinal, &closed)?;
            self.unclosed.remove(0);
        }
        Ok(())
    }

    pub(super) fn collect_closed(&mut self, wait: bool) -> Result<(), Error> {
        match self.closing.take() {
            Some((ordinal, thread)) if wait || thread.is_finished() => {
                let path = self.dir.join(segment_name(ordinal, "arrows"));
                let closed = thread
                    .join()
                    .map_err(|_| Error::Segment { path, reason: "its conversion panicked".into() })?;
                let listed = closed.and_then(|closed| self.list_closed(ordinal, &closed));
                if listed.is_err() {
                    self.unclosed.push(ordinal);
                }
                listed
            }
            still => {
                self.closing = still;
                Ok(())
            }
        }
    }

    fn list_closed(&mut self, ordinal: u32, closed: &Closed) -> Result<(), Error> {
        let (at, mono_ns) = (self.wall_clock(), self.now_ns);
        let line = self.line(&closed.event(at, mono_ns))?;
        self.append_event(&line)?;
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
