//! What the reflector remembers of connections, for the probe that asks "what did you last receive on it, and when".
//!
//! An open TCP connection is found by its slot and looked at when somebody asks, so that it costs nothing per message.
//! Of those that ended, and of UDP's, which have no end, the last thousands are kept.
//!
//! What somebody saw pass and sends again, be it with the code of a key, must not speak for the one that sent it first: a
//! name stays with the connection that had it first, and a datagram that was there already is no sign of life. (A count of
//! frames has it in it all the same: so has one that the network doubled, and the probe knows how to read that.)

use crate::clock::{Clock, ms};
use crate::connection::Connection;
use crate::notices::Notices;
use fathom_os::clock::{mono_ns, utc_ns};
use fathom_wire::{About, Answer, Failure, Introduction, Key, Question, Reply, Standing};
use std::collections::HashMap;
use std::hash::Hash;

/// Entries in a generation: forged senders cannot take more than about 1 MB here.
const GENERATION: usize = 8_192;

/// What was heard of lately: two generations, so that the table is bounded and what keeps coming is never forgotten.
#[derive(Debug)]
pub(crate) struct Lately<K, V> {
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
    pub(crate) fn entry(&mut self, key: K) -> &mut V {
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

/// What is said of a connection that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ended {
    pub(crate) last: Answer,
    /// When bytes were last read from it, by the monotonic clock.
    pub(crate) received_ns: u64,
    pub(crate) port: Option<u16>,
    pub(crate) failure: Failure,
}

/// What was heard of a connection that sends datagrams.
#[derive(Debug, Default)]
struct Datagrams {
    last: Answer,
    /// Bit n: the frame n before the latest was there.
    there: u64,
}

impl Datagrams {
    /// Whether this frame comes for the first time. One that is too old to tell does not.
    fn is_new(&mut self, sequence: u64) -> bool {
        let Some(ahead) = sequence.checked_sub(self.last.last_seq).filter(|&n| n > 0 || self.there == 0)
        else {
            let behind = 1_u64.checked_shl((self.last.last_seq - sequence).try_into().unwrap_or(u32::MAX));
            let new = behind.is_some_and(|bit| self.there & bit == 0);
            self.there |= behind.unwrap_or(0);
            return new;
        };
        self.there = self.there.checked_shl(ahead.try_into().unwrap_or(u32::MAX)).unwrap_or(0) | 1;
        true
    }
}

/// The open connections, but for the one that has its turn, if one has: it is changed meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Others<'a> {
    before: &'a [Option<Connection>],
    after: &'a [Option<Connection>],
}

impl<'a> Others<'a> {
    /// All of them.
    pub(crate) fn all(slots: &'a [Option<Connection>]) -> Self {
        Self { before: slots, after: &[] }
    }

    /// The connection of a slot, and the others. In its place, since a move out of it and back takes time from a message that
    /// is under way.
    pub(crate) fn than(
        slot: usize,
        slots: &'a mut [Option<Connection>],
    ) -> Option<(&'a mut Connection, Self)> {
        let (before, rest) = slots.split_at_mut_checked(slot)?;
        let (own, after) = rest.split_first_mut()?;
        Some((own.as_mut()?, Self { before, after }))
    }

    /// What is in a slot.
    fn at(&self, slot: u32) -> Option<&'a Connection> {
        let slot = slot as usize;
        let after = || self.after.get(slot.checked_sub(self.before.len() + 1)?);
        self.before.get(slot).or_else(after)?.as_ref()
    }
}

/// The connections that are remembered.
#[derive(Debug)]
pub(crate) struct Flows {
    /// Slots of open TCP connections that carry frames; there are no more than connections.
    open: HashMap<Key, u32>,
    ended: Lately<Key, Ended>,
    datagrams: Lately<Key, Datagrams>,
    began_utc_ns: i64,
    /// Maintenance that the cloud announced to this host.
    notices: Notices,
}

