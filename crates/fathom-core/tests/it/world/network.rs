//! What the network brings: to the probe, and to the reflector, which answers.

use super::faults::of_tls;
use super::flow::{Flow, Stage};
use super::{LinkId, MS, START, World, toy};
use fathom_core::probe::{Input, NetError, Purpose, Request};
use fathom_wire::rfc8762::{ErrorEstimate, Reflection};
use fathom_wire::{About, Answer, ConnectionView, Introduction, Reply, Stamper, Standing};
use std::io::ErrorKind;

impl World {
    pub(super) fn next_packet(&self) -> Option<u64> {
        self.flows.values().filter_map(|flow| self.next_of(flow)).min()
    }

    fn next_of(&self, flow: &Flow) -> Option<u64> {
        flow.next_ns(self.silent_until, self.user_timeout_ns)
    }

    /// What is due of one link happens.
    pub(super) fn deliver(&mut self) {
        let now = self.now;
        let due = |flow: &Flow| self.next_of(flow).is_some_and(|at| at <= now);
        let Some((&link, _)) = self.flows.iter().find(|(_, flow)| due(flow)) else { return };
        let timeout = self.user_timeout_ns;
        let bad_tls = now < self.tls_bad_until;
        let ready_ns = now + 2 * self.one_way();
        let flow = self.flows.get_mut(&link).expect("it was found");
        let gave_up = flow.gave_up_connecting(now);
        if flow.unacked_since.is_some_and(|since| now >= since + timeout) {
            let error = NetError::of_kind(ErrorKind::TimedOut);
            return self.tell_end(link, Input::Broken { link, error });
        }
        match flow.stage {
            Stage::Connecting { refused, .. } if refused || gave_up => {
                let kind = if gave_up { ErrorKind::TimedOut } else { ErrorKind::ConnectionRefused };
                self.tell_end(link, Input::ConnectFailed { link, error: NetError::of_kind(kind) });
            }
            Stage::Connecting { .. } => {
                flow.opened(now);
                if flow.purpose == (Purpose::Sample { tls: true }) {
                    flow.stage = Stage::Securing { ready_ns, refused: bad_tls };
                }
                self.opened(link);
                self.obey();
            }
            Stage::Securing { refused: true, .. } => {
                self.tell_end(link, Input::ConnectFailed { link, error: of_tls() });
            }
            Stage::Securing { .. } => {
                flow.stage = Stage::Open;
                self.tell(Input::Secured { link });
            }
            Stage::Closing { .. } => self.tell_end(link, Input::Closed { link }),
            Stage::Open => {
                if flow.writable_at().is_some_and(|at| at <= now) {
                    (flow.blocked, flow.room_at) = (false, None);
                    return self.tell(Input::Writable { link });
                }
                let Some((_, back, bytes)) = flow.packets.pop_front() else { return };
                flow.free_ns = now + self.serial_ns;
                if back {
                    self.received(link, bytes);
                } else {
                    self.reflect(link, bytes);
                }
            }
        }
    }

    /// The probe's host does not run until then; the reflector's does, and answers what comes there.
    pub(super) fn reflect_until(&mut self, until: u64) {
        loop {
            let silent_until = self.silent_until;
            let arrives = |(&link, flow): (&LinkId, &Flow)| {
                let open = flow.stage == Stage::Open && !flow.forgotten;
                let place = flow.packets.iter().position(|(_, back, _)| !back).filter(|_| open)?;
                Some((flow.packets[place].0.max(silent_until).max(flow.free_ns), link, place))
            };
            let next = self.flows.iter().filter_map(arrives).min_by_key(|(at, ..)| *at);
            let Some((at, link, place)) = next.filter(|(at, ..)| *at <= until) else { return };
            self.now = self.now.max(at);
            let flow = self.flows.get_mut(&link).expect("it was found");
            flow.free_ns = self.now + self.serial_ns;
            let (_, _, bytes) = flow.packets.remove(place).expect("it was found");
            self.reflect(link, bytes);
        }
    }

