//! What files may hold: anchors, defaults of sections, numbers without measure, names that a terminal would obey.

use fathom_settings::{Kind, Limits, Report, apply, check, text};

const S: u64 = 1_000_000_000;
const MIN: u64 = 60 * S;

fn both() -> Limits {
    Limits { idle_ns: Some(4 * MIN), age_ns: Some(30 * MIN) }
}

fn of(name: &str, report: &Report) -> String {
    let faults: Vec<_> = report.faults.iter().map(|fault| fault.what.as_str()).collect();
    format!("{}{}", text(name, report, false), faults.join("\n"))
}

/// Times near the end of what can be counted made sums panic.
#[test]
fn longest_writable_times_do_not_overflow() {
    for (kind, content) in [
        (
            Kind::Hikari,
            "jdbcUrl=x\nmaximumPoolSize=9\nminimumIdle=1\nidleTimeout=9223372036854\nmaxLifetime=9223372036854\nkeepaliveTime=9223372036854\n",
        ),
        (Kind::Hikari, "jdbcUrl=x\nidleTimeout=-9223372036854\nmaxLifetime=-9223372036854\n"),
        (
            Kind::Npgsql,
            "Host=h;Connection Idle Lifetime=9223372036;Connection Lifetime=9223372036;Keepalive=-9223372036",
        ),
        (Kind::Adonet, "Server=h;Load Balance Timeout=9223372036;Connection Idle Timeout=-9223372036"),
        (Kind::Adonet, "Server=h;Load Balance Timeout=-9223372036;Connection Idle Timeout=9223372036"),
        (
            Kind::Pgx,
            "postgres://h/d?pool_max_conn_lifetime=2562047h&pool_health_check_period=2562047h&pool_max_conn_lifetime_jitter=2562047h",
        ),
        (
            Kind::Pgx,
            "postgres://h/d?pool_max_conn_lifetime=-2562047h&pool_health_check_period=-2562047h&pool_max_conn_idle_time=-2562047h",
        ),
        (
            Kind::Sqlalchemy,
            "[a]\nsqlalchemy.url=postgresql+psycopg://h/d?keepalives_idle=9223372036\nsqlalchemy.pool_recycle=9223372036\n",
        ),
        (
            Kind::NodePostgres,
            "{\"host\": \"h\", \"idleTimeoutMillis\": 9223372036854, \"maxLifetimeSeconds\": -9223372036}",
        ),
        (
            Kind::Mysql2,
            "{\"host\": \"h\", \"keepAliveInitialDelay\": 9223372036854, \"idleTimeout\": 9223372036854, \"maxIdle\": 0}",
        ),
        (Kind::Sysctl, "net.ipv4.tcp_keepalive_time=9223372036\n"),
    ] {
        for ns in [1, 4 * MIN, u64::MAX] {
            for version in [None, Some("99.0.0".parse().expect("a version"))] {
                let limits = Limits { idle_ns: Some(ns), age_ns: Some(ns) };
                let report = check("x", content, Some(kind), version, &limits);
                assert!(!report.judgements.is_empty(), "{content}");
                let _ = of("x", &report);
            }
        }
    }
}

/// `pool_recycle` replaces what is older, to the fraction of a second: 239 s is below 240 s.
#[test]
fn pool_recycle_just_below_limit_is_safe() {
    let content = "[a]\nsqlalchemy.url = mysql+pymysql://h/d\nsqlalchemy.pool_recycle = 239\n";
    let report = check("a.ini", content, None, None, &both());
    assert!(!report.loses(), "{}", of("a.ini", &report));
}

