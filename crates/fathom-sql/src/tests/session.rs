//! Logins, and questions of ours.

use super::{body, identity, in_time, logged_in, message, secured, serve};
use crate::session::Session;
use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn oversized_answer_is_rejected_unread() {
    for tag in [b'T', b'D'] {
        let (done, until_done) = channel::<()>();
        let (login, server) = serve("?sslmode=disable", move |listener| {
            let mut stream = logged_in(&listener);
            message(&mut stream);
            stream.write_all(&[tag, 0x7f, 0xff, 0xff, 0xff]).unwrap();
            _ = until_done.recv();
        });
        let mut session = Session::begin(&login).unwrap();
        let error = session.ask("SELECT 1", &login).expect_err("2 GiB").to_string();
        assert!(error.contains("too long"), "{error}");
        done.send(()).unwrap();
        server.join().unwrap();
    }
}

/// It sends notices, one after the other, and never lets anybody in, nor answers.
#[test]
fn a_server_that_dribbles_has_one_deadline() {
    for lets_in in [false, true] {
        let (mut login, server) = serve("?sslmode=disable", move |listener| {
            let mut stream = if lets_in { logged_in(&listener) } else { listener.accept().unwrap().0 };
            // Until nobody listens any more.
            while stream.write_all(b"N\0\0\0\x05\0").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        login.within = Duration::from_millis(300);
        let error = in_time(move || match Session::begin(&login) {
            Ok(mut session) => session.ask("SELECT 1", &login).expect_err("it never answers"),
            Err(error) => error,
        });
        assert!(error.to_string().contains("no whole answer within 300ms"), "{error}");
        server.join().unwrap();
    }
}

/// What refuses it is the code that the server gives, not what its words end with.
#[test]
fn a_refusal_is_known_by_its_code() {
    for (code, is_it) in [("42501", true), ("XX000", false)] {
        let (login, server) = serve("?sslmode=disable", move |listener| {
            let mut stream = logged_in(&listener);
            message(&mut stream);
            let fields = format!("SERROR\0VERROR\0C{code}\0Mnot so (42501)\0\0");
            let length = (fields.len() as u32 + 4).to_be_bytes();
            stream.write_all(&[b"E", &length[..], fields.as_bytes(), b"Z\0\0\0\x05I"].concat()).unwrap();
        });
        let mut session = Session::begin(&login).unwrap();
        let error = session.ask("SELECT 1", &login).expect_err("it is refused");
        assert_eq!(error.is_refusal("42501"), is_it, "{error}");
        assert_eq!(error.to_string(), format!("not so (42501) ({code})"));
        server.join().unwrap();
    }
    assert!(!crate::Error::run("the connection broke (42501)").is_refusal("42501"));
}

/// The messages of a request up to Sync, or a simple query's.
fn request(stream: &mut impl Read) -> Vec<(u8, Vec<u8>)> {
    let mut messages = vec![];
    loop {
        messages.push(message(stream));
        if matches!(messages.last(), Some((b'S' | b'Q', _))) {
            return messages;
        }
    }
}

fn tags(messages: &[(u8, Vec<u8>)]) -> String {
    messages.iter().map(|(tag, _)| char::from(*tag)).collect()
}

/// `DataRow` of one text, `CommandComplete`, `ReadyForQuery`.
const SEVEN: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x017C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

/// To parse and to plan the question of a look takes a server longer than to answer it.
#[test]
fn repeated_question_is_prepared_once() {
    let (login, server) = serve("?sslmode=disable", move |listener| {
        let mut stream = logged_in(&listener);
        let mut asked = || {
            let messages = request(&mut stream);
            stream.write_all(SEVEN).unwrap();
            let bound = messages.iter().find(|(tag, _)| *tag == b'B').unwrap().1.clone();
            (
                tags(&messages),
                bound.windows(2).any(|two| two == b"41"),
                bound.windows(2).any(|two| two == b"42"),
            )
        };
        [asked(), asked(), asked()]
    });
    let mut session = Session::begin(&login).unwrap();
    for (sql, value) in [("SELECT $1", "41"), ("SELECT $1", "42"), ("SELECT $1, 2", "42")] {
        assert_eq!(session.ask_prepared(sql, value, &login).unwrap(), [Some("7".to_owned())]);
    }
    let [first, second, another] = server.join().unwrap();
    assert_eq!(first, ("CPBES".to_owned(), true, false));
    assert_eq!(second, ("BES".to_owned(), false, true));
    assert_eq!(another, ("CPBES".to_owned(), false, true));
}

/// One that is ready before it has answered says nothing of what it was asked: it was taken for one that has no such backend.
#[test]
fn unfinished_answer_is_an_error() {
    for answer in [&SEVEN[..12], b""] {
        let (login, server) = serve("?sslmode=disable", move |listener| {
            let mut stream = logged_in(&listener);
            request(&mut stream);
            stream.write_all(&[answer, b"Z\0\0\0\x05I"].concat()).unwrap();
            _ = stream.read(&mut [0]);
        });
        let mut session = Session::begin(&login).unwrap();
        let error = session.ask("SELECT 1", &login).expect_err("no end of it").to_string();
        assert!(error.contains("sent what fathom does not understand: the server is ready"), "{error}");
        assert!(session.is_asked, "what comes yet would be the next one's answer");
        drop(session);
        server.join().unwrap();
    }
}

/// A pooler has a backend answer that has prepared nothing, or knows no such requests at all.
#[test]
fn failed_prepare_falls_back_to_plain_query() {
    for code in ["26000", "42P05", "0A000"] {
        let (login, server) = serve("?sslmode=disable", move |listener| {
            let mut stream = logged_in(&listener);
            let prepared = request(&mut stream);
            let fields = format!("SERROR\0VERROR\0C{code}\0Mnot so\0\0");
            let length = (fields.len() as u32 + 4).to_be_bytes();
            stream.write_all(&[b"E", &length[..], fields.as_bytes(), b"Z\0\0\0\x05I"].concat()).unwrap();
            let mut asked = vec![prepared];
            for _ in 0..2 {
                asked.push(request(&mut stream));
                stream.write_all(SEVEN).unwrap();
            }
            asked
        });
        let mut session = Session::begin(&login).unwrap();
        for _ in 0..2 {
            assert_eq!(session.ask_prepared("SELECT $1", "41", &login).unwrap(), [Some("7".to_owned())]);
        }
        let asked = server.join().unwrap();
        assert_eq!(tags(&asked[0]), "CPBES");
        for plain in &asked[1..] {
            assert_eq!(plain.as_slice(), [(b'Q', b"SELECT 41\0".to_vec())], "{code}");
        }
    }
}

/// `hostnossl` of `pg_hba.conf`: psql logs in, by the second of two tries (a stranger). Without TLS nothing is tried that a stricter mode, or
/// a password that was asked for, forbids.
#[test]
fn sslmode_prefer_falls_back_to_plaintext() {
    for (mode, asks_first, comes_again) in
        [("prefer", false, true), ("require", false, false), ("prefer", true, false)]
    {
        let (_, config) = identity("localhost");
        let (mut login, server) = serve(&format!("?sslmode={mode}"), move |listener| {
            let (mut stream, mut tls) = secured(&listener, config).unwrap();
            let mut encrypted = rustls::Stream::new(&mut tls, &mut stream);
            body(&mut encrypted);
            if asks_first {
                // AuthenticationCleartextPassword.
                encrypted.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
                message(&mut encrypted);
            }
            encrypted.write_all(b"E\0\0\0\x17SFATAL\0C28000\0Mno\0\0").unwrap();
            encrypted.flush().unwrap();
            drop((tls, stream));
            listener.set_nonblocking(!comes_again).unwrap();
            if comes_again {
                let mut plain = logged_in(&listener);
                _ = plain.read(&mut [0]);
            }
        });
        login.password = Some(crate::target::Secret("s3cret".to_owned()));
        let begun = in_time(move || Session::begin(&login).map(|session| session.channel.is_encrypted()));
        match begun {
            Ok(is_encrypted) => assert!(comes_again && !is_encrypted, "{mode} {asks_first}"),
            Err(error) => assert!(!comes_again && error.to_string().contains("28000"), "{mode}: {error}"),
        }
        server.join().unwrap();
    }
}

/// A postmaster that cannot begin a process answers so, and servers before version 7, and poolers: it was said to be another protocol.
#[test]
fn error_reply_to_sslrequest_is_shown() {
    let fields = "SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0";
    let of_today = [b"E", &(fields.len() as u32 + 4).to_be_bytes()[..], fields.as_bytes()].concat();
    let says = "sorry, too many clients already (53300); ";
    let of_old = b"Ecould not fork new process for connection: Cannot allocate memory\n\0".to_vec();
    let (head, tail) = of_today.split_at(9);
    for (pieces, says) in [
        (vec![of_today.clone()], says),
        (vec![head.to_vec(), tail.to_vec()], says),
        (vec![of_old], ": could not fork new process for connection: Cannot allocate memory; "),
    ] {
        for mode in ["prefer", "require"] {
            let pieces = pieces.clone();
            let (login, server) = serve(&format!("?sslmode={mode}"), move |listener| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                assert_eq!(body(&mut stream), [4, 210, 22, 47], "SSLRequest");
                for piece in pieces {
                    stream.write_all(&piece).unwrap();
                }
                _ = stream.read(&mut [0]);
            });
            let error = in_time(move || Session::begin(&login).map(drop)).expect_err("an error").to_string();
            assert!(error.contains("answers by an error when it is asked whether it speaks TLS"), "{error}");
            assert!(error.contains(says) && error.contains("sslmode=disable"), "{error}");
            server.join().unwrap();
        }
    }
    // Memcached's answer to what it does not know.
    let (login, server) = serve("?sslmode=prefer", move |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"ERROR\r\n").unwrap();
        _ = stream.read(&mut [0; 8]);
    });
    let error = in_time(move || Session::begin(&login).map(drop)).expect_err("another").to_string();
    assert!(
        error.contains("does not speak PostgreSQL's protocol") && error.contains("45 52 52 4f 52"),
        "{error}"
    );
    server.join().unwrap();
}

