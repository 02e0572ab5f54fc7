//! What a user is told of a file: each case was once told wrongly.

use fathom_settings::{Kind, Limits, Report, apply, check, text};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const MIN: u64 = 60 * S;

fn idle(ns: u64) -> Limits {
    Limits { idle_ns: Some(ns), age_ns: None }
}

fn age(ns: u64) -> Limits {
    Limits { idle_ns: None, age_ns: Some(ns) }
}

/// What is printed of a file, and its faults behind that.
fn told(name: &str, content: &str, limits: &Limits) -> String {
    of(name, &check(name, content, None, None, limits))
}

fn of(name: &str, report: &Report) -> String {
    let faults: Vec<_> = report.faults.iter().map(|fault| fault.what.as_str()).collect();
    format!("{}{}", text(name, report, false), faults.join("\n"))
}

/// Carries the advice out and sees that it holds.
fn mended(name: &str, content: &str, limits: &Limits) -> String {
    let before = check(name, content, None, None, limits);
    assert!(before.loses(), "{content}");
    let after = apply(content, &before.edits);
    let again = check(name, &after, None, None, limits);
    assert!(!again.loses() && again.kind == before.kind, "{content}\nbecame\n{after}\n{}", of(name, &again));
    assert_eq!(again.judgements.len(), before.judgements.len(), "{content}\nbecame\n{after}");
    after
}

/// `sqlalchemy.url` of TOML is a dotted name: what stood beside it was added and written without `sqlalchemy.`.
#[test]
fn dotted_toml_names_keep_their_prefix() {
    let url = "\"mysql+pymysql://u:p@h/d\"";
    for (content, line, after) in [
        (
            format!("sqlalchemy.url = {url}\n"),
            "add in line 1: sqlalchemy.pool_recycle = 210\n",
            format!("sqlalchemy.pool_recycle = 210\nsqlalchemy.url = {url}\n"),
        ),
        (
            format!("[app]\nx = 1\nsqlalchemy . url = {url}\n"),
            "add in line 3: sqlalchemy . pool_recycle = 210\n",
            format!("[app]\nx = 1\nsqlalchemy . pool_recycle = 210\nsqlalchemy . url = {url}\n"),
        ),
        (
            format!("sqlalchemy.url = {url}\nsqlalchemy.pool_recycle = 3600\n"),
            "write instead in line 2: sqlalchemy.pool_recycle = 210\n",
            format!("sqlalchemy.url = {url}\nsqlalchemy.pool_recycle = 210\n"),
        ),
        (
            format!("\"sqlalchemy.url\" = {url}\n"),
            "add in line 1: \"sqlalchemy.pool_recycle\" = 210\n",
            format!("\"sqlalchemy.pool_recycle\" = 210\n\"sqlalchemy.url\" = {url}\n"),
        ),
        (
            format!("\"sqlalchemy.url\" = {url}\n\"sqlalchemy.pool_recycle\" = 3600\n"),
            "write instead in line 2: \"sqlalchemy.pool_recycle\" = 210\n",
            format!("\"sqlalchemy.url\" = {url}\n\"sqlalchemy.pool_recycle\" = 210\n"),
        ),
        (
            format!("app = {{ \"sqlalchemy\".url = {url} }}\n"),
            "add in line 1, column 9: \"sqlalchemy\".pool_recycle = 210,\n",
            format!("app = {{ \"sqlalchemy\".pool_recycle = 210, \"sqlalchemy\".url = {url} }}\n"),
        ),
    ] {
        let said = told("a.toml", &content, &idle(4 * MIN));
        assert!(said.contains(line), "{content}\n{said}");
        assert_eq!(mended("a.toml", &content, &idle(4 * MIN)), after);
    }
}

/// What is added between others on one line was shown without its comma, and into a flow mapping of YAML over several lines it
/// was written without one.
#[test]
fn what_is_added_within_braces_has_its_comma() {
    for (name, content, line) in [
        (
            "a.yml",
            "spring: {datasource: {hikari: {max-lifetime: 1800000}}}\n",
            "add in line 1, column 32: keepalive-time: 120000,\n",
        ),
        (
            "a.yml",
            "spring:\n  datasource:\n    hikari: {\n      max-lifetime: 1800000\n    }\n",
            "add in line 4: keepalive-time: 120000,\n",
        ),
        (
            "db.json",
            "{\"host\": \"h\", \"port\": 3306, \"connectionLimit\": 5, \"enableKeepAlive\": true}\n",
            "add in line 1, column 2: \"keepAliveInitialDelay\": 120000,\n",
        ),
        (
            "db.json",
            "{\n  \"host\": \"h\",\n  \"port\": 3306,\n  \"enableKeepAlive\": true,\n  \"connectionLimit\": 5\n}\n",
            "add in line 2: \"keepAliveInitialDelay\": 120000,\n",
        ),
        (
            "a.toml",
            "sqlalchemy = { url = \"mysql+pymysql://h/d\" }\n",
            "add in line 1, column 16: pool_recycle = 210,\n",
        ),
    ] {
        let said = told(name, content, &idle(4 * MIN));
        assert!(said.contains(line), "{content}\n{said}");
        mended(name, content, &idle(4 * MIN));
    }
}

