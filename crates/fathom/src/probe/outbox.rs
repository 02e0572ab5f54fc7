//! From the probing thread to the recording thread: a ring that never makes the probing thread wait.

use fathom_core::clock::Anchor;
use fathom_core::event::Event;
use fathom_core::sample::Sample;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::collections::VecDeque;

/// What the probing thread tells.
#[derive(Debug)]
pub(super) enum Message {
    /// A sample of a path is resolved.
    Sample(u32, Sample),
    /// Something happened on a path, or (`None`) to the whole run.
    Event(Option<u32>, Box<Event>),
    /// The clocks were read; `stepped`: because the wall clock was set.
    Anchor { anchor: Anchor, stepped: bool },
    /// The last message.
    Ended,
}

/// The sending end. Samples that find the ring full are counted as lost; events wait, and are never lost.
pub(super) struct Outbox {
    ring: Producer<Message>,
    waiting: VecDeque<Message>,
    lost: u64,
}

/// One of so many rings for a run of this many samples a second: four seconds of them, for a disk that stands still,
/// within what a small machine can spare (`None`: as fast as it goes).
pub(super) fn channel(samples_per_s: Option<f64>, of: usize) -> (Outbox, Consumer<Message>) {
    let wanted = samples_per_s.map_or(1 << 19, |rate| (rate * 4.0) as usize) / of;
    let (ring, consumer) = RingBuffer::new(wanted.next_power_of_two().clamp(512, 1 << 19));
    (Outbox { ring, waiting: VecDeque::new(), lost: 0 }, consumer)
}

impl Outbox {
    pub(super) fn sample(&mut self, path: u32, sample: Sample) {
        // Order matters to the reader: a sample does not overtake the event that opened its connection.
        self.deliver_waiting();
        if !self.waiting.is_empty() || self.ring.push(Message::Sample(path, sample)).is_err() {
            self.lost += 1;
        }
    }

    pub(super) fn other(&mut self, message: Message) {
        self.deliver_waiting();
        if self.waiting.is_empty() {
            if let Err(PushError::Full(message)) = self.ring.push(message) {
                self.waiting.push_back(message);
            }
        } else {
            self.waiting.push_back(message);
        }
    }

    /// Passes on what waited; true when nothing waits any more.
    pub(super) fn deliver_waiting(&mut self) -> bool {
        while let Some(message) = self.waiting.pop_front() {
            if let Err(PushError::Full(message)) = self.ring.push(message) {
                self.waiting.push_front(message);
                return false;
            }
        }
        true
    }

    /// Samples lost since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_core::event::EventKind;

    #[test]
    fn a_full_ring_loses_samples_with_a_count_and_events_never() {
        let (mut outbox, mut ring) = channel(Some(1.0), 1);
        for _ in 0..600 {
            outbox.sample(0, Sample::default());
        }
        let kind = EventKind::Note { text: "kept".into() };
        let event = Event { at: jiff::Timestamp::UNIX_EPOCH, mono_ns: 0, connection: None, kind };
        outbox.other(Message::Event(None, Box::new(event)));
        assert_eq!(outbox.take_lost(), 88);
        let mut samples = 0;
        while let Ok(Message::Sample(..)) = ring.pop() {
            samples += 1;
        }
        assert_eq!(samples, 512);
        assert!(outbox.deliver_waiting());
        assert!(matches!(ring.pop(), Ok(Message::Event(..))));
    }
}
