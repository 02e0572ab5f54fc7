//! However a probe's surroundings end (its reader, its terminal, its session, the kernel's help), it ends in order and
//! its recording is whole.

use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{events, has_kind, of_kind, rows};
use crate::support::{FATHOM, Kept, needs, signal, wait_for};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

fn shell(cwd: &Path, line: &str) -> crate::support::probe::Outcome {
    Probe::spawn(Command::new("bash").args(["-c", line]).current_dir(cwd)).finish()
}

/// An error of the reactor in the probing thread: the process hung for ever, and SIGTERM did nothing.
#[test]
fn reactor_error_ends_run_with_sound_recording() {
    if !needs("strace") {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address();
    // The first waits succeed, so that samples are recorded before.
    let inject = "inject=epoll_wait,epoll_pwait,epoll_pwait2:error=EINVAL:when=200+";
    let outcome = Probe::spawn(
        Command::new("strace")
            .args([
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                "trace=epoll_wait,epoll_pwait,epoll_pwait2",
                "-e",
                inject,
            ])
            .args([
                FATHOM,
                "probe",
                &target.to_string(),
                "--every",
                "5ms",
                "--record",
                "r",
                "--json",
                "--quiet",
            ])
            .current_dir(home.path()),
    )
    .finish();
    if outcome.err.contains("ptrace") {
        return crate::support::skip("strace may not trace here");
    }
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    assert!(
        outcome.err.contains("cannot go on probing") && outcome.err.contains("Invalid argument"),
        "{}",
        outcome.err
    );
    let dir = home.path().join("r");
    assert_sound(&dir);
    assert!(!rows(&dir).is_empty());
    let log = events(&dir);
    assert!(has_kind(&log, "note"), "{log:#?}");
    let ended = of_kind(&log, "recording.ended");
    assert_eq!(ended.len(), 1, "{log:#?}");
    assert!(ended[0]["error"].as_str().is_some_and(|e| e.contains("ended early")), "{}", ended[0]);
}

/// How a command starts: with hang-ups ignored, as under `nohup`, and not. Under `nohup make test` a shell cannot
/// stop ignoring them, but `env` can.
const HANG_UPS: [&str; 2] = ["trap '' HUP; exec", "exec env --default-signal=HUP"];

/// A rotation of logs sends one: it ended the run, with exit code 0.
#[test]
fn hang_up_ends_no_run() {
    for prefix in HANG_UPS {
        let home = tempfile::tempdir().expect("a directory");
        let echo = Echo::start("127.0.0.1");
        let line =
            format!("{prefix} {FATHOM} probe {} --every 10ms --record r --json --quiet", echo.address());
        let probe = Probe::spawn(Command::new("bash").args(["-c", &line]).current_dir(home.path()));
        let dir = home.path().join("r");
        wait_for_events(&dir, "a connection", |events| has_kind(events, "connection.opened"));
        probe.signal("HUP");
        // Samples after the hang-up show that the run goes on.
        let samples = || rows_so_far(&dir);
        let before = samples();
        wait_for("more samples", || (samples() > before + 50).then_some(()));
        probe.signal("TERM");
        probe.finish().summary();
        assert_sound(&dir);
    }
}

fn rows_so_far(dir: &Path) -> usize {
    fathom(dir, &["recording", "export", "."]).out.lines().count()
}

/// logrotate renames the files, and tells so by a hang-up.
#[test]
fn rotated_files_go_on_under_their_names() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let line = format!(
        "exec env --default-signal=HUP {FATHOM} probe {} --every 2ms --record r --json --quiet --csv x.csv --log-file log -vvv",
        echo.address()
    );
    let probe = Probe::spawn(Command::new("bash").args(["-c", &line]).current_dir(home.path()));
    let path = |name: &str| home.path().join(name);
    let lines = |name: &str| fs::read_to_string(path(name)).unwrap_or_default().lines().count();
    wait_for("rows and a log", || (lines("x.csv") > 20 && lines("log") > 0).then_some(()));
    for name in ["x.csv", "log"] {
        fs::rename(path(name), path(&format!("{name}.1"))).expect("rotated");
    }
    probe.signal("HUP");
    wait_for("new rows and a new log", || (lines("x.csv") > 20 && lines("log") > 0).then_some(()));
    probe.signal("TERM");
    probe.finish().summary();
    let answered = rows(&path("r")).iter().filter(|row| row.rtt_ns().is_some()).count();
    // Each has its header.
    assert_eq!(lines("x.csv") + lines("x.csv.1") - 2, answered, "each sample has a row in one of them");
}