impl Flows {
    pub(crate) fn new(notices: Notices) -> Self {
        Self {
            open: HashMap::new(),
            ended: Lately::default(),
            datagrams: Lately::default(),
            began_utc_ns: utc_ns(),
            notices,
        }
    }

    /// A connection has shown whose it is. It is remembered by that name where no other has or had it.
    pub(crate) fn opened(&mut self, key: Key, slot: u32) {
        if self.ended.get(&key).is_none() && self.datagrams.get(&key).is_none() {
            self.open.entry(key).or_insert(slot);
        }
    }

    /// The connection of this slot ended; this is what is to be said of it from now on.
    pub(crate) fn ended(&mut self, key: Key, slot: u32, last: Ended) {
        // Another connection may have called itself the same.
        if self.open.get(&key) == Some(&slot) {
            self.open.remove(&key);
            *self.ended.entry(key) = last;
        }
    }

    /// A datagram's frame came; how many came before it on its connection.
    pub(crate) fn datagram(&mut self, key: Key, sequence: u64, received_ns: i64) -> u32 {
        let seen = self.datagrams.entry(key);
        let is_new = seen.is_new(sequence);
        let before = seen.last;
        seen.last = Answer {
            standing: Standing::Open,
            // Datagrams may overtake each other.
            last_seq: before.last_seq.max(sequence),
            received_ns: if is_new { received_ns } else { before.received_ns },
            frames: before.frames.wrapping_add(1),
            unsent: 0,
            unacked: None,
        };
        before.frames
    }

