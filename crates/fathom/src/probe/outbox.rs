//! From a probing thread to the recording thread: a ring that never makes the probing thread wait, and a queue behind it
//! for what a stall delivers at once.
//!
//! [`Outbox::sample`] and [`Outbox::other`] may be called at any time and keep the order of their calls.
//! [`Outbox::deliver_waiting`] must be called now and then (once a second will do), because nothing else moves the queue
//! on while nothing happens. `Message::Ended` is the last message; then [`Outbox::finish`] waits until everything has
//! been taken. An outbox that is dropped without it tells the recording thread that its probing thread failed.

use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind, LOST_BEHIND, note_of_lost_events};
use fathom_core::sample::Sample;
use fathom_os::clock::{mono_ns, utc_ns};
use jiff::Timestamp;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::time::Duration;

/// What the probing thread tells.
#[derive(Debug)]
pub(super) enum Message {
    /// A sample of a path is resolved.
    Sample(u32, Sample),
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
/// Samples that may wait behind the rings of a run, by their bytes: what a disk that stands still may cost.
const STANDSTILL_BYTES: usize = 64 << 20;
/// Messages that may wait of whatever kind and age, for each sample that may: a wall clock that is set back makes later
/// samples look like earlier ones, and a disk may stand still for hours.
const MESSAGES_A_SAMPLE: usize = 4;
/// Connections whose losses are counted each by itself.
const LOST_BY_CONNECTION: usize = 1 << 16;
/// Waiting messages that are passed on when another comes: a burst must not keep the next echo from its stamp.
const PASSED_ON_AT_ONCE: usize = 64;

/// The sending end.
///
/// What finds the ring full waits in a queue. Every event waits, and every sample that had been sent when the queue began:
/// it was in flight, so its row takes the place of what was kept of it. Of samples sent later [`STANDSTILL_BYTES`] wait;
/// further ones are counted as lost, by connection, and the count follows as soon as there is room. Of everything together four
/// times as many messages wait; beyond that samples are counted as lost too, and of events only counts and the end of the
/// schedule are kept.
pub(super) struct Outbox {
    ring: Producer<Message>,
    waiting: Queue,
    /// The wall clock when the queue began.
    waiting_since_ns: i64,
    /// Samples in the queue that were sent after it began, and how many those may be.
    later: usize,
    later_at_most: usize,
    /// Messages that may wait altogether.
    at_most: usize,
    events_lost: u64,
    lost: BTreeMap<(u32, Option<u32>), u64>,
    read_clock: fn() -> i64,
}

/// One of so many rings for a run of this many samples a second (`None`: as fast as it goes): four seconds of them, within
/// [`RING`].
pub(super) fn channel(samples_per_s: Option<f64>, of: usize) -> (Outbox, Consumer<Message>) {
    let wanted = samples_per_s.map_or(*RING.end(), |rate| (rate * 4.0) as usize) / of;
    let size = wanted.clamp(*RING.start(), *RING.end()).next_power_of_two();
    let samples = STANDSTILL_BYTES / size_of::<Message>() / of;
    channel_of(size, samples, samples * MESSAGES_A_SAMPLE, utc_ns)
}

fn channel_of(
    size: usize,
    later_at_most: usize,
    at_most: usize,
    read_clock: fn() -> i64,
) -> (Outbox, Consumer<Message>) {
    let (ring, consumer) = RingBuffer::new(size);
    let (waiting, lost) = (Queue::default(), BTreeMap::new());
    let outbox = Outbox {
        ring,
        waiting,
        waiting_since_ns: 0,
        later: 0,
        later_at_most,
        at_most,
        events_lost: 0,
        lost,
        read_clock,
    };
    (outbox, consumer)
}

impl Outbox {
    pub(super) fn sample(&mut self, path: u32, sample: Sample) {
        let message = Message::Sample(path, sample);
        if self.waiting.is_empty() {
            match self.ring.push(message) {
                Ok(()) => {}
                Err(PushError::Full(message)) => self.begin_queue(message),
            }
            return;
        }
        // Order matters to the reader: a sample does not overtake the event that opened its connection.
        let full = self.waiting.len >= self.at_most;
        if full || (self.is_later(&message) && self.later >= self.later_at_most) {
            self.lose(path, sample.connection);
        } else {
            self.queue(message);
        }
        self.pass_on(PASSED_ON_AT_ONCE);
    }

