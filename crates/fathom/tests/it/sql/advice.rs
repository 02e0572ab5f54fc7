//! What `fathom sql` advises where a server does not do what was asked, against servers that a test makes up.
use crate::support::FATHOM;
use crate::support::database::{refused, result, sql};
use crate::support::reflector::Echo;
use serde_json::Value;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener};
use std::process::Command;

/// The note names the reflector that refuses, and what to do.
#[test]
fn refused_reflector_note_suggests_remedy() {
    let (_echo, server) = Echo::start_tds(&[]);
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let url = format!("mssql://reader@{server}/sales?sslmode=disable");
    let arguments = ["--json", "--count", "2", "--rows", "1", "--reflector", &refusing];
    let outcome = result(&sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, &arguments).output().unwrap());
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("refused") && notes.contains(&format!("`fathom echo` runs at {refusing}")),
        "{notes}"
    );
    assert!(notes.contains("or leave --reflector out"), "{notes}");
}

/// A server that says this to each client and may close its side. It serves until the test ends.
fn stranger(says: &'static [u8], closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            _ = stream.write_all(says);
            if closes {
                stream.shutdown(Shutdown::Write).unwrap();
            }
            kept.push(stream);
        }
    });
    address
}

/// Another protocol on the port, a server that says nothing, and one that closes.
#[test]
fn wrong_protocol_or_silence_is_identified() {
    const MYSQL: &[u8] = b"\x4a\0\0\0\x0a8.4.3\0";
    const TDS: &[u8] = b"\x04\x01\0\x2b\0\0\x01\0\0\0\x1a\0\x06";
    // What a TLS server answers to anything else: unexpected_message.
    const ALERT: &[u8] = b"\x15\x03\x01\0\x02\x02\x0a";
    const POSTGRES: &[u8] = b"E\0\0\0\x30SFATAL\0VFATAL\0C0A000\0Mno\0\0";
    let told = |scheme: &str, address: &str, mode: &str| {
        let mut command = Command::new(FATHOM);
        command.args(["sql", &format!("{scheme}://me@{address}/d?sslmode={mode}"), "--query", "SELECT 1"]);
        command.args(["--connect-timeout", "1s"]).env("HOME", "/nonexistent");
        refused(&command.output().unwrap(), 1)
    };
    let [mysql, tds, postgres, ssh, tls] =
        [MYSQL, TDS, POSTGRES, b"SSH-2.0-OpenSSH_9.2\r\n", ALERT].map(|says| stranger(says, false));
    let (silent, closing) = (stranger(b"", false), stranger(b"", true));
    let cases = [
        ("postgres", &mysql, "PostgreSQL's protocol, but MySQL's: use mysql://"),
        ("postgres", &tds, "PostgreSQL's protocol, but SQL Server's: use mssql://"),
        ("mssql", &mysql, "SQL Server's protocol, but MySQL's: use mysql://"),
        ("mssql", &postgres, "SQL Server's protocol, but PostgreSQL's: use postgres://"),
        ("mysql", &postgres, "MySQL's protocol, but PostgreSQL's: use postgres://"),
        ("mysql", &tds, "MySQL's protocol, but SQL Server's: use mssql://"),
        ("postgres", &ssh, "PostgreSQL's protocol, but SSH: name the port of PostgreSQL"),
        ("mysql", &ssh, "MySQL's protocol, but SSH: name the port of MySQL"),
        ("mssql", &ssh, "SQL Server's protocol, but SSH: name the port of SQL Server"),
        // A SQL Server with strict encryption begins with TLS, too.
        (
            "mssql",
            &tls,
            "speaks TLS at once: a SQL Server that takes nothing but TDS 8.0 (strict encryption)",
        ),
        ("mssql", &tls, "or another service of TLS"),
        ("postgres", &tls, "but TLS at once, as a service of TLS does"),
        ("mysql", &tls, "or a SQL Server of TDS 8.0 (strict encryption): name the port of MySQL"),
        ("postgres", &silent, "says nothing (no whole answer within 1s)"),
        ("mysql", &silent, "a server of MySQL's kind speaks first"),
        ("mssql", &silent, "says nothing (no whole answer within 1s)"),
        ("postgres", &closing, "closed the connection without a word"),
        ("mysql", &closing, "closed the connection without a word"),
        ("mssql", &closing, "closed the connection without a word"),
    ];
    // All at once: many of them wait for the end of their time.
    std::thread::scope(|scope| {
        for mode in ["prefer", "disable"] {
            for (scheme, address, says) in cases {
                scope.spawn(move || {
                    let told = told(scheme, address, mode);
                    assert!(told.contains(says), "{scheme} {mode}: {told}");
                    assert!(!told.contains("broke the connection"), "{told}");
                });
            }
        }
    });
}

/// The server's log says nothing of an answer that fathom does not understand: the message shows its bytes.
#[test]
fn unparsable_login_reply_is_shown_with_advice() {
    let capture = "tcpdump -i any -w fathom.pcap tcp port PORT";
    for (scheme, says, read, to_do) in [
        ("postgres", &b"R\0\0\0\x08\0\0\0\x63"[..], "52 00 00 00 08", capture),
        // A greeting that ends too early.
        ("mysql", b"\x07\0\0\0\x0a8.4.3\0", "07 00 00 00 0a", capture),
        ("mysql", b"garbage", "67 61 72 62 61 67 65", "name the database's own port"),
        ("mssql", b"\x04\x01\0\x0a\0\0\x01\0\0\0", "a prelogin that breaks off", capture),
    ] {
        let address = stranger(says, false);
        let url = format!("{scheme}://me@{address}/d?sslmode=disable");
        let mut command = Command::new(FATHOM);
        command
            .args(["sql", &url, "--query", "SELECT 1", "--connect-timeout", "5s"])
            .env("HOME", "/nonexistent");
        let told = refused(&command.output().unwrap(), 1);
        assert!(told.contains(read) && !told.contains("server's log"), "{scheme}: {told}");
        let port = address.rsplit_once(':').unwrap().1;
        assert!(told.contains(&to_do.replace("PORT", port)), "{scheme}: {told}");
    }
}

