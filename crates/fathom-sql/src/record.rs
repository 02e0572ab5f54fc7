//! Writes the recording on a thread of its own: round trips as any probe's rows, queries in `queries-*.parquet`.

use crate::backlog::{Backlog, Lost};
use crate::{Error, Recording};
use fathom_core::event::EventKind;
use fathom_core::sample::Sample;
use fathom_core::text::count;
use fathom_os::clock::{anchor, mono_ns};
use fathom_os::host::HostFacts;
use fathom_os::interfaces;
use fathom_recording::{ClockAnchor, Keeper, Manifest, Queries, Query, Recorder, ReflectorFacts};
use jiff::Timestamp;
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// What came is on the disk after so long.
const FLUSH_EVERY_NS: u64 = 500 * MS;

enum Message {
    Sample(Box<Sample>, u64),
    Event(Option<u32>, Box<EventKind>),
    /// Many queries have come, which lie in the backlog.
    Queries,
    BesideIsOver,
    End(Box<EventKind>),
}

/// Where to send what is to be recorded; without a recording it goes nowhere.
#[derive(Clone)]
pub(crate) struct Record(Option<(Sender<Message>, Arc<Backlog>)>);

/// The thread that writes.
pub(crate) struct Writer(Option<JoinHandle<Written>>);

/// Queries that are in no file (`None`: nobody counted them), and why the recording is not whole.
type Written = (Option<Lost>, Result<(), String>);

impl Record {
    /// Begins a recording where one is wanted.
    pub(crate) fn begin(
        recording: Option<&Recording>,
        label: &str,
        remote: SocketAddr,
        probe: Value,
        tell: fn(&str),
    ) -> Result<(Self, Writer), Error> {
        let Some(recording) = recording else {
            return Ok((Self(None), Writer(None)));
        };
        let mut manifest = Manifest::new(label, Timestamp::now(), recording.tool.clone());
        manifest.command = Some(recording.command.clone());
        manifest.probe = probe;
        let nic = interfaces::towards(SocketAddr::new(remote.ip(), 0), remote);
        manifest.host = serde_json::to_value(HostFacts::gather(nic.as_deref())).unwrap_or(Value::Null);
        manifest.clock_anchors.push(ClockAnchor::new(anchor(), false));
        manifest.reflector = ReflectorFacts {
            address: label.to_owned(),
            resolved: Some(remote.to_string()),
            ..ReflectorFacts::default()
        };
        let recorder = Recorder::create(&recording.dir, manifest).map_err(|e| Error::run(e.to_string()))?;
        let queries = Queries::new(&recording.dir);
        let (sender, messages) = channel();
        let backlog = Arc::new(Backlog::new(tell));
        let theirs = Arc::clone(&backlog);
        let run = move || write(&messages, Keeper::new(Some(recorder), anchor, tell), queries, &theirs, tell);
        let thread = std::thread::Builder::new().name("record".into()).spawn(run);
        let thread = thread.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))?;
        Ok((Self(Some((sender, backlog))), Writer(Some(thread))))
    }

    fn send(&self, message: Message) {
        if let Some((sender, _)) = &self.0 {
            // Its end is told by itself.
            _ = sender.send(message);
        }
    }

    pub(crate) fn sample(&self, sample: Sample, sent_mono_ns: u64) {
        self.send(Message::Sample(Box::new(sample), sent_mono_ns));
    }

    pub(crate) fn query(&self, query: Query, began_mono_ns: u64) {
        if self.0.as_ref().is_some_and(|(_, backlog)| backlog.add(query, began_mono_ns)) {
            self.send(Message::Queries);
        }
    }

    /// Waits until the recording is hardly behind, or the run is over; for how long, in ns. To be called between queries.
    pub(crate) fn wait(&self, is_over: impl Fn() -> bool) -> u64 {
        self.0.as_ref().map_or(0, |(_, backlog)| backlog.wait(is_over))
    }

    pub(crate) fn note(&self, text: String) {
        self.event(None, EventKind::Note { text });
    }

    /// This process did not run.
    pub(crate) fn pause(&self, duration_ns: u64, reason: Option<String>) {
        self.event(None, EventKind::Pause { host: "local".to_owned(), duration_ns, reason });
    }

    fn event(&self, connection: Option<u32>, kind: EventKind) {
        self.send(Message::Event(connection, Box::new(kind)));
    }

    /// A connection beside the queries was established.
    pub(crate) fn opened(
        &self,
        connection: u32,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        connect_ns: u64,
    ) {
        let local = local.map(|local| local.to_string()).unwrap_or_default();
        let (target, remote) = (remote.to_string(), remote.to_string());
        let connect_ns = connect_ns as i64;
        let kind = EventKind::ConnectionOpened {
            target,
            local,
            remote,
            connect_ns,
            tls_ns: None,
            interface: None,
            lane: Some(0),
        };
        self.event(Some(connection), kind);
    }

    /// It was not.
    pub(crate) fn refused(&self, connection: u32, remote: SocketAddr, error: &io::Error) {
        let (target, remote) = (remote.to_string(), Some(remote.to_string()));
        let (errno, error) = (error.raw_os_error(), error.to_string());
        let kind =
            EventKind::ConnectionRefused { target, remote, errno, error, retry_in_ns: None, lane: Some(0) };
        self.event(Some(connection), kind);
    }

    /// It was closed from here.
    pub(crate) fn closed(&self, connection: u32, sent: u64, answered: u64, age_ns: u64) {
        self.event(Some(connection), closing(sent, answered, age_ns));
    }

    /// No more round trips come.
    pub(crate) fn beside_is_over(&self) {
        self.send(Message::BesideIsOver);
    }

    /// Ends the recording, and waits until it is whole; which queries are not in it, and why.
    pub(crate) fn end(self, writer: Writer, result: Value) -> (Option<Lost>, Result<(), Error>) {
        self.send(Message::End(Box::new(EventKind::SqlEnded { result })));
        let (lost, written) = writer.0.map_or((Some(Lost::default()), Ok(())), |thread| {
            thread.join().unwrap_or_else(|_| (None, Err("its thread failed".to_owned())))
        });
        let error = |e| {
            let queries = match lost.as_ref().map(Lost::all) {
                None => "some queries not in it".to_owned(),
                Some(0) => "though all queries are in it".to_owned(),
                Some(n) => format!("{} not in it", count(n, "query")),
            };
            Error::run(format!("the recording is not whole, {queries}: {e}"))
        };
        let written = written.map_err(error);
        (lost, written)
    }
}

