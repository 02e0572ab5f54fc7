//! What the reflector said of connections, brought to the silences and deaths that it explains.

use super::driver::Driver;
use super::lane::{Link, Open};
use super::opinion::Opinions;
use fathom_core::clock::ClockMap;
use fathom_core::event::EventKind;
use fathom_core::verdict::{Facts, Heard, explain};
use fathom_core::word::Word;
use std::net::SocketAddr;

/// Deaths remembered until the reflector can be asked about them.
const REMEMBERED: usize = 256;
/// Fresh connections tried to ask about them, each time that a connection opens.
const LATE_TIMES: u32 = 3;

/// What this end knows of a connection when the reflector is asked about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground {
    first_missing: u64,
    sent: u64,
    opened_there_ns: Option<i64>,
}

impl Ground {
    pub(super) fn of(open: &Open, clock: &ClockMap) -> Self {
        let opened_utc_ns = clock.utc_of(open.opened_ns);
        Self {
            first_missing: open.stream.last_answered_seq().map_or(0, |seq| seq + 1),
            sent: open.stream.next_seq(),
            opened_there_ns: open.usual_delays_ns.map(|(forward, _)| opened_utc_ns + forward),
        }
    }

    fn heard(self, word: Word) -> Heard {
        let Self { first_missing, sent, opened_there_ns } = self;
        Heard { word, first_missing, sent, opened_there_ns }
    }
}

/// A death whose explanation waits for the second opinion, or for the reflector's word.
pub(super) struct Waiting {
    pub(super) connection: u32,
    pub(super) facts: Facts,
    pub(super) ground: Ground,
    pub(super) died_ns: u64,
    /// Whether the question about it came back, answered or not.
    pub(super) replied: bool,
}

impl Opinions {
    /// Keeps a death until the reflector can be asked about it.
    pub(super) fn hear_later(&mut self, death: Waiting) {
        if self.unheard.len() == REMEMBERED {
            self.unheard.pop_front();
        }
        self.unheard.push_back(death);
    }
}

impl Driver<'_> {
    /// A question came back, with the reflector's word in it or, from a server that is none of ours, without.
    pub(super) fn heard(&mut self, p: usize, connection: u32, word: Option<Word>, now: u64) {
        let opinions = &mut self.paths[p].opinions;
        if let Some(death) = opinions.waiting.iter_mut().find(|death| death.connection == connection) {
            death.replied = true;
            death.facts.heard = word.map(|word| death.ground.heard(word)).or(death.facts.heard);
        } else if let Some(at) = opinions.unheard.iter().position(|death| death.connection == connection) {
            if let (Some(mut death), Some(word)) = (opinions.unheard.remove(at), word) {
                death.facts.heard = Some(death.ground.heard(word));
                self.explained(now, p, connection, "closing", &death.facts);
            }
        } else if let Some(word) = word {
            let opens = self.lanes.iter_mut().filter(|lane| lane.path == p).filter_map(|lane| lane.open());
            for open in opens.filter(|open| open.stream.key().connection == connection) {
                open.silence.heard = Some((Ground::of(open, &self.clock).heard(word), now));
            }
        }
    }

    /// A connection opened: the reflector can be asked about those that ended while it could not be reached.
    pub(super) fn connected_again(&mut self, p: usize, now: u64) {
        if !self.paths[p].opinions.unheard.is_empty() {
            self.paths[p].opinions.late_left = LATE_TIMES;
            self.ask_later(p, now);
        }
    }

    /// Tries another fresh connection for the sake of deaths that the reflector could not be asked about.
    pub(super) fn ask_later(&mut self, p: usize, now: u64) {
        let opinions = &mut self.paths[p].opinions;
        if opinions.late_left == 0 || opinions.unheard.is_empty() {
            opinions.late_left = 0;
            return;
        }
        let open = self.lanes.iter().position(|lane| lane.path == p && matches!(lane.link, Link::Open(_)));
        if let Some(remote) = open.and_then(|i| self.remote_of(i)) {
            self.paths[p].opinions.late_left -= 1;
            self.ask_opinion(p, remote, now);
        }
    }

    pub(super) fn explained(&mut self, now: u64, p: usize, connection: u32, about: &str, facts: &Facts) {
        let kind = EventKind::ConnectionExplained {
            about: about.to_owned(),
            explanation: explain(facts),
            fresh: facts.fresh,
            reflector: facts.heard.map(|heard| heard.word),
        };
        self.event(now, Some(p), Some(connection), kind);
    }

    /// The address a lane's connection leads to.
    pub(super) fn remote_of(&self, i: usize) -> Option<SocketAddr> {
        match &self.lanes[i].link {
            Link::Open(open) => open.socket.addresses().1.or(Some(open.remote)),
            _ => None,
        }
    }
}
