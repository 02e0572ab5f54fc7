//! When nothing goes wrong.

use super::*;
use crate::{Entry, Error, Format, Recorder, export, recover, verify};
use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};

fn end(seconds: u64) -> Timestamp {
    Timestamp::from_nanosecond((START_NS + (seconds * SECOND) as i64).into()).unwrap()
}

#[test]
fn what_is_written_reads_back_and_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create_with(dir.path(), manifest(), SMALL).unwrap();
    for n in 0..100 {
        recorder.push(&sample(n)).unwrap();
        recorder.flush(n * SECOND).unwrap();
        // A reader of the running recording sees what was flushed, whichever file it stands in.
        assert_eq!(read(dir.path()).len() as u64, n + 1);
    }
    assert!(Recording::open(dir.path()).unwrap().is_running());
    recorder.anchor(Anchor { mono_ns: 60 * SECOND, utc_ns: START_NS + 60 }, true).unwrap();
    recorder.amend(|m| m.reflector.stamps = Some(true)).unwrap();
    assert!(matches!(recover(dir.path(), end(0)), Err(Error::Running { .. })));
    assert_eq!(recorder.finish(end(100), 100 * SECOND).unwrap(), 100);

    assert_eq!(read(dir.path()), samples(0..100));
    let recording = Recording::open(dir.path()).unwrap();
    assert!(!recording.is_running());
    assert_eq!(recording.damage(), []);
    assert_eq!(recording.manifest().ended_at, Some(end(100)));
    assert!(recording.manifest().clock_anchors[1].stepped);
    assert_eq!(recording.manifest().reflector.stamps, Some(true));
    let found = verify(dir.path(), |_| {}).unwrap();
    assert!(found.is_sound() && found.rows == 100, "{found:?}");
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    let segments = (0..9).map(|n| crate::segment_name(n, "parquet"));
    let expected: Vec<String> =
        ["events.jsonl".into(), "recording.json".into()].into_iter().chain(segments).collect();
    assert_eq!(names, expected.iter().map(std::ffi::OsString::from).collect::<Vec<_>>());
}

#[test]
fn a_segment_closes_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_age_ns: 10 * SECOND, ..Options::default() };
    let mut recorder = Recorder::create_with(dir.path(), manifest(), options).unwrap();
    for n in 0..25 {
        recorder.push(&sample(n)).unwrap();
        recorder.flush(n * SECOND).unwrap();
    }
    assert!(dir.path().join("samples-00001.parquet").exists());
    assert!(dir.path().join("samples-00002.arrows").exists());
    assert_eq!(read(dir.path()), samples(0..25));
}

#[test]
fn a_large_segment_is_converted_beside_the_writing() {
    let dir = tempfile::tempdir().unwrap();
    let segment_rows = crate::recorder::INLINE_ROWS + 1_000;
    let options = Options { segment_rows, segment_age_ns: u64::MAX, readable: false };
    let mut recorder = Recorder::create_with(dir.path(), manifest(), options).unwrap();
    let all = samples(0..segment_rows + 20_000);
    for s in &all {
        recorder.push(s).unwrap();
    }
    recorder.finish(end(1), SECOND).unwrap();
    assert!(read(dir.path()) == all);
    assert!(verify(dir.path(), |_| {}).unwrap().is_sound());
}

#[test]
fn a_recording_is_never_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("a/b");
    Recorder::create(&inner, manifest()).unwrap().finish(end(0), 0).unwrap();
    assert!(matches!(Recorder::create(&inner, manifest()), Err(Error::Exists { .. })));
    assert!(matches!(Recording::open(dir.path()), Err(Error::NotARecording { .. })));
    let recorder = Recorder::create(&dir.path().join("c"), manifest()).unwrap();
    assert!(matches!(Recorder::create(recorder.dir(), manifest()), Err(Error::Running { .. })));
}

#[test]
fn path_to_file_suggests_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("r");
    Recorder::create(&inner, manifest()).unwrap().finish(end(0), 0).unwrap();
    let (inside, elsewhere) = (inner.join("events.jsonl"), dir.path().join("summary.json"));
    std::fs::write(&elsewhere, "{}").unwrap();
    for (file, remedy) in [
        (&inside, format!("give the directory of a recording, which is here: {}", inner.display())),
        (&elsewhere, "give the directory of a recording, as `fathom probe` named it".to_owned()),
    ] {
        let said = format!("{} is a file; {remedy}", file.display());
        assert_eq!(Recording::open(file).unwrap_err().to_string(), said);
        assert_eq!(verify(file, |_| {}).unwrap_err().to_string(), said);
        assert_eq!(recover(file, end(0)).unwrap_err().to_string(), said);
    }
}

#[test]
fn a_future_format_is_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("recording.json"), r#"{"format_version": 3, "everything": "else"}"#)
        .unwrap();
    let error = Recording::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::FutureVersion { found: 3, .. }), "{error}");
}