    /// What to say. `None`: nothing, because a connection asks about itself, which it shows by its echoes.
    pub(crate) fn reply(&self, question: &Question, others: &Others<'_>, clock: &Clock) -> Option<Reply> {
        let key = Key { session: question.session, connection: question.connection };
        // The connection that has its turn, and so asks, is not among them.
        let open = self.open.get(&key).map(|&slot| others.at(slot));
        let ended = self.ended.get(&key);
        let silence = question.silence();
        if question.about == About::Notices {
            return Some(Reply::Notice(self.notices.told(silence)));
        }
        if question.about == About::Reflector {
            return Some(Reply::Reflector(match (open.flatten(), ended) {
                (Some(open), _) => open.introduced(clock, silence),
                (None, Some(&Ended { received_ns, port, failure, .. })) => {
                    let received_ago_ms = Some(ms(mono_ns().saturating_sub(received_ns)));
                    Introduction { port, failure, received_ago_ms, ..clock.introduction(silence) }
                }
                (None, None) => {
                    let received = self.datagrams.get(&key).map(|datagrams| datagrams.last.received_ns);
                    let ago = |received| clock.utc_of(mono_ns()).saturating_sub(received).max(0) as u64;
                    let received_ago_ms = received.map(|received| ms(ago(received)));
                    Introduction { received_ago_ms, ..clock.introduction(silence) }
                }
            }));
        }
        if let Some(open) = open {
            return open.map(|open| Reply::Connection(open.seen(Standing::Open, clock)));
        }
        let remembered = ended.map(|ended| ended.last);
        let remembered = remembered.or_else(|| self.datagrams.get(&key).map(|datagrams| datagrams.last));
        let unknown = Answer { received_ns: self.began_utc_ns, ..Answer::default() };
        Some(Reply::Connection(remembered.unwrap_or(unknown)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(connection: u32) -> Key {
        Key { session: 5, connection }
    }

    fn ask(flows: &Flows, connection: u32) -> Answer {
        match reply(flows, connection, About::Connection) {
            Some(Reply::Connection(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn reply(flows: &Flows, connection: u32, about: About) -> Option<Reply> {
        let question = Question { session: 5, connection, number: 0, about };
        flows.reply(&question, &Others::all(&[]), &Clock::new(7))
    }

    #[test]
    fn reflector_identity_needs_no_known_connection() {
        let mut flows = Flows::new(Notices::default());
        let introduction = |flows: &Flows| match reply(flows, 0, About::Reflector) {
            Some(Reply::Reflector(introduction)) => introduction,
            other => panic!("{other:?}"),
        };
        let stranger = introduction(&flows);
        assert_eq!((stranger.port, stranger.failure), (None, Failure::NotTold));
        assert_ne!(stranger.identity, 0);
        flows.opened(key(0), 3);
        flows.ended(key(0), 3, Ended { port: Some(9), failure: Failure::Aborted, ..Ended::default() });
        let known = introduction(&flows);
        assert_eq!((known.port, known.failure), (Some(9), Failure::Aborted));
    }

    #[test]
    fn flood_is_bounded_and_keeps_recurring_keys() {
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
    fn ended_connection_is_known_until_evicted() {
        let mut flows = Flows::new(Notices::default());
        assert_eq!(ask(&flows, 0).standing, Standing::NotKnown);
        assert_eq!(ask(&flows, 0).received_ns, flows.began_utc_ns);
        let answer = Answer { standing: Standing::Failed, last_seq: 41, ..Answer::default() };
        let last = Ended { last: answer, ..Ended::default() };
        flows.opened(key(0), 3);
        flows.ended(key(0), 3, last);
        assert_eq!(ask(&flows, 0), answer);
        assert!(flows.open.is_empty());
        for connection in 1..=3 * GENERATION as u32 {
            flows.opened(key(connection), 3);
            flows.ended(key(connection), 3, last);
        }
        assert_eq!(ask(&flows, 0).standing, Standing::NotKnown);
    }

    /// Somebody who saw its first frame pass and sent it again on a connection of his own took its place: the reflector then
    /// told the probe of that one.
    #[test]
    fn connection_key_stays_with_first_owner() {
        let mut flows = Flows::new(Notices::default());
        let told = |last_seq| Ended { last: Answer { last_seq, ..Answer::default() }, ..Ended::default() };
        flows.opened(key(0), 3);
        flows.opened(key(0), 4);
        assert_eq!(flows.open.get(&key(0)), Some(&3));
        flows.ended(key(0), 4, told(4));
        assert_eq!(flows.open.get(&key(0)), Some(&3));
        flows.ended(key(0), 3, told(3));
        assert_eq!(ask(&flows, 0).last_seq, 3);
        // It is over, and still nobody else's.
        flows.opened(key(0), 5);
        flows.ended(key(0), 5, told(5));
        assert_eq!(ask(&flows, 0).last_seq, 3);
        flows.datagram(key(1), 6, 10);
        flows.opened(key(1), 5);
        assert_eq!(ask(&flows, 1).last_seq, 6);
    }

    /// It made a way there look whole on which nothing had come for long.
    #[test]
    fn repeated_datagram_keeps_last_receive_time() {
        let mut flows = Flows::new(Notices::default());
        for (sequence, at, received_ns) in [
            (5, 10, 10),
            (5, 20, 10),
            (7, 30, 30),
            (6, 40, 40),
            (6, 50, 40),
            (5, 60, 40),
            // The number of the first that came is no bound; 64 before the latest is.
            (4, 70, 70),
            (71, 80, 80),
            (7, 90, 80),
            (8, 100, 100),
            (8, 110, 100),
            (300, 120, 120),
            (u64::MAX, 130, 130),
            (0, 140, 130),
        ] {
            flows.datagram(key(7), sequence, at);
            assert_eq!(ask(&flows, 7).received_ns, received_ns, "{sequence} at {at}");
        }
        assert_eq!(ask(&flows, 7).frames, 14);
    }

    #[test]
    fn datagrams_out_of_order_leave_the_latest_number() {
        let mut flows = Flows::new(Notices::default());
        for (sequence, at) in [(0, 10), (2, 20), (1, 30)] {
            flows.datagram(key(7), sequence, at);
        }
        let answer = ask(&flows, 7);
        assert_eq!((answer.last_seq, answer.frames, answer.received_ns), (2, 3, 30));
    }
}
