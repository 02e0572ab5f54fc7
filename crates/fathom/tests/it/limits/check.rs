//! `fathom limits check` by the built binary: a file of each kind, its output, and its exit code. The meaning of settings
//! is tested in the crate `fathom-settings`.

use crate::support::faults::Reflector;
use crate::support::net::Host;
use crate::support::{FATHOM, free_port};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Stands for every password.
const SECRET: &str = "hunter2";

fn check(home: &Path, arguments: &str) -> Output {
    let mut command = Command::new(FATHOM);
    command.args(["limits", "check"]).args(arguments.split_whitespace()).current_dir(home);
    command.output().expect("fathom runs")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        std::fs::write(home.path().join(name), text).expect("written");
    }
    home
}

/// A file, how it is checked, and a line to write instead: what each library's own source says the default is loses.
const LOSING: &[(&str, &str, &str, &str)] = &[
    (
        "hikari.properties",
        "jdbcUrl=jdbc:x\npassword=hunter2\nmaxLifetime=1800000\n",
        "--idle 4m",
        "keepaliveTime=120000",
    ),
    (
        "application.properties",
        "spring.datasource.url=jdbc:x\nspring.datasource.password=hunter2\n",
        "--age 20m",
        "spring.datasource.hikari.max-lifetime=1080000",
    ),
    (
        "application.yml",
        "spring:\n  datasource:\n    password: hunter2\n    hikari:\n      max-lifetime: 1800000\n",
        "--age 30m",
        "max-lifetime: 1620000",
    ),
    ("npgsql.txt", "Host=h;Username=u;Password=hunter2\n", "--idle 4m", "Keepalive=120"),
    (
        "appsettings.json",
        "{\"ConnectionStrings\": {\"A\": \"Server=h;Initial Catalog=d;User ID=u;Password=hunter2\"}} // c\n",
        "--age 30m",
        "Load Balance Timeout=1140",
    ),
    (
        "pool.txt",
        "postgres://u:hunter2@h/d?pool_max_conn_lifetime=1h\n",
        "--age 30m",
        "pool_max_conn_lifetime=26m",
    ),
    (
        "dsn.txt",
        "host=h user=u password='hunter2 x' pool_max_conns=4\n",
        "--idle 4m --library-version 5.5.5",
        "pool_max_conn_idle_time=2m30s",
    ),
    (
        "alembic.ini",
        "[alembic]\nsqlalchemy.url = mysql+pymysql://u:hunter2@h/d\n",
        "--idle 10m",
        "sqlalchemy.pool_recycle = 540",
    ),
    (
        "settings.toml",
        "[sqlalchemy]\nurl = \"postgresql+psycopg://u:hunter2@h/d\"\npool_recycle = 3600\n",
        "--age 1h",
        "pool_recycle = 3240",
    ),
    (".env", "DATABASE_URL=postgresql+psycopg://u:hunter2@h/d\n", "--idle 4m", "keepalives_idle=120"),
    (
        "pg.json",
        "{\"host\": \"h\", \"password\": \"hunter2\", \"idleTimeoutMillis\": 0}\n",
        "--idle 4m",
        "\"idleTimeoutMillis\": 120000",
    ),
    (
        "mysql.json",
        "{\"host\": \"h\", \"password\": \"hunter2\", \"connectionLimit\": 5}\n",
        "--idle 4m --library-version 3.23.4",
        "\"keepAliveInitialDelay\": 120000,",
    ),
    ("sysctl.conf", "net.ipv4.tcp_keepalive_time = 7200\n", "--idle 4m", "net.ipv4.tcp_keepalive_time = 120"),
];