/// A message of a `PostgreSQL` client: its tag and its body.
fn message(stream: &mut impl std::io::Read, has_tag: bool) -> std::io::Result<(u8, Vec<u8>)> {
    let (mut tag, mut length) = ([0], [0; 4]);
    if has_tag {
        stream.read_exact(&mut tag)?;
    }
    stream.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body)?;
    Ok((tag[0], body))
}

/// A server that accepts each login, denies observation and answers each query by this.
fn answering(answer: &'static [u8]) -> String {
    const IDLE: &[u8] = b"Z\0\0\0\x05I";
    const NUMBER: &[u8] = b"D\0\0\0\x0c\0\x01\0\0\0\x0241C\0\0\0\x0dSELECT 1\0";
    let refusal = b"E\0\0\0\x21SERROR\0VERROR\0C42501\0Mno\0Rx\0\0";
    let answers = move |mut stream: std::net::TcpStream| -> std::io::Result<()> {
        message(&mut stream, false)?;
        stream.write_all(b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x29\0\0\0\x02Z\0\0\0\x05I")?;
        let mut is_look = false;
        loop {
            let (tag, body) = message(&mut stream, true)?;
            is_look |= body.windows(8).any(|some| some == b"activity");
            match (tag, is_look) {
                (b'Q', _) => stream.write_all(&[NUMBER, IDLE].concat())?,
                (b'S', true) => stream.write_all(&[&refusal[..], IDLE].concat())?,
                (b'S', false) => {
                    stream.write_all(answer)?;
                    if answer.windows(6).any(|some| some == b"SERROR") {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answers(stream.unwrap()));
        }
    });
    address
}

/// The message shows what came, and does not say that the connection broke.
#[test]
fn invalid_query_answer_is_not_connection_loss() {
    for (answer, says, not) in [
        (
            &b"H\0\0\0\x05!"[..],
            "query 1 has no whole answer from {}: fathom does not understand what came: ",
            "broke",
        ),
        (
            b"?\0\0\0\x04",
            "unknown message tag `63`, in what begins with 3f 00 00 00 04; capture it (tcpdump",
            "log",
        ),
        // ReadyForQuery without a result.
        (
            b"Z\0\0\0\x05I",
            "query 1 has no whole answer from {}: fathom does not understand what came: the server is ready for another query",
            "log",
        ),
        (
            b"D\0\0\0\x06\0\0D\0\0\0\x06\0\0C\0\0\0\x0dSELECT 3\0Z\0\0\0\x05I",
            "fathom does not understand what came: 2 rows came, and by its own count the server sent 3 (its tag is \"SELECT 3\"): some were lost \
             between; capture it (tcpdump",
            "log",
        ),
        // PgBouncer's words. They name no place in PostgreSQL's source.
        (
            b"E\0\0\0\x29SFATAL\0VFATAL\0C08P01\0Mquery_timeout\0\0",
            "query_timeout (08P01); a pooler or proxy between says so",
            "the server's log",
        ),
        // Without V, as poolers and servers before 9.6 send it; and without FATAL.
        (
            b"E\0\0\0\x22SFATAL\0C08P01\0Mquery_timeout\0\0",
            "query_timeout (08P01); a pooler or proxy between says so",
            "without a message",
        ),
        (
            b"E\0\0\0\x22SERROR\0C08P01\0Mquery_timeout\0\0",
            "query_timeout (08P01); a pooler or proxy between says so",
            "without a message",
        ),
    ] {
        let address = answering(answer);
        let mut command = Command::new(FATHOM);
        command.args(["sql", &format!("postgres://me@{address}/d?sslmode=disable")]);
        command
            .args(["--query", "SELECT 1", "--quiet"])
            .env("HOME", "/nonexistent")
            .env("FATHOM_CLOUD", "off");
        let told = refused(&command.output().unwrap(), 1);
        assert!(told.contains(&says.replace("{}", &address)) && !told.contains(not), "{told}");
    }
}

/// A proxy that doubles an answer: otherwise each later query would get the answer of the one before.
#[test]
fn unrequested_answer_is_rejected() {
    const ANSWER: &[u8] = b"1\0\0\0\x042\0\0\0\x04n\0\0\0\x04C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I";
    const TWICE: &[u8] = b"1\0\0\0\x042\0\0\0\x04n\0\0\0\x04C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I\
                           1\0\0\0\x042\0\0\0\x04n\0\0\0\x04C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I";
    for (answer, queries, code) in [(ANSWER, 3, 0), (TWICE, 2, 1)] {
        let address = answering(answer);
        let mut command = Command::new(FATHOM);
        command.args(["sql", &format!("postgres://me@{address}/d?sslmode=disable"), "--query", "SELECT 1"]);
        command.args(["--count", "3", "--every", "100ms", "--quiet", "--json"]);
        let out = command.env("HOME", "/nonexistent").env("FATHOM_CLOUD", "off").output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{told}");
        let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(
            (&outcome["queries"], outcome["failed"] == 0),
            (&queries.into(), code == 0),
            "{outcome:#}"
        );
        assert!(code == 0 || told.contains("an answer that was there before anything was asked"), "{told}");
    }
}