#[test]
fn reflector_outlives_a_hang_up() {
    for prefix in HANG_UPS {
        let line = format!("{prefix} {FATHOM} echo --json --listen 127.0.0.1:0");
        let child =
            Command::new("bash").args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = Kept(child.expect("bash runs"));
        let mut out = child.0.stdout.take().expect("piped");
        let mut said = String::new();
        // Two sockets are told of when it is ready.
        while said.lines().filter(|line| line.contains("listening")).count() < 2 || !said.ends_with('\n') {
            let mut byte = [0];
            assert_eq!(out.read(&mut byte).expect("output"), 1, "{said}");
            said.push(char::from(byte[0]));
        }
        let first: serde_json::Value =
            serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
        signal(&child.0, "HUP");
        let home = tempfile::tempdir().expect("a directory");
        let target = first["address"].as_str().expect("an address");
        fathom(home.path(), &["probe", target, "--count", "3", "--every", "10ms", "--no-record", "--json"])
            .summary();
        signal(&child.0, "TERM");
        let status = wait_for("the reflector to end", || child.0.try_wait().expect("it is ours"));
        assert_eq!(status.code(), Some(0), "in order: {status}");
    }
}

/// `probe --plain | head -3` ran on for ever; `summary | head -1` panicked; `export | head` spoke of the disk.
#[test]
fn closed_pipe_ends_commands_quietly() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address();
    let piped = |line: &str| {
        let outcome = shell(home.path(), &format!("{line} | head -3; echo \"codes ${{PIPESTATUS[*]}}\""));
        assert!(outcome.out.ends_with("codes 0 0\n"), "{line}: {outcome:?}");
        outcome
    };
    let outcome = piped(&format!("{FATHOM} probe {target} --plain --every 5ms --record r"));
    assert_eq!(outcome.out.lines().count(), 4, "{outcome:?}");
    let dir = home.path().join("r");
    assert_sound(&dir);
    assert_eq!(of_kind(&events(&dir), "recording.ended").len(), 1);

    // More than a pipe holds.
    let many = fathom(
        home.path(),
        &["probe", &target.to_string(), "--ping-pong", "--count", "20000", "--record", "many", "--quiet"],
    );
    assert_eq!(many.code(), 0, "{many:?}");
    for command in [
        "summary",
        "explain",
        "verify",
        "export",
        "export --format parquet",
        "export --format echo-client-csv",
    ] {
        // The pipe is closed before anything is written.
        let line =
            format!("{FATHOM} recording {command} many | (exec <&-); echo \"codes ${{PIPESTATUS[*]}}\"");
        let outcome = shell(home.path(), &line);
        assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("codes 0 0\n", ""), "{command}");
    }
}

#[test]
fn unwritable_stdout_is_one_line_error() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let target = echo.address();
    let full = |arguments: &str| {
        let mut command = Command::new(FATHOM);
        command.args(arguments.split_whitespace()).current_dir(home.path());
        let out = File::options().write(true).open("/dev/full").expect("a device");
        let out = command.stdin(Stdio::null()).stdout(out).stderr(Stdio::piped()).output().expect("it runs");
        let err = String::from_utf8(out.stderr).expect("text");
        assert_eq!(out.status.code(), Some(1), "{arguments}: {err}");
        let lines: Vec<&str> = err.lines().filter(|line| line.starts_with("fathom: ")).collect();
        assert_eq!(lines.len(), 1, "{arguments}: {err}");
        assert!(
            lines[0].contains("No space left on device") && !err.contains("panicked"),
            "{arguments}: {err}"
        );
    };
    full(&format!("probe {target} --plain --every 5ms --record r"));
    assert_sound(&home.path().join("r"));
    full(&format!("probe {target} --count 3 --every 5ms --no-record --json --quiet"));
    for command in ["summary", "explain", "verify", "recover", "export", "export --format parquet"] {
        full(&format!("recording {command} r"));
        if !command.starts_with("export") {
            full(&format!("recording {command} r --json"));
        }
    }
    // These panicked, or said nothing.
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/azure-same-zone.toml");
    full(&format!("fabric simulate {scenario} --for 3s"));
    full(&format!("fabric simulate {scenario} --for 3s --json"));
    full(&format!("fabric model {scenario} --samples 100"));
    // It served on without saying where.
    full("echo --json --listen 127.0.0.1:0");
    full("probe --show-config");
    full("--help");
    full("probe --help");
    full("--version");
}

