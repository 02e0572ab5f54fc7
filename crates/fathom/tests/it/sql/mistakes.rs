//! Mistakes that `fathom sql` reports without asking a server.
use crate::support::FATHOM;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

const POSTGRES: &str = "postgres://me@127.0.0.1:1/d";
const MYSQL: &str = "mysql://me@127.0.0.1:1/d";
const MSSQL: &str = "mssql://me@127.0.0.1:1/d";

/// URL, further arguments, and a part of the message.
const MISTAKES: [(&str, &[&str], &str); 25] = [
    (POSTGRES, &["--query", "-- comment"], "--query: there is nothing but comments in it"),
    (POSTGRES, &["--query", "/* nothing */ ;"], "--query: there is nothing but comments in it"),
    (MYSQL, &["--query", "-- comment"], "--query: there is nothing but comments in it"),
    (MYSQL, &["--query", "# comment"], "--query: there is nothing but comments in it"),
    (MYSQL, &["--query", "/* nothing */"], "--query: there is nothing but comments in it"),
    (POSTGRES, &["--for", "0s"], "--for 0: that ends before it begins; leave it out"),
    ("postgres://me@127.0.0.1:0/d", &[], "write one from 1 to 65535"),
    ("mssql://me@127.0.0.1:1/d?sslmode=maybe", &[], "sslmode"),
    (POSTGRES, &["--packet-size", "512"], "mssql://"),
    (MYSQL, &["--packet-size", "4096"], "mssql://"),
    (MYSQL, &["--row-bytes", "2G"], "1 GiB"),
    (MSSQL, &["--packet-size", "511"], "511 is not in 512..=32767"),
    (MSSQL, &["--fetch-size", "10"], "--fetch-size"),
    // Sweeps of an option that the protocol lacks, or that name one size twice.
    (POSTGRES, &["--packet-size", "4096,8192"], "--packet-size"),
    (MSSQL, &["--fetch-size", "0,10"], "--fetch-size"),
    (POSTGRES, &["--fetch-size", "0,0"], "--fetch-size: 0 stands there twice"),
    (MYSQL, &["--fetch-size", "10,0,10"], "--fetch-size: 10 stands there twice"),
    (MSSQL, &["--packet-size", "4096,8192,8192"], "--packet-size: 8192 stands there twice"),
    (POSTGRES, &["--connections", "0"], "0 is not in 1..=64"),
    (POSTGRES, &["--connections", "65"], "65 is not in 1..=64"),
    (MYSQL, &["--connections", "65"], "65 is not in 1..=64"),
    (MSSQL, &["--connections", "65"], "65 is not in 1..=64"),
    (POSTGRES, &["--connections", "2", "--fetch-size", "5,10"], "the mixture"),
    (MYSQL, &["--connections", "2", "--fetch-size", "5,10"], "the mixture"),
    (MSSQL, &["--connections", "2", "--packet-size", "512,4096"], "the mixture"),
];

fn command(url: &str) -> Command {
    let mut command = Command::new(FATHOM);
    command.args(["sql", url]).env("HOME", "/nonexistent").env_remove("PGPASSWORD");
    command.stdin(Stdio::null());
    command
}

/// The message of a run that ended with this exit code, without the help that clap adds.
fn message(out: &Output, code: i32) -> String {
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{message}");
    let lines = message.trim_end().trim_end_matches("For more information, try '--help'.").trim_end().lines();
    assert_eq!(lines.count(), 1, "{message}");
    message
}

#[test]
fn command_line_mistakes_are_one_line_errors() {
    for (url, arguments, says) in MISTAKES {
        let told = message(&command(url).args(arguments).output().unwrap(), 2);
        assert!(told.contains(says), "{url} {arguments:?}: {told}");
    }
}

#[test]
fn unresolvable_host_is_one_line_error() {
    let told = message(&command("postgres://me@nohost.invalid/x").output().unwrap(), 1);
    assert!(told.contains("nohost.invalid"), "{told}");
}

/// The message names the environment variable, not the URL.
#[test]
fn unusable_input_error_names_its_source() {
    let ask = |variable: &str, input: &[u8]| {
        let mut command = command(POSTGRES);
        command.args(["--query", "-", "--quiet"]).env("PGSSLMODE", variable);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It may end before it reads this.
        _ = child.stdin.take().unwrap().write_all(input);
        message(&child.wait_with_output().unwrap(), 2)
    };
    let told = ask("bogus", b"SELECT 1");
    assert!(told.contains("the environment variable PGSSLMODE=bogus: write disable"), "{told}");
    assert!(!told.contains("URL"), "{told}");
    let told = ask("prefer", b"SELECT 'caf\xe9'");
    assert!(told.contains("not UTF-8 after 11 bytes") && told.contains("iconv"), "{told}");
}

/// A variable that is not UTF-8 is not taken for one that is not set.
#[cfg(unix)]
#[test]
fn non_utf8_password_error_names_variable() {
    use std::os::unix::ffi::OsStrExt as _;
    for (name, url) in [("PGPASSWORD", POSTGRES), ("MYSQL_PWD", MYSQL), ("SQLCMDPASSWORD", MSSQL)] {
        let password = std::ffi::OsStr::from_bytes(b"s3cret\xff");
        let out = command(url).args(["--query", "SELECT 1"]).env(name, password).output().unwrap();
        let told = message(&out, 1);
        assert!(told.contains(&format!("{name} is not UTF-8")) && !told.contains("s3cret"), "{told}");
    }
}

#[cfg(unix)]
#[test]
fn password_file_readable_by_others_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let out = command(POSTGRES).env("PGPASSFILE", file.path()).output().unwrap();
    let told = message(&out, 1);
    assert!(told.contains("chmod 600"), "{told}");
}
