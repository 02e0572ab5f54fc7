//! Servers of SQL Server's kind, made up: logins that come to nothing, and answers that break off.

use super::{config_of, in_time};
use crate::login::Login;
use crate::protocol::{Protocol, Step};
use crate::stood::Clock;
use crate::target::Secret;
use crate::tds::Tds;
use crate::violation::is_violation;
use crate::{Config, Stop, Target};
use fathom_core::text::count;
use fathom_tds::codec::packet::Packets;
use fathom_tds::codec::prelogin;
use fathom_tds::codec::token::{Done, Tokens, Type, Value};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

fn config() -> Config {
    config_of(Target::parse("mssql://me@localhost/d", |_| None).unwrap())
}

/// A server that does this with its first client.
fn serve(password: Option<&str>, server: impl FnOnce(TcpStream) + Send + 'static) -> (Login, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = listener.local_addr().unwrap();
    let url = format!("mssql://me@localhost:{}/d?sslmode=disable", remote.port());
    let login = Login {
        server: Target::parse(&url, |_| None).unwrap().server().clone(),
        remote,
        password: password.map(|password| Secret(password.to_owned())),
        read_only: false,
        within: Duration::from_secs(5),
        stop: Stop::default(),
        clock: Clock::default(),
        is_impatient: false,
        barred: std::sync::Arc::default(),
        reached: std::sync::Arc::default(),
    };
    (login, std::thread::spawn(move || server(listener.accept().unwrap().0)))
}

/// A client's message of one packet.
fn message(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]])) - 8];
    stream.read_exact(&mut body).unwrap();
    body
}

fn reply(stream: &mut TcpStream, body: &[u8]) {
    let (mut packets, mut out) = (Packets::new(4_096), Vec::new());
    packets.put(body);
    packets.pack(true, &mut out);
    stream.write_all(&out).unwrap();
}

/// To where the login is answered by these tokens.
fn answer_login(stream: &mut TcpStream, tokens: Tokens) -> Vec<u8> {
    message(stream);
    reply(stream, &prelogin::answer(false));
    let login = message(stream);
    reply(stream, &tokens.into_bytes());
    login
}

fn begin(login: Login) -> String {
    in_time(move || Tds::begin(&login, None).map(|_| ())).expect_err("nobody is let in").to_string()
}

#[test]
fn refused_login_has_reason_and_remedy() {
    for (number, message, password, to_do) in [
        (18_456, "Login failed for user 'me'.", Some("hush"), "the right password by SQLCMDPASSWORD"),
        (18_456, "Login failed for user 'me'.", None, "give the password by SQLCMDPASSWORD"),
        (4_060, "Cannot open database \"d\".", Some("hush"), "mssql://user@host/database"),
    ] {
        let (login, server) = serve(password, move |mut stream| {
            let mut tokens = Tokens::default();
            tokens.error(number, message);
            tokens.done(Done::Error, false);
            answer_login(&mut stream, tokens);
        });
        let line = begin(login);
        server.join().unwrap();
        let told = format!("as me: {message} (error {number});");
        assert!(line.contains(&told) && line.contains(to_do), "{line}");
        assert!(!line.contains("hush"));
    }
}

#[test]
fn the_password_is_sent_as_tds_has_it() {
    let (login, server) = serve(Some("ab"), |mut stream| {
        let mut tokens = Tokens::default();
        tokens.login(0x7400_0004, "d", 4_096);
        tokens.done(Done::Nothing, false);
        let login = answer_login(&mut stream, tokens);
        let word = |at: usize| usize::from(u16::from_le_bytes([login[at], login[at + 1]]));
        // 'a' is 0x61: its halves change places, and 0x16 ^ 0xA5 is 0xB3; 0 is 0xA5.
        assert_eq!(login[word(44)..word(44) + 2 * word(46)], [0xB3, 0xA5, 0x83, 0xA5]);
    });
    in_time(move || {
        let mut tds = Tds::begin(&login, None).unwrap();
        let facts = tds.facts();
        assert!(facts.notes.iter().any(|note| note.contains("the password went over the path")), "{facts:?}");
        assert_eq!(facts.database.as_deref(), Some("d"));
    });
    server.join().unwrap();
}