/// One line against both limits was told for the first, and of the second "a URL cannot say it".
#[test]
fn one_setting_is_advised_for_both_limits() {
    let both = Limits { idle_ns: Some(4 * MIN), age_ns: Some(30 * MIN) };
    for (name, content, line) in [
        (
            "alembic.ini",
            "[alembic]\nsqlalchemy.url = postgresql+psycopg://u:p@h/d\n",
            "add in line 2: sqlalchemy.pool_recycle = 210\n",
        ),
        ("a.properties", "jdbcUrl=x\nmaxLifetime=1800000\nkeepaliveTime=0\n", "maxLifetime="),
    ] {
        let report = check(name, content, None, None, &both);
        let said = of(name, &report);
        assert!(report.judgements.iter().all(|j| j.loses && !j.write.is_empty()), "{said}");
        assert!(report.judgements.iter().all(|j| j.otherwise.is_none()), "{said}");
        assert!(said.contains(line) && !said.contains("cannot say it"), "{said}");
        mended(name, content, &both);
    }
}

/// `engine_from_config` takes any prefix; a section of .ini that has the URL alone was "a URL cannot say it".
#[test]
fn ini_setting_beside_url_is_advised() {
    for (content, line) in [
        ("[app:main]\ndb.url = postgresql+psycopg://u:p@h/d\n", "add in line 2: db.pool_recycle = 1620\n"),
        (
            "[app:main]\nx.y = 1\nsqlalchemy.url = mysql://u:p@h/d\n",
            "add in line 3: sqlalchemy.pool_recycle = 1620\n",
        ),
    ] {
        let said = told("app.ini", content, &age(30 * MIN));
        assert!(said.contains(line), "{content}\n{said}");
        mended("app.ini", content, &age(30 * MIN));
    }
}

/// Lines of `.env` as the libraries read them that load such files: blanks round the sign, comments behind the value, quotes,
/// `export`, names in small letters, values over several lines. Each was passed over, or its comment was a part of the value.
#[test]
fn env_lines_follow_dotenv_syntax() {
    for content in [
        "DATABASE_URL = postgres://u:p@h/d?pool_max_conn_lifetime=1h\n",
        "DATABASE_URL=postgres://u:p@h/d?pool_max_conn_lifetime=1h # main\n",
        "DATABASE_URL=postgres://u:p@h/d?pool_max_conn_lifetime=1h\t#main\r\n",
        "DATABASE_URL=\"postgres://u:p@h/d?pool_max_conn_lifetime=1h\" # it's \"main\"\n",
        "DATABASE_URL='postgres://u:p@h/d?pool_max_conn_lifetime=1h'# main\n",
        "DATABASE_URL=`postgres://u:p@h/d?pool_max_conn_lifetime=1h`\n",
        "export\tDATABASE_URL= postgres://u:p@h/d?pool_max_conn_lifetime=1h #main\n",
        "database_url = 'postgres://u:p@h/d?pool_max_conn_lifetime=1h'\n",
        "db.url=postgres://u:p@h/d?pool_max_conn_lifetime=1h # main\n",
        "DSN=\"host=h user=u pool_max_conn_lifetime=1h\" # main\n",
        "DSN=host=h user=u pool_max_conn_lifetime=1h # main\n",
        "dsn='host=h user=u pool_max_conn_lifetime=1h'\n",
        "KEY=\"-----BEGIN\nabc\n-----END\" # key\nDSN='host=h\nuser=u\npool_max_conn_lifetime=1h'\n",
        "EMPTY= # nothing\nDSN = host=h user=u pool_max_conn_lifetime=1h\n",
        "postgres://u:p@h/d?pool_max_conn_lifetime=1h  # main\n",
    ] {
        let report = check(".env", content, None, None, &age(30 * MIN));
        let said = of(".env", &report);
        assert_eq!(report.kind, Some(Kind::Pgx), "{content}\n{said}");
        assert!(report.faults.is_empty() && report.judgements.len() == 1, "{content}\n{said}");
        assert_eq!(report.judgements[0].value, "1h 0m", "{content}\n{said}");
        let after = mended(".env", content, &age(30 * MIN));
        assert_eq!(after.replace("=26m", "=1h"), content);
    }
    // What is added stands within the quotes, and before the comment.
    for (content, after) in [
        (
            "URL=\"postgres://u:p@h/d?pool_max_conns=9\" # a\n",
            "URL=\"postgres://u:p@h/d?pool_max_conns=9&pool_max_conn_lifetime=26m\" # a\n",
        ),
        (
            "CS = Host=h;Username=u;Password=a#b # c\n",
            "CS = Host=h;Username=u;Password=a#b;Connection Lifetime=1620 # c\n",
        ),
        (
            "CS = 'Host=h;Username=\"u # v\"' # c\n",
            "CS = 'Host=h;Username=\"u # v\";Connection Lifetime=1620' # c\n",
        ),
    ] {
        assert_eq!(mended(".env", content, &age(30 * MIN)), after);
    }
}

