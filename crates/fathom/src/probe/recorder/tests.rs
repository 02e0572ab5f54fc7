use super::*;
use crate::probe::live_state::LiveState;
use crate::probe::outbox::channel;
use fathom_recording::{Manifest, Recorder, Recording, Tool, verify};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::channel as results;

pub(super) fn recorder_in(dir: &Path) -> Recorder {
    let tool = Tool { version: "0".into(), revision: None };
    Recorder::create(dir, Manifest::new("x", Timestamp::UNIX_EPOCH, tool)).expect("made")
}

/// The recording thread waited for the last message of a probing thread that had failed, for ever.
#[test]
fn failed_probe_thread_ends_recording_with_error() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("r");
    let recorder = recorder_in(&dir);
    let live: LiveStates = Arc::new(Mutex::new(vec![LiveState::default()]));
    let (mut failing, first) = channel(Some(1.0), 2, None);
    let (healthy, second) = channel(Some(1.0), 2, None);
    let sinks = vec![Sinks { recorder: Some(recorder), tables: Vec::new() }];
    let stop = Stop::new(Vec::new());
    let rest = Duration::from_millis(1);
    let recorder = RunRecorder::new(vec![first, second], sinks, Arc::clone(&live), rest, stop.clone());
    let (tell, told) = results();
    let recording = thread::spawn(move || {
        recorder.run();
        let _ = tell.send(());
    });
    // A panic, or an error that is passed up: the outbox is dropped where it is.
    let failed = thread::spawn(move || {
        (0..3).for_each(|seq| failing.sample(0, Sample { seq, rtt_ns: Some(1), ..Sample::default() }));
        std::panic::resume_unwind(Box::new("as if"));
    });
    assert!(failed.join().is_err());
    // The other thread is asked to end at once, and does.
    let deadline = std::time::Instant::now() + Duration::from_mins(1);
    while stop.times() < 2 {
        assert!(std::time::Instant::now() < deadline, "nobody was asked to stop");
        thread::yield_now();
    }
    healthy.finish();
    told.recv_timeout(Duration::from_mins(1)).expect("the recording thread ends");
    recording.join().expect("in order");
    let read = Recording::open(&dir).expect("it reads");
    let rows: usize = read.samples().map(|chunk| chunk.len()).sum();
    assert_eq!(rows, 3, "what was told before the failure is recorded");
    let log = std::fs::read_to_string(dir.join("events.jsonl")).expect("read");
    let said = |kind: &str| log.lines().filter(|line| line.contains(kind) && line.contains("failed")).count();
    assert_eq!((said("\"note\""), said("recording.ended")), (1, 1), "{log}");
    assert!(verify(&dir, |_| {}).expect("it reads").is_sound());
}

/// Rows that wait to be written together do not let an event pass that came after them, nor what failed.
#[test]
fn packed_rows_stand_before_what_came_after_them() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("r");
    let recorder = recorder_in(&dir);
    let live: LiveStates = Arc::new(Mutex::new(vec![LiveState::default()]));
    let bell = Bell::default();
    let (mut outbox, ring) = channel(None, 1, Some((&bell, true)));
    let sinks = vec![Sinks { recorder: Some(recorder), tables: Vec::new() }];
    let rest = Duration::from_millis(1);
    let mut recorder = RunRecorder::new(vec![ring], sinks, live, rest, Stop::new(Vec::new()));
    let mut rows = Vec::new();
    for said in 0..4 {
        for seq in 0..3 {
            outbox.sample(0, Sample { seq: said * 3 + seq, rtt_ns: Some(1), ..Sample::default() });
        }
        let text = said.to_string();
        let event =
            Event { at: Timestamp::now(), mono_ns: 1, connection: None, kind: EventKind::Note { text } };
        outbox.other(Message::Event(None, Box::new(event)));
        while let Ok(message) = recorder.rings[0].pop() {
            let is_event = matches!(message, Message::Event(..));
            recorder.take(message);
            if is_event {
                rows.push(recorder.sinks[0].recorder.as_ref().expect("it is there").rows());
            }
        }
    }
    assert_eq!(rows, [3, 6, 9, 12]);
    drop(outbox);
    recorder.run();
    assert!(verify(&dir, |_| {}).expect("it reads").is_sound());
}
