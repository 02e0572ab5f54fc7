//! From a probing thread to the recording thread: a ring that never makes the probing thread wait, and a queue behind it
//! for what a stall delivers at once.
//!
//! [`Outbox::sample`] and [`Outbox::other`] may be called at any time and keep the order of their calls.
//! [`Outbox::deliver_waiting`] must be called now and then (once a second will do), because nothing else moves the queue
//! on while nothing happens. `Message::Ended` is the last message; then [`Outbox::finish`] waits until everything has
//! been taken. An outbox that is dropped without it tells the recording thread that its probing thread failed.
//!
//! Back to back, whatever another thread does costs the round trip that is under way. So there the probing thread itself counts the
//! samples and makes their rows ready ([`Outbox::pack`]), after it has sent the next message: in time that it has to spare. The
//! recording thread looks seldom and has little to do but to write; events wake it, and [`Outbox::finish`] does.

mod inbox;

pub(super) use inbox::Inbox;

use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind, LOST_BEHIND, note_of_lost_events};
use fathom_core::queue::Queue;
use fathom_core::sample::Sample;
use fathom_core::statistics::Batch;
use fathom_os::clock::{mono_ns, utc_ns};
use fathom_recording::{Packed, Packer};
use jiff::Timestamp;
use rtrb::{Producer, PushError, RingBuffer};
use std::collections::BTreeMap;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// What the probing thread tells.
#[derive(Debug)]
pub(super) enum Message {
    /// A sample of a path is resolved.
    Sample(u32, Sample),
    /// Resolved samples of the first path, ready for the disk.
    Packed(Packed),
    /// What resolved samples of the first path come to.
    Batch(Box<Batch>),
    /// Something happened on a path, or (`None`) to the whole run.
    Event(Option<u32>, Box<Event>),
    /// The clocks were read; `stepped`: because the wall clock was set.
    Anchor { anchor: Anchor, stepped: bool },
    /// So many samples of a connection of a path have no row: there was no room to keep them. Without a connection: of
    /// several.
    Lost { path: u32, connection: Option<u32>, samples: u64 },
    /// The last message.
    Ended,
}

/// Messages that a ring holds at least and at most. The recording thread looks at it twenty times a second, or five times where
/// samples are rare.
const RING: std::ops::RangeInclusive<usize> = 1 << 12..=1 << 16;
/// The same where a message is many samples, of all rings together: 30 MB of rows, a piece of 2,560 having 250 KB.
const PACKED_RING: usize = 1 << 7;
/// Packed pieces that wait for the disk or are written at one time, with all threads: 80,000 samples, 8 MB.
const PIECES: usize = 32;
/// How long samples wait for others, in ns: their rows, and what they come to.
const ROWS_FOR_NS: u64 = 100_000_000;
const BATCH_FOR_NS: u64 = 500_000_000;
/// Samples that may wait behind the rings of a run, by their bytes: what a disk that stands still may cost.
const STANDSTILL_BYTES: usize = 64 << 20;
/// Messages that may wait of whatever kind and age, for each sample that may: a wall clock that is set back makes later
/// samples look like earlier ones, and a disk may stand still for hours.
const MESSAGES_A_SAMPLE: usize = 4;
/// What waits behind a full ring is passed on again after this.
const TRIED_AGAIN_NS: u64 = 50_000_000;
/// With so many messages waiting no batch joins them: what samples come to is kept in one until there is room.
const BATCHES_WAIT: usize = 1 << 9;
/// Connections whose losses are counted each by itself.
const LOST_BY_CONNECTION: usize = 1 << 16;
/// Waiting messages that are passed on when another comes: a burst must not keep the next echo from its stamp.
const PASSED_ON_AT_ONCE: usize = 64;
/// A thread that waits for room at its end asks no more seldom than so.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// The sending end.
///
/// What finds the ring full waits in a queue. Every event waits, and every sample that had been sent when the queue began:
/// it was in flight, so its row takes the place of what was kept of it. Of samples sent later [`STANDSTILL_BYTES`] wait;
/// further ones are counted as lost, by connection, and the count follows as soon as there is room. Of everything together four
/// times as many messages wait; beyond that samples are counted as lost too, and of events only counts and the end of the
/// schedule are kept.
pub(super) struct Outbox {
    ring: Producer<Message>,
    waiting: Queue<Message>,
    /// Whether something waits, for the other end.
    queued: Arc<AtomicBool>,
    /// The wall clock when the queue began.
    waiting_since_ns: i64,
    /// Samples in the queue that were sent after it began, and how many those may be.
    later: usize,
    later_at_most: usize,
    /// Samples in the queue in messages of many, of whatever age.
    packed: usize,
    /// Messages that may wait altogether, and such samples.
    at_most: usize,
    events_lost: u64,
    lost: BTreeMap<(u32, Option<u32>), u64>,
    read_clock: fn() -> i64,
    packing: Option<Packing>,
}

