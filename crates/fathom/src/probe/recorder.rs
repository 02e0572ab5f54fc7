//! The recording thread: takes the probing threads' messages, writes each path's sinks, and keeps the live states that the
//! views show.

mod seams;
mod stamps;
mod surroundings;
mod trouble;
mod writing;

use super::live_state::{LiveStates, has_begun, lock};
use super::operate::HookSender;
use super::outbox::{Bell, Inbox, Message};
use super::plain::Line;
use super::rotate::Rotating;
use super::sinks::Sinks;
use super::stop::Stop;
use super::tables::Table;
use fathom_cloud::CloudMessage;
use fathom_core::event::{Event, EventKind, LOST_BEHIND, PROBING_FAILED};
use fathom_core::sample::Sample;
use fathom_core::statistics::Batch;
use fathom_os::clock::mono_ns;
use fathom_os::egress::Egress;
use fathom_recording::Packed;
use jiff::Timestamp;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;
use trouble::Trouble;

/// With the rest between two looks, and a disk that takes its time over a sync (hundreds of ms under load), this keeps
/// everything older than a second on disk.
const FLUSH_EVERY_NS: u64 = 250_000_000;
/// A flush that takes longer is worth a line of the log: the disk holds up the recording, and no sample.
const SLOW_FLUSH: Duration = Duration::from_millis(250);
/// Pieces of rows that are written together at most: 16 MB.
const TOGETHER: usize = 64;
/// Messages taken before the live states are brought up to date.
const BATCH: usize = 2_048;

/// What the cloud's metadata service said, and when that became known here.
pub(super) struct CloudNotice {
    pub(super) at: Timestamp,
    pub(super) mono_ns: u64,
    pub(super) message: CloudMessage,
}

/// What changes a path's live state.
enum Update {
    Sample(Sample),
    Batch(Box<Batch>),
    Event(Event),
}

/// See the module.
pub(super) struct RunRecorder<'a> {
    /// One a probing thread.
    rings: Vec<Inbox>,
    cloud: Option<Receiver<CloudNotice>>,
    sinks: Vec<Sinks>,
    /// By what each path's connections leave.
    egress: Vec<Egress>,
    live: LiveStates,
    /// Rows of the first path that were taken, to be written together.
    packed: Vec<Packed>,
    /// What the live states do not show yet. They are locked when nothing is written: a view waits for no disk.
    updates: Vec<(usize, Update)>,
    /// Lines that wait for that: whoever prints them asks the live states where a connection leads.
    waiting_lines: Vec<Line>,
    lines: Option<SyncSender<Line>>,
    /// Whom events are handed to.
    hook: Option<HookSender>,
    /// When the recordings are followed by others.
    rotating: Option<Rotating<'a>>,
    /// Whether each sample is worth a line.
    every_sample: bool,
    /// How long to rest when there is nothing to do.
    rest: Duration,
    bell: Bell,
    lines_lost: u64,
    /// Why each path's recording is incomplete, where it is.
    troubles: Vec<Trouble>,
    /// Each path's files of rows that are not written any more, and why.
    table_errors: Vec<Vec<String>>,
    stop: Stop,
    /// The latest that was told, by both clocks: when the run ended is when a probing thread told its last.
    told: Option<(Timestamp, u64)>,
    /// A probing thread ended without its last message.
    abandoned: bool,
    /// Whether a full disk ends the run.
    exit_on_full: bool,
}

impl<'a> RunRecorder<'a> {
    pub(super) fn new(
        rings: Vec<Inbox>,
        sinks: Vec<Sinks>,
        live: LiveStates,
        rest: Duration,
        stop: Stop,
    ) -> Self {
        let troubles = sinks.iter().map(|_| Trouble::default()).collect();
        let egress = sinks.iter().map(|_| Egress::default()).collect();
        let table_errors = sinks.iter().map(|_| Vec::new()).collect();
        Self {
            rings,
            cloud: None,
            egress,
            sinks,
            live,
            packed: Vec::new(),
            updates: Vec::new(),
            waiting_lines: Vec::new(),
            lines: None,
            hook: None,
            rotating: None,
            every_sample: false,
            rest,
            bell: Bell::default(),
            lines_lost: 0,
            troubles,
            table_errors,
            stop,
            told: None,
            abandoned: false,
            exit_on_full: false,
        }
    }

    /// Sets who wakes this thread where something happens, so that it may rest longer.
    pub(super) fn wake_by(&mut self, bell: Bell) {
        self.bell = bell;
    }

    /// Ends the run where a disk is full, instead of waiting for room.
    pub(super) fn exit_on_full(&mut self) {
        self.exit_on_full = true;
    }

