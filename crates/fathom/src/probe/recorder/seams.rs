//! `--rotate`, as the recording thread has it: when it goes on in new recordings, and what becomes of those before.

use super::RunRecorder;
use crate::probe::outbox::Inbox;
use fathom_core::event::{Event, EventKind};
use fathom_os::clock::anchor;
use fathom_recording::Recorder;
use jiff::Timestamp;

impl RunRecorder<'_> {
    /// Goes on in new recordings, where it is time. What stands in the rings by then, or waits behind them, belongs to those before.
    pub(super) fn rotate(&mut self, now: u64) {
        self.collect_closed(false);
        if !self.rotating.as_mut().is_some_and(|rotating| rotating.is_due(now)) {
            return;
        }
        // Asked first: what is taken then is all there was, where nothing waited.
        let is_behind = self.rings.iter().any(Inbox::is_behind);
        self.take_from_each(|ring| ring.slots());
        if self.rotating.as_ref().is_some_and(|rotating| rotating.waits_for_rows(is_behind, now)) {
            return;
        }
        // A kill must not take what has been handed over, and it may be a while until those before are closed. What a full disk
        // has no room for is tried again then, where it does not end the run.
        self.flush(now);
        if self.exit_on_full && self.troubles.iter().any(super::trouble::Trouble::waits) {
            return;
        }
        if let Some(rotating) = &mut self.rotating {
            rotating.rotate(&mut self.sinks, &self.live);
        }
        let anchor = anchor();
        if let Some(text) = self.rotating.as_mut().and_then(|rotating| rotating.clock_note(anchor)) {
            let (at, mono_ns) = (Timestamp::now(), anchor.mono_ns);
            let event = Event { at, mono_ns, connection: None, kind: EventKind::Note { text } };
            (0..self.sinks.len()).for_each(|path| self.event(path as u32, &event));
        }
        for (trouble, sinks) in self.troubles.iter_mut().zip(&self.sinks) {
            trouble.followed(sinks.recorder.as_ref().is_some_and(Recorder::waits_for_room));
        }
        self.collect_closed(false);
    }

    /// Takes what recordings that others have followed had to tell when they were closed.
    pub(super) fn collect_closed(&mut self, wait: bool) {
        let closed = self.rotating.as_mut().map(|rotating| rotating.closed(wait));
        for (p, mut ended, error) in closed.into_iter().flatten() {
            self.troubles[p].closed(&ended.manifest().id, ended.gaps());
            self.pass_on(p, ended.take_told());
            if let Some(error) = error {
                self.stopped(p, error.clone(), error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::recorder_in;
    use super::*;
    use crate::probe::config::from_line;
    use crate::probe::live_state::{LiveState, LiveStates};
    use crate::probe::rotate::Rotating;
    use crate::probe::sinks::Sinks;
    use crate::probe::stop::Stop;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A disk that was full at the seam ended no run: the next recording had room, and the run went on.
    #[test]
    fn full_disk_end_prevents_rotation() {
        for ends in [true, false] {
            let home = tempfile::tempdir().expect("a directory");
            let config = from_line(&format!("h --rotate 1s --record {}", home.path().display()));
            let config = config.expect("it is valid");
            let first = home.path().join("first");
            let sinks = vec![Sinks { recorder: Some(recorder_in(&first)), tables: Vec::new() }];
            let live: LiveStates = Arc::new(Mutex::new(vec![LiveState::default()]));
            let mut run = RunRecorder::new(Vec::new(), sinks, live, Duration::ZERO, Stop::new(Vec::new()));
            run.exit_on_full();
            run.rotate_by(Rotating::of(&config));
            if ends {
                run.troubles[0].wait("no room".to_owned(), true);
            }
            run.rotating.as_mut().expect("it is asked for").cross_a_boundary();
            run.rotate(2);
            let goes_on_in = run.sinks[0].recorder.as_ref().expect("it is there").dir().to_owned();
            assert_eq!(goes_on_in == first, ends, "{}", goes_on_in.display());
            run.close();
        }
    }
}