/// The samples that the probing thread counts and makes ready itself.
struct Packing {
    packer: Option<Packer>,
    batch: Box<Batch>,
    /// When rows and the batch are handed over at the latest, by the monotonic clock; `None`: there are none.
    rows_due_ns: Option<u64>,
    batch_due_ns: Option<u64>,
    /// When the queue behind the ring is passed on again.
    again_ns: u64,
    recording: Bell,
}

/// The recording thread, for who wakes it.
pub(super) type Bell = Arc<OnceLock<Thread>>;

/// One of so many rings for a run of this many samples a second (`None`: as fast as it goes): four seconds of them, within
/// [`RING`]. With a `bell` samples are to be packed, for a recording or for the views alone.
pub(super) fn channel(
    samples_per_s: Option<f64>,
    of: usize,
    packed: Option<(&Bell, bool)>,
) -> (Outbox, Inbox) {
    let wanted = samples_per_s.map_or(*RING.end(), |rate| (rate * 4.0) as usize) / of;
    let size = wanted.clamp(*RING.start(), *RING.end()).next_power_of_two();
    let samples = STANDSTILL_BYTES / size_of::<Message>() / of;
    let Some((recording, recorded)) = packed else {
        return channel_of(size, samples, samples * MESSAGES_A_SAMPLE, utc_ns);
    };
    let (mut outbox, ring) =
        channel_of((PACKED_RING / of).max(1 << 3), samples, samples * MESSAGES_A_SAMPLE, utc_ns);
    let packer = recorded.then(|| Packer::with_room(PIECES / of));
    let (batch, recording) = (Box::default(), Arc::clone(recording));
    let (rows_due_ns, batch_due_ns, again_ns) = (None, None, 0);
    outbox.packing = Some(Packing { packer, batch, rows_due_ns, batch_due_ns, again_ns, recording });
    (outbox, ring)
}

fn channel_of(size: usize, later_at_most: usize, at_most: usize, read_clock: fn() -> i64) -> (Outbox, Inbox) {
    let (ring, consumer) = RingBuffer::new(size);
    let (waiting, lost) = (Queue::default(), BTreeMap::new());
    let queued = Arc::new(AtomicBool::new(false));
    let inbox = Inbox::new(consumer, Arc::clone(&queued));
    let outbox = Outbox {
        ring,
        waiting,
        queued,
        waiting_since_ns: 0,
        later: 0,
        later_at_most,
        packed: 0,
        at_most,
        events_lost: 0,
        lost,
        read_clock,
        packing: None,
    };
    (outbox, inbox)
}

impl Outbox {
    pub(super) fn sample(&mut self, path: u32, sample: Sample) {
        let Some(packing) = &mut self.packing else { return self.samples(Message::Sample(path, sample)) };
        packing.batch.sample(&sample);
        if packing.rows_due_ns.is_none() || packing.batch_due_ns.is_none() {
            let now = mono_ns();
            packing.rows_due_ns.get_or_insert(now + ROWS_FOR_NS);
            packing.batch_due_ns.get_or_insert(now + BATCH_FOR_NS);
        }
        if let Some(rows) = packing.packer.as_mut().and_then(|packer| packer.push(&sample)) {
            self.samples(Message::Packed(rows));
        }
    }

