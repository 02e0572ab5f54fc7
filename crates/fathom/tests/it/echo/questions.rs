//! What the reflector says when it is asked what it last received on a connection.

use super::reflector::{PATIENCE, Reflector, frame, round_trip, stamps_of, udp, utc_ns};
use fathom_wire::{About, Answer, HEADER_LEN, Introduction, Key, Question, Reply, Standing};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

const KEY: Key = Key { session: 79, connection: 3 };

fn question(connection: u32) -> [u8; HEADER_LEN] {
    Question { session: KEY.session, connection, number: 8, about: About::Connection }.encode()
}

/// The answer in an echo of this question.
fn read(question: &[u8], echo: &[u8]) -> Option<Answer> {
    assert_eq!(echo.len(), question.len(), "nothing is amplified");
    assert_eq!(echo[..32], question[..32], "the question comes back");
    Answer::decode(echo.last_chunk().expect("32 bytes")).expect("empty or whole")
}

fn ask(stream: &mut TcpStream, connection: u32) -> Option<Answer> {
    let question = question(connection);
    let echo = round_trip(stream, &question);
    read(&question, &echo)
}

/// Asks until the answer is as it should be: ends reach the reflector after their maker has gone on.
fn ask_until(stream: &mut TcpStream, connection: u32, holds: impl Fn(&Answer) -> bool) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = ask(stream, connection).expect("an answer");
        if holds(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "asked in vain; at last: {answer:?}");
    }
}

#[test]
fn reply_reports_last_frame_of_open_connection() {
    let reflector = Reflector::start("127.0.0.1:0", &["--tcp-only"]);
    let (mut one, mut other) = (reflector.connect(), reflector.connect());
    let began = utc_ns();
    let unknown = ask(&mut other, KEY.connection).expect("an answer");
    assert_eq!(unknown.standing, Standing::NotKnown);
    assert!(unknown.received_ns <= began, "it had begun before: {unknown:?}");
    for sequence in 0..5 {
        let before = utc_ns();
        round_trip(&mut one, &frame(KEY, sequence, 100));
        let answer = ask(&mut other, KEY.connection).expect("an answer");
        assert_eq!((answer.standing, answer.last_seq), (Standing::Open, sequence));
        assert_eq!((u64::from(answer.frames), answer.unsent), (sequence + 1, 0));
        assert!((before - 10_000_000..=utc_ns() + 10_000_000).contains(&answer.received_ns), "{answer:?}");
    }
    assert_eq!(ask(&mut one, KEY.connection), None, "a connection is not asked about itself");
    let (counts, _) = reflector.stop();
    assert_eq!((&counts["questions"], &counts["messages_stamped"]), (&6.into(), &5.into()));
}

#[test]
fn introduction_matches_stamps_and_peer_port() {
    let reflector = Reflector::start("127.0.0.1:0", &["--tcp-only"]);
    let (mut one, mut other) = (reflector.connect(), reflector.connect());
    let who = |stream: &mut TcpStream| -> Introduction {
        let (session, connection) = (KEY.session, KEY.connection);
        let question = Question { session, connection, number: 8, about: About::Reflector }.encode();
        let echo = round_trip(stream, &question);
        assert_eq!(echo[..32], question[..32], "the question comes back");
        match Reply::decode(echo.last_chunk().expect("32 bytes")) {
            Ok(Some(Reply::Reflector(introduction))) => introduction,
            other => panic!("{other:?}"),
        }
    };
    let stranger = who(&mut other);
    assert_eq!((stranger.port, stranger.received_ago_ms), (None, None));
    let echo = round_trip(&mut one, &frame(KEY, 0, 64));
    let known = who(&mut other);
    let local = one.local_addr().expect("its address").port();
    assert_eq!((known.identity, known.port), (stamps_of(KEY, 0, &echo).identity, Some(local)));
    assert!(
        known.identity != 0 && known.received_ago_ms.is_some() && known.age_ns > stranger.age_ns,
        "{known:?}"
    );
    assert_eq!(known.pause_ms, None);
}

