//! Missing and truncated files of queries, of runs that ended and of runs that were killed: each reader reports them.
use crate::support::reflector::Echo;
use crate::support::{FATHOM, wait_for};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Rows of a full file.
const PER_FILE: u64 = 4_096;

fn asks(server: std::net::SocketAddr, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(FATHOM);
    let url = format!("mssql://reader@{server}/sales?sslmode=disable");
    command.args(["sql", &url, "--quiet", "--rows", "1", "--row-bytes", "10", "--connections", "4"]);
    command.args(arguments).arg("--record").arg(dir);
    command.env("SQLCMDPASSWORD", "s3cret-w0rd").env("FATHOM_CLOUD", "off");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn recording(arguments: &[&str], dir: &Path) -> Output {
    Command::new(FATHOM).arg("recording").args(arguments).arg(dir).output().unwrap()
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// The number of queries in the summary, and its messages.
fn summary(dir: &Path) -> (u64, String) {
    let out = recording(&["summary", "--json"], dir);
    let of: Value = serde_json::from_slice(&out.stdout).unwrap();
    (of["queries"]["queries"].as_u64().unwrap(), String::from_utf8_lossy(&out.stderr).into_owned())
}

/// Removes the second file: all readers report it, and read the others.
fn misses_its_second_file(dir: &Path, queries: u64) {
    fs::remove_file(dir.join("queries-00001.parquet")).unwrap();
    let verified = recording(&["verify"], dir);
    let told = text(&verified);
    assert_eq!(verified.status.code(), Some(1), "{told}");
    assert!(told.contains("queries-00001.parquet: it is missing"), "{told}");
    assert!(
        told.contains("NOT sound (") && told.contains(&format!("{} queries", queries - PER_FILE)),
        "{told}"
    );
    let (read, told) = summary(dir);
    assert_eq!(read, queries - PER_FILE);
    assert!(told.contains("queries-00001.parquet: it is missing"), "{told}");
    let explained = recording(&["explain"], dir);
    assert!(text(&explained).contains("queries-00001.parquet: it is missing"), "{}", text(&explained));
}

#[test]
fn every_reader_reports_missing_or_truncated_file() {
    let (_echo, server) = Echo::start_tds(&[]);
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ended");
    let out = asks(server, &dir, &["--count", "2050"]).output().unwrap();
    assert!(out.status.success(), "{}", text(&out));
    let verified = recording(&["verify"], &dir);
    assert!(verified.status.success() && text(&verified).contains(", 8200 queries, "), "{}", text(&verified));

    // Truncated: verification reads the other files, and does not advise a verification.
    let file = dir.join("queries-00002.parquet");
    let whole = fs::read(&file).unwrap();
    File::options().write(true).open(&file).unwrap().set_len(200).unwrap();
    let verified = recording(&["verify"], &dir);
    let told = text(&verified);
    assert_eq!(verified.status.code(), Some(1), "{told}");
    assert!(
        told.contains("queries-00002.parquet: it should have") && told.contains(", 8192 queries, "),
        "{told}"
    );
    assert!(!told.contains("fathom recording verify"), "{told}");
    fs::write(&file, whole).unwrap();
    assert!(recording(&["verify"], &dir).status.success());
    misses_its_second_file(&dir, 8_200);
}

/// The killed run states no count of queries; its event log names the files.
#[test]
fn recovered_run_is_complete_and_reports_missing_file() {
    let (_echo, server) = Echo::start_tds(&[]);
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("killed");
    let mut child = asks(server, &dir, &["--for", "10m"]).spawn().unwrap();
    wait_for("three files", || dir.join("queries-00002.parquet").is_file().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let recovered = recording(&["recover"], &dir);
    assert!(recovered.status.success(), "{}", text(&recovered));
    let verified = recording(&["verify", "--json"], &dir);
    let of: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert!(of["sound"] == true && of["queries"].as_u64() > Some(2 * PER_FILE), "{of:#}");
    let (read, told) = summary(&dir);
    assert_eq!((Some(read), told.as_str()), (of["queries"].as_u64(), ""));
    misses_its_second_file(&dir, read);
}