    pub(super) fn other(&mut self, message: Message) {
        if matches!(message, Message::Ended) {
            self.tell_lost();
        }
        if self.waiting.is_empty() {
            if let Err(PushError::Full(message)) = self.ring.push(message) {
                self.begin_queue(message);
            }
        } else {
            if self.waiting.len >= self.at_most && may_be_lost(&message) {
                self.events_lost += 1;
            } else {
                self.queue(message);
            }
            self.pass_on(PASSED_ON_AT_ONCE);
        }
    }

    /// Passes on what waits, as far as there is room; true when nothing waits any more.
    pub(super) fn deliver_waiting(&mut self) -> bool {
        self.pass_on(usize::MAX)
    }

    /// Says that this was the last, and waits until everything has been passed on. Where nobody takes messages any more,
    /// there is nothing to wait for.
    pub(super) fn finish(mut self) {
        self.other(Message::Ended);
        while !self.deliver_waiting() && !self.ring.is_abandoned() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn begin_queue(&mut self, first: Message) {
        self.waiting_since_ns = (self.read_clock)();
        self.queue(first);
    }

    fn queue(&mut self, message: Message) {
        self.later += usize::from(self.is_later(&message));
        self.waiting.push(message);
    }

    /// Whether it is a sample that was sent after the queue began.
    fn is_later(&self, message: &Message) -> bool {
        matches!(message, Message::Sample(_, sample) if sample.sent_ns > self.waiting_since_ns)
    }

    fn lose(&mut self, path: u32, connection: u32) {
        let each = self.lost.len() < LOST_BY_CONNECTION || self.lost.contains_key(&(path, Some(connection)));
        *self.lost.entry((path, each.then_some(connection))).or_default() += 1;
    }

    fn pass_on(&mut self, at_most: usize) -> bool {
        for _ in 0..at_most {
            let Some(message) = self.waiting.pop() else {
                if self.lost.is_empty() && self.events_lost == 0 {
                    return true;
                }
                // There is room again: now the losses are told.
                self.tell_lost();
                continue;
            };
            let later = self.is_later(&message);
            if let Err(PushError::Full(message)) = self.ring.push(message) {
                self.waiting.put_back(message);
                return false;
            }
            self.later -= usize::from(later);
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

/// Whether the counts of a recording are right without it.
fn may_be_lost(message: &Message) -> bool {
    match message {
        Message::Event(_, event) => !matches!(
            event.kind,
            EventKind::RecordingOverflowed { .. }
                | EventKind::ScheduleOverrun { .. }
                | EventKind::ScheduleEnded { .. }
        ),
        _ => false,
    }
}

/// Messages in order, in blocks: one long buffer would be copied whole when it grows, for tens of ms in which no echo gets its
/// stamp, and would keep its memory.
#[derive(Debug, Default)]
struct Queue {
    /// None of them is empty.
    blocks: VecDeque<VecDeque<Message>>,
    len: usize,
}

impl Queue {
    const BLOCK: usize = 512;

    fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn push(&mut self, message: Message) {
        self.len += 1;
        match self.blocks.back_mut() {
            Some(block) if block.len() < Self::BLOCK => block.push_back(message),
            _ => {
                let mut block = VecDeque::with_capacity(Self::BLOCK);
                block.push_back(message);
                self.blocks.push_back(block);
            }
        }
    }

    fn pop(&mut self) -> Option<Message> {
        let block = self.blocks.front_mut()?;
        let message = block.pop_front();
        self.len -= 1;
        if block.is_empty() {
            self.blocks.pop_front();
        }
        message
    }

    /// Takes back what [`Queue::pop`] gave.
    fn put_back(&mut self, message: Message) {
        self.len += 1;
        match self.blocks.front_mut() {
            Some(block) if block.len() < Self::BLOCK => block.push_front(message),
            _ => self.blocks.push_front(VecDeque::from([message])),
        }
    }
}

#[cfg(test)]
mod tests;