#[test]
fn each_file_kind_gets_replacement_line() {
    for (name, text, limits, line) in LOSING {
        let home = home(&[(name, text)]);
        let done = check(home.path(), &format!("{name} {limits}"));
        let said = out(&done);
        assert_eq!(done.status.code(), Some(1), "{name}: {said}{}", err(&done));
        assert!(said.lines().any(|said| said.ends_with(&format!(": {line}"))), "{name}: {line}:\n{said}");
        assert!(said.starts_with(&format!("{name}:")) && said.contains("  loses against the "), "{said}");
        assert!(err(&done).is_empty(), "{name}: {}", err(&done));
        assert!(!said.contains(SECRET) && !said.contains('\x1b'), "{said}");
        // The same by JSON, which has the line too.
        let done = check(home.path(), &format!("{name} {limits} --json"));
        let object: Value = serde_json::from_str(&out(&done)).expect("one object");
        assert_eq!((done.status.code(), &object["kind"]), (Some(1), &Value::from("limits_check")));
        assert!(!object.to_string().contains(SECRET), "{object:#}");
        let judgements = object["judgements"].as_array().expect("a list");
        let told = judgements.iter().any(|j| j["loses"] == true && j["write"][0]["text"] == *line);
        assert!(told, "{name}: {object:#}");
    }
}

#[test]
fn exit_code_reflects_all_files() {
    let files = [
        ("sysctl.conf", "net.ipv4.tcp_keepalive_time = 60\n"),
        ("c.txt", "Host=h;Username=u;Keepalive=300\n"),
    ];
    let home = home(&files);
    let done = check(home.path(), "sysctl.conf --idle 4m");
    assert_eq!((done.status.code(), err(&done).as_str()), (Some(0), ""));
    assert!(out(&done).contains("  holds against the idle limit of 4m 0s: "), "{}", out(&done));
    let done = check(home.path(), "sysctl.conf c.txt --idle 4m");
    assert_eq!(done.status.code(), Some(1), "{}", out(&done));
    assert!(out(&done).contains("sysctl.conf:1: ") && out(&done).contains("c.txt:1: "), "{}", out(&done));
}

/// As `cat application.yml | fathom limits check -`, and of a fifo: neither has a name that says what it is.
#[test]
fn pipe_is_read_by_its_content() {
    let yaml = "spring:\n  datasource:\n    hikari:\n      max-lifetime: 1800000\n";
    let home = home(&[]);
    let mut command = Command::new(FATHOM);
    command.args(["limits", "check", "-", "--age", "30m"]).current_dir(home.path());
    let piped = Stdio::piped;
    let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().expect("fathom runs");
    child.stdin.take().expect("a pipe").write_all(yaml.as_bytes()).expect("written");
    let done = child.wait_with_output().expect("fathom ends");
    let fifo = home.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let writer = std::thread::spawn(move || std::fs::write(fifo, yaml));
    let of_fifo = check(home.path(), "fifo --age 30m");
    writer.join().expect("it ends").expect("written");
    for (name, done) in [("stdin", done), ("fifo", of_fifo)] {
        let said = out(&done);
        assert_eq!((done.status.code(), err(&done).as_str()), (Some(1), ""), "{said}");
        assert!(said.starts_with(&format!("{name}:4: maxLifetime: 30m 0s\n")), "{said}");
        let note = format!("{name}: note: read as YAML, settings of HikariCP, by its content; --as ");
        assert!(said.contains(&note), "{said}");
    }
}

/// One object a file, also of an unreadable one.
#[test]
fn unreadable_file_has_its_json_object() {
    let home = home(&[("c.txt", "Host=h;Username=u;Keepalive=9")]);
    let done = check(home.path(), "nothing c.txt . --idle 4m --json");
    assert_eq!(done.status.code(), Some(2), "{}", err(&done));
    let all: Vec<Value> =
        out(&done).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let files: Vec<_> = all.iter().map(|object| object["file"].as_str()).collect();
    assert_eq!(files, [Some("nothing"), Some("c.txt"), Some(".")]);
    for object in [&all[0], &all[2]] {
        let fault = &object["faults"][0];
        assert!(fault["line"].is_null() && fault["column"].is_null(), "{object:#}");
        assert!(
            fault["what"].as_str().is_some_and(|what| what.starts_with("cannot read it: ")),
            "{object:#}"
        );
        assert!(object["as"].is_null() && object["judgements"] == Value::Array(Vec::new()), "{object:#}");
    }
}

