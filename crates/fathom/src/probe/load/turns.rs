//! Idle and loaded by turns, as the probing thread leads it: it orders, flags its samples and tells.

use super::{Load, Order, Report};
use crate::probe::driver::Driver;
use crate::probe::lane::{Kind, Link};
use fathom_core::event::EventKind;
use fathom_core::load::{Phases, Turn, bits_per_s};
use fathom_core::sample::Flags;
use fathom_os::clock::mono_ns;
use fathom_os::socket::TcpOptions;
use std::net::SocketAddr;

/// A load and where the run stands with it.
pub(crate) struct LoadTurns {
    load: Load,
    /// `None`: the schedule has not begun, or is over.
    phases: Option<Phases>,
    /// When it was last told to run.
    ordered_ns: u64,
    /// When the loaded phase began that is going on, and the bytes sent and echoed until then.
    began: (u64, (u64, u64)),
}

impl Driver<'_> {
    /// Makes the load ready, where there is to be one.
    pub(crate) fn prepare_load(&mut self) {
        let Some(plan) = self.config.load else { return };
        let options =
            TcpOptions { source: self.config.source, dscp: self.config.dscp, ..TcpOptions::default() };
        match Load::start(plan, options, self.reactor.waker()) {
            Ok(load) => {
                let (phases, ordered_ns, began) = (None, 0, (0, (0, 0)));
                self.load = Some(LoadTurns { load, phases, ordered_ns, began });
            }
            Err(e) => self.end.fatal = Some(format!("cannot start the load: {e}")),
        }
    }

    /// The schedule begins, and the first idle phase with it.
    pub(crate) fn begin_phases(&mut self, now: u64) {
        if let (Some(turns), Some(plan)) = (&mut self.load, self.config.load) {
            turns.phases = Some(Phases::new(plan.phase_ns, now));
        }
        self.arm_load();
    }

    fn arm_load(&mut self) {
        if let Some(phases) = self.load.as_ref().and_then(|turns| turns.phases.as_ref()) {
            self.arm_run(Kind::Load, 0, phases.next_ns());
        }
    }

    /// What a sample sent now is.
    pub(crate) fn load_flags(&self) -> Flags {
        let phases = self.load.as_ref().and_then(|turns| turns.phases.as_ref());
        phases.map_or_else(Flags::default, Phases::flags)
    }

    /// Does what is due at this moment.
    pub(crate) fn turn_load(&mut self, now: u64) {
        let remote = self.load_remote();
        let Some(turns) = &mut self.load else { return };
        let Some(turn) = turns.phases.as_mut().and_then(|phases| phases.look(now)) else { return };
        match turn {
            Turn::Run => {
                turns.ordered_ns = now;
                if let Some(remote) = remote {
                    turns.load.order(Order::Run(remote));
                } else if let Some(phases) = &mut turns.phases {
                    // Not connected at the moment; in the next phase, then.
                    phases.lost(now);
                }
                self.flag_outstanding();
            }
            Turn::Loaded => {
                turns.began = (now, turns.load.count());
                let rising_ns = now - turns.ordered_ns;
                if let Some(plan) = self.config.load {
                    let (asked_bits_per_s, connections) = (plan.bits_per_s, plan.connections);
                    let kind = EventKind::LoadBegan { asked_bits_per_s, connections, rising_ns };
                    self.event(now, Some(0), None, kind);
                }
            }
            Turn::Stop => {
                turns.load.order(Order::Stop);
                self.load_ended(now, None);
            }
            Turn::NeverCame => {
                turns.load.order(Order::Stop);
                self.note(now, "the load did not come up: no echo on some of its connections".to_owned());
            }
            Turn::CutOff => {
                turns.load.order(Order::CutOff);
                let text = "echoes of the load did not come in time; its connections were closed";
                self.note(now, text.to_owned());
            }
            Turn::Idle => {}
        }
        self.arm_load();
    }

    /// Takes what the load has to tell.
    pub(crate) fn hear_load(&mut self) {
        while let Some(report) = self.load.as_ref().and_then(|turns| turns.load.heard()) {
            let now = mono_ns();
            let Some(phases) = self.load.as_mut().and_then(|turns| turns.phases.as_mut()) else { continue };
            match report {
                Report::Flows => phases.flows(now),
                Report::Drained => phases.drained(now),
                Report::Lost(error) => {
                    let was_loaded = phases.is_loaded();
                    let ran = phases.lost(now);
                    if was_loaded {
                        self.load_ended(now, Some(error));
                    } else if ran {
                        self.note(now, format!("the load did not come up: {error}"));
                    }
                }
            }
            self.arm_load();
        }
    }

    /// The run ends, and the load with it.
    pub(crate) fn end_load(&mut self, now: u64) {
        let Some(turns) = &mut self.load else { return };
        let Some(phases) = turns.phases.take() else { return };
        turns.load.order(Order::Stop);
        if phases.is_loaded() {
            self.load_ended(now, None);
        }
    }

    fn load_ended(&mut self, now: u64, error: Option<String>) {
        self.flag_outstanding();
        let Some(turns) = &self.load else { return };
        let (began_ns, (sent_before, echoed_before)) = turns.began;
        let (sent, echoed) = turns.load.count();
        let duration_ns = now - began_ns;
        let (sent_bytes, echoed_bytes) = (sent - sent_before, echoed - echoed_before);
        let rate = |bytes| bits_per_s(bytes, duration_ns).unwrap_or(0);
        let (sent_bits_per_s, echoed_bits_per_s) = (rate(sent_bytes), rate(echoed_bytes));
        let kind = EventKind::LoadEnded {
            duration_ns,
            sent_bytes,
            echoed_bytes,
            sent_bits_per_s,
            echoed_bits_per_s,
            error,
        };
        self.event(now, Some(0), None, kind);
    }

    /// What is on its way while the load comes or goes is neither idle nor loaded.
    fn flag_outstanding(&mut self) {
        for lane in &mut self.lanes {
            if let Link::Open(open) = &mut lane.link {
                open.stream.flag_outstanding(Flags::UNDER_LOAD | Flags::WARM_UP);
            }
        }
    }

    /// Where the samples go.
    fn load_remote(&self) -> Option<SocketAddr> {
        self.lanes.iter().find_map(|lane| match &lane.link {
            Link::Open(open) => Some(open.remote),
            _ => None,
        })
    }
}