/// The file of `--plain` is on a disk that is full: that is told in one line, and the recording elsewhere is whole.
#[test]
fn full_disk_under_stdout_ends_run_cleanly() {
    if !crate::support::needs_root() {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let disk = home.path().join("disk");
    fs::create_dir(&disk).expect("made");
    let place = disk.display().to_string();
    crate::support::must("mount", &["-t", "tmpfs", "-o", "size=64k", "fathom-test", &place]);
    let echo = Echo::start("127.0.0.1");
    let line = format!("{FATHOM} probe {} --plain --every 1ms --record r > disk/samples", echo.address());
    let outcome = shell(home.path(), &line);
    // A busy host has its pauses printed too.
    let is_sample = |line: &&str| line.starts_with("64 bytes from");
    let printed = fs::read_to_string(disk.join("samples"));
    let printed = printed.expect("what was printed").lines().filter(is_sample).count();
    crate::support::must("umount", &[&place]);
    assert_eq!(outcome.code(), 1, "{outcome:?}");
    let told = outcome.told();
    assert_eq!(told.len(), 1, "{}", outcome.err);
    assert!(told[0].contains("cannot print") && told[0].contains("No space left"), "{}", told[0]);
    let dir = home.path().join("r");
    assert_sound(&dir);
    assert!(printed > 0 && rows(&dir).len() >= printed, "what was printed is recorded: {printed}");
    let log = events(&dir);
    assert_eq!(of_kind(&log, "recording.ended").len(), 1, "{log:#?}");
    assert!(log.iter().all(|event| event["error"].is_null()), "{log:#?}");
}

/// The second of two runs that began in one second had the first's directory in its way, and ended.
#[test]
fn simultaneous_runs_record_separately_and_summarize_together() {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let line = format!("{} --count 3 --every 10ms --label same --json --quiet", echo.address());
    let probes: Vec<Probe> = (0..5).map(|_| Probe::start(home.path(), &line)).collect();
    let mut dirs: Vec<String> = probes
        .into_iter()
        .map(|probe| probe.finish().summary()["recording"].as_str().expect("recorded").to_owned())
        .collect();
    dirs.sort_unstable();
    dirs.dedup();
    assert_eq!(dirs.len(), 5, "{dirs:?}");
    for dir in &dirs {
        assert_sound(&home.path().join(dir));
    }
    for folder in ["recordings", "."] {
        let summaries = fathom(home.path(), &["recording", "summary", folder, "--json"]).summaries();
        assert_eq!(summaries.len(), 5, "{summaries:?}");
        assert!(summaries.iter().all(|summary| summary["samples"] == 3), "{summaries:?}");
    }
    // One that cannot be read hides none of the others.
    fs::write(home.path().join(&dirs[0]).join("recording.json"), "{").expect("written");
    let outcome = fathom(home.path(), &["recording", "summary", "recordings", "--json"]);
    assert_eq!((outcome.code(), outcome.objects().len()), (1, 4), "{outcome:?}");
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    // A folder without any says what it lacks; a reader that has gone ends it.
    fs::create_dir(home.path().join("none")).expect("made");
    let none = fathom(home.path(), &["recording", "summary", "none"]);
    assert!(none.code() == 1 && none.err.contains("holds no recording"), "{none:?}");
    let outcome = shell(
        home.path(),
        &format!("{FATHOM} recording summary . | head -1; echo \"codes ${{PIPESTATUS[*]}}\""),
    );
    assert!(outcome.err.is_empty() || outcome.err.lines().count() == 1, "{outcome:?}");
}

/// Lets a script run a probe on a terminal of the script's own, in a directory.
fn on_terminal(script: &str, more: &[&str]) -> (tempfile::TempDir, crate::support::probe::Outcome) {
    let home = tempfile::tempdir().expect("a directory");
    let echo = Echo::start("127.0.0.1");
    let path = home.path().join("terminal.py");
    fs::write(&path, script).expect("written");
    let target = echo.address().to_string();
    let mut command = Command::new("python3");
    command.arg(&path).args([FATHOM, "probe", &target, "--every", "10ms"]).args(more);
    let outcome = Probe::spawn(command.current_dir(home.path())).finish();
    (home, outcome)
}

/// The terminal of a live view went away: the view read end-of-file at full speed, long after probing had ended.
#[test]
fn lost_terminal_ends_live_view_cleanly() {
    if !needs("python3") {
        return;
    }
    // With the hang-up ignored too: then nothing but the terminal itself tells.
    for (handler, code) in [("SIG_DFL", "code 129"), ("SIG_IGN", "code 0")] {
        let script = PTY.replace("HANDLER", handler).replace("SEEN", "p50");
        let (home, outcome) = on_terminal(&script, &["--record", "r"]);
        assert_eq!(outcome.out.trim(), code, "{handler}: {outcome:?}");
        let dir = home.path().join("r");
        assert_sound(&dir);
        let log = events(&dir);
        assert_eq!(of_kind(&log, "recording.ended").len(), 1, "{log:#?}");
        assert!(log.iter().all(|event| event["error"].is_null()), "{log:#?}");
        assert!(!rows(&dir).is_empty());
    }
}

/// While the view began, it asked the terminal where its cursor is: of one that had gone it asked for ever, and one that gives
/// no answer got no view.
#[test]
fn terminal_lost_at_start_ends_live_view() {
    if !needs("python3") {
        return;
    }
    for handler in ["SIG_DFL", "SIG_IGN"] {
        // The first thing that a view writes.
        let script = PTY.replace("HANDLER", handler).replace("SEEN", r"\x1b[?1049h");
        let (_, outcome) = on_terminal(&script, &["--count", "500", "--record", "r"]);
        // Exit code 1 where it ended before a sample was answered.
        let ended = if handler == "SIG_DFL" { "code 129" } else { "code 0" };
        assert!([ended, "code 1"].contains(&outcome.out.trim()), "{handler}: {outcome:?}");
    }
}

/// Runs a command on a terminal of its own that answers nothing, closes the terminal when something is seen there, and prints
/// the command's exit code.
const PTY: &str = r#"
import fcntl, os, pty, signal, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGHUP, signal.HANDLER)
    os.environ["TERM"] = "xterm"
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
def late(*_):
    os.kill(pid, signal.SIGKILL)
    sys.exit(4)