/// A file, and how its one line on standard error begins or ends.
const WRONG: &[(&str, &str, &str)] = &[
    ("a.yml", "a: [hunter2", "a.yml:1:12: this is no valid YAML"),
    ("a.json", "{\"a\": hunter2}", "a.json:1:7: this is no valid JSON"),
    ("a.toml", "a = hunter2", "a.toml:1:5: this is no valid TOML"),
    ("a.txt", "hunter2", "a.txt:1:1: nothing in it says whose settings these are; add --as"),
    (
        "a.env",
        "X=postgres://u:hunter2@h/d",
        "a.env:1:1: several libraries read such a file; add --as with one of pgx, sqlalchemy, node-postgres",
    ),
    (
        "h.properties",
        "jdbcUrl=x\nkeepaliveTime=1800000\nmaxLifetime=1800000\npassword=hunter2",
        "h.properties:2:1: keepaliveTime is not below maxLifetime",
    ),
    (
        "v.properties",
        "jdbcUrl=x\nvalidationTimeout=9000\nconnectionTimeout=5000\nkeepaliveTime=60000",
        "v.properties:2:1: validationTimeout is above connectionTimeout",
    ),
    (
        "s.yml",
        "spring:\n  datasource:\n    hikari:\n      keepalive-time: 60s",
        "s.yml:4:7: keepaliveTime: write a number of milliseconds, as in 120000",
    ),
    (
        "u.yml",
        "spring:\n  datasource:\n    hikari:\n      keep-alive-tme: 60000",
        "u.yml:4:7: HikariCP has no setting of this name; the nearest is keepaliveTime",
    ),
    ("n.txt", "Host=h;Username=u;Password=a;hunter2;Keepalive=9", "n.txt:1:30: a part without `=`"),
    (
        "k.txt",
        "Host=h;Username=u;Keepalive=9 Password=hunter2",
        "k.txt:1:19: Keepalive: write a number of seconds",
    ),
    (
        "sysctl.conf",
        "net.ipv4.tcp_keepalive_time=60\nnet.ipv4.tcp_user_timeout=hunter2",
        "sysctl.conf:2:1: there is no such sysctl: TCP_USER_TIMEOUT is an option that each socket sets",
    ),
];

#[test]
fn settings_error_shows_place_without_content() {
    for (name, text, line) in WRONG {
        let home = home(&[(name, text)]);
        let done = check(home.path(), &format!("{name} --idle 1h"));
        let said = err(&done);
        assert_eq!(done.status.code(), Some(2), "{name}: {said}{}", out(&done));
        assert!(said.starts_with(&format!("fathom: {line}")), "{name}: {said}");
        assert_eq!(said.lines().count(), 1, "{name}: {said}");
        assert!(!said.contains(SECRET) && !out(&done).contains(SECRET), "{said}{}", out(&done));
    }
}

#[test]
fn unreadable_file_is_one_line() {
    let home = home(&[("a.txt", "Host=h;Username=u;Keepalive=9")]);
    std::fs::write(home.path().join("latin.properties"), b"a=1\nb=\xe9\n").expect("written");
    std::fs::write(home.path().join("large.txt"), vec![b'a'; (4 << 20) + 1]).expect("written");
    std::fs::write(home.path().join("mark.txt"), "\u{feff}Host=h;Username=u;Keepalive=9").expect("written");
    for (arguments, part, code) in [
        ("nothing --idle 4m", "nothing: cannot read it: No such file", 2),
        (". --idle 4m", ".: cannot read it: ", 2),
        ("latin.properties --idle 4m", "latin.properties:2:3: this is no UTF-8 text", 2),
        ("large.txt --idle 4m", "more than 4 MiB", 2),
        ("a.txt", "against which limit? Add --idle 4m", 2),
        ("a.txt --idle 0", "a limit is longer", 2),
        ("a.txt --record nothing", "nothing", 2),
        ("mark.txt --idle 4m", "", 0),
    ] {
        let done = check(home.path(), arguments);
        let said = err(&done);
        assert_eq!(done.status.code(), Some(code), "{arguments}: {said}");
        assert!(said.contains(part) && said.lines().count() <= 1, "{arguments}: {said}");
    }
    let done = check(home.path(), "a.txt --as redis --idle 4m");
    assert!(done.status.code() == Some(2) && err(&done).contains("use one of hikari, npgsql"), "{done:?}");
}

