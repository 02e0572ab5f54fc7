use super::*;
use crate::backlog::{MOST_BEHIND, MOST_WAITING};
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

/// A recording whose queries cannot be written. `tell` gets the messages.
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

/// Waits for the first message. Returns the deadline of the wait.
fn until_told(told: &Mutex<Vec<String>>) -> Instant {
    let deadline = Instant::now() + Duration::from_mins(1);
    while told.lock().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "nothing is told");
        std::thread::yield_now();
    }
    deadline
}

#[test]
fn blocked_queries_are_written_later() {
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
fn lost_queries_are_reported_once_and_fail() {
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

#[test]
fn removed_directory_error_suggests_new_run() {
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
    let says =
        "was removed while it was recorded to, and what it held is gone; start the run anew to record again";
    assert!(error.contains("9000 queries not in it: ") && error.ends_with(says), "{error}");
    let told = TOLD.lock().unwrap();
    assert!(told.iter().all(|line| !line.contains("removed") || line.ends_with(says)), "{told:?}");
}

#[test]
fn failed_thread_leaves_losses_unknown() {
    let record = Record(None);
    let thread = std::thread::spawn(|| -> Written { std::panic::resume_unwind(Box::new(())) });
    let (lost, ended) = record.end(Writer(Some(thread)), Value::Null);
    let error = ended.expect_err("nothing is known of it").to_string();
    assert_eq!(lost, None);
    assert!(error.contains("not whole, some queries not in it: its thread failed"), "{error}");
}

/// Two connections ask so many queries each as fast as they may: a free disk loses none. Returns the time waited, and the messages.
fn no_query_is_lost(each: u64, told: &'static Mutex<Vec<String>>, tell: fn(&str)) -> (u64, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("kept");
    let (record, writer) = begin(&dir, 0, tell);
    std::fs::remove_dir(dir.join("queries-00000.parquet.tmp")).unwrap();
    let number = Mutex::new(0..);
    let waited_ns: u64 = std::thread::scope(|scope| {
        let asks = |connection| {
            let (record, number) = (&record, &number);
            scope.spawn(move || {
                let asked = (0..each).map(|_| {
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
    let (lost, ended) = record.end(writer, serde_json::json!({ "queries": 2 * each, "failed": 0 }));
    assert!(lost == Some(Lost::default()) && ended.is_ok(), "{ended:?}");
    let verified = fathom_recording::verify(&dir, |_| {}).unwrap();
    assert!(verified.is_sound() && verified.queries == Some(2 * each), "{verified:?}");
    (waited_ns, told.lock().unwrap().clone())
}

#[test]
fn waiting_queries_are_all_recorded() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    // Twice as many as may wait before the next one begins.
    let (_, told) = no_query_is_lost(MOST_BEHIND, &TOLD, |line| TOLD.lock().unwrap().push(line.to_owned()));
    assert!(told.iter().all(|line| line.contains("queries behind")), "{told:?}");
}

/// Nor do they wait when the run is over.
#[test]
fn queries_do_not_wait_for_stuck_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (record, writer) = begin(&dir.path().join("kept"), MOST_WAITING, |_| {});
    record.wait(|| false);
    record.beside_is_over();
    record.end(writer, Value::Null).1.expect_err("they are lost");
    let behind = Backlog::new(|_| {});
    (0..MOST_BEHIND).for_each(|_| _ = behind.add(query(), 0));
    behind.wait(|| true);
    behind.stuck(true);
    assert_eq!(behind.wait(|| false), 0);
}

/// Verification compares the connections' counts with their rows.
#[test]
fn connection_counts_are_checked_against_rows() {
    let each = |queries: [u64; 2], failed: [u64; 2]| {
        [0, 1].map(|of| serde_json::json!({ "queries": queries[of], "failed": failed[of], "unrecorded": 0 }))
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

mod acceptance {
    use super::*;

    /// More queries than are kept at most.
    #[test]
    fn queries_wait_for_a_recording_that_is_behind() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let each = 3 * MOST_WAITING / 2;
        let (waited_ns, told) =
            no_query_is_lost(each, &TOLD, |line| TOLD.lock().unwrap().push(line.to_owned()));
        assert!(waited_ns > 0);
        let [line] = &told[..] else { panic!("{told:?}") };
        assert!(line.starts_with("the recording is 8192 queries behind"), "{line}");
    }

    /// The disk is full for so long that no more are kept: the written and the lost queries are all.
    #[test]
    fn queries_without_room_are_counted() {
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
}