/// `keepaliveTime=29999` was "30 s", and below 30 s.
#[test]
fn a_duration_is_never_rounded_over_a_limit() {
    let said = told("h.properties", "jdbcUrl=x\nkeepaliveTime=239999\nmaxLifetime=3599999\n", &idle(4 * MIN));
    assert!(said.contains("keepaliveTime: 3m 59s 999ms") && said.contains("below 4m 0s"), "{said}");
    let limits = Limits { idle_ns: Some(29_999 * MS), age_ns: Some(3_599_999 * MS) };
    let said = told("h.properties", "jdbcUrl=x\nkeepaliveTime=30000\nmaxLifetime=3600000\n", &limits);
    assert!(said.contains("idle limit of 29s 999ms") && said.contains("may be idle for 30 s "), "{said}");
    assert!(said.contains("age limit of 59m 59s 999ms") && said.contains("may become 1h 0m old"), "{said}");
}

/// Below a second or two no whole number of seconds is short enough. It was "Npgsql counts in whole seconds", "a URL cannot say
/// it" of a file that is none, or nothing at all.
#[test]
fn unreachable_limit_explains_what_helps() {
    let files = [
        ("c.txt", "Host=h;Username=u;Password=p\n"),
        ("c.txt", "Server=h;Initial Catalog=d;User ID=u\n"),
        ("c.txt", "host=h user=u pool_max_conns=4\n"),
        ("d.json", "{\"host\": \"h\", \"idleTimeoutMillis\": 10000}\n"),
        ("d.json", "{\"host\": \"h\", \"connectionLimit\": 5}\n"),
        ("sysctl.conf", "net.ipv4.tcp_keepalive_time = 7200\n"),
        ("h.properties", "jdbcUrl=x\nmaximumPoolSize=4\n"),
        ("a.ini", "[a]\nsqlalchemy.url = postgresql+psycopg://h/d\n"),
    ];
    for limit in [1, MS / 2, MS, 100 * MS, S, S + S / 2, 2 * S, 3 * S] {
        for (name, content) in files {
            let limits = Limits { idle_ns: Some(limit), age_ns: Some(limit) };
            let report = check(name, content, None, None, &limits);
            let said = of(name, &report);
            for judgement in report.judgements.iter().filter(|judgement| judgement.loses) {
                match &judgement.otherwise {
                    None => assert!(!judgement.write.is_empty(), "{limit} ns: {said}"),
                    Some(words) => {
                        assert!(judgement.write.is_empty(), "{limit} ns: {said}");
                        // What to do, not only what cannot be done.
                        assert!(words.contains(": "), "{limit} ns: {said}");
                        assert!(!words.contains("a URL cannot"), "{limit} ns: {said}");
                    }
                }
            }
            let again = check(name, apply(content, &report.edits), None, None, &limits);
            for (before, after) in report.judgements.iter().zip(&again.judgements) {
                assert!(!after.loses || before.write.is_empty(), "{limit} ns: {said}\n{}", of(name, &again));
            }
        }
    }
    let said = told("c.txt", "Host=h;Username=u\n", &idle(S));
    assert!(said.contains("no Keepalive that Npgsql takes is short enough (whole seconds)"), "{said}");
}

