//! `fathom sql mysql://` against a real `MariaDB`: logins, the split of a query's time, errors, recordings and procedures.
use crate::support::database::{PASSWORD, begun, far, is, refused, result, says_the_same};
use crate::support::mariadb::{Mariadb, sql};
use crate::support::probe::assert_sound;
use crate::support::rate::assert_rate;
use crate::support::{FATHOM, ended, must, signal, wait_for};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

const ONE: [&str; 5] = ["--json", "--count", "1", "--query", "SELECT 1"];

#[test]
fn logins_succeed_or_fail_in_one_line() {
    let Some(server) = Mariadb::start() else { return };
    let login = |user: &str, rest: &str, password: Option<&str>| {
        let mut command = sql(Command::new(FATHOM), &server.url_of(user, rest), &ONE);
        command.env_remove("MYSQL_PWD");
        password.map(|password| command.env("MYSQL_PWD", password));
        command.output().unwrap()
    };
    // Without a database; without a password; with the second of two login methods.
    for (user, password) in [("owner", Some(PASSWORD)), ("nobody", None), ("either", Some(PASSWORD))] {
        let outcome = result(&login(user, "", password));
        assert_eq!((&outcome["rows"], &outcome["encrypted"]), (&1.into(), &false.into()), "{outcome:#}");
        assert!(outcome["server_version"].as_str().is_some_and(|version| version.contains("-MariaDB")));
    }
    for (user, rest, password, says) in [
        ("owner", "/shop", Some("wrong"), "error 1045"),
        ("owner", "/shop", Some("wrong"), "the right password by MYSQL_PWD"),
        ("owner", "/shop", None, "give the password by MYSQL_PWD"),
        ("who", "/shop", Some(PASSWORD), "error 1045"),
        ("owner", "/nothere", Some(PASSWORD), "name a database that is there"),
        ("owner", "/shop?sslmode=require", Some(PASSWORD), "does not speak TLS"),
        ("old", "", Some(PASSWORD), "by mysql_old_password, which fathom does not know"),
    ] {
        let line = refused(&login(user, rest, password), 1);
        assert!(line.contains(says) && !line.contains(PASSWORD), "{says}: {line}");
    }
}

#[test]
fn everything_is_encrypted_where_the_server_can() {
    let Some(server) = Mariadb::start_with_tls() else { return };
    let ask = |user: &str, rest: &str| {
        sql(Command::new(FATHOM), &server.url_of(user, rest), &ONE).output().unwrap()
    };
    let own = format!("&sslrootcert={}", server.certificate().display());
    for (rest, encrypted) in [
        ("/shop", true),
        ("/shop?sslmode=disable", false),
        ("/shop?ssl-mode=DISABLED", false),
        ("/shop?sslmode=require", true),
        (&format!("/shop?sslmode=verify-ca{own}"), true),
        (&format!("/shop?sslmode=verify-full{own}"), true),
        (&format!("/shop?ssl-mode=VERIFY_IDENTITY{own}"), true),
    ] {
        assert_eq!(result(&ask("owner", rest))["encrypted"], encrypted, "{rest}");
    }
    assert_eq!(result(&ask("secured", ""))["encrypted"], true);
    assert!(refused(&ask("secured", "?sslmode=disable"), 1).contains("without TLS"));
    // No authority of this host has signed it.
    let line = refused(&ask("owner", "?sslmode=verify-full"), 1);
    assert!(
        line.contains("the TLS handshake failed: its certificate is signed by nobody who is trusted here"),
        "{line}"
    );
    assert!(line.contains("by sslrootcert=FILE of the URL;") && !line.contains("UnknownIssuer"), "{line}");
    // The certificate has another name.
    let url = server.url().replace("127.0.0.1", "localhost");
    let named = sql(Command::new(FATHOM), &format!("{url}?sslmode=verify-full{own}"), &ONE).output().unwrap();
    let line = refused(&named, 1);
    assert!(line.contains("for another name than localhost") && line.contains("sslmode=verify-ca"), "{line}");
}