/// A packet of `MySQL` that is 0x45 bytes long begins as an error of `PostgreSQL` does: its greeting was told as one, and its error was waited for
/// until the time was over. What is too short to say anything was told as an error without words.
#[test]
fn lookalike_error_is_another_protocol() {
    let unknown = "does not speak PostgreSQL's protocol: asked whether it speaks TLS it answers 45 00 00 00";
    for (says, told) in [
        (&b"\x45\0\0\0\x0a8.4.3\0"[..], "does not speak PostgreSQL's protocol, but MySQL's"),
        (
            b"\x45\0\0\0\xff\x10\x04#08004Too many connections",
            "does not speak PostgreSQL's protocol, but MySQL's",
        ),
        // Error 1130, whose low byte is a letter.
        (
            b"\x45\0\0\0\xff\x6a\x04Host 'h' is not allowed",
            "does not speak PostgreSQL's protocol, but MySQL's",
        ),
        (b"E\0\0\0\x04\0", unknown),
        (b"E\0\0\0\x20\x01\x02\x03", unknown),
    ] {
        let (mut login, server) = serve("?sslmode=prefer", move |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(says).unwrap();
            while stream.read(&mut [0; 8]).is_ok_and(|n| n > 0) {}
        });
        login.within = Duration::from_hours(1);
        let error = in_time(move || Session::begin(&login).map(drop)).expect_err("another").to_string();
        assert!(error.contains(told) && !error.contains("answers by an error"), "{says:02x?}: {error}");
        server.join().unwrap();
    }
}

