//! One query, and how it may end.

use super::{config_of, in_time, logged_in, message, serve};
use crate::beside::Beside;
use crate::error::{Loss, Trouble};
use crate::login::Login;
use crate::query::{Answer, Asker};
use crate::session::Session;
use crate::under_way::Habits;
use crate::{Config, Source, SslMode, Stop, Target};
use fathom_core::query::Party;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The server stops after the login: no query is asked on the session, whose next answer is that of the first question.
#[test]
fn unanswered_setup_question_ends_run() {
    let (done, until_done) = channel::<()>();
    let (login, server) = serve("?sslmode=disable", move |listener| {
        let stream = logged_in(&listener);
        _ = until_done.recv();
        drop(stream);
    });
    let mut config = config(&login, false, None, Duration::ZERO);
    config.connect_timeout = Duration::from_secs(1);
    let told = in_time(move || crate::run(&config, &Stop::default()).map(drop).unwrap_err().to_string());
    assert!(told.ends_with("does not answer: no whole answer within 1s"), "{told}");
    drop(done);
    server.join().unwrap();
}

/// Asks once.
fn ask(login: Login, simple: bool, fetch_size: Option<u32>) -> Answer {
    ask_and_think(login, simple, fetch_size, Duration::ZERO)
}

/// The same, and works on each row for so long.
fn ask_and_think(login: Login, simple: bool, fetch_size: Option<u32>, think: Duration) -> Answer {
    let config = config(&login, simple, fetch_size, think);
    ask_as(login, config)
}

/// The same, by this config.
fn ask_as(login: Login, config: Config) -> Answer {
    in_time(move || {
        let mut asker = Asker {
            session: Box::new(Session::begin(&login).unwrap()),
            login: &login,
            config: &config,
            sql: "SELECT 1".to_owned(),
            beside: Beside::nobody(),
            looks: None,
            watch: None,
            stop: login.stop.clone(),
            habits: Habits::default(),
            run_queue: fathom_os::pause::RunQueue::of_this_thread(),
            running: None,
            seam: None,
            before: crate::looks::after::Before::default(),
        };
        asker.ask(None, None)
    })
}

