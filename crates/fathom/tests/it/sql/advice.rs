//! What `fathom sql` advises where a real server does not do what was asked: what it says, what it means, what to do.
use serde_json::Value;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener};
use std::process::{Command, Output, Stdio};
use crate::support::database::result;
use crate::support::mariadb::Mariadb;
use crate::support::postgres::{self, Postgres};
use crate::support::{FATHOM, mariadb};

/// The one line of a command that came to nothing.
fn line(out: &Output, code: i32) -> String {
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), told.lines().count()), (Some(code), 1), "{told}");
    told
}

/// The notes of a run that went on.
fn notes(command: &mut Command) -> String {
    let outcome: Value =
        result(&command.args(["--json", "--count", "2", "--query", "SELECT 1"]).output().unwrap());
    outcome["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Of each its protocol, what is asked, and what is said of it. All were advised to mend the query, to read the server's log or to find who
/// had cancelled it (a stranger).
#[test]
fn postgresql_errors_carry_useful_advice() {
    let Some(server) = Postgres::start() else { return };
    let ask = |how: &[&str], query: &str, code| {
        line(&server.sql(&[how, &["--query", query]].concat()).output().unwrap(), code)
    };
    let extended = ["42601", "several statements at once need --simple"];
    let fetched = ["42601", "with --simple and without --fetch-size"];
    let values = ["nobody gives values to $1 and the like: write them into the query"];
    let copied = ["COPY from stdin failed", "fathom sends no rows to a server"];
    let cases: [(&[&str], &str, &[&str]); 14] = [
        (&[], "SELECT 1; SELECT 2", &extended),
        (&["--fetch-size", "10"], "SELECT 1; SELECT 2", &fetched),
        (&[], "SELECT * FROM pg_class WHERE oid = $1", &values),
        (&["--fetch-size", "10"], "SELECT $1", &values),
        (&["--simple"], "SELECT $1", &["42P02", values[0]]),
        (&[], "COPY pg_class FROM STDIN", &copied),
        (&["--fetch-size", "10"], "COPY pg_class FROM STDIN", &copied),
        (&["--simple"], "COPY pg_class FROM STDIN", &copied),
        // What is wrong otherwise is to be mended.
        (&["--simple"], "SELECT 1; SELEC 2", &["42601", "; mend the query"]),
        (&[], "SELEC ';'", &["42601", "; mend the query"]),
        (&[], "SELECT 1 / 0", &["22012", "; mend the query"]),
        (&["--simple"], "FETCH ALL FROM nothing", &["34000", "; mend the query"]),
        (&["--simple"], "DECLARE c CURSOR FOR SELECT 1", &["25P01", "; mend the query"]),
        (&["--simple"], "LOAD 'nothing'", &["58P01", "see that the files that the query is about are there"]),
    ];
    for (how, query, says) in cases {
        let told = ask(how, query, 1);
        assert!(says.iter().all(|says| told.contains(says)), "{how:?} {query}: {told}");
        assert!(!told.contains("somebody cancelled") && !told.contains("; see the server's log"), "{told}");
    }
    // A query that begins with a comment is a query, and one that is nothing else is none.
    let commented = "-- how many\nSELECT count(*) FROM pg_class";
    assert_eq!(server.ask(&["--count", "2", "--query", commented])["rows"], 2);
    for nothing in ["-- comment", "/* nothing */ ;"] {
        let told = ask(&[], nothing, 2);
        assert!(told.contains("--query: there is nothing but comments in it"), "{told}");
    }
    // As `fathom probe` says it.
    let told = line(&server.sql(&["--for", "0s"]).output().unwrap(), 2);
    assert!(told.contains("--for 0: that ends before it begins; leave it out"), "{told}");
}

#[test]
fn session_limit_error_names_role_or_database() {
    let Some(server) = Postgres::start() else { return };
    for statement in [
        "CREATE USER barred PASSWORD 's3cret-w0rd' CONNECTION LIMIT 0",
        "CREATE USER one PASSWORD 's3cret-w0rd' CONNECTION LIMIT 1",
        "CREATE DATABASE crowded CONNECTION LIMIT 0",
        "CREATE USER many PASSWORD 's3cret-w0rd'",
    ] {
        server.ask(&["--count", "1", "--simple", "--query", statement]);
    }
    let of = |user: &str, database: &str| {
        let url =
            server.url().replace("owner@", &format!("{user}@")).replace("/postgres", &format!("/{database}"));
        postgres::sql(Command::new(FATHOM), &url.replacen(&format!("{database}://"), "postgres://", 1), &[])
    };
    let role = "that is the user's own limit: end other sessions of it, or raise it by ALTER ROLE";
    let told = line(&of("barred", "postgres").output().unwrap(), 1);
    assert!(told.contains("53300") && told.contains(role) && !told.contains("max_connections"), "{told}");
    let told = line(&of("many", "crowded").output().unwrap(), 1);
    assert!(
        told.contains("53300") && told.contains("ALTER DATABASE") && !told.contains("max_connections"),
        "{told}"
    );
    // One is let in, and whoever is to look is not: the run goes on, and says why it is not sure.
    let told = notes(&mut of("one", "postgres"));
    assert!(told.contains(role) && told.contains("goes on without"), "{told}");
    // By what it was told it is mended.
    server.ask(&["--count", "1", "--simple", "--query", "ALTER ROLE one CONNECTION LIMIT 2"]);
    assert_eq!(notes(&mut of("one", "postgres")), "");
}

#[test]
fn postgresql_permission_note_gives_working_grant() {
    let Some(server) = Postgres::start() else { return };
    let url = server.url_of_who_may_not_look();
    let told = notes(&mut postgres::sql(Command::new(FATHOM), &url, &[]));
    let grant = "GRANT EXECUTE ON FUNCTION pg_catalog.pg_stat_get_activity(integer) TO \"md5user\"";
    assert!(told.contains("42501") && told.contains(grant), "{told}");
    server.ask(&["--count", "1", "--simple", "--query", grant]);
    assert_eq!(notes(&mut postgres::sql(Command::new(FATHOM), &url, &[])), "");
}

/// Nobody listens there: it was said that nothing could be measured, and not why.
#[test]
fn refused_reflector_note_suggests_remedy() {
    let Some(server) = Postgres::start() else { return };
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let told = notes(server.sql(&[]).args(["--reflector", &nobody]));
    assert!(told.contains("refused") && told.contains(&format!("`fathom echo` runs at {nobody}")), "{told}");
    assert!(told.contains("or leave --reflector out"), "{told}");
}

#[test]
fn mariadb_errors_carry_useful_advice() {
    let Some(server) = Mariadb::start() else { return };
    let ask = |how: &[&str], query: &str, code| {
        line(&server.sql(&[how, &["--query", query]].concat()).output().unwrap(), code)
    };
    for (query, says) in [
        ("SELECT 1; SELECT 2", "several statements at once need --simple"),
        ("SELECT ?", "nobody gives values to ?: write them into the query"),
        ("SELEC ';?'", "; mend the query"),
        ("SELECT (SELECT 1 UNION SELECT 2)", "(21000); mend the query"),
        (
            "GRANT FILE ON shop.* TO owner",
            "error 1221: Incorrect usage of DB GRANT and GLOBAL PRIVILEGES (HY000); mend the query",
        ),
        ("LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE shop.x", "fathom sends no file of this host"),
    ] {
        let told = ask(&[], query, 1);
        assert!(told.contains(says), "{query}: {told}");
    }
    for nothing in ["-- comment", "# comment", "/* nothing */"] {
        assert!(ask(&[], nothing, 2).contains("there is nothing but comments in it"), "{nothing}");
    }
    assert_eq!(server.ask(&["--count", "2", "--query", "# how many\nSELECT 1"])["rows"], 2);
    for statement in [
        "CREATE USER one IDENTIFIED BY 's3cret-w0rd' WITH MAX_USER_CONNECTIONS 1",
        "GRANT SELECT ON shop.* TO one",
        "CREATE USER locked IDENTIFIED BY 's3cret-w0rd' ACCOUNT LOCK",
        "CREATE USER few IDENTIFIED BY 's3cret-w0rd' WITH MAX_QUERIES_PER_HOUR 1",
        "GRANT SELECT ON shop.* TO few",
    ] {
        server.ask(&["--count", "1", "--query", statement]);
    }
    let of = |user: &str| {
        let url = server.url().replace("owner@", &format!("{user}@"));
        mariadb::sql(Command::new(FATHOM), &url, &[])
    };
    let own = "that is the user's own limit";
    let told = notes(&mut of("one"));
    assert!(told.contains("1226") && told.contains(own) && told.contains("MAX_USER_CONNECTIONS"), "{told}");
    let told = line(&of("few").args(["--query", "SELECT 1"]).output().unwrap(), 1);
    assert!(told.contains("1226") && told.contains(own) && told.contains("ALTER USER"), "{told}");
    let told = line(&of("locked").args(["--query", "SELECT 1"]).output().unwrap(), 1);
    assert!(told.contains("4151") && told.contains("; unlock the account by ALTER USER"), "{told}");
    server.ask(&["--count", "1", "--query", "ALTER USER one WITH MAX_USER_CONNECTIONS 3"]);
    assert_eq!(notes(&mut of("one")), "");
}

/// Says this, or nothing, to whoever connects; and where it closes, that this was all.
fn stranger(says: &'static [u8], closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // As long as the test runs.
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

/// Another protocol on the port, a port that nobody serves, one that closes: "broke the connection", "does not answer" (a stranger).
#[test]
fn wrong_protocol_or_silence_is_identified() {
    const MYSQL: &[u8] = b"\x4a\0\0\0\x0a8.4.3\0";
    const TDS: &[u8] = b"\x04\x01\0\x2b\0\0\x01\0\0\0\x1a\0\x06";
    // Of a TLS server that was sent something else: unexpected_message.
    const ALERT: &[u8] = b"\x15\x03\x01\0\x02\x02\x0a";
    const POSTGRES: &[u8] = b"E\0\0\0\x30SFATAL\0VFATAL\0C0A000\0Mno\0\0";
    let told = |scheme: &str, address: &str, mode: &str| {
        let mut command = Command::new(FATHOM);
        command.args(["sql", &format!("{scheme}://me@{address}/d?sslmode={mode}"), "--query", "SELECT 1"]);
        command.args(["--connect-timeout", "700ms"]).env("HOME", "/nonexistent");
        line(&command.output().unwrap(), 1)
    };
    let [mysql, tds, postgres, ssh, tls] =
        [MYSQL, TDS, POSTGRES, b"SSH-2.0-OpenSSH_9.2\r\n", ALERT].map(|says| stranger(says, false));
    let (silent, closing) = (stranger(b"", false), stranger(b"", true));
    for mode in ["prefer", "disable"] {
        for (scheme, address, says) in [
            ("postgres", &mysql, "PostgreSQL's protocol, but MySQL's: use mysql://"),
            ("postgres", &tds, "PostgreSQL's protocol, but SQL Server's: use mssql://"),
            ("mssql", &mysql, "SQL Server's protocol, but MySQL's: use mysql://"),
            ("mssql", &postgres, "SQL Server's protocol, but PostgreSQL's: use postgres://"),
            ("mysql", &postgres, "MySQL's protocol, but PostgreSQL's: use postgres://"),
            ("mysql", &tds, "MySQL's protocol, but SQL Server's: use mssql://"),
            ("postgres", &ssh, "PostgreSQL's protocol, but SSH: name the port of PostgreSQL"),
            ("mysql", &ssh, "MySQL's protocol, but SSH: name the port of MySQL"),
            ("mssql", &ssh, "SQL Server's protocol, but SSH: name the port of SQL Server"),
            // SQL Server with strict encryption alone was taken for any service of TLS.
            (
                "mssql",
                &tls,
                "speaks TLS at once: a SQL Server that takes nothing but TDS 8.0 (strict encryption)",
            ),
            ("mssql", &tls, "or another service of TLS"),
            ("postgres", &tls, "but TLS at once, as a service of TLS does"),
            ("mysql", &tls, "or a SQL Server of TDS 8.0 (strict encryption): name the port of MySQL"),
            ("postgres", &silent, "says nothing (no whole answer within 700ms)"),
            ("mysql", &silent, "a server of MySQL's kind speaks first"),
            ("mssql", &silent, "says nothing (no whole answer within 700ms)"),
            ("postgres", &closing, "closed the connection without a word"),
            ("mysql", &closing, "closed the connection without a word"),
            ("mssql", &closing, "closed the connection without a word"),
        ] {
            let told = told(scheme, address, mode);
            assert!(told.contains(says), "{scheme} {mode}: {told}");
            assert!(!told.contains("broke the connection"), "{told}");
        }
    }
}

/// "See the server's log", which says nothing of what fathom itself does not understand.
#[test]
fn unparsable_login_reply_is_shown_with_advice() {
    let capture = "tcpdump -i any -w fathom.pcap tcp port PORT";
    for (scheme, says, read, to_do) in [
        ("postgres", &b"R\0\0\0\x08\0\0\0\x63"[..], "52 00 00 00 08", capture),
        // Of a greeting that ends before its time.
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
        let told = line(&command.output().unwrap(), 1);
        assert!(told.contains(read) && !told.contains("server's log"), "{scheme}: {told}");
        let port = address.rsplit_once(':').unwrap().1;
        assert!(told.contains(&to_do.replace("PORT", port)), "{scheme}: {told}");
    }
}

/// A message of a `PostgreSQL` client: its tag, and what follows its length.
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

/// Lets everybody in, has the number 41, shows nobody what it does, and answers a query by this.
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

/// The same of an answer: it was said that the connection broke, and that the server's log says why.
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
        // Nobody asked whether it is ready, and nothing says what became of the query: it counted as answered, with no rows.
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
        // PgBouncer's words, which name no place in the source of PostgreSQL.
        (
            b"E\0\0\0\x29SFATAL\0VFATAL\0C08P01\0Mquery_timeout\0\0",
            "query_timeout (08P01); a pooler or proxy between says so",
            "the server's log",
        ),
        // Without V, as poolers and servers before 9.6 say it, and no FATAL at all: it was dropped, and the server had closed without a word.
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
        let told = line(&command.output().unwrap(), 1);
        assert!(told.contains(&says.replace("{}", &address)) && !told.contains(not), "{told}");
    }
}

/// A proxy that doubles an answer: each query after it had the answer of the one before, without a word (a stranger).
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

/// Those that there are: each by each other's scheme.
#[test]
fn a_real_server_is_not_taken_for_another() {
    let (Some(postgres), Some(mariadb)) = (Postgres::start(), Mariadb::start()) else { return };
    let ask = |scheme: &str, address: &str| {
        let url = format!("{scheme}://me@{address}/d");
        line(&Command::new(FATHOM).args(["sql", &url, "--connect-timeout", "700ms"]).output().unwrap(), 1)
    };
    for scheme in ["postgres", "mssql"] {
        let told = ask(scheme, &mariadb.address);
        assert!(told.contains("but MySQL's: use mysql://"), "{told}");
    }
    let told = ask("mysql", &postgres.address);
    assert!(told.contains("speaks first") && told.contains("PostgreSQL: postgres://"), "{told}");
    let told = ask("mssql", &postgres.address);
    assert!(told.contains("closed the connection without a word"), "{told}");
}

/// The variable was none of the URL, and exit code 1 said that the server was at fault.
#[test]
fn unusable_input_error_names_its_source() {
    let ask = |url: &str, variable: &str, input: &[u8]| {
        let mut command = Command::new(FATHOM);
        command.args(["sql", url, "--query", "-", "--quiet"]).env("PGSSLMODE", variable);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may not come to read it.
        _ = child.stdin.take().unwrap().write_all(input);
        line(&child.wait_with_output().unwrap(), 2)
    };
    let told = ask("postgres://me@127.0.0.1:1/d", "bogus", b"SELECT 1");
    assert!(told.contains("the environment variable PGSSLMODE=bogus: write disable"), "{told}");
    assert!(!told.contains("URL"), "{told}");
    let told = ask("postgres://me@127.0.0.1:0/d", "prefer", b"SELECT 1");
    assert!(told.contains("write one from 1 to 65535"), "{told}");
    let told = ask("postgres://me@127.0.0.1:1/d", "prefer", b"SELECT 'caf\xe9'");
    assert!(told.contains("not UTF-8 after 11 bytes") && told.contains("iconv"), "{told}");
}