#[test]
fn login_without_reply_is_one_line_error() {
    for leaves in [false, true] {
        let (mut login, server) = serve(None, move |mut stream| {
            message(&mut stream);
            if !leaves {
                // Until the client has gone.
                while stream.write_all(&[4]).is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        login.within = Duration::from_millis(300);
        let line = begin(login);
        let expected =
            if leaves { "closed the connection without a word" } else { "no whole answer within 300ms" };
        assert!(line.contains(expected), "{line}");
        server.join().unwrap();
    }
}

/// Lets the client in, and reads its first query.
fn until_asked(stream: &mut TcpStream) {
    let mut tokens = Tokens::default();
    tokens.login(0x7400_0004, "d", 4_096);
    tokens.done(Done::Nothing, false);
    answer_login(stream, tokens);
    message(stream);
}

/// What came of a query whose answer is these bytes, and then the end of the connection.
fn asked(answer: impl Fn(&mut TcpStream) + Send + 'static) -> Vec<String> {
    let (login, server) = serve(None, move |mut stream| {
        until_asked(&mut stream);
        answer(&mut stream);
    });
    let steps = in_time(move || {
        let mut tds = Tds::begin(&login, None).unwrap();
        let out = tds.request("SELECT 1", &config()).unwrap();
        tds.channel().send(&out, &login.limit()).unwrap();
        let mut steps = Vec::new();
        loop {
            match tds.step(&config()) {
                Ok(Some(Step::Rows(rows))) => steps.push(count(rows, "row")),
                Ok(Some(Step::Refused { refusal, .. })) => {
                    steps.push(format!(
                        "{}{}",
                        if refusal.is_fatal { "fatal: " } else { "" },
                        refusal.words()
                    ));
                }
                Ok(Some(Step::Over)) => steps.push("over".to_owned()),
                Ok(Some(Step::Turn(_) | Step::Also(_))) => steps.push("sends".to_owned()),
                Ok(Some(Step::Counted { .. })) => steps.push("counts".to_owned()),
                Ok(None) => {
                    if let Err(error) = crate::login::more(tds.channel(), &login.limit()) {
                        steps.push(error.kind().to_string());
                        return steps;
                    }
                }
                Err(error) => {
                    steps.push(error.to_string());
                    return steps;
                }
            }
            if steps.last().is_some_and(|step| step == "over") {
                return steps;
            }
        }
    });
    server.join().unwrap();
    steps
}

/// A proxy that doubles an answer: "it may be a bug of fathom's: report it with this line" (a stranger).
#[test]
fn duplicate_answer_is_protocol_violation() {
    let (login, server) = serve(None, move |mut stream| {
        until_asked(&mut stream);
        let mut tokens = Tokens::default();
        tokens.done(Done::Rows(0), false);
        let (mut packets, mut answer) = (Packets::new(4_096), Vec::new());
        packets.put(&tokens.into_bytes());
        packets.pack(true, &mut answer);
        stream.write_all(&answer.repeat(2)).unwrap();
        // Until the client has gone.
        _ = stream.read(&mut [0; 8]);
    });
    in_time(move || {
        let mut tds = Tds::begin(&login, None).unwrap();
        let out = tds.request("SELECT 1", &config()).unwrap();
        tds.channel().send(&out, &login.limit()).unwrap();
        while !matches!(tds.step(&config()).unwrap(), Some(Step::Over)) {
            crate::login::more(tds.channel(), &login.limit()).ok();
        }
        let told = tds.request("SELECT 1", &config()).expect_err("more came");
        assert!(is_violation(&told), "{told}");
        assert_eq!(told.to_string(), "an answer that was there before anything was asked");
    });
    server.join().unwrap();
}

#[test]
fn answers_are_read_to_where_they_break_off() {
    let two_rows = || {
        let mut tokens = Tokens::default();
        tokens.columns(&[("n", Type::Int)]);
        tokens.row(&[Value::Int(1)]);
        tokens.row(&[Value::Int(2)]);
        tokens
    };
    let whole = asked(move |stream| {
        let mut tokens = two_rows();
        tokens.done(Done::Rows(2), false);
        reply(stream, &tokens.into_bytes());
    });
    assert_eq!(whole, ["2 rows", "over"]);
    let failed = asked(move |stream| {
        let mut tokens = two_rows();
        tokens.error(8_134, "Divide by zero error encountered.");
        tokens.done(Done::Error, false);
        reply(stream, &tokens.into_bytes());
    });
    assert_eq!(failed, ["2 rows", "Divide by zero error encountered. (error 8134)", "over"]);
    // Of two statements the second fails, and nothing says why.
    let unexplained = asked(move |stream| {
        let mut tokens = two_rows();
        tokens.done(Done::Error, false);
        reply(stream, &tokens.into_bytes());
    });
    let line = "the server says that the statement failed (no error number)";
    assert_eq!(unexplained[..2], ["2 rows", line]);
    let torn = asked(move |stream| reply(stream, &two_rows().into_bytes()));
    assert_eq!(torn, ["2 rows", "a reply that breaks off"]);
    let dies = asked(move |stream| {
        let bytes = two_rows().into_bytes();
        let length = ((bytes.len() + 100) as u16).to_be_bytes();
        stream.write_all(&[&[4, 1, length[0], length[1], 0, 0, 1, 0][..], &bytes].concat()).unwrap();
    });
    assert_eq!(dies, ["2 rows", "unexpected end of file"]);
}
