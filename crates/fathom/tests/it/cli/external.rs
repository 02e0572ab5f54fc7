//! Commands of the Python half are handed over whole; where it is not installed, one line says what to do.

use assert_cmd::cargo::cargo_bin;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// One test at a time: a file that is open for writing, be it in a child that another thread has just forked, cannot be executed
/// ("Text file busy"), and every test here writes what it executes.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a copy of the binary, so that what lies beside it is the test's own.
fn fathom(home: &Path, path: &Path, arguments: &[&str]) -> Output {
    let copy = home.join("fathom");
    std::fs::copy(cargo_bin("fathom"), &copy).unwrap();
    Command::new(copy).args(arguments).env("PATH", path).output().unwrap()
}

/// A program that says how it was called, and ends with a code of its own.
fn program(directory: &Path, says: &str) {
    let path = directory.join("fathometer");
    std::fs::write(&path, format!("#!/bin/sh\necho \"{says} $*\"\nexit 7\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn arguments_and_exit_code_are_the_other_programs() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    program(elsewhere.path(), "on the path:");
    let out = fathom(home.path(), elsewhere.path(), &["report", "DIR", "--help", "-o", "x y"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "on the path: report DIR --help -o x y\n");
    assert_eq!(out.status.code(), Some(7));
}

/// It printed what this half knows of them: `[ARGUMENTS]`.
#[test]
fn help_of_a_command_is_the_other_programs() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    program(elsewhere.path(), "on the path:");
    let out = fathom(home.path(), elsewhere.path(), &["help", "study", "run"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "on the path: study run --help\n");
}

#[test]
fn the_one_beside_us_comes_first() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    program(elsewhere.path(), "on the path:");
    program(home.path(), "beside:");
    for command in ["report", "compare", "rollup", "changes", "import", "check", "study", "cloud", "demo"] {
        let out = fathom(home.path(), elsewhere.path(), &[command, "-x"]);
        assert_eq!(String::from_utf8_lossy(&out.stdout), format!("beside: {command} -x\n"));
    }
}

#[test]
fn missing_python_package_gives_install_hint() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (home, nothing) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = fathom(home.path(), nothing.path(), &["check", "table.csv"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("pip install fathometer") && said.lines().count() == 1, "{said}");
    assert_eq!(out.status.code(), Some(1));
}