#[test]
fn reply_reports_unsent_echoes() {
    let reflector = Reflector::start("127.0.0.1:0", &["--tcp-only"]);
    let (mut one, mut other) = (reflector.connect(), reflector.connect());
    // Until no buffer on the way takes more: then the reflector holds what it has read.
    one.set_nonblocking(true).expect("set");
    let mut sequence = 0;
    let mut bytes = frame(KEY, 0, 65_536);
    let mut held = None;
    let deadline = Instant::now() + PATIENCE;
    while held.is_none() {
        assert!(Instant::now() < deadline, "it never held anything");
        match one.write(&bytes) {
            Ok(written) if written == bytes.len() => {
                sequence += 1;
                bytes = frame(KEY, sequence, 65_536);
            }
            Ok(written) => drop(bytes.drain(..written)),
            Err(_) => held = ask(&mut other, KEY.connection).filter(|answer| answer.unsent > 0),
        }
    }
    let held = held.expect("set above");
    assert_eq!(held.standing, Standing::Open);
    assert!(held.last_seq <= sequence, "{held:?} of {sequence}");
}

#[test]
fn it_says_how_a_connection_ended() {
    let reflector = Reflector::start("127.0.0.1:0", &["--tcp-only"]);
    let mut other = reflector.connect();
    let (mut finished, mut reset) = (reflector.connect(), reflector.connect());
    round_trip(&mut finished, &frame(KEY, 0, 64));
    drop(finished);
    let closed = ask_until(&mut other, KEY.connection, |answer| answer.standing != Standing::Open);
    assert_eq!((closed.standing, closed.last_seq, closed.unacked), (Standing::ClosedByProbe, 0, None));
    // An echo unread when the socket is closed makes its kernel send a RST.
    let second = Key { connection: KEY.connection + 1, ..KEY };
    reset.write_all(&frame(second, 0, 64)).expect("sent");
    reset.peek(&mut [0; 1]).expect("echoed");
    drop(reset);
    let failed = ask_until(&mut other, second.connection, |answer| answer.standing != Standing::Open);
    assert_eq!(failed.standing, Standing::Failed);
}

#[test]
fn it_says_that_it_closed_an_idle_connection() {
    let reflector = Reflector::start("127.0.0.1:0", &["--tcp-only", "--idle-timeout", "300ms"]);
    let mut one = reflector.connect();
    round_trip(&mut one, &frame(KEY, 0, 64));
    assert_eq!(one.read(&mut [0; 1]).expect("an end in order"), 0);
    let closed = ask(&mut reflector.connect(), KEY.connection).expect("an answer");
    assert_eq!((closed.standing, closed.last_seq), (Standing::ClosedIdle, 0));
}

#[test]
fn datagrams_ask_and_are_asked_about() {
    let reflector = Reflector::start("127.0.0.1:0", &["--udp-only"]);
    let address = reflector.udp.expect("it serves UDP");
    let (one, other) = (udp("127.0.0.1:0", address), udp("127.0.0.1:0", address));
    let round_trip = |socket: &std::net::UdpSocket, bytes: &[u8]| {
        socket.send(bytes).expect("sent");
        let mut echo = [0; 256];
        let length = socket.recv(&mut echo).expect("echoed");
        echo[..length].to_vec()
    };
    for sequence in 0..3 {
        round_trip(&one, &frame(KEY, sequence, 64));
    }
    let question = question(KEY.connection);
    let answered = round_trip(&other, &question);
    let answer = read(&question, &answered).expect("an answer");
    assert_eq!((answer.standing, answer.last_seq, answer.frames), (Standing::Open, 2, 3));
    // An answer that is sent back to a reflector is no question.
    other.send(&answered).expect("sent");
    round_trip(&one, b"and me?");
    let (counts, _) = reflector.stop();
    assert_eq!((&counts["questions"], &counts["datagrams_refused"]["echo"]), (&1.into(), &1.into()));
}

#[test]
fn stamps_report_pauses_only_with_pause_clock() {
    for (arguments, watched) in
        [(&["--tcp-only"][..], true), (&["--tcp-only", "--pause-clock", "off"], false)]
    {
        let reflector = Reflector::start("127.0.0.1:0", arguments);
        let mut stream = reflector.connect();
        round_trip(&mut stream, &frame(KEY, 0, 64));
        let pid = reflector.pid().to_string();
        let signal =
            |name| assert!(Command::new("kill").args([name, pid.as_str()]).status().expect("kill").success());
        signal("-STOP");
        // The length of the pause is what is tried here.
        std::thread::sleep(std::time::Duration::from_millis(200));
        signal("-CONT");
        let echo = round_trip(&mut stream, &frame(KEY, 1, 64));
        assert_eq!(stamps_of(KEY, 1, &echo).pause_us > 0, watched, "{arguments:?}");
        assert_eq!(reflector.stop().0["paused_ns"].as_u64() > Some(0), watched, "{arguments:?}");
    }
}