#[test]
fn mariadb_work_and_sleep_are_distinguished() {
    let Some(server) = Mariadb::start() else { return };
    let client = server.ask(&["--count", "5", "--rows", "100", "--think", "2ms"]);
    is(&client, "client");
    // Sleeps may be longer than asked for.
    assert!(client["client_ns"]["p50"].as_f64() >= Some(200e6), "{client:#}");
    let asleep = server.ask(&["--count", "5", "--query", "SELECT SLEEP(0.3)"]);
    is(&asleep, "server");
    assert!(asleep["mean_ns"]["server"]["high"].as_f64() >= Some(300e6), "{asleep:#}");
    assert_eq!(asleep["server_waits"], json!({ "User sleep": 4 }), "{asleep:#}");
    // More rows than the buffers hold: the server waits for the client.
    let works = server.ask(&["--count", "2", "--rows", "3000", "--row-bytes", "8000", "--think", "400us"]);
    assert!(works["looks"].as_u64() > Some(0), "{works:#}");
    let of = |part: &Value| part.as_f64().unwrap();
    let slept = 3_000.0 * 400e3 / of(&works["wall_ns"]["p50"]);
    assert!(of(&works["shares"]["client"]["high"]) >= slept, "{works:#}");
    assert!(of(&works["shares"]["server"]["low"]) <= 1.0 - slept, "{works:#}");
    assert!(of(&works["shares"]["path"]["low"]) <= 1.0 - slept, "{works:#}");
}

#[test]
fn starved_server_is_not_blamed_on_path() {
    assert_rate(2, 3, starved_server_has_the_time);
}

/// The server runs for 5 ms of every 85, as on a busy machine, while its kernel acknowledges the requests.
fn starved_server_has_the_time() {
    let Some(server) = Mariadb::start() else { return };
    let mut asks = begun(server.sql(&["--query", "SELECT 1", "--every", "30ms", "--count", "40"]));
    for _ in 0..1_000 {
        if asks.try_wait().unwrap().is_some() {
            break;
        }
        for (what, lasts) in [("-STOP", 80), ("-CONT", 5)] {
            must("kill", &[what, &server.id().to_string()]);
            std::thread::sleep(std::time::Duration::from_millis(lasts));
        }
    }
    let starved = result(&ended(asks));
    assert!(starved["mean_ns"]["wall"].as_f64() >= Some(10e6), "it starved: {starved:#}");
    assert_ne!(starved["verdict"]["party"], "path", "{starved:#}");
    assert!(starved["shares"]["server"]["high"].as_f64() > Some(0.5), "{starved:#}");
    assert!(
        starved["rtt_ns"].as_f64() <= starved["mean_ns"]["wall"].as_f64().map(|wall| wall / 4.0),
        "{starved:#}"
    );
}

#[test]
fn mariadb_rows_and_fetches_are_counted() {
    let Some(server) = Mariadb::start_with_tls() else { return };
    let dir = server.home.path().join("kept");
    let kept = dir.to_str().unwrap();
    for (rows, row_bytes) in [(1, 1), (10, 50), (11, 0), (1_001, 300)] {
        let dir = format!("{kept}-{rows}");
        let (rows_text, bytes_text) = (rows.to_string(), row_bytes.to_string());
        let outcome =
            server.ask(&["--count", "4", "--rows", &rows_text, "--row-bytes", &bytes_text, "--record", &dir]);
        assert_eq!(
            (&outcome["rows"], &outcome["turns"], &outcome["queries"]),
            (&(4 * rows).into(), &1.into(), &4.into()),
            "{outcome:#}"
        );
        // A row has at least 5 bytes of the protocol's.
        assert!(outcome["bytes_received"].as_u64() >= Some(4 * rows * (row_bytes + 5)), "{outcome:#}");
        // On a busy host there may be a note on pauses.
        let notes = outcome["notes"].as_array().unwrap();
        assert!(notes.iter().all(|note| note.as_str().unwrap().contains("stood still")), "{outcome:#}");
        assert_sound(dir.as_ref());
        says_the_same(dir.as_ref(), &outcome);
    }
    let manifest = std::fs::read_to_string(format!("{kept}-11/recording.json")).unwrap();
    assert!(
        manifest.contains("\"protocol\": \"mysql\"") || manifest.contains("\"protocol\":\"mysql\""),
        "{manifest}"
    );
    // By a cursor: with and without rows; with the end of the answer beside the last rows and alone.
    let pieces = |rows: &str, fetch: &str| {
        server.ask(&["--count", "3", "--rows", rows, "--row-bytes", "3000", "--fetch-size", fetch])
    };
    for (rows, fetch, turns) in [("1001", "100", 13), ("1000", "100", 13), ("999", "100", 12), ("1", "1", 4)]
    {
        let outcome = pieces(rows, fetch);
        let wanted = 3 * rows.parse::<u64>().unwrap();
        assert_eq!((&outcome["rows"], &outcome["turns"]), (&wanted.into(), &turns.into()), "{outcome:#}");
        assert_eq!(outcome["failed"], 0, "{outcome:#}");
    }
    for (query, rows, turns) in [("SELECT 1 FROM DUAL WHERE FALSE", 0, 3), ("DO 1", 0, 2)] {
        let outcome = server.ask(&["--count", "2", "--fetch-size", "10", "--query", query]);
        assert_eq!((&outcome["rows"], &outcome["turns"]), (&rows.into(), &turns.into()), "{outcome:#}");
    }
    // Values of 16 MiB and more take several packets.
    let long = [
        "--count",
        "1",
        "--simple",
        "--query",
        "SELECT REPEAT('x', 16777216), 1 UNION ALL SELECT 'y', 2; SELECT 3",
    ];
    assert_eq!(server.ask(&long)["rows"], 3);
    // MariaDB would count a connection without a login as an error.
    let log = server.log();
    let aborted: Vec<_> = log.lines().filter(|line| line.contains("Aborted connection")).collect();
    assert!(aborted.is_empty(), "{aborted:#?}");
    // The session is read-only, and the server's own setting is unchanged.
    assert_eq!(
        server.ask(&["--count", "1", "--query", "SELECT 1 FROM DUAL WHERE @@GLOBAL.tx_read_only"])["rows"],
        0
    );
}

