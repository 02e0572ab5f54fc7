//! What people get wrong on the command line: each gives one helpful line and the right exit code, at once.

use std::process::{Command, Stdio};

/// A command line, what its message must say, and the exit code: 2 where the line is at fault, 1 where the world is.
const MISTAKES: &[(&str, &str, i32)] = &[
    ("prob 10.0.0.4", "'probe'", 2),
    ("nonsense", "unrecognized subcommand", 2),
    ("--no-such", "'--no-such'", 2),
    ("probe", "<TARGET>", 2),
    ("probe :7007", "host is missing", 2),
    ("probe h:99999", "1 to 65535", 2),
    ("probe http://h:80/", "leave http:// out, as in h:80", 2),
    ("probe h/5432", "HOST:PORT", 2),
    ("probe [::1", "bracket", 2),
    ("probe h --connect", "h:443", 2),
    ("probe h --every 0", "--ping-pong", 2),
    ("probe h --every 1", "1s, 1ms or 1us", 2),
    ("probe h --every -1s", "negative", 2),
    ("probe h --every soon", "as in 250us", 2),
    ("probe h --every 1s --ping-pong", "cannot be used with", 2),
    ("probe h --size 0", "smallest is 1", 2),
    ("probe h --size big", "--size", 2),
    ("probe h --sizes 8..4", "below its beginning", 2),
    ("probe h --count 0", "--count", 2),
    ("probe h --count -1", "--count takes a positive number, and -1 is negative", 2),
    ("probe h --count=-1", "--count takes a positive number, and -1 is negative", 2),
    ("probe h --connections -2", "--connections takes a positive number", 2),
    ("echo --max-connections -1", "--max-connections takes a positive number", 2),
    ("limits h --per-length -3", "--per-length takes a positive number", 2),
    ("probe h --cpu -1", "--cpu takes a processor's number, from 0 on, and -1 is negative", 2),
    (
        "probe h --recorder-cpu=-2",
        "--recorder-cpu takes a processor's number, from 0 on, and -2 is negative",
        2,
    ),
    ("probe h --cpu-latency -1", "--cpu-latency takes a number from 0 on, and -1 is negative", 2),
    ("echo --cpu=-1", "--cpu takes a processor's number, from 0 on, and -1 is negative", 2),
    ("probe h --tag a=1 --tag b=2 --tag a=2", "--tag a is given twice (a=1, a=2)", 2),
    ("probe h --give-up 0", "write never", 2),
    ("probe h --for 0", "ends before it begins", 2),
    ("probe h --connections 0", "--connections", 2),
    ("probe h --tls", "--connect", 2),
    ("probe h --tls --udp", "cannot be used with", 2),
    ("probe h --tag novalue", "vm=D3v2", 2),
    ("probe h --dscp 64", "--dscp", 2),
    ("probe h --idle-gap 1s,1.05s", "told apart", 2),
    ("probe h --load fast", "100Mbit/s", 2),
    ("probe h --profile nttcp", "sockperf", 2),
    ("probe h --cloud oracle", "azure, aws, gcp", 2),
    ("probe h --histogram x", "number of buckets", 2),
    ("probe h --interval 1s", "--every", 2),
    ("probe h -i 1", "--every", 2),
    ("probe h --duration 5s", "--for", 2),
    ("probe h -t 5", "--for", 2),
    ("probe h -c 5", "--count", 2),
    ("probe h -n 5", "--count", 2),
    ("probe h --port 7", "HOST:7007", 2),
    ("probe 192.0.2.1 --every 10us", "--allow-high-rate", 2),
    ("probe 127.0.0.1:1 --no-record --for 1s", "nothing listens there", 1),
    ("probe 127.0.0.1 --record /dev/null/x --for 1s", "a file is in the way", 1),
    ("probe no-such-host.invalid --no-record --for 1s", "does not resolve", 1),
    ("limits", "<HOST>", 2),
    ("limits check", "<FILE>", 2),
    ("limits check f", "against which limit?", 2),
    ("limits check f --idle 5", "5s, 5ms or 5us", 2),
    ("limits check f --idle 4m --as mongo", "use one of hikari", 2),
    ("limits check f --idle 4m --library-version new", "as in 6.2.1", 2),
    ("limits check no-such-file --idle 4m", "cannot read it", 2),
    ("limits http://h:80/", "leave http:// out, as in h:80", 2),
    ("limits h --up-to 5", "5s, 5ms or 5us", 2),
    ("limits h --up-to 10ms", "from 1s", 2),
    ("limits h --per-length 0", "--per-length", 2),
    ("limits h --resolution 2", "as in 2%", 2),
    ("probe h --user-timeout 10000h", "576h", 2),
    ("probe a:", "port behind the colon is missing", 2),
    ("probe db1 7007", "write db1:7007", 2),
    ("probe fe80::1%lo:7007", "needs brackets", 2),
    ("limits 7007", "as in HOST:7007", 2),
    ("limits h --max-connections 100", "--max-connections ", 2),
    ("limits h --keepalive 1500ms", "whole seconds", 2),
    ("limits 127.0.0.1:1", "nothing listens there", 1),
    ("limits no-such-host.invalid", "does not resolve", 1),
    ("echo --port 7", "--listen", 2),
    ("echo --listen host", "an address of this host", 2),
    ("echo --listen 192.0.2.1:7070", "no such address", 1),
    ("echo --allow ten", "10.0.0.0/8", 2),
    ("echo --tcp-only --udp-only", "cannot be used with", 2),
    ("echo --idle-timeout 5", "5s, 5ms or 5us", 2),
    ("fabric down no-such", "no fabric no-such is up", 1),
    ("fabric down --name no-such", "no fabric no-such is up", 1),
    ("fabric status no-such", "no fabric no-such is up", 1),
    ("fabric status --name no-such", "no fabric no-such is up", 1),
    ("probe h --latte-hc 98", "add --latte", 2),
    ("recording export r --latte-hc 98", "--format latte", 2),
    ("recording sumary r", "'summary'", 2),
    ("recording summary", "<DIR>", 2),
    ("recording summary no-such-dir", "check the path", 1),
    ("recording verify .", "holds no recording", 1),
    ("recording verify", "<DIR>", 2),
    ("recording export r --format xml", "parquet", 2),
    ("probe 127.0.0.1:1 --no-record --textfile no-such-directory/x.prom", "no-such-directory/x.prom", 1),
    ("probe h --no-record --textfile x.txt", ".prom", 2),
    ("probe h --no-record --on-event no-such-program", "no such program", 2),
    ("probe h --no-record --interval-report 10ms", "--plain", 2),
    ("probe h --no-record --interval-report 1s --plain", "cannot be used with", 2),
    ("probe h --rotate 1d --keep 1h", "keep at least one", 2),
    ("probe h --keep 1d", "--rotate", 2),
    ("probe h --rotate 10ms", "1s at the least", 2),
    ("probe h --rotate 1d --no-record", "cannot be used with", 2),
    ("probe h --log loud", "as in info,fathom_core=trace", 2),
    ("probe 127.0.0.1 --log-file no/such/log", "--log-file", 1),
];