fn config(login: &Login, simple: bool, fetch_size: Option<u32>, think: Duration) -> Config {
    Config { think, fetch_size, simple, ..config_of(Target::Postgres(login.server.clone())) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Closed,
    Reset,
    Stopped,
    Nonsense,
}

/// The connection is silent for a second, and then ends so.
fn end(ending: Ending, mut stream: TcpStream, stop: &Stop, until_done: &std::sync::mpsc::Receiver<()>) {
    std::thread::sleep(Duration::from_secs(1));
    match ending {
        // What was sent and is never read makes the kernel reset it: the rest of the query.
        Ending::Closed | Ending::Reset => drop(stream),
        Ending::Stopped => {
            stop.ask();
            stop.ask();
            _ = until_done.recv();
        }
        Ending::Nonsense => {
            stream.write_all(b"T\xff\xff\xff\xff").unwrap();
            _ = until_done.recv();
        }
    }
}

/// All cases at once: each waits for a second.
#[test]
fn unanswered_wait_is_server_or_path() {
    std::thread::scope(|scope| {
        for ending in [Ending::Closed, Ending::Reset, Ending::Stopped, Ending::Nonsense] {
            for after_a_row in [false, true] {
                scope.spawn(move || wait_is_server_or_path(ending, after_a_row));
            }
        }
    });
}

fn wait_is_server_or_path(ending: Ending, after_a_row: bool) {
    let (stop, (done, until_done)) = (Stop::default(), channel());
    let asked = stop.clone();
    let (mut login, server) = serve("?sslmode=disable", move |listener| {
        let mut stream = logged_in(&listener);
        if ending == Ending::Reset {
            stream.peek(&mut [0]).unwrap();
        } else {
            message(&mut stream);
        }
        if after_a_row {
            stream.write_all(b"D\0\0\0\x06\0\0").unwrap();
        }
        end(ending, stream, &asked, &until_done);
    });
    login.stop = stop;
    let answer = ask(login, true, None);
    drop(done);
    server.join().unwrap();
    let expected = match ending {
        Ending::Closed => answer.error == Some(Trouble::Lost(Loss::Closed)),
        Ending::Reset => matches!(&answer.error, Some(Trouble::Lost(Loss::Broke { .. }))),
        // The message shows what was read.
        Ending::Nonsense => matches!(
            &answer.error,
            Some(Trouble::Lost(Loss::NotUnderstood { words })) if words.ends_with("54 ff ff ff ff")
        ),
        Ending::Stopped => answer.error == Some(Trouble::Stopped { is_unanswered: true }),
    };
    assert!(expected, "{ending:?}: {:?}", answer.error);
    let part = |party| answer.split.part(party);
    let half = answer.split.wall_ns / 2;
    assert!(part(Party::Client).high_ns < half, "{ending:?}: {:?}", answer.split);
    for party in [Party::Server, Party::Path] {
        assert!(part(party).low_ns < half && part(party).high_ns > half, "{:?}", answer.split);
    }
}

/// The whole answer was here, and an application would have worked on it for an hour: it stood in the figures as a short query.
#[test]
fn stop_during_think_marks_query_stopped() {
    let (stop, (done, until_done)) = (Stop::default(), channel::<()>());
    let asked = stop.clone();
    let (mut login, server) = serve("?sslmode=disable", move |listener| {
        let mut stream = logged_in(&listener);
        message(&mut stream);
        stream.write_all(b"D\0\0\0\x06\0\0C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I").unwrap();
        asked.ask();
        _ = until_done.recv();
    });
    login.stop = stop;
    let answer = ask_and_think(login, true, None, Duration::from_hours(1));
    assert_eq!((answer.rows, answer.error), (1, Some(Trouble::Stopped { is_unanswered: false })));
    drop(done);
    server.join().unwrap();
}

/// Where the path is gone the request to cancel hangs as well: who asks twice is heeded all the same.
#[test]
fn second_stop_ends_hanging_cancel() {
    let (stop, (done, until_done)) = (Stop::default(), channel::<()>());
    let asked = stop.clone();
    // Once by one of `ask`'s patience: the request to cancel is under way when the second comes.
    let (mut login, server) = serve("?sslmode=prefer", move |listener| {
        let refused = |listener: &std::net::TcpListener| {
            let (mut stream, _) = listener.accept().unwrap();
            super::body(&mut stream);
            stream
        };
        let mut stream = refused(&listener);
        stream.write_all(b"N").unwrap();
        super::body(&mut stream);
        stream.write_all(b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I").unwrap();
        message(&mut stream);
        asked.ask();
        // Its question whether there is TLS is never answered.
        let cancel = refused(&listener);
        asked.ask();
        _ = until_done.recv();
        drop(cancel);
    });
    assert_eq!(login.server.ssl, SslMode::Prefer);
    // Longer than this test waits.
    (login.stop, login.within) = (stop, Duration::from_mins(1));
    let answer = ask(login, true, None);
    assert_eq!(answer.error, Some(Trouble::Stopped { is_unanswered: true }));
    drop(done);
    server.join().unwrap();
}

/// `DataRow` without a column, `RowDescription`, `EmptyQueryResponse`, `PortalSuspended`, `ReadyForQuery`.
const ROW: &[u8] = b"D\0\0\0\x06\0\0";
const DESCRIPTION: &[u8] = b"T\0\0\0\x06\0\0";
const EMPTY: &[u8] = b"I\0\0\0\x04";
const SUSPENDED: &[u8] = b"s\0\0\0\x04";
const READY: &[u8] = b"Z\0\0\0\x05I";

/// `CommandComplete` with this tag.
fn complete(tag: &str) -> Vec<u8> {
    [b"C", &(tag.len() as u32 + 5).to_be_bytes()[..], tag.as_bytes(), b"\0"].concat()
}

/// How a query ends that is answered by these, one for each of its requests; `early`: by this too, before it is asked.
fn answered_by(
    how: (bool, Option<u32>),
    early: &'static [u8],
    answers: Vec<Vec<u8>>,
) -> (u64, Option<Trouble>) {
    let source = config_of(Target::parse("postgres://me@db/d", |_| None).unwrap()).source;
    answered_to(source, how, early, answers)
}

/// The same of a query of this kind.
fn answered_to(
    source: Source,
    (simple, fetch_size): (bool, Option<u32>),
    early: &'static [u8],
    answers: Vec<Vec<u8>>,
) -> (u64, Option<Trouble>) {
    let (login, server) = serve("?sslmode=disable", move |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        super::body(&mut stream);
        let let_in = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";
        stream.write_all(&[let_in, early].concat()).unwrap();
        let mut answers = answers.into_iter();
        // Query, Sync, Flush: until the client leaves, which says so or not.
        while let Ok(tag) = tag(&mut stream) {
            if matches!(tag, b'Q' | b'S' | b'H') {
                stream.write_all(&answers.next().unwrap_or_default()).unwrap_or(());
            }
        }
    });
    let config = Config { source, ..config(&login, simple, fetch_size, Duration::ZERO) };
    let answer = ask_as(login, config);
    server.join().unwrap();
    (answer.rows, answer.error)
}

/// The tag of the next message.
fn tag(stream: &mut TcpStream) -> std::io::Result<u8> {
    use std::io::Read as _;
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    stream.read_exact(&mut vec![0; length as usize - 4])?;
    Ok(head[0])
}

fn not_understood(trouble: Option<&Trouble>) -> Option<&str> {
    match trouble {
        Some(Trouble::Lost(Loss::NotUnderstood { words })) => Some(words),
        _ => None,
    }
}

/// It came of itself while the query was under way, which counted as answered, with no rows; and the next one had its answer (a stranger).
#[test]
fn ready_without_result_is_protocol_violation() {
    let (simple, extended, fetched) = ((true, None), (false, None), (false, Some(2)));
    for how in [simple, extended, fetched] {
        for rows in [0, 1] {
            let (_, error) = answered_by(how, b"", vec![[&ROW.repeat(rows), READY].concat()]);
            let words = not_understood(error.as_ref()).unwrap_or_else(|| panic!("{how:?}: {error:?}"));
            assert!(words.contains("ReadyForQuery) before it has said what became of this one"), "{words}");
            assert!(words.ends_with("5a 00 00 00 05"), "{words}");
        }
        // What was there before anything was asked is told as that.
        let (_, error) = answered_by(how, READY, vec![]);
        let words = not_understood(error.as_ref()).unwrap_or_else(|| panic!("{how:?}: {error:?}"));
        assert!(words.starts_with("an answer that was there before anything was asked: "), "{words}");
    }
    for end in [complete("SELECT 0"), complete("UPDATE 7"), EMPTY.to_vec()] {
        for how in [simple, extended] {
            assert_eq!(answered_by(how, b"", vec![[&end, READY].concat()]), (0, None), "{how:?}");
        }
        assert_eq!(answered_by(fetched, b"", vec![end, READY.to_vec()]), (0, None));
    }
    let refusal = b"E\0\0\0\x21SERROR\0VERROR\0C42501\0Mno\0Rx\0\0";
    for (how, answers) in [
        (simple, vec![[&refusal[..], READY].concat()]),
        (extended, vec![[&refusal[..], READY].concat()]),
        (fetched, vec![refusal.to_vec(), READY.to_vec()]),
    ] {
        let (_, error) = answered_by(how, b"", answers);
        assert!(matches!(error, Some(Trouble::Refused(_))), "{how:?}: {error:?}");
    }
}

/// A proxy that loses one row of a hundred, or sends it twice: nobody noticed (a stranger).
#[test]
fn row_count_mismatch_is_protocol_violation() {
    let rows = |n| ROW.repeat(n);
    let whole = |n, tag: &str| vec![[rows(n), complete(tag), READY.to_vec()].concat()];
    let pieces = |n, tag: &str| {
        vec![[&rows(2), SUSPENDED].concat(), [rows(n), complete(tag)].concat(), READY.to_vec()]
    };
    let (simple, extended, fetched) = ((true, None), (false, None), (false, Some(2)));
    for (how, answers, says) in [
        (simple, whole(3, "SELECT 4"), Some("3 rows came, and by its own count the server sent 4 ")),
        (extended, whole(3, "SELECT 2"), Some("3 rows came, and by its own count the server sent 2 ")),
        (fetched, pieces(1, "SELECT 2"), Some("1 row came, and by its own count the server sent 2 ")),
        (simple, whole(3, "SELECT 3"), None),
        (extended, whole(3, "SELECT 3"), None),
        (extended, whole(3, "INSERT 0 5"), None),
        (fetched, pieces(1, "SELECT 1"), None),
        (fetched, pieces(0, "SELECT 0"), None),
    ] {
        let (_, error) = answered_by(how, b"", answers);
        let words = not_understood(error.as_ref());
        assert_eq!(words.is_some(), says.is_some(), "{how:?} {says:?}: {error:?}");
        assert!(says.is_none_or(|says| words.unwrap_or_default().starts_with(says)), "{words:?}");
    }
    // Several statements, each of which has its rows.
    let several = [
        &complete("CREATE TABLE"),
        &complete("SELECT 9")[..],
        DESCRIPTION,
        &rows(2),
        &complete("SELECT 2"),
        READY,
    ];
    assert_eq!(answered_by(simple, b"", vec![several.concat()]), (2, None));
}

/// A proxy that loses all rows of an answer: without a description of them the tag may be that of `CREATE TABLE … AS`, so nobody noticed (a
/// stranger). What fathom itself asks for it knows, and of a server that counts nothing too.
#[test]
fn missing_requested_rows_are_protocol_violation() {
    let (simple, extended, fetched) = ((true, None), (false, None), (false, Some(5)));
    let refusal = b"E\0\0\0\x21SERROR\0VERROR\0C42501\0Mno\0Rx\0\0";
    for how in [simple, extended, fetched] {
        for (rows, tag, says) in [
            (0, "SELECT 3", Some("0 rows came, and 3 were asked for")),
            (1, "SELECT 1", Some("1 row came, and 3 were asked for")),
            (2, "SELECT 0", Some("2 rows came, and 3 were asked for")),
            (3, "SELECT 3", None),
        ] {
            let source = Source::Rows { rows: 3, row_bytes: 10 };
            let answers = vec![[&ROW.repeat(rows), &complete(tag)[..], READY].concat(), READY.to_vec()];
            let (came, error) = answered_to(source, how, b"", answers);
            let words = not_understood(error.as_ref()).and_then(|words| words.split(" (").next());
            assert_eq!((came, words), (rows as u64, says), "{how:?} {tag}: {error:?}");
        }
        // Who says why it has no rows is heard.
        let answers = vec![[&refusal[..], READY].concat(), READY.to_vec()];
        let (_, error) = answered_to(Source::Rows { rows: 3, row_bytes: 10 }, how, b"", answers);
        assert!(matches!(error, Some(Trouble::Refused(_))), "{how:?}: {error:?}");
    }
}
