//! What `fathom sql` advises where a real server does not do what was asked: what it says, what it means, what to do.
#![cfg(target_os = "linux")]

mod support;

use serde_json::Value;
use std::process::{Command, Output};
use support::database::result;
use support::mariadb::Mariadb;
use support::postgres::{self, Postgres};
use support::{FATHOM, mariadb};

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
fn what_postgresql_does_not_take_has_advice_that_helps() {
    let Some(server) = Postgres::start() else { return };
    let ask = |how: &[&str], query: &str, code| {
        line(&server.sql(&[how, &["--query", query]].concat()).output().unwrap(), code)
    };
    let extended = ["42601", "several statements at once need --simple"];
    let fetched = ["42601", "with --simple and without --fetch-size"];
    let values = ["nobody gives values to $1 and the like: write them into the query"];
    let copied = ["COPY from stdin failed", "fathom sends no rows to a server"];
    let cases: [(&[&str], &str, &[&str]); 10] = [
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
    ];
    for (how, query, says) in cases {
        let told = ask(how, query, 1);
        assert!(says.iter().all(|says| told.contains(says)), "{how:?} {query}: {told}");
        assert!(!told.contains("somebody cancelled") && !told.contains("see the server's log"), "{told}");
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
fn who_may_have_too_few_sessions_at_postgresql_is_told_whose_limit_it_is() {
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
fn who_may_not_look_at_postgresql_is_told_the_grant_that_lets_him() {
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
fn a_reflector_that_refuses_is_told_with_what_to_do() {
    let Some(server) = Postgres::start() else { return };
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let told = notes(server.sql(&[]).args(["--reflector", &nobody]));
    assert!(told.contains("refused") && told.contains(&format!("`fathom echo` runs at {nobody}")), "{told}");
    assert!(told.contains("or leave --reflector out"), "{told}");
}

#[test]
fn what_mariadb_does_not_take_has_advice_that_helps() {
    let Some(server) = Mariadb::start() else { return };
    let ask = |how: &[&str], query: &str, code| {
        line(&server.sql(&[how, &["--query", query]].concat()).output().unwrap(), code)
    };
    for (query, says) in [
        ("SELECT 1; SELECT 2", "several statements at once need --simple"),
        ("SELECT ?", "nobody gives values to ?: write them into the query"),
        ("SELEC ';?'", "; mend the query"),
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
    server.ask(&["--count", "1", "--query", "ALTER USER one WITH MAX_USER_CONNECTIONS 3"]);
    assert_eq!(notes(&mut of("one")), "");
}