#[test]
fn mistakes_give_helpful_error_and_exit_code() {
    let home = tempfile::tempdir().expect("a directory");
    let mut wrong = Vec::new();
    for (line, part, code) in MISTAKES {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        let outcome = command.args(line.split(' ')).current_dir(home.path()).stdin(Stdio::null()).output();
        let outcome = outcome.expect("fathom runs");
        let said = String::from_utf8_lossy(&outcome.stderr);
        let one = said.lines().next().unwrap_or_default();
        let is_short = said.lines().count() <= 8;
        let helps = said.contains(part) && (one.starts_with("fathom: ") || one.starts_with("error: "));
        if outcome.status.code() != Some(*code) || !helps || !is_short || !outcome.stdout.is_empty() {
            wrong.push(format!("{line}: {}: {said}", outcome.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// "There is no query in it" was said of a query with a zero byte in it, and a process without files left was sent to the server's
/// settings.
/// A password in the wrong place of a command line stood in the log of the job.
#[test]
fn no_mistake_says_a_password() {
    let url = "postgres://me:sekret-19@127.0.0.1:1/db";
    for (line, code) in [
        (format!("sql x {url}"), 2),
        (format!("sql --reflector {url} {url}"), 1),
        (format!("sql {url} --rows {url}"), 2),
        (format!("probe {url}"), 2),
        (format!("probe h --tag {url}"), 2),
        (format!("sql {url} --count 1"), 1),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        let outcome = command.args(line.split(' ')).stdin(Stdio::null()).output().expect("fathom runs");
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.status.code(), Some(code), "{line}: {said}");
        assert!(!said.is_empty() && !said.contains("sekret"), "{line}: {said}");
    }
}

#[test]
fn impossible_query_is_explained() {
    let fathom = env!("CARGO_BIN_EXE_fathom");
    let server = "postgres://a@127.0.0.1:1/x?sslmode=disable";
    let files = "ulimit -n 8; exec \"$0\" sql \"$1\" --connections 8";
    for (script, part, code) in [
        ("printf 'select 1\\0; select 2' | \"$0\" sql \"$1\" --query -", "a zero byte in it", 2),
        ("printf ' \\n' | \"$0\" sql \"$1\" --query -", "there is no query in it", 2),
        (files, "raise ulimit -n", 1),
        ("\"$0\" sql \"$1\"", "does the server listen there", 1),
    ] {
        let outcome = Command::new("sh").args(["-c", script, fathom, server]).stdin(Stdio::null()).output();
        let outcome = outcome.expect("sh runs");
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(said.contains(part), "{script}: {said}");
        assert_eq!(outcome.status.code(), Some(code), "{script}: {said}");
    }
}

/// Its usage named every option that has a value from the environment, as if one had to give it.
#[test]
fn usage_omits_options_set_by_environment() {
    for (line, usage) in [
        ("probe", "Usage: fathom probe [OPTIONS] [TARGET]..."),
        ("probe h --every 1s --ping-pong", "Usage: fathom probe [OPTIONS] [TARGET]..."),
        ("probe h --clod off", "Usage: fathom probe [OPTIONS] [TARGET]..."),
        ("recording summary --no-such", "Usage: fathom recording summary [OPTIONS] <DIR>..."),
        ("--no-such", "Usage: fathom <COMMAND>"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        let outcome = command.args(line.split(' ')).env("FATHOM_CLOUD", "off").stdin(Stdio::null()).output();
        let said = String::from_utf8(outcome.expect("fathom runs").stderr).expect("text");
        assert!(said.lines().any(|line| line == usage), "{line}: {said}");
        assert!(!said.contains("as a value"), "{line}: {said}");
        assert_eq!(said.contains("a similar argument exists: '--cloud'"), line.contains("--clod"), "{said}");
    }
}