fn write(
    messages: &Receiver<Message>,
    mut keeper: Keeper,
    mut queries: Queries,
    backlog: &Backlog,
    tell: fn(&str),
) -> Written {
    // Nobody waits for one that ended.
    let _stuck = Stuck(backlog);
    let (mut end, mut beside_is_over) = (None, false);
    let mut flush_ns = mono_ns();
    let mut failed: Option<String> = None;
    // What measures beside may be in the middle of a round trip when the last query is over.
    while end.is_none() || !beside_is_over {
        let waits_ns = (flush_ns + FLUSH_EVERY_NS).saturating_sub(mono_ns()).clamp(MS, 200 * MS);
        match messages.recv_timeout(Duration::from_nanos(waits_ns)) {
            Ok(Message::Sample(sample, sent_ns)) => {
                keeper.sample(&Sample { sent_ns: keeper.utc_of(sent_ns), ..*sample });
            }
            Ok(Message::Event(connection, kind)) => drop(keeper.event(connection, *kind)),
            Ok(Message::BesideIsOver) => beside_is_over = true,
            Ok(Message::End(kind)) => end = Some(kind),
            Ok(Message::Queries) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // Before the clock is looked at: what began before it was set is of the clock of before.
        let is_full = take(backlog, &mut queries, &keeper);
        let now = mono_ns();
        keeper.flush(now);
        if is_full || now.saturating_sub(flush_ns) >= FLUSH_EVERY_NS {
            flush_ns = now;
            if keeper.waits_for_room() {
                // What room there is was made for its events, and it has told so.
                backlog.stuck(true);
            } else {
                note(&mut failed, flush(&mut queries, &mut keeper, backlog), tell);
            }
        }
    }
    take(backlog, &mut queries, &keeper);
    // What is kept for the last words they cannot take.
    note(&mut failed, flush(&mut queries, &mut keeper, backlog), tell);
    queries.close().map(|closed| keeper.event(None, closed));
    let mut lost = backlog.lost();
    queries.unwritten().iter().for_each(|query| lost.add(query));
    let is_lossy = lost.all() > 0;
    let mut end =
        end.map_or(EventKind::Note { text: "the run ended without a result".to_owned() }, |kind| *kind);
    if let (EventKind::SqlEnded { result }, true) = (&mut end, is_lossy) {
        result["unrecorded"] = lost.all().into();
        for (of, at) in result["connections"].as_array_mut().into_iter().flatten().zip(0..) {
            of["unrecorded"] = lost.of(at).into();
        }
    }
    let finished = keeper.finish(end);
    let finished = if is_lossy { Err("it could not be written for too long".to_owned()) } else { finished };
    (Some(lost), failed.map_or(finished, Err))
}

/// Takes the queries that came; whether a file is full of them.
fn take(backlog: &Backlog, queries: &mut Queries, keeper: &Keeper) -> bool {
    let mut is_full = false;
    for (query, began_ns) in backlog.take() {
        is_full |= queries.push(Query { started_ns: keeper.utc_of(began_ns), ..query });
    }
    is_full
}

/// Puts what came on the disk: what is there waits no more.
fn flush(
    queries: &mut Queries,
    keeper: &mut Keeper,
    backlog: &Backlog,
) -> Result<(), fathom_recording::Error> {
    let before = queries.unwritten().len();
    let flushed = queries.flush();
    // What is listed is on the disk.
    for closed in queries.take_closed() {
        keeper.event(None, closed);
    }
    backlog.stuck(flushed.is_err());
    backlog.written((before - queries.unwritten().len()) as u64);
    flushed
}

/// From its end on nothing is written.
struct Stuck<'a>(&'a Backlog);