    /// When [`Outbox::hand_over`] is due.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let packing = self.packing.as_ref()?;
        let batch_due_ns = packing.batch_due_ns.filter(|_| self.waiting.len() < BATCHES_WAIT);
        let rows_due_ns = packing.rows_due_ns.filter(|_| self.waiting.is_empty());
        let again_ns = (!self.waiting.is_empty()).then_some(packing.again_ns);
        rows_due_ns.into_iter().chain(batch_due_ns).chain(again_ns).min()
    }

    /// Passes on what is packed and due. Rows join a queue in whole pieces only, or before something else does: each piece has
    /// room for many, and a disk may stand still for hours.
    pub(super) fn hand_over(&mut self, now_ns: u64) {
        let Some(packing) = &mut self.packing else { return };
        let is_queued = !self.waiting.is_empty() && now_ns < u64::MAX;
        let is_due = |due: &mut u64| *due <= now_ns && !is_queued;
        let rows = packing.rows_due_ns.take_if(is_due).and_then(|_| packing.packer.as_mut()?.finish());
        let is_due = |due: &mut u64| *due <= now_ns && self.waiting.len() < BATCHES_WAIT;
        let batch = packing.batch_due_ns.take_if(is_due).map(|_| std::mem::take(&mut packing.batch));
        if let Some(rows) = rows {
            self.samples(Message::Packed(rows));
        }
        if let Some(batch) = batch {
            self.one(Message::Batch(batch));
        }
        // Something else is passed on at no moment of its own.
        if now_ns < u64::MAX {
            self.try_again(now_ns);
        }
    }

    /// Passes on what waits, where the recording thread has made room: it rests for long, and nothing else may happen meanwhile.
    fn try_again(&mut self, now_ns: u64) {
        let Some(packing) = self.packing.as_mut().filter(|packing| packing.again_ns <= now_ns) else {
            return;
        };
        packing.again_ns = now_ns.saturating_add(TRIED_AGAIN_NS);
        if !self.waiting.is_empty() {
            self.pass_on(PASSED_ON_AT_ONCE);
            self.wake_for_room();
        }
    }

    /// The recording thread rests for longer than a ring takes to fill where there are many threads, each with a small one: from
    /// eight on each wakes it once a rest and more.
    fn wake_for_room(&self) {
        self.wake(self.ring.slots() <= self.ring.buffer().capacity() / 2);
    }

    pub(super) fn other(&mut self, message: Message) {
        self.hand_over(u64::MAX);
        let quiet = matches!(message, Message::Anchor { .. });
        self.one(message);
        self.wake(!quiet);
    }

    fn wake(&self, wanted: bool) {
        self.packing.as_ref().filter(|_| wanted).and_then(|p| p.recording.get()).inspect(|r| r.unpark());
    }

    fn samples(&mut self, message: Message) {
        if self.waiting.is_empty() {
            match self.ring.push(message) {
                Ok(()) if self.packing.is_none() => {}
                Ok(()) => self.wake_for_room(),
                Err(PushError::Full(message)) => self.begin_queue(message),
            }
            return;
        }
        // Order matters to the reader: a sample does not overtake the event that opened its connection.
        let full = self.waiting.len().max(self.packed) >= self.at_most;
        if full || (self.later(&message) > 0 && self.later >= self.later_at_most) {
            self.lose(&message);
        } else {
            self.queue(message);
        }
        self.pass_on(PASSED_ON_AT_ONCE);
    }

    fn one(&mut self, message: Message) {
        if matches!(message, Message::Ended) {
            if let Some(batch) = self.packing.as_mut().map(|packing| std::mem::take(&mut packing.batch)) {
                self.one(Message::Batch(batch));
            }
            self.tell_lost();
        }
        if self.waiting.is_empty() {
            if let Err(PushError::Full(message)) = self.ring.push(message) {
                self.begin_queue(message);
            }
        } else {
            if self.waiting.len() >= self.at_most && may_be_lost(&message) {
                self.events_lost += 1;
            } else {
                self.queue(message);
            }
            self.pass_on(PASSED_ON_AT_ONCE);
        }
    }

    /// Passes on what waits, as far as there is room; true when nothing waits any more.
    pub(super) fn deliver_waiting(&mut self) -> bool {
        self.hand_over(mono_ns());
        self.pass_on(usize::MAX)
    }

    /// Says that this was the last, and waits until everything has been passed on. Where nobody takes messages any more,
    /// there is nothing to wait for.
    pub(super) fn finish(mut self) {
        self.other(Message::Ended);
        let mut rest = Duration::from_millis(1);
        while !self.deliver_waiting() && !self.ring.is_abandoned() {
            // It rests for longer than the ring takes to fill.
            self.wake(true);
            std::thread::sleep(rest);
            // A thousand threads that ask each millisecond keep the processors from the one that they wait for.
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    fn begin_queue(&mut self, first: Message) {
        self.waiting_since_ns = (self.read_clock)();
        self.queued.store(true, Ordering::Release);
        self.queue(first);
    }

    fn queue(&mut self, message: Message) {
        self.later += self.later(&message);
        self.packed += packed(&message);
        self.waiting.push(message);
    }

    /// How many samples it is that were sent after the queue began.
    fn later(&self, message: &Message) -> usize {
        match message {
            Message::Sample(_, sample) => usize::from(sample.sent_ns > self.waiting_since_ns),
            Message::Packed(rows) if rows.sent_ns() > self.waiting_since_ns => rows.count(),
            _ => 0,
        }
    }

    fn lose(&mut self, message: &Message) {
        let (path, counts) = match message {
            Message::Sample(path, sample) => (*path, BTreeMap::from([(sample.connection, 1)])),
            Message::Packed(rows) => (0, rows.by_connection()),
            _ => return,
        };
        for (connection, samples) in counts {
            let each =
                self.lost.len() < LOST_BY_CONNECTION || self.lost.contains_key(&(path, Some(connection)));
            *self.lost.entry((path, each.then_some(connection))).or_default() += samples;
        }
    }

    fn pass_on(&mut self, at_most: usize) -> bool {
        let passed = self.move_on(at_most);
        self.queued.store(!passed, Ordering::Release);
        passed
    }

    fn move_on(&mut self, at_most: usize) -> bool {
        for _ in 0..at_most {
            let Some(message) = self.waiting.pop() else {
                if self.lost.is_empty() && self.events_lost == 0 {
                    return true;
                }
                // There is room again: now the losses are told.
                self.tell_lost();
                continue;
            };
            let (later, packed) = (self.later(&message), packed(&message));
            if let Err(PushError::Full(message)) = self.ring.push(message) {
                self.waiting.put_back(message);
                return false;
            }
            self.later -= later;
            self.packed -= packed;
        }
        self.waiting.is_empty()
    }

    /// Puts the counts of lost samples behind what waits.
    fn tell_lost(&mut self) {
        for ((path, connection), samples) in std::mem::take(&mut self.lost) {
            self.waiting.push(Message::Lost { path, connection, samples });
        }
        let events = std::mem::take(&mut self.events_lost);
        if events > 0 {
            let kind = EventKind::Note { text: note_of_lost_events(events, LOST_BEHIND) };
            let event = Event { at: Timestamp::now(), mono_ns: mono_ns(), connection: None, kind };
            self.waiting.push(Message::Event(None, Box::new(event)));
        }
    }
}

/// So many samples it is, where one message is many.
fn packed(message: &Message) -> usize {
    if let Message::Packed(rows) = message { rows.count() } else { 0 }
}

/// Whether the counts of a recording are right without it.
fn may_be_lost(message: &Message) -> bool {
    match message {
        Message::Event(_, event) => !matches!(
            event.kind,
            EventKind::RecordingOverflowed { .. }
                | EventKind::ScheduleOverrun { .. }
                | EventKind::SamplesInFlight { .. }
                | EventKind::ScheduleEnded { .. }
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
