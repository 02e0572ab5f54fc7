//! Traffic in one direction, and a middlebox that counts only some of it.

use super::{Event, Fault, Flow, Kind, MS, Net};
use fathom_wire::OneWay;
use fathom_wire::one_way::SEGMENT;

/// Which packets keep a flow from being idle at the middlebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Counts {
    /// All.
    #[default]
    All,
    /// Those with data from the searching host.
    FromHere,
    /// Those with data from the reflector.
    FromThere,
}

impl Counts {
    fn moved(self, not: Self, before_ns: u64, now_ns: u64) -> u64 {
        if self == not { before_ns } else { now_ns }
    }

    /// When something last counted, where data from here passes now.
    pub(super) fn here(self, before_ns: u64, now_ns: u64) -> u64 {
        self.moved(Self::FromThere, before_ns, now_ns)
    }

    pub(super) fn there(self, before_ns: u64, now_ns: u64) -> u64 {
        self.moved(Self::FromHere, before_ns, now_ns)
    }

    /// An acknowledgement without data.
    pub(super) fn ack(self, before_ns: u64, now_ns: u64) -> u64 {
        if self == Self::All { now_ns } else { before_ns }
    }
}

impl Net<'_> {
    /// What a write does: frames that ask for no echo, and what follows them.
    pub(super) fn sent(&mut self, now: u64, id: u32, mut bytes: Vec<u8>) {
        while !self.world.plain
            && let Some(frame) = bytes.first_chunk().and_then(OneWay::decode)
        {
            bytes.drain(..frame.length() as usize);
            self.say(now, id, frame);
        }
        if !bytes.is_empty() {
            self.send(now, id, bytes);
        }
    }

    fn say(&mut self, now: u64, id: u32, frame: OneWay) {
        let (quarter, rto) = (self.world.rtt_ns / 4, self.rto());
        let Some(&(mut flow)) = self.flows.get(&id) else { return };
        for attempt in 0..12_u32 {
            let sent = now + rto * ((1 << attempt) - 1);
            let (at_box, at_peer) = (sent + quarter, sent + 2 * quarter);
            if self.is_lost(sent) {
                continue;
            }
            if self.is_expired(flow, at_box) {
                flow.gone = true;
                self.flows.insert(id, flow);
                if self.world.kind == Kind::ResetOnPacket && !self.is_lost(at_box) {
                    return self.at(at_box + quarter, id, Event::Reset);
                }
                continue;
            }
            let restarted = |f: &Fault| if let Fault::Restart(at, _) = f { Some(*at) } else { None };
            if self.was(flow.began_ns, at_peer, restarted) {
                return self.at(at_peer + 2 * quarter, id, Event::Reset);
            }
            flow.passed_ns = self.world.counts.here(flow.passed_ns, at_box);
            flow.passed_ns = self.world.counts.ack(flow.passed_ns, at_peer + quarter);
            self.passed(id, flow);
            for n in 1..=u64::from(if self.world.mute { 0 } else { frame.segments }) {
                self.at(at_peer + n * u64::from(frame.every_ms) * MS, id, Event::Segment(flow.asked));
            }
            return;
        }
    }

    /// The reflector sends a segment, unless it has been asked something meanwhile.
    pub(super) fn segment(&mut self, now: u64, id: u32, asked: u32) {
        let (quarter, rto) = (self.world.rtt_ns / 4, self.rto());
        let Some(&(mut flow)) = self.flows.get(&id).filter(|flow| flow.asked == asked) else { return };
        for attempt in 0..6_u32 {
            let sent = now + rto * ((1 << attempt) - 1);
            if self.is_lost(sent) {
                continue;
            }
            if self.is_expired(flow, sent + quarter) {
                return;
            }
            let came = sent + 2 * quarter;
            flow.passed_ns = self.world.counts.there(flow.passed_ns, sent + quarter);
            flow.passed_ns = self.world.counts.ack(flow.passed_ns, came + quarter);
            flow.came_ns = came;
            self.passed(id, flow);
            return self.at(came, id, Event::Bytes(vec![SEGMENT]));
        }
    }

    fn passed(&mut self, id: u32, flow: Flow) {
        self.flows.insert(id, flow);
        if let Some(limit) = flow.limit_ns {
            self.at(flow.passed_ns + limit, id, Event::Expiry(flow.passed_ns));
        }
    }
}