/// A default that depends on the version is judged in all of them, or in the one that the user names.
#[test]
fn library_version_decides() {
    let home = home(&[("h.properties", "jdbcUrl=x\nmaximumPoolSize=5\n")]);
    let all = check(home.path(), "h.properties --idle 4m");
    let said = out(&all);
    assert_eq!(all.status.code(), Some(1), "{said}");
    assert!(
        said.contains("keepaliveTime: off before 6.2.1, 2m 0s since 6.2.1, the default of HikariCP"),
        "{said}"
    );
    assert!(said.contains("holds since HikariCP 6.2.1"), "{said}");
    for (version, code) in [("5.1.0", 1), ("6.2.0", 1), ("6.2.1", 0), ("7.1.0", 0)] {
        let done = check(home.path(), &format!("h.properties --idle 4m --library-version {version}"));
        assert_eq!(done.status.code(), Some(code), "{version}: {}", out(&done));
    }
}

/// Runs a command to its end, which must be a success.
fn succeeds(home: &Path, arguments: &str) {
    let mut command = Command::new(FATHOM);
    let done = command.args(arguments.split_whitespace()).current_dir(home).output().expect("fathom runs");
    assert!(done.status.success(), "{arguments}: {done:?}");
}

/// A limit that was found is held against settings in `limits/idle.rs`.
#[test]
fn recording_without_limit_is_named() {
    let home = home(&[("sysctl.conf", "net.ipv4.tcp_keepalive_time = 2\n")]);
    let target = std::net::SocketAddr::new([127, 0, 0, 1].into(), free_port());
    let _reflector = Reflector::start_with(&Host::this(), target, "");
    succeeds(home.path(), &format!("limits {target} --quiet --record none --up-to 1s"));
    let done = check(home.path(), "sysctl.conf --record none");
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert!(err(&done).contains("the search found no limit"), "{}", err(&done));
    // A recording of something else.
    succeeds(home.path(), &format!("probe {target} --count 3 --every 10ms --quiet --record probe"));
    let done = check(home.path(), "sysctl.conf --record probe");
    assert_eq!(done.status.code(), Some(2), "{}", err(&done));
    assert!(err(&done).contains("is no recording of a search"), "{}", err(&done));
}

/// docs/limits-check.md shows a file and what is said of it; both stand there as they are.
#[test]
fn docs_example_matches_output() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/limits-check.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let example = page.split("<!-- example: ").nth(1).expect("an example");
    let (command, rest) = example.split_once(" -->\n").expect("its command");
    let block = |text: &str| {
        let lines = text.lines().skip_while(|line| !line.starts_with("    "));
        let lines = lines.take_while(|line| line.starts_with("    ")).map(|line| format!("{}\n", &line[4..]));
        lines.collect::<String>()
    };
    let (file, said) = rest.split_once("<!-- says -->").expect("what it says");
    let home = home(&[("application.yml", &block(file))]);
    let done = check(home.path(), command.strip_prefix("fathom limits check ").expect("our command"));
    assert_eq!(out(&done), block(said), "{}", err(&done));
    assert_eq!(done.status.code(), Some(1));
}

mod acceptance {
    use super::*;

    /// A reflector closes what is idle for 2.2 s: what survived counts, not what died.
    #[test]
    fn settings_are_checked_against_recorded_search() {
        let home = home(&[("sysctl.conf", "net.ipv4.tcp_keepalive_time = 2\n")]);
        let target = std::net::SocketAddr::new([127, 0, 0, 1].into(), free_port());
        let _reflector = Reflector::start_with(&Host::this(), target, "--idle-timeout 2200ms");
        succeeds(home.path(), &format!("limits {target} --quiet --record found --up-to 4s"));
        let done = check(home.path(), "sysctl.conf --record found --json");
        let object: Value = serde_json::from_str(&out(&done)).expect("one object");
        let judgement = &object["judgements"][0];
        let limit_ns = judgement["limit_ns"].as_u64().expect("a number");
        assert!((1_500_000_000..2_700_000_000).contains(&limit_ns), "{object:#}");
        assert_eq!(judgement["loses"], limit_ns <= 2_000_000_000, "{object:#}");
        let done = check(home.path(), "sysctl.conf --record found --idle 1500ms");
        assert_eq!(done.status.code(), Some(1), "{}", out(&done));
        assert!(
            out(&done).contains("write instead in line 1: net.ipv4.tcp_keepalive_time = 1"),
            "{}",
            out(&done)
        );
    }
}
