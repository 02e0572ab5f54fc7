//! One query, and how it may end.

use super::{config_of, in_time, logged_in, message, serve};
use crate::beside::Beside;
use crate::error::{Loss, Trouble};
use crate::login::Login;
use crate::query::{Answer, Asker};
use crate::session::Session;
use crate::under_way::Habits;
use crate::{Config, SslMode, Stop, Target};
use fathom_core::query::Party;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A server that is frozen when it has let somebody in: the question by whose answer it is looked at was given up, and the query asked
/// on the same session, so that what came yet was taken for its answer.
#[test]
fn a_session_that_owes_an_answer_is_asked_nothing_else() {
    let (done, until_done) = channel::<()>();
    let (login, server) = serve("?sslmode=disable", move |listener| {
        let stream = logged_in(&listener);
        _ = until_done.recv();
        drop(stream);
    });
    let mut config = config(&login, false, None, Duration::ZERO);
    config.connect_timeout = Duration::from_millis(200);
    let told = in_time(move || crate::run(&config, &Stop::default()).map(drop).unwrap_err().to_string());
    assert!(told.ends_with("does not answer: no whole answer within 200ms"), "{told}");
    drop(done);
    server.join().unwrap();
}

/// Asks once.
fn ask(login: Login, simple: bool, fetch_size: Option<u32>) -> Answer {
    ask_and_think(login, simple, fetch_size, Duration::ZERO)
}

/// The same, and works on each row for so long.
fn ask_and_think(login: Login, simple: bool, fetch_size: Option<u32>, think: Duration) -> Answer {
    in_time(move || {
        let config = config(&login, simple, fetch_size, think);
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

/// The connection is silent for 100 ms, and then ends so.
fn end(ending: Ending, mut stream: TcpStream, stop: &Stop, until_done: &std::sync::mpsc::Receiver<()>) {
    std::thread::sleep(Duration::from_millis(100));
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

#[test]
fn a_wait_without_an_answer_is_not_the_clients() {
    for ending in [Ending::Closed, Ending::Reset, Ending::Stopped, Ending::Nonsense] {
        for after_a_row in [false, true] {
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
                // What was read is told.
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
    }
}

/// The whole answer was here, and an application would have worked on it for an hour: it stood in the figures as a short query.
#[test]
fn a_query_whose_rows_were_not_worked_on_was_ended_by_the_user() {
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
fn a_second_request_to_end_is_heeded_while_a_cancel_hangs() {
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
