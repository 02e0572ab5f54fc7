//! A fresh connection as a second opinion, and the verdict that rests on it.

use fathom_core::event::EventKind;
use fathom_core::verdict::{Facts, Fresh, explain};
use smoltcp::socket::tcp::State;

use super::{OPINION_NS, Opinion, Probe, Said};
use crate::simulate::host::Host;

impl Probe {
    pub(super) fn ask(&mut self, now: u64, host: &mut Host, death: Option<(u32, Facts)>) {
        let (handle, port) = host.connect(now, self.target);
        self.formed = Some((now, Fresh::NotTried));
        self.opinion = Some(Opinion { handle, port, since_ns: now, connected: false, death });
    }

    pub(super) fn drop_opinion(&mut self, host: &mut Host) {
        if let Some(opinion) = self.opinion.take() {
            host.forget(opinion.handle, opinion.port);
        }
    }

    pub(super) fn judge_opinion(&mut self, now: u64, host: &mut Host, say: &mut impl FnMut(Said)) {
        let Some(opinion) = &mut self.opinion else { return };
        let size = self.spec.size as usize;
        let over = now >= opinion.since_ns + OPINION_NS;
        let fresh = match host.state(opinion.handle) {
            State::Established => {
                if !opinion.connected {
                    opinion.connected = true;
                    host.send(now, opinion.handle, size);
                }
                match host.receive(now, opinion.handle) {
                    0 if over => Fresh::Connected,
                    0 => return,
                    _ => Fresh::Echoed,
                }
            }
            State::Closed if host.observed(opinion.port).reset && !opinion.connected => Fresh::Refused,
            State::Closed => Fresh::Failed,
            _ if over => Fresh::NoAnswer,
            _ => return,
        };
        let death = opinion.death.take();
        self.formed = Some((opinion.since_ns, fresh));
        self.drop_opinion(host);
        if let Some((id, mut facts)) = death {
            facts.fresh = fresh;
            let explanation = explain(&facts);
            say(Said::Event(
                Some(id),
                EventKind::ConnectionExplained {
                    about: "closing".to_owned(),
                    explanation,
                    fresh,
                    reflector: None,
                },
            ));
        }
    }
}