impl Drop for Stuck<'_> {
    fn drop(&mut self) {
        self.0.stuck(true);
    }
}

/// Tells of trouble, once; a later flush that succeeds mends it, because what was not written is written then.
fn note(failed: &mut Option<String>, flushed: Result<(), fathom_recording::Error>, tell: fn(&str)) {
    match flushed {
        Ok(()) => *failed = None,
        Err(error) => {
            let error = error.with_advice(false);
            if failed.is_none() {
                tell(&format!("queries cannot be recorded now: {error}"));
            }
            *failed = Some(error);
        }
    }
}

/// What a `connection.closed` of these connections says.
fn closing(sent: u64, answered: u64, age_ns: u64) -> EventKind {
    use fathom_core::cause::ClosingCause;
    use fathom_core::event::Evidence;
    EventKind::ConnectionClosed {
        cause: ClosingCause::Finished,
        verdict: None,
        errno: None,
        age_ns,
        evidence: Evidence {
            sent,
            answered,
            last_answered_seq: answered.checked_sub(1),
            outstanding: sent - answered,
            ..Evidence::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backlog::MOST_WAITING;
    use fathom_recording::Tool;
    use std::path::Path;
    use std::sync::Mutex;
    use std::time::Instant;

    /// More than two files of them.
    const QUERIES: u64 = 9_000;

    /// One that was answered at once.
    fn query() -> Query {
        Query { turns: 1, ..Query::default() }
    }

    /// A recording whose queries cannot be written from the beginning; `told` is told of trouble.
    fn begin(dir: &Path, asked: u64, tell: fn(&str)) -> (Record, Writer) {
        let recording = Recording {
            dir: dir.to_owned(),
            tool: Tool { version: "0".to_owned(), revision: None },
            command: String::new(),
        };
        let remote = "127.0.0.1:1".parse().unwrap();
        let probe = serde_json::json!({ "sql": { "connections": 2 } });
        let begun = Record::begin(Some(&recording), "a test", remote, probe, tell).unwrap();
        std::fs::create_dir(dir.join("queries-00000.parquet.tmp")).unwrap();
        for number in 0..asked {
            begun.0.query(Query { query: number, connection: number % 2, ..query() }, mono_ns());
        }
        begun
    }

    /// Waits until something is told; when it would not have been waited for any more.
    fn until_told(told: &Mutex<Vec<String>>) -> Instant {
        let deadline = Instant::now() + Duration::from_mins(1);
        while told.lock().unwrap().is_empty() {
            assert!(Instant::now() < deadline, "nothing is told");
            std::thread::yield_now();
        }
        deadline
    }

    #[test]
    fn queries_that_could_not_be_written_at_first_are_written_later() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("kept");
        let (record, writer) = begin(&dir, QUERIES, |line| TOLD.lock().unwrap().push(line.to_owned()));
        until_told(&TOLD);
        std::fs::remove_dir(dir.join("queries-00000.parquet.tmp")).unwrap();
        record.beside_is_over();
        let (lost, ended) = record.end(writer, serde_json::json!({ "queries": QUERIES }));
        assert!(lost == Some(Lost::default()) && ended.is_ok(), "{ended:?}");
        assert_eq!(TOLD.lock().unwrap().len(), 1, "{TOLD:?}");
        let verified = fathom_recording::verify(&dir, |_| {}).unwrap();
        assert!(verified.findings.is_empty(), "{verified:?}");
    }

    #[test]
    fn queries_that_are_never_written_are_told_once_and_make_it_a_failure() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let dir = tempfile::tempdir().unwrap();
        let (record, writer) =
            begin(&dir.path().join("kept"), QUERIES, |line| TOLD.lock().unwrap().push(line.to_owned()));
        record.beside_is_over();
        let (lost, ended) = record.end(writer, Value::Null);
        let error = ended.expect_err("they are lost").to_string();
        assert!(error.contains("not whole, 9000 queries not in it"), "{error}");
        assert_eq!((TOLD.lock().unwrap().len(), lost.unwrap().all()), (1, QUERIES), "{TOLD:?}");
    }

    /// "No such file or directory; check the path", and not a word of what to do.
    #[test]
    fn a_directory_that_is_removed_is_told_with_what_to_do() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("kept");
        let (record, writer) = begin(&dir, QUERIES, |line| TOLD.lock().unwrap().push(line.to_owned()));
        let deadline = until_told(&TOLD);
        // A file that is made meanwhile is in the way.
        while std::fs::remove_dir_all(&dir).is_err() {
            assert!(Instant::now() < deadline, "it does not go");
        }
        record.beside_is_over();
        let error = record.end(writer, Value::Null).1.expect_err("it is gone").to_string();
        let says = "was removed while it was recorded to, and what it held is gone; start the run anew to record again";
        assert!(error.contains("9000 queries not in it: ") && error.ends_with(says), "{error}");
        let told = TOLD.lock().unwrap();
        assert!(told.iter().all(|line| !line.contains("removed") || line.ends_with(says)), "{told:?}");
    }

    #[test]
    fn where_the_thread_failed_nobody_counted() {
        let record = Record(None);
        let thread = std::thread::spawn(|| -> Written { std::panic::resume_unwind(Box::new(())) });
        let (lost, ended) = record.end(Writer(Some(thread)), Value::Null);
        let error = ended.expect_err("nothing is known of it").to_string();
        assert_eq!(lost, None);
        assert!(error.contains("not whole, some queries not in it: its thread failed"), "{error}");
    }

    /// The disk is full for so long that there is no room for more: what is written and what is told lost are all of them.
    #[test]
    fn what_there_is_no_room_for_is_counted() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        const ASKED: u64 = MOST_WAITING + 1_234;
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("kept");
        let (record, writer) = begin(&dir, ASKED, |line| TOLD.lock().unwrap().push(line.to_owned()));
        std::fs::remove_dir(dir.join("queries-00000.parquet.tmp")).unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        while record.0.as_ref().unwrap().1.waiting() > 0 {
            assert!(Instant::now() < deadline, "there is room again, and it is not used");
            std::thread::yield_now();
        }
        // A later one has its own number.
        record.query(Query { query: ASKED, ..query() }, mono_ns());
        record.beside_is_over();
        let each = [0, 1].map(|of| serde_json::json!({ "queries": (ASKED + 2 - of) / 2, "failed": 0 }));
        let (lost, ended) =
            record.end(writer, serde_json::json!({ "queries": ASKED + 1, "connections": each }));
        let lost = lost.unwrap();
        assert_eq!((lost.all(), lost.of(0), lost.of(1)), (1_234, 617, 617));
        ended.expect_err("it is not whole");
        let verified = fathom_recording::verify(&dir, |_| {}).unwrap();
        assert!(verified.findings.is_empty(), "{verified:?}");
    }

    /// Queries that come faster than they can be written: a free disk loses none, and who waits says for how long.
    #[test]
    fn queries_wait_for_a_recording_that_is_behind() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        /// Three times what is kept at most.
        const EACH: u64 = 3 * MOST_WAITING / 2;
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("kept");
        let (record, writer) = begin(&dir, 0, |line| TOLD.lock().unwrap().push(line.to_owned()));
        std::fs::remove_dir(dir.join("queries-00000.parquet.tmp")).unwrap();
        let number = Mutex::new(0..);
        let waited_ns: u64 = std::thread::scope(|scope| {
            let asks = |connection| {
                let (record, number) = (&record, &number);
                scope.spawn(move || {
                    let asked = (0..EACH).map(|_| {
                        let waited_ns = record.wait(|| false);
                        let mut number = number.lock().unwrap();
                        let query = Query { query: number.next().unwrap(), connection, ..query() };
                        record.query(query, mono_ns());
                        waited_ns
                    });
                    asked.sum::<u64>()
                })
            };
            let asking = [asks(0), asks(1)];
            asking.map(|of| of.join().unwrap()).into_iter().sum()
        });
        record.beside_is_over();
        let (lost, ended) = record.end(writer, serde_json::json!({ "queries": 2 * EACH, "failed": 0 }));
        assert!(lost == Some(Lost::default()) && ended.is_ok(), "{ended:?}");
        assert!(waited_ns > 0);
        let told = TOLD.lock().unwrap();
        let [line] = &told[..] else { panic!("{told:?}") };
        assert!(line.starts_with("the recording is 8192 queries behind"), "{line}");
        let verified = fathom_recording::verify(&dir, |_| {}).unwrap();
        assert!(verified.is_sound() && verified.queries == Some(2 * EACH), "{verified:?}");
    }

    /// Nobody waits for a disk that takes nothing, nor when the run is over.
    #[test]
    fn a_disk_that_takes_nothing_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (record, writer) = begin(&dir.path().join("kept"), MOST_WAITING, |_| {});
        record.wait(|| false);
        record.beside_is_over();
        record.end(writer, Value::Null).1.expect_err("they are lost");
        let behind = Backlog::new(|_| {});
        (0..crate::backlog::MOST_BEHIND).for_each(|_| _ = behind.add(query(), 0));
        behind.wait(|| true);
        behind.stuck(true);
        assert_eq!(behind.wait(|| false), 0);
    }

    /// What a run says of its connections in the end is held against their rows.
    #[test]
    fn rows_of_each_connection_are_what_it_came_to() {
        let each = |queries: [u64; 2], failed: [u64; 2]| {
            [0, 1].map(
                |of| serde_json::json!({ "queries": queries[of], "failed": failed[of], "unrecorded": 0 }),
            )
        };
        let (counts, fails) = (
            "each connection has as many queries as sql.ended counts",
            "as many failed on each connection as sql.ended counts",
        );
        for (each, broken) in [
            (each([5, 4], [0, 0]), vec![]),
            (each([4, 5], [0, 0]), vec![(counts, 2)]),
            (each([5, 4], [0, 1]), vec![(fails, 1)]),
            (each([5, 5], [0, 0]), vec![("connections have all queries together", 1), (counts, 1)]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path().join("kept");
            let (record, writer) = begin(&dir, 9, |_| {});
            std::fs::remove_dir(dir.join("queries-00000.parquet.tmp")).unwrap();
            record.beside_is_over();
            record.end(writer, serde_json::json!({ "queries": 9, "connections": each })).1.unwrap();
            let found = fathom_recording::verify(&dir, |_| {}).unwrap().findings;
            let found: Vec<_> = found.iter().map(|finding| (finding.law, finding.count)).collect();
            assert_eq!(found, broken, "{each:?}");
        }
    }
}