#[test]
fn mariadb_password_and_stdin_query_are_unrecorded() {
    let Some(server) = Mariadb::start() else { return };
    let dir = server.home.path().join("kept");
    let url = server.url().replace("owner@", &format!("owner:{PASSWORD}@"));
    let mut command = Command::new(FATHOM);
    command
        .args(["sql", &url, "--count", "2", "--query", "-", "--record"])
        .arg(&dir)
        .env("FATHOM_CLOUD", "off");
    let mut child = command
        .env_remove("MYSQL_PWD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 'pr1vate'").unwrap();
    let out = ended(child);
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && told.contains("give it by MYSQL_PWD"), "{told}");
    for file in std::fs::read_dir(&dir).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(PASSWORD) && !text.contains("pr1vate"));
    }
    assert!(std::fs::read_to_string(dir.join("recording.json")).unwrap().contains("LEFT-OUT"));
    assert_sound(&dir);
}

#[test]
fn mariadb_errors_are_one_line() {
    let Some(server) = Mariadb::start() else { return };
    let line = |arguments: &[&str], code| refused(&server.sql(arguments).output().unwrap(), code);
    for (query, says) in [
        ("SELEC\n1", "error 1064"),
        ("SELECT * FROM nothere", "(42S02); mend the query"),
        ("SELECT 1; SELECT 2", "error 1064"),
    ] {
        let line = line(&["--query", query], 1);
        assert!(line.contains(says), "{query}: {line}");
    }
    let parameters = line(&["--fetch-size", "10", "--query", "SELECT ?, ?"], 1);
    assert!(
        parameters.contains("parameters (2 of ?)") && parameters.contains("write the values"),
        "{parameters}"
    );
    assert!(line(&["--row-bytes", "17M"], 2).contains("max_allowed_packet of 16777216"));
    // An empty answer has no rows.
    assert_eq!(server.ask(&["--count", "2", "--query", "SELECT 1 FROM DUAL WHERE FALSE"])["rows"], 0);
}

