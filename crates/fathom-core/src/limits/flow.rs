//! One connection: what is sent on it and what came back.

use super::plan::S;
use fathom_wire::one_way::SEGMENT;
use fathom_wire::{Checker, HEADER_LEN, Integrity, Key, OneWay, Secret};

/// How long a connection and its first echo may take: three SYNs that are sent again (after 1, 3 and 7 s).
pub(super) const OPENED_WITHIN_NS: u64 = 8 * S;
/// A request that is lost is sent again so many times within the shortest patience (after 0.2, 0.6, 1.4 and 3 s).
pub(super) const SHORTEST_PATIENCE_NS: u64 = 7 * S / 2;
/// After a long outage, whose deaths do not count, no longer than this is waited for.
pub(super) const LONGEST_PATIENCE_NS: u64 = 15 * S;
/// A silence of so many retransmission timeouts is held against a fresh connection.
const DOUBTED_AFTER: u64 = 2;
/// What is assumed where the kernel does not tell (RFC 6298, 2.1).
pub(super) const RTO_NS: u64 = S;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It is idle for the length of this cohort.
    Test(usize),
    /// It waits to be of a cohort; of which reserve it is.
    Reserve(usize),
    /// It is never idle.
    Control,
    /// It shows whether a connection that begins now works.
    Fresh,
    /// It asks the reflector about those that died.
    Report,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    /// Its first request is on the way.
    Hello,
    Idle,
    /// The kernel is being asked about it.
    Looking,
    Asked(Asked),
    /// It has been judged, and is kept until the reflector has been asked about it.
    Dead,
}

/// A request that waits for its echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) at_ns: u64,
    pub(super) rto_ns: u64,
    /// The connection had been idle for so long by this host's clock, and for so long at the least.
    pub(super) idle_ns: u64,
    pub(super) least_ns: u64,
    /// When a fresh connection was first answered after that.
    pub(super) fresh_ns: Option<u64>,
    /// Its silence has lasted for too long: the kernel is being asked whether the request was acknowledged.
    pub(super) looked: bool,
}

impl Asked {
    pub(super) fn new(at_ns: u64, rto_ns: Option<u64>) -> Self {
        let rto_ns = rto_ns.unwrap_or(RTO_NS);
        Self { at_ns, rto_ns, idle_ns: 0, least_ns: 0, fresh_ns: None, looked: false }
    }

    pub(super) fn after(self, idle_ns: u64, least_ns: u64) -> Self {
        Self { idle_ns, least_ns, ..self }
    }

    /// From when on a fresh connection is needed to tell its silence from an outage.
    pub(super) fn doubted_ns(&self) -> u64 {
        self.at_ns + DOUBTED_AFTER * self.rto_ns
    }

    /// When its silence is a death: once the path is known to work, it has been sent again twice at least, because the
    /// time between two attempts doubles.
    pub(super) fn dead_ns(&self) -> Option<u64> {
        let worked_after = self.fresh_ns? - self.at_ns;
        let sent_twice_ns = 4 * (worked_after + self.rto_ns);
        Some(self.at_ns + SHORTEST_PATIENCE_NS.max(sent_twice_ns.min(worked_after + LONGEST_PATIENCE_NS)))
    }
}

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Part,
    Echo,
    /// What was not asked for, or not what was sent.
    Foreign,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) role: Role,
    pub(super) stage: Stage,
    /// When the present stage began.
    pub(super) since_ns: u64,
    /// When its first request was sent.
    pub(super) first_ns: u64,
    /// How long its first echo took.
    pub(super) took_ns: u64,
    key: Key,
    /// How often its opening failed before.
    pub(super) tries: u32,
    /// Requests sent, and echoes that came.
    sent: u64,
    came: u64,
    /// When a segment was last sent that asks for no answer.
    pub(super) spoke_ns: Option<u64>,
    /// Segments that the reflector was asked for, and those that came.
    pub(super) segments: u32,
    pub(super) heard: u32,
    checker: Checker,
}

impl Flow {
    pub(super) fn new(role: Role, session: u32, id: u32, now: u64) -> Self {
        let key = Key { session, connection: id };
        let checker = Checker::default();
        Self {
            role,
            stage: Stage::Opening,
            since_ns: now,
            first_ns: now,
            took_ns: 0,
            key,
            tries: 0,
            sent: 0,
            came: 0,
            spoke_ns: None,
            segments: 0,
            heard: 0,
            checker,
        }
    }

    pub(super) fn enter(&mut self, stage: Stage, now: u64) {
        self.stage = stage;
        self.since_ns = now;
    }

    /// The next request.
    pub(super) fn request(&mut self, secret: Option<&Secret>) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        self.key.fill_sealed(secret, self.sent, HEADER_LEN as u32, 0, &mut bytes);
        self.sent += 1;
        bytes
    }

    /// The ordinal of the latest request.
    pub(super) fn latest(&self) -> u64 {
        self.sent.saturating_sub(1)
    }

    /// A frame that asks for no echo, but for so many segments, so far apart.
    pub(super) fn one_way(&mut self, segments: u32, every_ms: u32, secret: Option<&Secret>) -> Vec<u8> {
        self.segments += segments;
        let Key { session, connection } = self.key;
        OneWay { session, connection, segments, every_ms }.encode(secret)
    }

    pub(super) fn receive(&mut self, mut bytes: &[u8]) -> Came {
        let mut came = Came::Part;
        while !bytes.is_empty() {
            if bytes[0] == SEGMENT && self.checker.position() == 0 && self.heard < self.segments {
                self.heard += 1;
                bytes = &bytes[1..];
                continue;
            }
            if self.came == self.sent {
                return Came::Foreign;
            }
            let (taken, whole) = self.checker.feed(self.key, self.came, HEADER_LEN as u32, bytes);
            bytes = &bytes[taken..];
            match whole {
                Some(Integrity::Intact(_)) => came = Came::Echo,
                Some(Integrity::Corrupted) => return Came::Foreign,
                None if !self.checker.is_intact() => return Came::Foreign,
                None => continue,
            }
            self.came += 1;
        }
        came
    }
}
