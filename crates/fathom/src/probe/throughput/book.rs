//! The recording of a throughput test: events and no samples.

use super::super::keep;
use super::super::start::Granted;
use super::plan::Plan;
use crate::exit::Failure;
use fathom_core::event::{Event, EventKind};
use fathom_os::clock::{anchor, mono_ns};
use fathom_os::host::NicFacts;
use fathom_os::interfaces;
use fathom_recording::Recorder;
use jiff::Timestamp;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a test is kept. What cannot be written ends the recording, not the test.
pub(super) struct Book {
    recorder: Option<Recorder>,
    dir: Option<PathBuf>,
    error: Option<String>,
}

impl Book {
    /// Makes the recording, or says why it cannot be made.
    pub(super) fn open(plan: &Plan) -> Result<Self, Failure> {
        let started_at = Timestamp::now();
        let Some(dir) = keep::directory(&plan.config, plan.path(), started_at) else {
            return Ok(Self { recorder: None, dir: None, error: None });
        };
        let mut manifest = keep::manifest(&plan.config, plan.path(), started_at, &Granted::new(), None);
        manifest.probe = plan.effective();
        let recorder = Recorder::create(&dir, manifest).map_err(|e| Failure::run(e.to_string()))?;
        Ok(Self { recorder: Some(recorder), dir: Some(dir), error: None })
    }

    /// Its directory, for people.
    pub(super) fn shown(&self) -> Option<String> {
        self.dir.as_ref().map(|dir| dir.display().to_string())
    }

    /// Writes an event that happened now.
    pub(super) fn event(&mut self, connection: Option<u32>, kind: EventKind) {
        self.event_at(connection, mono_ns(), kind);
    }

    /// Writes an event that happened then, a moment ago.
    pub(super) fn event_at(&mut self, connection: Option<u32>, mono_ns: u64, kind: EventKind) {
        let event = Event { at: Timestamp::now(), mono_ns, connection, kind };
        self.write(|recorder| recorder.event(&event));
    }

    /// A stream's connection opened.
    pub(super) fn opened(
        &mut self,
        stream: u32,
        target: &str,
        ends: (SocketAddr, SocketAddr),
        connect_ns: u64,
    ) {
        let (local, remote) = ends;
        let nic = interfaces::towards(local, remote).and_then(|name| NicFacts::of(&name));
        self.event(
            Some(stream),
            EventKind::ConnectionOpened {
                target: target.to_owned(),
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

    /// Puts what was written on the disk, with a fresh anchor of the clocks now and then.
    pub(super) fn keep(&mut self, with_anchor: bool) {
        self.write(|recorder| {
            if with_anchor {
                recorder.anchor(anchor(), false)?;
            }
            recorder.flush(mono_ns())
        });
    }

    /// Ends the recording in order; why it is incomplete, where it is.
    pub(super) fn close(mut self) -> Option<String> {
        if let Some(recorder) = self.recorder.take()
            && let Err(e) = recorder.finish(Timestamp::now(), mono_ns())
        {
            self.error.get_or_insert(e.to_string());
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
            eprintln!("fathom: recording stopped, the test goes on: {e}");
            self.error = Some(e.to_string());
        }
    }
}
