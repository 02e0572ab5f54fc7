//! The recording of a search (`--record`): what became of each connection, and the result. It has no samples.

use super::args::Config;
use crate::exit::Failure;
use crate::output::tell;
use crate::probe::tool;
use fathom_core::event::{AGE_LIMIT_MODE, Event, EventKind, IDLE_LIMIT_MODE};
use fathom_core::limits::{Limit, Outcome, Verdict};
use fathom_os::clock::{anchor, mono_ns};
use fathom_os::host::HostFacts;
use fathom_os::interfaces;
use fathom_recording::{ClockAnchor, Manifest, Recorder, ReflectorFacts, discard_empty};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::net::SocketAddr;

const FLUSH_NS: u64 = 1_000_000_000;
/// Between two anchors of the clocks.
const ANCHOR_NS: u64 = 60_000_000_000;

/// See the module. What cannot be written ends the recording, not the search.
pub(super) struct SearchRecorder {
    recorder: Option<Recorder>,
    error: Option<String>,
    flushed_ns: u64,
    anchored_ns: u64,
}

impl SearchRecorder {
    /// Makes the recording, where one is wanted, or says why it cannot be made.
    pub(super) fn open(config: &Config, remote: SocketAddr) -> Result<Self, Failure> {
        let made = config.record.as_ref().map(|dir| Recorder::create(dir, manifest(config, remote)));
        let recorder = made.transpose().map_err(|e| Failure::run(e.to_string()))?;
        let now = mono_ns();
        Ok(Self { recorder, error: None, flushed_ns: now, anchored_ns: now })
    }

    pub(super) fn event(&mut self, connection: Option<u32>, kind: EventKind) {
        let event = Event { at: Timestamp::now(), mono_ns: mono_ns(), connection, kind };
        self.write(|recorder| recorder.event(&event));
    }

    /// Puts what was told on the disk, once a second. When it wants to be called again; `None`: nothing is recorded.
    pub(super) fn flush(&mut self, now: u64) -> Option<u64> {
        if now >= self.flushed_ns + FLUSH_NS {
            self.flushed_ns = now;
            let anchor_is_due = now >= self.anchored_ns + ANCHOR_NS;
            if anchor_is_due {
                self.anchored_ns = now;
            }
            self.write(|recorder| {
                if anchor_is_due {
                    recorder.anchor(anchor(), false)?;
                }
                recorder.flush(now)
            });
        }
        (self.recorder.is_some() && self.error.is_none()).then_some(self.flushed_ns + FLUSH_NS)
    }

    /// Writes the result and ends the recording; a failure where it is not whole. One in which nothing could be tried is taken
    /// back.
    pub(super) fn finish(
        mut self,
        outcome: &Outcome,
        target: &str,
        remote: SocketAddr,
    ) -> Result<(), Failure> {
        if outcome.verdict == Verdict::Failed {
            if let Some(recorder) = self.recorder.take() {
                let dir = recorder.dir().to_owned();
                drop(recorder);
                discard_empty(&dir);
            }
            return Ok(());
        }
        self.event(None, EventKind::LimitsEnded { result: outcome.json(target, Some(remote)) });
        if let Some(recorder) = self.recorder.take()
            && let Err(e) = recorder.finish(Timestamp::now(), mono_ns())
        {
            self.error.get_or_insert(e.to_string());
        }
        self.error.map_or(Ok(()), |e| Err(Failure::run(format!("the recording is not whole: {e}"))))
    }

    fn write(&mut self, act: impl FnOnce(&mut Recorder) -> Result<(), fathom_recording::Error>) {
        if let Some(recorder) = &mut self.recorder
            && self.error.is_none()
            && let Err(e) = act(recorder)
        {
            tell!("fathom: recording stopped, the search goes on: {e}");
            self.error = Some(e.to_string());
        }
    }
}

fn manifest(config: &Config, remote: SocketAddr) -> Manifest {
    let target = config.target.to_string();
    let mut manifest = Manifest::new(target.as_str(), Timestamp::now(), tool());
    manifest.command = Some(crate::command_line::to_run_again());
    let settings = &config.settings;
    manifest.probe = json!({
        "mode": if config.limit == Limit::Age { AGE_LIMIT_MODE } else { IDLE_LIMIT_MODE },
        "size": null,
        "interval_ns": null,
        "up_to_ns": settings.up_to_ns,
        "per_length": settings.per_length,
        "resolution": settings.resolution,
        "keepalive_ns": settings.keepalive_ns,
        "connections": settings.connections.0,
    });
    // Without --source the interface is known to nobody before the first connection.
    let nic = config.source.and_then(|source| interfaces::towards(SocketAddr::new(source, 0), remote));
    manifest.host = serde_json::to_value(HostFacts::gather(nic.as_deref())).unwrap_or(Value::Null);
    manifest.clock_anchors.push(ClockAnchor::new(anchor(), false));
    manifest.reflector =
        ReflectorFacts { address: target, resolved: Some(remote.to_string()), ..ReflectorFacts::default() };
    manifest
}