signal.signal(signal.SIGALRM, late)
signal.alarm(60)
seen = b""
while b"SEEN" not in seen:
    seen += os.read(terminal, 65536)
os.close(terminal)
_, status = os.waitpid(pid, 0)
print("code", os.waitstatus_to_exitcode(status))
"#;

/// A key that came after the terminal was resized was answered with the next one: the first Ctrl-C did nothing.
#[test]
fn first_key_after_resize_is_answered() {
    if !needs("python3") {
        return;
    }
    let (_, outcome) = on_terminal(RESIZED, &["--no-record"]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
}

/// Runs a command on a terminal of its own, resizes the terminal when the first picture is there, presses Ctrl-C once when
/// a picture of the new size is, and waits for the command's end, whose exit code is this one's.
const RESIZED: &str = r#"
import fcntl, os, pty, signal, struct, sys, termios
def resize(of, rows, columns):
    fcntl.ioctl(of, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    resize(0, 30, 100)
    os.execv(sys.argv[1], sys.argv[1:])
signal.alarm(60)
def wait_for(what):
    seen = b""
    while what not in seen:
        seen += os.read(terminal, 65536)
wait_for(b"p50")
resize(terminal, 40, 120)
wait_for(b"\x1b[2J")
os.write(terminal, b"\x03")
try:
    wait_for(b"nothing that anybody prints")
except OSError:
    pass
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"#;