/// Without a name that ends in its kind, content decides: a pipe, a fifo, `/dev/fd/63`.
#[test]
fn content_alone_says_what_a_file_is() {
    let both = Limits { idle_ns: Some(4 * MIN), age_ns: Some(30 * MIN) };
    for (content, kind, words) in [
        ("# c\nspring:\n  datasource:\n    hikari:\n      max-lifetime: 1800000\n", Kind::Hikari, "YAML"),
        ("---\nspring.datasource.hikari.max-lifetime: 1800000\n", Kind::Hikari, "YAML"),
        (
            "spring.datasource.url=jdbc:x\nspring.datasource.hikari.maxLifetime=1\n",
            Kind::Hikari,
            "properties",
        ),
        ("server.port=1\nspring.datasource.url=jdbc:x\n", Kind::Hikari, "properties"),
        ("jdbcUrl=jdbc:x\nmaximumPoolSize=5\n", Kind::Hikari, "properties"),
        ("{\"ConnectionStrings\": {\"A\": \"Host=h;Username=u\"}}", Kind::Npgsql, "JSON"),
        ("// c\n{\"ConnectionStrings\": {\"A\": \"Server=h;Initial Catalog=d\"}}", Kind::Adonet, "JSON"),
        ("[{\"host\": \"h\", \"idleTimeoutMillis\": 1}]", Kind::NodePostgres, "JSON"),
        ("[sqlalchemy]\nurl = \"mysql+pymysql://h/d\"\n", Kind::Sqlalchemy, "TOML"),
        ("title = 'x'\n[sqlalchemy]\nurl = \"mysql+pymysql://h/d\"\n", Kind::Sqlalchemy, "TOML"),
        ("sqlalchemy.url = \"mysql+pymysql://h/d\"\n", Kind::Sqlalchemy, "TOML"),
        ("# c\n[alembic]\nsqlalchemy.url = mysql+pymysql://h/d\n", Kind::Sqlalchemy, ".ini"),
        ("net.core.somaxconn = 9\nnet.ipv4.tcp_keepalive_time = 9\n", Kind::Sysctl, "sysctl"),
        ("Host=h;Username=u;Keepalive=9\n", Kind::Npgsql, "text"),
        ("A=1\nB_URL=mysql://u:p@h/d?enableKeepAlive=true # c\n", Kind::Mysql2, "text"),
        ("postgresql+psycopg://h/d", Kind::Sqlalchemy, "text"),
    ] {
        for name in ["-", "/dev/fd/63", "conf.bak"] {
            let report = check(name, content, None, None, &both);
            let said = of(name, &report);
            assert_eq!(report.kind, Some(kind), "{content}\n{said}");
            assert!(!report.judgements.is_empty(), "{content}\n{said}");
            let note = report.notes.iter().find(|note| note.contains("by its content"));
            assert!(note.is_some_and(|note| note.contains(words)), "{content}\n{said}");
            // Said by the user, it is read in the same way.
            let forced = check(name, content, Some(kind), None, &both);
            assert_eq!(forced.judgements, report.judgements, "{content}\n{}", of(name, &forced));
        }
    }
    let report = check("-", "hello", None, None, &both);
    assert!(report.faults.len() == 1 && report.faults[0].what.contains("add --as with one of hikari"));
    // The name says it: no word about it.
    let report =
        check("a.yml", "spring:\n  datasource:\n    hikari:\n      max-lifetime: 1\n", None, None, &both);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

/// A setting that older versions refuse is not advised where they must hold too.
#[test]
fn newer_setting_is_advised_only_if_supported() {
    let content = "Server=h;Initial Catalog=d;User ID=u\n";
    let limits = idle(20 * S);
    let report = check("c.txt", content, None, None, &limits);
    assert!(report.loses() && report.edits.is_empty(), "{}", of("c.txt", &report));
    let since = Some("7.1.0".parse().expect("a version"));
    let report = check("c.txt", content, None, since, &limits);
    assert!(apply(content, &report.edits).contains("Connection Idle Timeout=10"), "{}", of("c.txt", &report));
    // Set all the same: it does nothing before 7.1.0, and there it is refused.
    let content = "Server=h;Initial Catalog=d;User ID=u;Connection Idle Timeout=10\n";
    let old = Some("7.0.2".parse().expect("a version"));
    let report = check("c.txt", content, None, old, &limits);
    let said = of("c.txt", &report);
    assert!(report.loses() && said.contains("SqlClient has Connection Idle Timeout since 7.1.0"), "{said}");
}