    /// Passes on what happens as lines to be printed; samples too, if asked for.
    pub(super) fn print_to(&mut self, lines: SyncSender<Line>, every_sample: bool) {
        self.lines = Some(lines);
        self.every_sample = every_sample;
    }

    /// Goes on in new recordings from time to time.
    pub(super) fn rotate_by(&mut self, rotating: Option<Rotating<'a>>) {
        self.rotating = rotating;
    }

    /// Hands each event to a command.
    pub(super) fn hand_events_to(&mut self, sender: HookSender) {
        self.hook = Some(sender);
    }

    /// Records the cloud's notices too.
    pub(super) fn take_notices(&mut self, cloud: Receiver<CloudNotice>) {
        self.cloud = Some(cloud);
    }

    /// Runs until every probing thread has told its last; then closes the recordings. Returns lines that the view was
    /// too slow for.
    pub(super) fn run(mut self) -> u64 {
        let mut flushed_ns = mono_ns();
        let _ = self.bell.set(thread::current());
        loop {
            let looked_ns = mono_ns();
            self.take_cloud();
            let (more, ended) = self.take_batch();
            let now = mono_ns();
            if ended {
                break;
            }
            if now.saturating_sub(flushed_ns) >= FLUSH_EVERY_NS {
                flushed_ns = now;
                self.look_at_egress(now);
                self.rotate(now);
                self.flush(now);
                let took = Duration::from_nanos(mono_ns() - now);
                if took > SLOW_FLUSH {
                    tracing::warn!(?took, "the disk is slow");
                }
            }
            if !more {
                // For a sample a probing thread does not wake this one, but for a ring that fills up: a wake-up costs it more than a
                // send. What was done since the last look is part of the rest: a disk that is slow must not make rows wait for both.
                let passed = Duration::from_nanos(mono_ns() - looked_ns);
                thread::park_timeout(self.rest.saturating_sub(passed));
            }
        }
        self.close();
        self.lines_lost
    }

    /// Takes what there is, up to a batch: whether there is more at once, and whether everybody has told their last.
    fn take_batch(&mut self) -> (bool, bool) {
        let share = (BATCH / self.rings.len().max(1)).max(1);
        self.take_from_each(|_| share)
    }

    /// Takes so many messages of each ring at the most: whether there may be more at once, and whether everybody has told their last.
    fn take_from_each(&mut self, at_most: impl Fn(&Inbox) -> usize) -> (bool, bool) {
        let mut more = false;
        // Backwards, so that a ring that has come to its end can be taken out.
        for at in (0..self.rings.len()).rev() {
            let (share, mut taken) = (at_most(&self.rings[at]), 0);
            while taken < share {
                // Asked first: what was sent before its end is in the ring by then.
                let abandoned = self.rings[at].is_abandoned();
                let message = match self.rings[at].pop() {
                    Ok(message) => message,
                    Err(_) if abandoned => {
                        self.abandoned();
                        Message::Ended
                    }
                    Err(_) => break,
                };
                taken += 1;
                if matches!(message, Message::Ended) {
                    self.rings.remove(at);
                    break;
                }
                self.take(message);
            }
            more |= taken == share;
        }
        self.write_packed();
        self.update_live();
        (more, self.rings.is_empty())
    }

    fn update_live(&mut self) {
        let mut live = lock(&self.live);
        for (path, update) in self.updates.drain(..) {
            match update {
                Update::Sample(sample) => live[path].sample(&sample),
                Update::Batch(batch) => live[path].batch(&batch),
                Update::Event(event) => live[path].event(&event),
            }
        }
        for (state, trouble) in live.iter_mut().zip(&self.troubles) {
            state.recording_error = trouble.in_words();
        }
        for (state, errors) in live.iter_mut().zip(&self.table_errors) {
            state.table_errors.clone_from(errors);
        }
        drop(live);
        let Some(lines) = &self.lines else { return };
        for line in self.waiting_lines.drain(..) {
            if let Err(TrySendError::Full(_)) = lines.try_send(line) {
                self.lines_lost += 1;
            }
        }
    }

