//! The background load by turns: when it is told to run and to stop, which samples it touches, and what it came to. The
//! load itself is the driver's.

use super::context::Context;
use super::io::{LoadOrder, LoadReport, Output};
use super::settings::LoadSettings;
use super::timers::Timer;
use crate::event::EventKind;
use crate::load::{Phases, Turn, bits_per_s};
use crate::sample::Flags;
use std::net::SocketAddr;

/// See the module.
#[derive(Debug)]
pub(super) struct Load {
    settings: LoadSettings,
    /// `None`: the schedule has not begun, or is over.
    phases: Option<Phases>,
    /// Payload bytes sent and echoed so far.
    bytes: (u64, u64),
    /// When it was last told to run.
    ordered_ns: u64,
    /// When the loaded phase began that is going on, and the bytes until then.
    began: (u64, (u64, u64)),
}

impl Load {
    pub(super) fn new(settings: LoadSettings) -> Self {
        Self { settings, phases: None, bytes: (0, 0), ordered_ns: 0, began: (0, (0, 0)) }
    }

    pub(super) fn counted(&mut self, sent: u64, echoed: u64) {
        self.bytes = (sent, echoed);
    }

    /// The schedule begins, and the first idle phase with it.
    pub(super) fn begin(&mut self, now: u64, cx: &mut Context) {
        self.phases = Some(Phases::new(self.settings.phase_ns, now));
        self.changed(cx);
    }

    fn changed(&mut self, cx: &mut Context) {
        cx.load_flags = self.phases.as_ref().map_or_else(Flags::default, Phases::flags);
        if let Some(phases) = &self.phases {
            cx.timers.set(phases.next_ns(), Timer::Load, 0);
        }
    }

    /// Does what is due at this moment; `remote`: where the samples go. Whether what is out belongs to no phase now.
    pub(super) fn turn(&mut self, now: u64, remote: Option<SocketAddr>, cx: &mut Context) -> bool {
        let Some(turn) = self.phases.as_mut().and_then(|phases| phases.look(now)) else { return false };
        let mut between = false;
        match turn {
            Turn::Run => {
                self.ordered_ns = now;
                if let Some(remote) = remote {
                    cx.emit(Output::Load(LoadOrder::Run(remote)));
                } else if let Some(phases) = &mut self.phases {
                    // Not connected at the moment; in the next phase, then.
                    phases.lost(now);
                }
                between = true;
            }
            Turn::Loaded => {
                self.began = (now, self.bytes);
                let LoadSettings { bits_per_s: asked_bits_per_s, connections, .. } = self.settings;
                let rising_ns = now - self.ordered_ns;
                let kind = EventKind::LoadBegan { asked_bits_per_s, connections, rising_ns };
                cx.event(now, Some(0), None, kind);
            }
            Turn::Stop => {
                cx.emit(Output::Load(LoadOrder::Stop));
                self.ended(now, None, cx);
                between = true;
            }
            Turn::NeverCame => {
                cx.emit(Output::Load(LoadOrder::Stop));
                cx.note(now, "the load did not come up: no echo on some of its connections");
            }
            Turn::CutOff => {
                cx.emit(Output::Load(LoadOrder::CutOff));
                cx.note(now, "echoes of the load did not come in time; its connections were closed");
            }
            Turn::Idle => {}
        }
        self.changed(cx);
        between
    }

    /// Takes what the load reports. Whether what is out belongs to no phase now.
    pub(super) fn report(&mut self, now: u64, report: LoadReport, cx: &mut Context) -> bool {
        let Some(phases) = &mut self.phases else { return false };
        let mut between = false;
        match report {
            LoadReport::Flows => phases.flows(now),
            LoadReport::Drained => phases.drained(now),
            LoadReport::Lost(error) => {
                between = phases.is_loaded();
                let ran = phases.lost(now);
                if between {
                    self.ended(now, Some(error), cx);
                } else if ran {
                    cx.note(now, format!("the load did not come up: {error}"));
                }
            }
        }
        self.changed(cx);
        between
    }

    /// The run ends, and the load with it. Whether what is out belongs to no phase now.
    pub(super) fn end(&mut self, now: u64, cx: &mut Context) -> bool {
        let Some(phases) = self.phases.take() else { return false };
        cx.emit(Output::Load(LoadOrder::Stop));
        if phases.is_loaded() {
            self.ended(now, None, cx);
        }
        self.changed(cx);
        phases.is_loaded()
    }

    fn ended(&self, now: u64, error: Option<String>, cx: &mut Context) {
        let (began_ns, (sent_before, echoed_before)) = self.began;
        let duration_ns = now - began_ns;
        let (sent_bytes, echoed_bytes) = (self.bytes.0 - sent_before, self.bytes.1 - echoed_before);
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
        cx.event(now, Some(0), None, kind);
    }
}