/// What an alias stands for, and what `<<` merges in, is set as if it stood there.
#[test]
fn aliases_and_merges_of_yaml_are_followed() {
    let spring = "spring:\n  datasource:\n    hikari:\n";
    for (content, line) in [
        (format!("life: &life 200000\n{spring}      max-lifetime: *life\n"), 5),
        (format!("pool: &pool\n  max-lifetime: 200000\n  keepalive-time: 60000\n{spring}      <<: *pool\n"), 3),
        (format!("pool: &pool {{max-lifetime: 200000, keepalive-time: 60000}}\n{spring}      <<: *pool\n      keepalive-time: 120000\n"), 6),
        (format!("a: &a {{max-lifetime: 200000}}\nb: &b {{max-lifetime: 1, keepalive-time: 60000}}\n{spring}      <<: [*a, *b]\n"), 2),
        ("base: &base\n  hikari:\n    keepalive-time: 60000\nspring:\n  datasource:\n    <<: *base\n".to_owned(), 3),
        ("pool: &pool\n  keepalive-time: 60000\nspring:\n  datasource:\n    hikari: *pool\n".to_owned(), 2),
        ("pool: &pool\n  keepalive-time: 60000\nspring:\n  datasource: &d\n    hikari:\n      <<: *pool\nother: *d\n".to_owned(), 2),
    ] {
        let report = check("a.yml", &content, None, None, &Limits { age_ns: None, ..both() });
        let said = of("a.yml", &report);
        assert!(!report.judgements.is_empty() && !report.loses() && report.faults.is_empty(), "{content}\n{said}");
        assert_eq!(report.judgements[0].at.line, line, "{content}\n{said}");
    }
    // Where it loses, it is written where it stands.
    let content = format!("life: &life 1800000\n{spring}      max-lifetime: *life\n");
    let report = check("a.yml", &content, None, None, &Limits { idle_ns: None, ..both() });
    assert_eq!(apply(&content, &report.edits), content.replace("*life", "1620000"));
}

/// Aliases of aliases: a kilobyte that stands for more than any memory holds. Without a bound this would not end.
#[test]
fn aliases_do_not_grow_without_end() {
    let next = |n: usize| format!("a{n}: &a{n} {{x: *a{last}, y: *a{last}, z: *a{last}}}\n", last = n - 1);
    let content = "a0: &a0 {hikari: {maxLifetime: 1}}\n".to_owned() + &(1..40).map(next).collect::<String>();
    let report = check("a.yml", &content, None, None, &both());
    assert!(
        report.faults.iter().any(|fault| fault.what.contains("too many aliases")),
        "{}",
        of("a.yml", &report)
    );
}

/// Anchors within anchors: what each stands for was kept for each.
#[test]
fn anchors_within_anchors_do_not_grow_without_end() {
    let open: Vec<_> = (0..50).map(|n| format!("x: &a{n} {{")).collect();
    let settings: Vec<_> = (0..20_000).map(|n| format!("k{n}: 1")).collect();
    let content = format!("{{{}hikari: {{{}}}{}}}", open.concat(), settings.join(", "), "}".repeat(50));
    let report = check("a.yml", content, None, None, &both());
    assert!(
        report.faults.iter().any(|fault| fault.what.contains("too many aliases")),
        "{:?}",
        report.faults.len()
    );
}

/// Every section of an .ini has what `[DEFAULT]` says.
#[test]
fn sections_of_ini_have_their_defaults() {
    let content = "[DEFAULT]\nsqlalchemy.pool_recycle = 200\n[app:main]\nsqlalchemy.url = mysql+pymysql://h/d\n[b]\nsqlalchemy.url = mysql+pymysql://h/e\nsqlalchemy.pool_recycle = 7200\n";
    let report = check("a.ini", content, None, None, &both());
    let lines: Vec<_> =
        report.judgements.iter().map(|judgement| (judgement.at.line, judgement.loses)).collect();
    assert_eq!(lines, [(2, false), (2, false), (7, true), (7, true)], "{}", of("a.ini", &report));
}

/// Every default in every section: some hundred kilobytes would become gigabytes.
#[test]
fn defaults_do_not_grow_without_end() {
    let defaults = (0..10_000).map(|n| format!("x{n} = 1\n")).collect::<Vec<_>>().concat();
    let sections = (0..10_000).map(|n| format!("[s{n}]\n")).collect::<Vec<_>>().concat();
    let content = format!("[DEFAULT]\nsqlalchemy.url = mysql://h/d\n{defaults}{sections}");
    let report = check("a.ini", content, None, None, &both());
    assert!(
        report.faults.iter().any(|fault| fault.what.contains("[DEFAULT] is too long")),
        "{}",
        of("a.ini", &report)
    );
}