    fn take(&mut self, message: Message) {
        // What samples come to stands between their rows, and tells the manifest at most that there are stamps: it does not end
        // what is written together.
        if !matches!(message, Message::Packed(_) | Message::Batch(_)) || self.packed.len() >= TOGETHER {
            self.write_packed();
        }
        match message {
            Message::Sample(path, sample) => self.sample(path, &sample),
            Message::Packed(rows) => self.packed.push(rows),
            Message::Batch(batch) => {
                if let Some(last) = batch.last() {
                    self.write(0, |recorder| stamps::note(recorder, last));
                }
                self.updates.push((0, Update::Batch(batch)));
            }
            Message::Event(Some(path), mut event) => self.path_event(path, &mut event),
            Message::Event(None, event) => {
                for path in 0..self.sinks.len() {
                    self.event(path as u32, &event);
                }
            }
            Message::Anchor { anchor, stepped } => {
                for p in 0..self.sinks.len() {
                    self.write(p, |recorder| recorder.anchor(anchor, stepped));
                }
            }
            Message::Lost { path, connection, samples: lost } => {
                let kind = EventKind::RecordingOverflowed { lost, reason: Some(LOST_BEHIND.to_owned()) };
                self.event(path, &Event { at: Timestamp::now(), mono_ns: mono_ns(), connection, kind });
            }
            Message::Ended => {}
        }
    }

    /// A probing thread ended without saying so: by an error of the system, or a panic. The others are asked to end too, and
    /// the recordings say that more may have been under way.
    fn abandoned(&mut self) {
        self.write_packed();
        self.abandoned = true;
        self.stop.ask_at_once();
        let kind = EventKind::Note { text: PROBING_FAILED.to_owned() };
        let event = Event { at: Timestamp::now(), mono_ns: mono_ns(), connection: None, kind };
        for path in 0..self.sinks.len() {
            self.event(path as u32, &event);
        }
    }

    fn event(&mut self, path: u32, event: &Event) {
        let p = path as usize;
        self.note_time(event);
        self.updates.push((p, Update::Event(event.clone())));
        if let Some(rotating) = &mut self.rotating {
            rotating.event(p, event);
        }
        if let Some(recorder) = &mut self.sinks[p].recorder
            && let Err(e) = recorder.event(event)
        {
            self.failed(p, &e);
        }
        if let EventKind::ConnectionOpened { remote, .. } = &event.kind {
            let nic = self.egress[p].nic();
            let nic = nic.and_then(|nic| serde_json::to_value(nic).ok());
            self.write(p, |recorder| {
                let known = recorder.manifest();
                let resolved = known.reflector.resolved.as_ref() == Some(remote);
                // The first interface that is known stays; what comes of it later, events tell.
                let nic = nic.filter(|_| known.host["nic"].is_null());
                // Rewriting the manifest syncs it: not for each of ten thousand connections to one address.
                if resolved && nic.is_none() {
                    return Ok(());
                }
                recorder.amend(|manifest| {
                    manifest.reflector.resolved = Some(remote.clone());
                    if let Some((nic, host)) = nic.zip(manifest.host.as_object_mut()) {
                        host.insert("nic".to_owned(), nic);
                    }
                })
            });
        }
        self.happened(path, event);
    }

    fn note_time(&mut self, event: &Event) {
        if self.told.is_none_or(|(_, latest_ns)| latest_ns <= event.mono_ns) {
            self.told = Some((event.at, event.mono_ns));
        }
    }

    /// Tells those who listen of an event.
    fn happened(&mut self, path: u32, event: &Event) {
        if let Some(hook) = &self.hook {
            hook.offer(path as usize, event);
        }
        self.show(Line::Event(Some(path), Box::new(event.clone())));
    }

    fn show(&mut self, line: Line) {
        if self.lines.is_some() {
            self.waiting_lines.push(line);
        }
    }

    fn close(&mut self) {
        // Not now: that the recordings are closed, one after the other, and what this thread rested before, is no part of what was measured.
        let told = self.told.unwrap_or_else(|| (Timestamp::now(), mono_ns()));
        let begun = has_begun(&lock(&self.live));
        for p in 0..self.sinks.len() {
            let error = self.abandoned.then_some(PROBING_FAILED);
            if let Some(recorder) = &mut self.sinks[p].recorder {
                // One that a seam began after the last was told.
                let began =
                    recorder.manifest().clock_anchors.first().map(|anchor| (anchor.utc, anchor.mono_ns));
                let (ended_at, ended_ns) = began.filter(|began| began.1 > told.1).unwrap_or(told);
                let finished = recorder.finish_with(ended_at, ended_ns, error).map(drop);
                lock(&self.live)[p].recorded_ns.1 = Some(ended_ns);
                self.told_by_recorder(p);
                if let Err(e) = finished {
                    self.stopped(p, e.to_string(), e.to_string());
                }
            }
            self.sinks[p].recorder = None;
            if begun {
                self.write_tables(p, |rows| rows.finish());
            } else {
                self.sinks[p].tables.drain(..).for_each(Table::take_back);
            }
        }
        self.collect_closed(true);
        if let Some(rotating) = &self.rotating {
            rotating.close_the_rest();
        }
        self.update_live();
    }
}

#[cfg(test)]
mod tests;
