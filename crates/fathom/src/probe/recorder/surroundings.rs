//! What is noted of a path's surroundings: what the cloud tells, and by what its connections leave.

use super::{CloudNotice, RunRecorder};
use fathom_cloud::CloudMessage;
use fathom_core::event::{Event, EventKind};
use fathom_os::egress::ends;
use jiff::Timestamp;

impl RunRecorder<'_> {
    pub(super) fn take_cloud(&mut self) {
        let Some(cloud) = &self.cloud else { return };
        let news: Vec<CloudNotice> = cloud.try_iter().collect();
        for CloudNotice { at, mono_ns, message } in news {
            let kind = match message {
                CloudMessage::Maintenance(kind) => kind,
                CloudMessage::Note(text) => EventKind::Note { text },
                CloudMessage::Instance(instance) => {
                    for p in 0..self.sinks.len() {
                        let cloud = Some(instance.clone());
                        self.write(p, |recorder| recorder.amend(|manifest| manifest.cloud = cloud));
                    }
                    continue;
                }
            };
            let event = Event { at, mono_ns, connection: None, kind };
            for path in 0..self.sinks.len() {
                self.event(path as u32, &event);
            }
        }
    }

    /// An event of one path. A connection's opening gets the interface it leaves by, and what is different since the
    /// one before follows it.
    pub(super) fn path_event(&mut self, path: u32, event: &mut Event) {
        if let EventKind::ScheduleProgress { .. } = event.kind {
            // For recovery, and for nobody else.
            return self.write(path as usize, |recorder| recorder.event(event));
        }
        let (at, mono_ns, connection) = (event.at, event.mono_ns, event.connection);
        let mut changes = Vec::new();
        if let EventKind::ConnectionOpened { local, remote, interface, .. } = &mut event.kind
            && let Some((local, remote)) = ends(local, remote)
        {
            let egress = &mut self.egress[path as usize];
            changes = egress.opened(local, remote, mono_ns);
            *interface = egress.nic().map(|nic| nic.name.clone());
        }
        self.event(path, event);
        for kind in changes {
            self.event(path, &Event { at, mono_ns, connection, kind });
        }
    }

    /// Looks once a minute whether what connections leave by is still the same.
    pub(super) fn look_at_egress(&mut self, now: u64) {
        for p in 0..self.egress.len() {
            if !self.egress[p].is_due(now) {
                continue;
            }
            let changes = self.egress[p].look(now);
            for kind in changes {
                let event = Event { at: Timestamp::now(), mono_ns: now, connection: None, kind };
                self.event(p as u32, &event);
            }
        }
    }
}