/// The only line that matters was not read, and all that was said was "nothing in it says whose settings these are".
#[test]
fn unreadable_env_line_is_reported() {
    let content = "A=1\nDATABASE_URL=\"postgres://u:hunter2@h/d?pool_max_conns=4 # main\nB=2\n";
    for (kind, faults, remedy) in [(Some(Kind::Pgx), 1, ""), (None, 2, "add --as")] {
        let report = check(".env", content, kind, None, &both());
        let said = of(".env", &report);
        assert!(said.contains("a quote that is not closed") && said.contains(remedy), "{kind:?}: {said}");
        assert!(!said.contains("hunter2") && report.faults.len() >= faults, "{kind:?}: {said}");
    }
}

/// What stands before the last part of a name is the file's, and is printed.
#[test]
fn control_characters_of_names_are_not_printed() {
    let content = "spring.datasource.url=x\na\x1b[2J\u{9b}31m\x07.hikari.max-lifetime=1800000\n";
    let report = check("a.properties", content, None, None, &both());
    let said = of("a.properties", &report);
    assert!(report.loses() && !said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
}

/// `IDLE_TIMEOUT` in a .env was `HikariCP`'s, and any path with "sysctl" in it the kernel's.
#[test]
fn a_name_alone_does_not_make_a_library() {
    let content = "IDLE_TIMEOUT=30\nMAX_LIFETIME=60\nCONNECTION_TIMEOUT=5\nDATABASE_URL=postgres://h/d?pool_max_conns=4\n";
    let report = check(".env", content, None, None, &both());
    assert_eq!(report.kind, Some(Kind::Pgx), "{}", of(".env", &report));
    for name in ["/srv/sysctl-tool/prod.env", "/srv/sysctl-tool/x"] {
        let report = check(name, "DATABASE_URL=postgresql+psycopg://h/d\n", None, None, &both());
        assert_eq!(report.kind, Some(Kind::Sqlalchemy), "{name}: {}", of(name, &report));
    }
    for name in ["/etc/sysctl.conf", "/usr/lib/sysctl.d/50-x.conf"] {
        let report = check(name, "kernel.panic = 1\nnet.core.rmem_max = 1\n", None, None, &both());
        assert_eq!(report.kind, Some(Kind::Sysctl), "{name}: {}", of(name, &report));
    }
}

/// A value that something else fills in was given a second line of the same name.
#[test]
fn placeholder_value_is_replaced_not_duplicated() {
    let content = "spring:\n  datasource:\n    hikari:\n      max-lifetime: ${LIFE}\n";
    let report = check("a.yml", content, None, None, &Limits { idle_ns: None, ..both() });
    assert_eq!(apply(content, &report.edits), content.replace("${LIFE}", "1620000"));
    // Nor is it said to be the default.
    let said = of("a.yml", &report);
    assert!(said.contains("maxLifetime: not known, judged as its default of 30m 0s\n"), "{said}");
}

/// Pools of other software: their files were `HikariCP`'s or pgxpool's, with advice that they do not read.
#[test]
fn files_of_other_pools_are_not_ours() {
    for (name, content) in [
        ("application.properties", "spring.datasource.url=jdbc:x\nspring.datasource.tomcat.max-idle=5\n"),
        ("application.yml", "spring:\n  datasource:\n    url: jdbc:x\n    dbcp2:\n      max-idle: 5\n"),
        (
            "application.yml",
            "spring:\n  datasource:\n    type: org.apache.commons.dbcp2.BasicDataSource\n    url: jdbc:x\n",
        ),
        (
            "pgbouncer.ini",
            "[databases]\nd = host=h port=5432 dbname=d\n[pgbouncer]\nserver_idle_timeout = 600\n",
        ),
    ] {
        let report = check(name, content, None, None, &both());
        let said = of(name, &report);
        assert!(report.judgements.is_empty() && report.faults.len() == 1, "{content}\n{said}");
    }
    let content = "spring.datasource.url=jdbc:x\nspring.datasource.type=com.zaxxer.hikari.HikariDataSource\n";
    assert!(check("application.properties", content, None, None, &both()).loses());
}

/// `url` beside `HikariCP`'s names in a file of Micronaut: "`HikariCP` has no setting of this name".
#[test]
fn yaml_names_of_other_software_are_accepted() {
    let content = "datasources:\n  default:\n    url: jdbc:x\n    max-lifetime: 200000\n    keep-alive-time: 60000\n    keepalive-tme: 1\n";
    let report = check("application.yml", content, None, None, &both());
    let said = of("application.yml", &report);
    assert!(report.judgements.len() == 2 && !report.loses(), "{said}");
    assert!(report.faults.len() == 1 && report.faults[0].at.is_some_and(|at| at.line == 6), "{said}");
}

/// Added names are written as the others are: beside `maxLifetime` stood `keepalive-time`.
#[test]
fn what_is_added_is_written_like_its_neighbours() {
    for (setting, added) in
        [("maxLifetime", "keepaliveTime: 120000"), ("max-lifetime", "keepalive-time: 120000")]
    {
        let content = format!("spring:\n  datasource:\n    hikari:\n      {setting}: 1800000\n");
        let report = check("a.yml", &content, None, None, &Limits { age_ns: None, ..both() });
        assert!(of("a.yml", &report).contains(added), "{}", of("a.yml", &report));
    }
}

/// A list of variables, as compose files have them; it was passed over in silence.
#[test]
fn lists_of_variables_in_yaml_are_read() {
    let content = "services:\n  app:\n    environment:\n    - X=1\n    - DATABASE_URL=postgres://u:p@h/d?pool_max_conns=9\n    - \"B_URL=postgres://h/d?pool_max_conn_lifetime=10m\"\n";
    let report = check("compose.yml", content, None, None, &Limits { idle_ns: None, ..both() });
    let said = of("compose.yml", &report);
    let lines: Vec<_> =
        report.judgements.iter().map(|judgement| (judgement.at.line, judgement.loses)).collect();
    assert_eq!((report.kind, lines), (Some(Kind::Pgx), vec![(5, true), (6, false)]), "{said}");
    assert_eq!(apply(content, &report.edits), content.replace("=9\n", "=9&pool_max_conn_lifetime=26m\n"));
}

/// What the name says is not said to be found in the content, and who says `--as` is not told of it.
#[test]
fn only_content_recognition_is_noted_as_such() {
    let content = "net.ipv4.tcp_keepalive_time = 60\n";
    let notes = |name, kind| check(name, content, kind, None, &both()).notes.join("\n");
    assert!(!notes("/etc/sysctl.conf", None).contains("by its content"));
    assert!(notes("x", None).contains("read as a file of sysctl, settings of Linux, by its content; --as"));
    assert!(!notes("x", Some(Kind::Sysctl)).contains("--as"));
}

/// Npgsql takes the names of its properties too, and of two those are other words: `MinPoolSize` was a mistake and did not count.
#[test]
fn npgsql_accepts_short_pool_size_names() {
    let content =
        "Host=h;Username=u;Connection Idle Lifetime=60;minpoolsize=1;MaxPoolSize=5;connectionlifetime=600";
    let report = check("c.txt", content, None, None, &Limits { age_ns: None, ..both() });
    let said = of("c.txt", &report);
    assert!(report.faults.is_empty() && report.loses(), "{said}");
    // With blanks they are SqlClient's.
    let content = "Server=h;Database=d;User Id=u;Min Pool Size=1";
    let report = check("c.txt", content, None, None, &both());
    assert_eq!(report.kind, Some(Kind::Adonet), "{}", of("c.txt", &report));
    let report = check("c.txt", content, Some(Kind::Npgsql), None, &both());
    assert!(of("c.txt", &report).contains("the nearest is MinPoolSize"), "{}", of("c.txt", &report));
}

/// `HikariCP` reads `2m` since 6.3.0; who names an older version is told that it does not.
#[test]
fn unsupported_units_of_old_version_are_faults() {
    let content = "jdbcUrl=x\nkeepaliveTime=2m\nmaxLifetime=10m\n";
    for (version, faults) in [(None, 0), (Some("6.3.0"), 0), (Some("6.2.1"), 2)] {
        let version = version.map(|version| version.parse().expect("a version"));
        let report = check("h.properties", content, None, version, &both());
        assert_eq!(report.faults.len(), faults, "{version:?}: {}", of("h.properties", &report));
    }
}