/// A limit of fathom's own was told as what the server had sent, and a capture was asked for.
#[test]
fn own_limit_blames_no_received_bytes() {
    let login = serve("", |_| ()).0;
    let why = "a row of the answer is longer than fathom reads";
    let told = crate::login::broke(&login, &crate::violation::of_this_side(&why)).to_string();
    assert!(told.starts_with("fathom cannot go on with localhost:") && told.contains(why), "{told}");
    assert!(told.ends_with("report it with this line") && !told.contains("tcpdump"), "{told}");
    let kind = crate::violation::of_this_side(&why).kind();
    let loss = crate::error::Loss::Broke { kind, words: why.to_owned() };
    assert_eq!(loss.to_string(), format!("fathom cannot go on: {why}"));
}

/// An error of this kind, and the place of `PostgreSQL`'s source that it names, if any.
fn error_message(severity: &str, code: &str, words: &str, routine: &str) -> Vec<u8> {
    let routine = if routine.is_empty() { String::new() } else { format!("R{routine}\0") };
    let fields = format!("S{severity}\0V{severity}\0C{code}\0M{words}\0{routine}\0");
    [b"E", &(fields.len() as u32 + 4).to_be_bytes()[..], fields.as_bytes()].concat()
}

/// "A pooler may not take startup options", of a login whose messages something had changed (a stranger).
#[test]
fn login_error_advice_matches_cause() {
    const SASL: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
    let invalid = "client selected an invalid SASL authentication mechanism";
    let options = "ignore_startup_parameters";
    for (is_asked, words, routine, says, not) in [
        (true, invalid, "scram_init", "the messages of the login", options),
        (true, invalid, "", "the messages of the login", options),
        // Of a pooler, before it asks for anything or afterwards.
        (false, "unsupported startup parameter: options", "", options, "the messages of the login"),
        (true, "unsupported startup parameter: options", "", options, "the messages of the login"),
        (false, "invalid startup packet layout", "ProcessStartupPacket", "the server's log", options),
    ] {
        let (mut login, server) = serve("?sslmode=disable", move |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            body(&mut stream);
            if is_asked {
                stream.write_all(SASL).unwrap();
                message(&mut stream);
            }
            stream.write_all(&error_message("FATAL", "08P01", words, routine)).unwrap();
            _ = stream.read(&mut [0]);
        });
        login.read_only = true;
        login.password = Some(crate::target::Secret("s3cret".to_owned()));
        let told = in_time(move || Session::begin(&login).map(drop)).expect_err("refused").to_string();
        assert!(told.contains(says) && !told.contains(not), "{words} {routine}: {told}");
        server.join().unwrap();
    }
}

