//! The recording of a throughput test: events and no samples.

use super::super::keep;
use super::super::start::Granted;
use super::plan::Plan;
use crate::exit::Failure;
use crate::output::tell;
use crate::throughput::summary::Summary;
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind, Evidence, ThroughputInterval};
use fathom_core::rotation::Ages;
use fathom_iperf3::StreamInterval;
use fathom_os::clock::{anchor, mono_ns};
use fathom_os::host::NicFacts;
use fathom_os::interfaces;
use fathom_recording::Recorder;
use jiff::Timestamp;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Between two anchors of the clocks.
const ANCHOR_NS: u64 = 60_000_000_000;

/// Where a test is kept. What cannot be written ends the recording, not the test.
pub(super) struct TestRecorder {
    recorder: Option<Recorder>,
    dir: Option<PathBuf>,
    error: Option<String>,
    target: String,
    anchored_ns: u64,
}

impl TestRecorder {
    /// Makes the recording, or says why it cannot be made.
    pub(super) fn open(plan: &Plan) -> Result<Self, Failure> {
        let started_at = Timestamp::now();
        let manifest = || {
            let mut manifest = keep::manifest(&plan.config, plan.path(), started_at, &Granted::new(), None);
            manifest.probe = plan.effective();
            manifest
        };
        let recorder = keep::record(&plan.config, plan.path(), &Ages::new(anchor()), started_at, manifest)?;
        let dir = recorder.as_ref().map(|recorder| recorder.dir().to_owned());
        let target = plan.path().target.to_string();
        Ok(Self { recorder, dir, error: None, target, anchored_ns: mono_ns() })
    }

    /// Its directory, for people.
    pub(super) fn shown(&self) -> Option<String> {
        self.dir.as_ref().map(|dir| dir.display().to_string())
    }

    /// Writes how the test ended.
    pub(super) fn ended(&mut self, summary: &Summary) {
        if let Ok(summary) = serde_json::to_value(summary) {
            self.event(None, mono_ns(), EventKind::ThroughputEnded { summary });
        }
    }

    /// Writes intervals that ended, and puts them on the disk.
    pub(super) fn intervals(&mut self, intervals: &[StreamInterval]) {
        for one in intervals {
            let kind = EventKind::ThroughputInterval(ThroughputInterval {
                way: if one.sends { "sent" } else { "received" }.to_owned(),
                interval_ns: one.interval.length_ns,
                bytes: one.interval.bytes,
                retransmits: one.interval.retransmits,
                cwnd_bytes: one.interval.cwnd_bytes,
                srtt_us: one.interval.srtt_us,
                omitted: one.omitted,
            });
            self.event(Some(one.stream), one.at_ns, kind);
        }
        let now_ns = mono_ns();
        let anchor_is_due = now_ns.saturating_sub(self.anchored_ns) >= ANCHOR_NS;
        if anchor_is_due {
            self.anchored_ns = now_ns;
        }
        self.write(|recorder| {
            if anchor_is_due {
                recorder.anchor(anchor(), false)?;
            }
            recorder.flush(now_ns)
        });
    }

    /// A stream ended in order.
    pub(super) fn closed(&mut self, stream: u32, at_ns: u64, age_ns: u64) {
        let kind = EventKind::ConnectionClosed {
            cause: ClosingCause::Finished,
            verdict: None,
            errno: None,
            age_ns,
            evidence: Evidence::default(),
        };
        self.event(Some(stream), at_ns, kind);
    }

    /// A stream's connection opened.
    pub(super) fn opened(&mut self, stream: u32, local: SocketAddr, remote: SocketAddr, connect_ns: u64) {
        let nic = interfaces::towards(local, remote).and_then(|name| NicFacts::of(&name));
        self.event(
            Some(stream),
            mono_ns(),
            EventKind::ConnectionOpened {
                target: self.target.clone(),
                local: local.to_string(),
                remote: remote.to_string(),
                connect_ns: connect_ns as i64,
                tls_ns: None,
                interface: nic.as_ref().map(|nic| nic.name.clone()),
                lane: Some(stream),
            },
        );
        if stream == 0 {
            self.write(|recorder| {
                recorder.amend(|manifest| {
                    manifest.reflector.resolved = Some(remote.to_string());
                    let nic = nic.and_then(|nic| serde_json::to_value(nic).ok());
                    if let Some((nic, host)) = nic.zip(manifest.host.as_object_mut()) {
                        host.insert("nic".to_owned(), nic);
                    }
                })
            });
        }
    }

    /// Writes an event that happened then, by the monotonic clock.
    fn event(&mut self, connection: Option<u32>, mono_ns: u64, kind: EventKind) {
        let event = Event { at: Timestamp::now(), mono_ns, connection, kind };
        self.write(|recorder| recorder.event(&event));
    }

    /// Ends the recording in order; why it is incomplete, where it is.
    pub(super) fn close(mut self) -> Option<String> {
        if let Some(recorder) = self.recorder.take()
            && let Err(e) = recorder.finish(Timestamp::now(), mono_ns())
        {
            self.error.get_or_insert(e.with_advice(false));
        }
        self.error
    }

    /// Takes back a recording in which nothing has been measured.
    pub(super) fn discard(mut self, plan: &Plan) {
        drop(self.recorder.take());
        if let Some(dir) = &self.dir {
            keep::discard_directory(&plan.config, dir);
        }
    }

    fn write(&mut self, act: impl FnOnce(&mut Recorder) -> Result<(), fathom_recording::Error>) {
        if let Some(recorder) = &mut self.recorder
            && self.error.is_none()
            && let Err(e) = act(recorder)
        {
            tell!("fathom: recording stopped, the test goes on: {}", e.with_advice(false));
            self.error = Some(e.to_string());
        }
    }
}
