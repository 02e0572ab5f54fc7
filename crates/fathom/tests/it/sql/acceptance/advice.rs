//! What `fathom sql` advises where a real server does not do what was asked.
use crate::support::FATHOM;
use crate::support::database::{refused, result};
use crate::support::mariadb::{self, Mariadb};
use crate::support::postgres::{self, Postgres};
use std::process::Command;

/// The notes of a run that went on.
fn notes(command: &mut Command) -> String {
    let out = command.args(["--json", "--count", "2", "--query", "SELECT 1"]).output().unwrap();
    result(&out)["notes"].to_string()
}

/// Each case: protocol, query and parts of the message.
#[test]
fn postgresql_errors_carry_useful_advice() {
    let Some(server) = Postgres::start() else { return };
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
        // Other mistakes of the query.
        (&["--simple"], "SELECT 1; SELEC 2", &["42601", "; mend the query"]),
        (&[], "SELEC ';'", &["42601", "; mend the query"]),
        (&[], "SELECT 1 / 0", &["22012", "; mend the query"]),
        (&["--simple"], "FETCH ALL FROM nothing", &["34000", "; mend the query"]),
        (&["--simple"], "DECLARE c CURSOR FOR SELECT 1", &["25P01", "; mend the query"]),
        (&["--simple"], "LOAD 'nothing'", &["58P01", "see that the files that the query is about are there"]),
    ];
    for (how, query, says) in cases {
        let arguments = [how, &["--query", query]].concat();
        let told = refused(&server.sql(&arguments).output().unwrap(), 1);
        assert!(says.iter().all(|says| told.contains(says)), "{how:?} {query}: {told}");
        assert!(!told.contains("somebody cancelled") && !told.contains("; see the server's log"), "{told}");
    }
    // A query may begin with a comment.
    let commented = "-- how many\nSELECT count(*) FROM pg_class";
    assert_eq!(server.ask(&["--count", "2", "--query", commented])["rows"], 2);
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
    let told = refused(&of("barred", "postgres").output().unwrap(), 1);
    assert!(told.contains("53300") && told.contains(role) && !told.contains("max_connections"), "{told}");
    let told = refused(&of("many", "crowded").output().unwrap(), 1);
    assert!(
        told.contains("53300") && told.contains("ALTER DATABASE") && !told.contains("max_connections"),
        "{told}"
    );
    // The query's session is accepted and the observer's is not: the run goes on, and says why it is less sure.
    let told = notes(&mut of("one", "postgres"));
    assert!(told.contains(role) && told.contains("goes on without"), "{told}");
    // The advice helps.
    server.ask(&["--count", "1", "--simple", "--query", "ALTER ROLE one CONNECTION LIMIT 2"]);
    let told = notes(&mut of("one", "postgres"));
    assert!(!told.contains("not known"), "{told}");
}

#[test]
fn mariadb_errors_carry_useful_advice() {
    let Some(server) = Mariadb::start() else { return };
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
        let told = refused(&server.sql(&["--query", query]).output().unwrap(), 1);
        assert!(told.contains(says), "{query}: {told}");
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
    let told = refused(&of("few").args(["--query", "SELECT 1"]).output().unwrap(), 1);
    assert!(told.contains("1226") && told.contains(own) && told.contains("ALTER USER"), "{told}");
    let told = refused(&of("locked").args(["--query", "SELECT 1"]).output().unwrap(), 1);
    assert!(told.contains("4151") && told.contains("; unlock the account by ALTER USER"), "{told}");
    server.ask(&["--count", "1", "--query", "ALTER USER one WITH MAX_USER_CONNECTIONS 3"]);
    let told = notes(&mut of("one"));
    assert!(!told.contains("1226") && !told.contains("not known"), "{told}");
}

/// Each server by the other's scheme.
#[test]
fn real_server_is_not_taken_for_another() {
    let (Some(postgres), Some(mariadb)) = (Postgres::start(), Mariadb::start()) else { return };
    let ask = |scheme: &str, address: &str| {
        let url = format!("{scheme}://me@{address}/d");
        refused(&Command::new(FATHOM).args(["sql", &url, "--connect-timeout", "700ms"]).output().unwrap(), 1)
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