/// The run's peak memory with a thousand rows, and with ten million.
#[test]
fn ten_million_rows_need_no_memory() {
    let Some(server) = Mariadb::start() else { return };
    let most = |rows: &str| {
        let url = server.url();
        let arguments = ["sql", &url, "--rows", rows, "--row-bytes", "1", "--for", "1h"];
        let mut command = Command::new(FATHOM);
        command.args(arguments).env("MYSQL_PWD", PASSWORD).env("FATHOM_CLOUD", "off");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
        // As many rows as were asked for, or a multiple.
        let came = line
            .split(' ')
            .collect::<Vec<_>>()
            .windows(2)
            .find_map(|two| two[1].starts_with("rows").then(|| two[0].parse::<u64>().ok()).flatten());
        assert!(came.is_some_and(|came| came >= rows.parse().unwrap()), "{line}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        signal(&child, "INT");
        child.wait().unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let (few, many) = (most("1000"), most("10000000"));
    assert!(many < few + 4_096, "{few} kB for a thousand, {many} kB for ten million");
}

#[test]
fn killed_mariadb_leaves_recording_sound() {
    let Some(mut server) = Mariadb::start() else { return };
    for by_word in [true, false] {
        let dir = server.home.path().join(format!("kept-{by_word}"));
        let rows = ["--rows", "1000000000", "--think", "1us", "--record", dir.to_str().unwrap()];
        let child = begun(server.sql(&rows));
        server.wait_for_sessions(1, "STATE = 'Writing to net'");
        if by_word {
            // Its state changes from row to row; its query does not.
            let kill = "BEGIN NOT ATOMIC FOR one IN (SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT REPEAT%') \
                        DO KILL one.ID; END FOR; END";
            server.ask(&["--count", "1", "--query", kill]);
        } else {
            server.kill();
        }
        let line = refused(&ended(child), 1);
        assert!(line.contains("query 1 has no whole answer"), "{line}");
        assert_sound(&dir);
        assert!(dir.join("queries-00000.parquet").is_file());
    }
}

#[test]
fn ctrl_c_cancels_mariadb_query() {
    let Some(server) = Mariadb::start() else { return };
    let asleep = "STATE = 'User sleep'";
    let child = begun(server.sql(&["--query", "SELECT 7, SLEEP(600)"]));
    server.wait_for_sessions(1, asleep);
    signal(&child, "INT");
    let outcome = result(&ended(child));
    assert_eq!(outcome["queries"], 1, "{outcome:#}");
    assert_eq!(server.sessions(asleep), 0, "the server still works on it");
    // The end of its sleep, or an error: not a failure of the server.
    assert_eq!(outcome["failures"], json!({}), "{outcome:#}");
    // In the middle of rows it is an error.
    let child = begun(server.sql(&["--rows", "1000000000"]));
    server.wait_for_sessions(1, "COMMAND = 'Query' AND INFO LIKE 'SELECT REPEAT%'");
    signal(&child, "INT");
    let outcome = result(&ended(child));
    let counts = ["queries", "failed", "cancelled"].map(|name| outcome[name].as_u64().unwrap());
    assert_eq!(counts, [1, 0, 1], "{outcome:#}");
    assert!(outcome["notes"].as_array().unwrap().contains(&json!("query 1 was ended by you")), "{outcome:#}");
}

/// KILL QUERY needs one session more than the user may have. Ctrl-C closes the query's session instead; the server notices as it
/// sends rows.
#[test]
fn session_is_closed_when_cancel_is_refused() {
    let Some(server) = Mariadb::start() else { return };
    let few = format!("CREATE USER few IDENTIFIED BY '{PASSWORD}' WITH MAX_USER_CONNECTIONS 3");
    server.ask(&["--count", "1", "--query", &few]);
    let child = begun(sql(Command::new(FATHOM), &server.url_of("few", ""), &["--rows", "1000000000"]));
    wait_for("the query, the observer and the session of round trips", || {
        let is_asked =
            server.sessions("USER = 'few' AND COMMAND = 'Query' AND INFO LIKE 'SELECT REPEAT%'") == 1;
        (is_asked && server.sessions("USER = 'few'") == 3).then_some(())
    });
    signal(&child, "INT");
    let outcome = result(&ended(child));
    assert_eq!((&outcome["queries"], &outcome["failed"]), (&1.into(), &0.into()), "{outcome:#}");
    assert_eq!(outcome["cancelled"], 1, "{outcome:#}");
    let notes = outcome["notes"].to_string();
    let told = "query 1 was ended by you, before its answer came; the server could not be asked to cancel it (cannot log in to ";
    assert!(
        notes.contains(told) && notes.contains("error 1226") && notes.contains("its session was closed"),
        "{notes}"
    );
    server.wait_for_sessions(0, "USER = 'few'");
}

/// A round trip of 20 ms; then the client's work, and the server's.
#[test]
fn delay_before_mariadb_is_the_paths() {
    let Some(fabric) = far("10.91.2.4", "10.91.2.5") else { return };
    let Some(server) = Mariadb::start_with("10.91.2.5", &[], |program| fabric.exec("there", program)) else {
        return;
    };
    let ask = |arguments: &[&str]| {
        let mut command = sql(fabric.exec("here", FATHOM), &server.url(), arguments);
        result(&command.arg("--json").output().unwrap())
    };
    let small = ask(&["--count", "5", "--rows", "10"]);
    is(&small, "path");
    assert!(small["rtt_ns"].as_f64() >= Some(20e6), "{small:#}");
    assert!(small["path_ns"]["p50"].as_f64() >= Some(20e6), "{small:#}");
    is(&ask(&["--count", "5", "--query", "SELECT SLEEP(0.3)"]), "server");
    is(&ask(&["--count", "3", "--rows", "200", "--think", "2ms"]), "client");
    // One round trip prepares, one executes, and eleven fetch.
    let pieces = ask(&["--count", "5", "--rows", "1000", "--fetch-size", "100"]);
    is(&pieces, "path");
    assert_eq!(pieces["turns"], 13);
    assert!(pieces["path_ns"]["p50"].as_f64() >= Some(13.0 * 20e6), "{pieces:#}");
}

/// The server ends a session that sends more, mostly without a message.
#[test]
fn query_above_max_allowed_packet_is_explained() {
    let Some(server) = Mariadb::start() else { return };
    server.ask(&["--count", "1", "--query", "SET GLOBAL max_allowed_packet = 1048576"]);
    for (bytes, fits) in [(1_048_576 - 2, true), (1_048_576 - 1, false), (2_000_000, false)] {
        let query = format!("SELECT LENGTH('{}')", "x".repeat(bytes - "SELECT LENGTH('')".len()));
        let file = server.home.path().join("query.sql");
        std::fs::write(&file, &query).unwrap();
        let mut command = server.sql(&["--count", "1", "--query", "-", "--json"]);
        let out = command.stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.success(), fits, "{bytes}: {told}");
        assert!(
            fits || told.contains("max_allowed_packet of 1048576") && told.contains("SET GLOBAL"),
            "{bytes}: {told}"
        );
    }
}

const PROCEDURES: [&str; 6] = [
    "CREATE TABLE shop.numbers (n INT, body VARCHAR(100))",
    "INSERT INTO shop.numbers SELECT seq, REPEAT('x', 100) FROM seq_1_to_95",
    "CREATE PROCEDURE shop.all_of_them() SELECT * FROM shop.numbers",
    "CREATE PROCEDURE shop.twice() BEGIN SELECT * FROM shop.numbers; SELECT n FROM shop.numbers LIMIT 5; END",
    "CREATE PROCEDURE shop.nothing() SET @done = 1",
    "CREATE PROCEDURE shop.fails() BEGIN SELECT * FROM shop.numbers; SELECT * FROM shop.nothere; END",
];

/// A procedure's rows come at once, and by a cursor.
#[test]
fn procedure_is_called_with_cursor() {
    let Some(server) = Mariadb::start() else { return };
    for statement in PROCEDURES {
        server.ask(&["--count", "1", "--query", statement]);
    }
    let no_cursor = "the server opened no cursor for this query";
    for (how, turns) in [(&[][..], 1), (&["--fetch-size", "10"], 2), (&["--fetch-size", "1000"], 2)] {
        for (procedure, rows) in [("all_of_them", 95), ("twice", 100), ("nothing", 0)] {
            let query = format!("CALL shop.{procedure}()");
            let outcome = server.ask(&[how, &["--count", "3", "--query", &query]].concat());
            // With a cursor the rows come when the statement is executed, and none is fetched.
            assert_eq!(
                (&outcome["rows"], &outcome["turns"]),
                (&json!(3 * rows), &json!(turns)),
                "{how:?} {query}"
            );
            let notes = outcome["notes"].to_string();
            assert_eq!(notes.contains(no_cursor), turns == 2 && rows > 0, "{how:?} {query}: {notes}");
        }
        let out = server.sql(&[how, &["--query", "CALL shop.fails()"]].concat()).output().unwrap();
        let told = refused(&out, 1);
        assert!(told.contains("error 1146") && told.contains("mend the query"), "{how:?}: {told}");
    }
    // A query with a cursor is fetched.
    let fetched =
        server.ask(&["--count", "3", "--fetch-size", "10", "--query", "SELECT * FROM shop.numbers"]);
    assert!(fetched["turns"].as_u64() > Some(9), "{fetched:#}");
    assert!(!fetched["notes"].to_string().contains(no_cursor), "{fetched:#}");
    let swept = server.ask(&["--count", "4", "--fetch-size", "0,10", "--query", "CALL shop.all_of_them()"]);
    assert!(swept["notes"].to_string().contains(no_cursor), "{swept:#}");
}
