//! What the reflector remembers of connections, for the probe that asks "what did you last receive on it, and when".
//!
//! An open TCP connection is found by its slot and looked at when somebody asks, so that it costs nothing per message.
//! Of those that ended, and of UDP's, which have no end, the last thousands are kept.

use super::connection::Connection;
use fathom_os::clock::utc_ns;
use fathom_wire::{Answer, Key, Question, Standing};
use std::collections::HashMap;
use std::hash::Hash;

/// Entries in a generation: forged senders cannot take more than about 1 MB here.
const GENERATION: usize = 8_192;

/// What was heard of lately: two generations, so that the table is bounded and what keeps coming is never forgotten.
#[derive(Debug)]
pub(super) struct Lately<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Lately<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash, V: Default> Lately<K, V> {
    /// The entry of this key, made where there is none.
    pub(super) fn entry(&mut self, key: K) -> &mut V {
        if self.young.len() >= GENERATION && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        let old = &mut self.old;
        let before = old.remove(&key);
        self.young.entry(key).or_insert_with(|| before.unwrap_or_default())
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }
}

/// The connections that are remembered.
#[derive(Debug)]
pub(super) struct Flows {
    /// Slots of open TCP connections that carry frames; there are no more than connections.
    open: HashMap<Key, u32>,
    ended: Lately<Key, Answer>,
    datagrams: Lately<Key, Answer>,
    began_utc_ns: i64,
}

impl Flows {
    pub(super) fn new() -> Self {
        Self {
            open: HashMap::new(),
            ended: Lately::default(),
            datagrams: Lately::default(),
            began_utc_ns: utc_ns(),
        }
    }

    /// A connection has shown whose it is.
    pub(super) fn opened(&mut self, key: Key, slot: u32) {
        self.open.insert(key, slot);
    }

    /// The connection of this slot ended; this is what is to be said of it from now on.
    pub(super) fn ended(&mut self, key: Key, slot: u32, last: Answer) {
        // Another connection may have called itself the same meanwhile.
        if self.open.get(&key) == Some(&slot) {
            self.open.remove(&key);
        }
        *self.ended.entry(key) = last;
    }

    /// A datagram's frame came; how many came before it on its connection.
    pub(super) fn datagram(&mut self, key: Key, sequence: u64, received_ns: i64) -> u32 {
        let seen = self.datagrams.entry(key);
        let before = seen.frames;
        *seen = Answer {
            standing: Standing::Open,
            // Datagrams may overtake each other.
            last_seq: seen.last_seq.max(sequence),
            received_ns,
            frames: seen.frames.wrapping_add(1),
            unsent: 0,
            unacked: None,
        };
        before
    }

    /// What to say. `None`: nothing, because a connection asks about itself, which it shows by its echoes.
    pub(super) fn answer(
        &self,
        question: &Question,
        slots: &[Option<Connection>],
        look: impl FnOnce(&Connection) -> Answer,
    ) -> Option<Answer> {
        let key = Key { session: question.session, connection: question.connection };
        if let Some(&slot) = self.open.get(&key) {
            // The slot of the connection that has its turn, and so asks, is empty meanwhile.
            return slots[slot as usize].as_ref().map(look);
        }
        let remembered = self.ended.get(&key).or_else(|| self.datagrams.get(&key));
        let unknown = Answer { received_ns: self.began_utc_ns, ..Answer::default() };
        Some(remembered.copied().unwrap_or(unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(connection: u32) -> Key {
        Key { session: 5, connection }
    }

    fn ask(flows: &Flows, connection: u32) -> Answer {
        let question = Question { session: 5, connection, number: 0 };
        flows.answer(&question, &[], |_| unreachable!("none is open")).expect("an answer")
    }

    #[test]
    fn a_flood_is_bounded_and_forgets_nothing_that_keeps_coming() {
        let mut lately = Lately::<u32, u32>::default();
        for n in 1..100_000 {
            *lately.entry(n) += 1;
            if n % 1_000 == 0 {
                *lately.entry(0) += 1;
            }
            assert!(lately.young.len() + lately.old.len() <= 2 * GENERATION);
        }
        assert_eq!(*lately.entry(0), 99);
    }

    #[test]
    fn what_ended_is_told_until_it_is_forgotten_and_then_that_it_is_not_known() {
        let mut flows = Flows::new();
        assert_eq!(ask(&flows, 0).standing, Standing::NotKnown);
        assert_eq!(ask(&flows, 0).received_ns, flows.began_utc_ns);
        let last = Answer { standing: Standing::Failed, last_seq: 41, ..Answer::default() };
        flows.opened(key(0), 3);
        flows.ended(key(0), 3, last);
        assert_eq!(ask(&flows, 0), last);
        assert!(flows.open.is_empty());
        for connection in 1..=3 * GENERATION as u32 {
            flows.ended(key(connection), 3, last);
        }
        assert_eq!(ask(&flows, 0).standing, Standing::NotKnown);
    }

    #[test]
    fn a_connection_that_took_anothers_name_keeps_it() {
        let mut flows = Flows::new();
        flows.opened(key(0), 3);
        flows.opened(key(0), 4);
        flows.ended(key(0), 3, Answer::default());
        assert_eq!(flows.open.get(&key(0)), Some(&4));
    }

    #[test]
    fn datagrams_out_of_order_leave_the_latest_number() {
        let mut flows = Flows::new();
        for (sequence, at) in [(0, 10), (2, 20), (1, 30)] {
            flows.datagram(key(7), sequence, at);
        }
        let answer = ask(&flows, 7);
        assert_eq!((answer.last_seq, answer.frames, answer.received_ns), (2, 3, 30));
    }
}