/// It had let nobody in: whoever stands between had said so, and the line named no server (a stranger).
#[test]
fn session_end_names_server_and_cause() {
    for (code, routine, says) in [
        ("08P01", "CheckSASLAuth", "the server still waits for the login, and somebody else has said"),
        ("08P01", "", "a pooler or proxy between says so"),
        ("XX000", "x", "see the server's log"),
        // Others may be let in: of these the line was nothing but the server's words (another stranger).
        ("57P01", "ProcessInterrupts", "pg_terminate_backend"),
        ("57P02", "quickdie", "crashed"),
        ("57P03", "", "ask again when it has begun"),
        ("57P05", "ProcessInterrupts", "idle_session_timeout"),
    ] {
        let (login, server) = serve("?sslmode=disable", move |listener| {
            let mut stream = logged_in(&listener);
            message(&mut stream);
            stream.write_all(&error_message("FATAL", code, "expected SASL response", routine)).unwrap();
        });
        let mut session = Session::begin(&login).unwrap();
        let told = session.ask("SELECT 1", &login).expect_err("ended").to_string();
        let address = login.server.address();
        assert!(
            told.starts_with(&format!("{address} ended the session: expected SASL response ({code}); ")),
            "{told}"
        );
        assert!(told.contains(says), "{told}");
        server.join().unwrap();
    }
}

/// The server has accepted a login of this run before.
#[test]
fn earlier_login_rules_out_other_protocol() {
    for closes in [true, false] {
        let (mut login, server) = serve("?sslmode=disable", move |listener| {
            let first = logged_in(&listener);
            let (mut second, _) = listener.accept().unwrap();
            body(&mut second);
            if closes {
                drop(second);
            } else {
                // Until the client leaves.
                _ = second.read(&mut [0; 64]);
            }
            drop(first);
        });
        let _first = Session::begin(&login).unwrap();
        login.within = Duration::from_millis(300);
        let told = Session::begin(&login).map(drop).unwrap_err().to_string();
        let what = if closes {
            "closed a further connection without a word"
        } else {
            "takes a further connection and says nothing"
        };
        assert!(told.starts_with(&format!("{} {what} (", login.server.address())), "{told}");
        assert!(
            told.contains("though it has let me in before: see whether PostgreSQL, or a pooler"),
            "{told}"
        );
        server.join().unwrap();
    }
}

/// The first login of a run was within TLS, and the next one's server has none: the session went on in the clear (a stranger).
#[test]
fn encrypted_login_forbids_later_plaintext() {
    for has_been in [true, false] {
        let (_, config) = identity("localhost");
        let (mut login, server) = serve("?sslmode=prefer", move |listener| {
            if has_been {
                let (mut stream, mut tls) = secured(&listener, config).unwrap();
                let mut encrypted = rustls::Stream::new(&mut tls, &mut stream);
                body(&mut encrypted);
                encrypted.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
                encrypted.flush().unwrap();
            }
            let (mut stream, _) = listener.accept().unwrap();
            body(&mut stream);
            stream.write_all(b"N").unwrap();
            let mut said = Vec::new();
            if !has_been {
                said = body(&mut stream);
                stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
            }
            _ = stream.read_to_end(&mut said);
            said.len()
        });
        login.password = Some(crate::target::Secret("s3cret".to_owned()));
        let again = in_time(move || {
            if has_been {
                assert!(Session::begin(&login).unwrap().channel.is_encrypted());
            }
            let again = Session::begin(&login).map(|session| session.channel.is_encrypted());
            // Nobody asks it again.
            again.map_err(|error| (error.to_string(), login.barred.get().is_some()))
        });
        let said = server.join().unwrap();
        match again {
            Ok(is_encrypted) => assert!(!has_been && !is_encrypted && said > 0),
            Err((told, is_barred)) => {
                assert!(has_been && is_barred && told.contains("does not speak TLS any more"), "{told}");
                assert_eq!(said, 0, "{told}");
            }
        }
    }
}