#[test]
fn a_killed_probe_leaves_what_it_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create_with(dir.path(), manifest(), SMALL).unwrap();
    for n in 0..20 {
        recorder.push(&sample(n)).unwrap();
        recorder.flush(n * SECOND).unwrap();
    }
    recorder.push(&sample(20)).unwrap();
    drop(recorder);
    let found = verify(dir.path(), |_| {}).unwrap();
    assert_eq!(found.findings.len(), 1, "{found:?}");
    let recovery = recover(dir.path(), end(500)).unwrap();
    assert!(recovery.needed && recovery.rows == 8 && recovery.damage.is_empty());
    // Sample 19 is unanswered: the last evidence is when it was sent.
    assert_eq!(recovery.ended_at, Some(end(19)));
    assert_eq!(read(dir.path()), samples(0..20));
    assert!(verify(dir.path(), |_| {}).unwrap().is_sound());
    let before = std::fs::read(dir.path().join("events.jsonl")).unwrap();
    let again = recover(dir.path(), end(900)).unwrap();
    assert!(!again.needed && again.ended_at == recovery.ended_at);
    assert_eq!(std::fs::read(dir.path().join("events.jsonl")).unwrap(), before);
}

#[test]
fn unknown_future_events_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest()).unwrap();
    let note =
        Event { at: end(1), mono_ns: 1, connection: Some(4), kind: EventKind::Note { text: "x".into() } };
    recorder.event(&note).unwrap();
    recorder.finish(end(2), 2).unwrap();
    let path = dir.path().join("events.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"at\":\"2030-01-01T00:00:00Z\",\"kind\":\"tide\",\"height\":3}\n{\"at\":\"20");
    std::fs::write(&path, text).unwrap();
    let events: Vec<_> = Recording::open(dir.path()).unwrap().events().unwrap().collect();
    assert_eq!(events[1], Ok(Entry::Known(note)));
    assert!(matches!(&events[3], Ok(Entry::Other(v)) if v["height"] == 3));
    assert!(matches!(&events[4], Err(d) if d.torn && d.bytes == 9));
    assert_eq!(events.len(), 5);
}

#[test]
fn broken_laws_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest()).unwrap();
    let good = sample(0);
    let wrong = [
        good,
        Sample { rtt_ns: Some(-1), seq: 1, ..good },
        Sample { rtt_ns: None, seq: 2, ..good },
        Sample { flags: Flags(1 << 12), seq: 3, ..good },
    ];
    for s in [&[good][..], &wrong].concat() {
        recorder.push(&s).unwrap();
    }
    recorder.finish(end(0), 0).unwrap();
    let found = verify(dir.path(), |_| {}).unwrap();
    let laws: Vec<_> = found.findings.iter().map(|f| (f.law, f.count)).collect();
    assert_eq!(
        laws,
        [
            ("(connection, seq) is unique", 1),
            ("only known flags are set", 1),
            ("rtt_ns is absent exactly where the sample is unanswered", 1),
            ("rtt_ns is not negative", 1),
        ]
    );
}

/// The report refused such recordings, and `verify` called them sound.
#[test]
fn manifest_that_report_refuses_is_found() {
    let dir = tempfile::tempdir().unwrap();
    Recorder::create(dir.path(), manifest()).unwrap().finish(end(0), 0).unwrap();
    let path = dir.path().join("recording.json");
    let sound: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (field, value, told) in [
        ("path", "[]", "path must be object"),
        ("reflector", "[]", "reflector must be object"),
        ("cloud", "true", "cloud must be object or null"),
        ("events", "null", "events must be object"),
        ("host", "{\"cores\": 18446744073709551616}", "a number does not fit into 64 bits"),
    ] {
        let mut changed = sound.clone();
        changed[field] = "changed".into();
        let text = changed.to_string().replace("\"changed\"", value);
        std::fs::write(&path, text).unwrap();
        let found = verify(dir.path(), |_| {}).unwrap();
        assert!(found.findings.iter().any(|f| f.first == told), "{field}: {found:?}");
    }
}

#[test]
fn event_line_without_time_or_kind_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    Recorder::create(dir.path(), manifest()).unwrap().finish(end(0), 0).unwrap();
    let path = dir.path().join("events.jsonl");
    let sound = std::fs::read_to_string(&path).unwrap();
    for line in [
        r#"{"at":1000000000000000000000000000000,"kind":"note","text":"x"}"#,
        r#"{"at":"2026-01-02T03:04:05","kind":"tide"}"#,
        r#"{"at":"2026-01-02T03:04:05Z","kind":7}"#,
        r#"{"at":"2026-01-02T03:04:05Z","kind":"tide","height":18446744073709551616}"#,
        "[]",
    ] {
        std::fs::write(&path, format!("{line}\n{sound}")).unwrap();
        let found = verify(dir.path(), |_| {}).unwrap();
        assert!(found.damage.iter().any(|d| d.reason == "a line is no event"), "{line}: {found:?}");
    }
}

#[test]
fn an_export_holds_every_sample() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create_with(dir.path(), manifest(), SMALL).unwrap();
    for s in samples(0..50) {
        recorder.push(&s).unwrap();
    }
    recorder.finish(end(50), 50 * SECOND).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    let text = |format| {
        let mut out = Vec::new();
        assert_eq!(export(&recording, format, &mut out, |_| {}).unwrap(), 50);
        String::from_utf8(out).unwrap()
    };
    let csv = text(Format::Csv);
    assert_eq!(csv.lines().count(), 51);
    // The bucket by hand: 100,001 lies in [2^16, 2^17), octave 5; 5 * 2,048 + (100,001 >> 5) = 13,365.
    assert_eq!(
        csv.lines().nth(2).unwrap(),
        "1,0,64,1750000001000000000,0,100001,13365,,,5000,-400000,500000,120,1,0"
    );
    // Every fifth sample was never answered, and the articles' client has no row for one.
    assert_eq!(text(Format::Peer(crate::peers::RowFormat::EchoClientCsv)).lines().count(), 41);
}