    /// Bytes reach the reflector, which answers.
    fn reflect(&mut self, link: LinkId, bytes: Vec<u8>) {
        let now = self.now;
        let at = now + self.one_way();
        let udp = self.is_udp();
        let lost = udp && self.random.percent(self.lost_percent);
        let twice = udp && self.random.percent(self.doubled_percent);
        let flow = self.flows.get_mut(&link).expect("it was found");
        if !udp {
            flow.arrived(now, bytes.len());
        }
        let answer = self.answer(link, bytes);
        if lost || answer.is_empty() {
            return;
        }
        let cut = (!udp && self.random.percent(self.split_reads))
            .then(|| self.random.below(answer.len() as u64 + 1) as usize);
        let later = at + self.random.below(self.jitter_ns);
        let flow = self.flows.get_mut(&link).expect("it was found");
        let (first, rest) = answer.split_at(cut.unwrap_or(answer.len()));
        if twice {
            flow.put(later, true, answer.clone(), false);
        }
        for (at, part) in [(at, first), (later, rest)] {
            if !part.is_empty() {
                flow.put(at, true, part.to_vec(), !udp || self.doubled_percent == 0);
            }
        }
    }

    /// What the peer sends back.
    fn answer(&mut self, link: LinkId, mut bytes: Vec<u8>) -> Vec<u8> {
        let (udp, utc_ns) = (self.is_udp(), self.wall.utc(self.now));
        let flow = self.flows.get_mut(&link).expect("it was found");
        if self.is_toy {
            return toy::serve(&mut flow.kept, &bytes);
        }
        if let Request::Stamp(_) = self.settings.request {
            let sequence = Some(flow.answers);
            flow.answers += 1;
            let error = ErrorEstimate::of(None);
            let whole = Reflection { sequence, received_ns: utc_ns, sent_ns: utc_ns, error, ttl: 64 }
                .write(&mut bytes);
            assert!(whole, "{} bytes are no STAMP packet", bytes.len());
            return bytes;
        }
        // fathom-wire's `WAKING_NS`: what is read so soon after a pause may have waited for its end.
        let waited = self.peer_runs_ns > 0 && self.now < self.peer_runs_ns + 100 * MS;
        let mut view = ConnectionView { received_ns: utc_ns, sent_ns: utc_ns, ..ConnectionView::default() };
        if self.peer_tells {
            (view.tells_pauses, view.pause_us, view.waited) = (true, self.peer_paused_us, waited);
            view.identity = 5;
        }
        let mut stamper = if udp { Stamper::default() } else { std::mem::take(&mut flow.stamper) };
        let age_ns = self.now - START.mono_ns;
        let known = &self.known;
        stamper.pass_answering(view, &mut bytes, |question| {
            let unknown = Answer { received_ns: utc_ns - age_ns as i64, ..Answer::default() };
            let answer = known.get(&(question.session, question.connection));
            Some(match question.about {
                About::Connection => Reply::Connection(answer.copied().unwrap_or(unknown)),
                About::Reflector | About::Notices => {
                    Reply::Reflector(Introduction { age_ns, identity: 5, ..Introduction::default() })
                }
            })
        });
        if let Some(frame) = stamper.latest() {
            let last = Answer {
                standing: Standing::Open,
                last_seq: frame.sequence,
                received_ns: utc_ns,
                frames: stamper.frames(),
                ..Answer::default()
            };
            self.known.insert((frame.session, frame.connection), last);
        }
        self.flows.get_mut(&link).expect("it was found").stamper = stamper;
        bytes
    }

    /// Bytes come back. What came with them at the same time is read with them (TCP).
    fn received(&mut self, link: LinkId, mut bytes: Vec<u8>) {
        let (now, udp) = (self.now, self.is_udp());
        let flow = self.flows.get_mut(&link).expect("it was found");
        while !udp
            && self.serial_ns == 0
            && let Some((_, _, more)) = flow.packets.pop_front_if(|(at, back, _)| *back && *at <= now)
        {
            bytes.extend(more);
        }
        self.silence_ends(link, Some(bytes.len()));
        self.probe.handle(now, Input::Arriving { link, bytes: bytes.len() });
        self.do_outputs();
        let asked = !udp && self.kernel_tells && self.probe.wants_kernel_view(link, now);
        let kernel = self.flows.get(&link).filter(|_| asked).map(|flow| flow.view(now, self.rtt_ns));
        self.tell(Input::Received { link, bytes: &bytes, stamps: None, kernel });
    }
}
