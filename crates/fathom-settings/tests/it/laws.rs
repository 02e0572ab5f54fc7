//! What must hold of every file: our own advice, carried out, loses no more; what is safe by a margin never loses; no bytes
//! make it panic; and nothing that could be a secret is repeated.

use fathom_settings::{Judgement, Kind, Limits, Report, Version, apply, check, json, text};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

/// A file of a kind: its name and its text.
type File = (Kind, &'static str, String);

/// A setting that is there or not.
fn maybe(name: &'static str, values: std::ops::Range<u64>) -> impl Strategy<Value = Option<(String, u64)>> {
    proptest::option::of(values).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
}

type Settings = Vec<(String, u64)>;

fn present(all: impl IntoIterator<Item = Option<(String, u64)>>) -> Settings {
    all.into_iter().flatten().collect()
}

fn joined(settings: &Settings, line: impl Fn(&str, u64) -> String, between: &str) -> String {
    settings.iter().map(|(name, value)| line(name, *value)).collect::<Vec<_>>().join(between)
}

fn hikari() -> impl Strategy<Value = Settings> {
    (
        maybe("maxLifetime", 0..4_000_000),
        maybe("keepaliveTime", 0..2_000_000),
        maybe("idleTimeout", 0..2_000_000),
        maybe("minimumIdle", 0..10),
        maybe("connectionTimeout", 250..60_000),
    )
        .prop_map(|(a, b, c, d, e)| present([a, b, c, d, e]))
}

fn hikari_files() -> impl Strategy<Value = File> {
    let kebab = |name: &str| {
        name.chars()
            .flat_map(|c| if c.is_uppercase() { vec!['-', c.to_ascii_lowercase()] } else { vec![c] })
            .collect::<String>()
    };
    (hikari(), 0..10_usize).prop_map(move |(settings, shape)| {
        let own = |name: &str, value| format!("{name}={value}");
        let (name, text) = match shape {
            0 => ("hikari.properties", format!("jdbcUrl=jdbc:x\nusername=u\n{}\n", joined(&settings, own, "\r\n"))),
            1 => {
                let line = |name: &str, value| format!("spring.datasource.hikari.{}: {value}", kebab(name));
                ("application.properties", format!("spring.datasource.url=jdbc:x\n{}", joined(&settings, line, "\n")))
            }
            2 => {
                let line = |name: &str, value| format!("      {}: {value}", kebab(name));
                let hikari = if settings.is_empty() { String::new() } else { format!("    hikari:\n{}\n", joined(&settings, line, "\n")) };
                ("application.yml", format!("server:\n  port: 1\nspring:\n  datasource:\n    url: jdbc:x\n{hikari}  jpa:\n    x: y\n"))
            }
            3 => {
                let line = |name: &str, value| format!("{}: '{value}'", kebab(name));
                let flow = joined(&settings, line, ", ");
                let flow = if flow.is_empty() { "pool-name: x".to_owned() } else { flow };
                ("application.yaml", format!("spring: {{datasource: {{hikari: {{{flow}}}}}}}\n"))
            }
            4 => {
                let line = |name: &str, value| format!("          {name}: {value},");
                let flow = joined(&settings, line, "\n");
                ("application.yaml", format!("spring:\n  datasource:\n    url: jdbc:x\n    hikari: {{\n          pool-name: x,\n{flow}\n    }}\n"))
            }
            5 => {
                let line = |name: &str, value| format!("  {}: {value}", kebab(name));
                let base = joined(&settings, line, "\n");
                ("application.yml", format!("pool: &pool\n  pool-name: x\n{base}\nspring:\n  datasource:\n    hikari:\n      <<: *pool\n"))
            }
            6 => {
                let line = |name: &str, value| format!("      {}: {value}", kebab(name));
                let half = settings.len() / 2;
                let some = |some: &[(String, u64)]| joined(&some.to_vec(), line, "\n");
                let prod = "---\nspring:\n  config:\n    activate:\n      on-profile: prod\n  datasource:\n    hikari:\n      pool-name: y\n";
                let head = "spring:\n  datasource:\n    hikari:\n      pool-name: x\n";
                ("application.yml", format!("{head}{}\n{prod}{}\n", some(&settings[..half]), some(&settings[half..])))
            }
            7 => {
                let line = |name: &str, value| format!("spring.datasource.hikari.{}={value}", kebab(name));
                let half = settings.len() / 2;
                let some = |some: &[(String, u64)]| joined(&some.to_vec(), line, "\n");
                let prod = "#---\nspring.config.activate.on-profile=prod\nspring.datasource.hikari.pool-name=y\n";
                ("application.properties", format!("spring.datasource.url=jdbc:x\n{}\n{prod}{}\n", some(&settings[..half]), some(&settings[half..])))
            }
            8 => {
                let line = |name: &str, value| format!("      {}: ${{V_{}:{value}}}", kebab(name), name.len());
                ("application.yml", format!("spring:\n  datasource:\n    hikari:\n      pool-name: x\n{}\n", joined(&settings, line, "\n")))
            }
            _ => ("hikari.properties", format!("dataSource.password=x\njdbcUrl=x\n  {}", joined(&settings, |n, v| format!("{n} : \\\n  {v}"), "\n"))),
        };
        (Kind::Hikari, name, text)
    })
}

fn connection_strings() -> impl Strategy<Value = File> {
    let npgsql = (
        maybe("Keepalive", 0..600),
        maybe("TCP Keepalive Time", 0..600),
        maybe("Connection Idle Lifetime", 10..1_000),
        maybe("connection lifetime", 0..9_000),
        maybe("Minimum Pool Size", 0..3),
    )
        .prop_map(|(a, b, c, d, e)| {
            (Kind::Npgsql, "Host=h;Username=u;Password='p;w'", present([a, b, c, d, e]))
        });
    let adonet = (
        maybe("Load Balance Timeout", 0..9_000),
        maybe("Min Pool Size", 0..3),
        maybe("connect timeout", 1..90),
    )
        .prop_map(|(a, b, c)| {
            (
                Kind::Adonet,
                "Data Source=tcp:h\\i,1;Initial Catalog=d;User ID=u;Pwd=\"p;w\"",
                present([a, b, c]),
            )
        });
    (prop_oneof![npgsql, adonet], 0..3_usize, any::<bool>()).prop_map(
        |((kind, head, settings), shape, end)| {
            let more = joined(&settings, |name, value| format!(";{name}={value}"), "");
            let string = format!("{head}{more}{}", if end { ";" } else { "" });
            let escaped = string.replace('\\', "\\\\").replace('"', "\\\"");
            match shape {
                0 => (kind, "connection.txt", format!("{string}\n")),
                1 => (kind, ".env", format!("# c\nConnectionStrings__Default={string}\n")),
                _ => (
                    kind,
                    "appsettings.json",
                    format!("{{ // c\n  \"ConnectionStrings\": {{\n    \"D\": \"{escaped}\",\n  }},\n}}\n"),
                ),
            }
        },
    )
}

fn pgx_files() -> impl Strategy<Value = File> {
    (
        maybe("pool_max_conn_lifetime", 0..9_000),
        maybe("pool_max_conn_lifetime_jitter", 0..900),
        maybe("pool_max_conn_idle_time", 0..5_000),
        maybe("pool_health_check_period", 1..300),
        maybe("pool_min_conns", 0..3),
        any::<bool>(),
    )
        .prop_map(|(a, b, c, d, e, url)| {
            let settings = present([a, b, c, d, e]);
            let value = |name: &str, value: u64| {
                if name.ends_with("conns") { format!("{name}={value}") } else { format!("{name}={value}s") }
            };
            let text = if url {
                format!(
                    "DATABASE_URL='postgres://u:p@h/d?pool_max_conns=4&{}'\n",
                    joined(&settings, value, "&")
                )
            } else {
                format!("host=h password='p w' pool_max_conns=4 {}", joined(&settings, value, " "))
            };
            (Kind::Pgx, ".env", text)
        })
}

fn sqlalchemy_files() -> impl Strategy<Value = File> {
    (maybe("pool_recycle", 0..9_000), maybe("pool_size", 1..9), maybe("keepalives_idle", 0..600), 0..6_usize)
        .prop_map(|(recycle, size, idle, shape)| {
            let keywords = present([recycle, size]);
            let query = joined(&present([idle]), |name, value| format!("?{name}={value}"), "");
            let url = format!("postgresql+psycopg://u:p@h/d{query}");
            let line =
                |prefix: &'static str| move |name: &str, value: u64| format!("{prefix}{name} = {value}");
            let (name, text) = match shape {
                0 => (
                    "alembic.ini",
                    format!(
                        "[alembic]\nx = y\nsqlalchemy.url = {url}\n{}\n[z]\n",
                        joined(&keywords, line("sqlalchemy."), "\n")
                    ),
                ),
                1 => (
                    "a.toml",
                    format!(
                        "[sqlalchemy]\nurl = \"{url}\"\n{}\n[z]\na = 1\n",
                        joined(&keywords, line(""), "\n")
                    ),
                ),
                2 => {
                    let more = joined(&keywords, |name, value| format!(", {name} = {value}"), "");
                    ("a.toml", format!("sqlalchemy = {{ url = \"{url}\"{more} }}\n"))
                }
                3 => (
                    "a.toml",
                    format!(
                        "[x]\na.b = 1\nsqlalchemy.url = \"{url}\"\n{}\nz = 2\n",
                        joined(&keywords, line("sqlalchemy . "), "\n")
                    ),
                ),
                4 => (".env", format!("A='x\ny' # z\nexport DATABASE_URL = \"{url}\" # main\n")),
                _ => (".env", format!("DATABASE_URL={url}\n")),
            };
            (Kind::Sqlalchemy, name, text)
        })
}

fn node_files() -> impl Strategy<Value = File> {
    let postgres = (
        maybe("idleTimeoutMillis", 0..900_000),
        maybe("maxLifetimeSeconds", 0..9_000),
        maybe("min", 0..3),
        maybe("keepAliveInitialDelayMillis", 0..900_000),
    )
        .prop_map(|(a, b, c, d)| (Kind::NodePostgres, present([a, b, c, d])));
    let mysql = (
        maybe("keepAliveInitialDelay", 0..900_000),
        maybe("idleTimeout", 0..900_000),
        maybe("maxIdle", 0..10),
    )
        .prop_map(|(a, b, c)| (Kind::Mysql2, present([a, b, c])));
    (prop_oneof![postgres, mysql], any::<bool>(), any::<bool>()).prop_map(|((kind, settings), lines, url)| {
        if url && kind == Kind::Mysql2 {
            let query = joined(&settings, |name, value| format!("{name}={value}"), "&");
            return (kind, ".env", format!("MYSQL_URL=mysql://u:p@h/d?{query}\n"));
        }
        let between = if lines { ",\n    " } else { ", " };
        let head = format!("\"host\": \"h\"{between}\"user\": \"u\"{between}\"password\": \"p\"");
        let more = joined(&settings, |name, value| format!("{between}\"{name}\": {value}"), "");
        let gap = if lines { "\n    " } else { "" };
        (kind, "db.json", format!("{{\"db\": {{{gap}{head}{more}}}, \"other\": [1, {{}}]}}"))
    })
}

fn sysctl_files() -> impl Strategy<Value = File> {
    (maybe("net.ipv4.tcp_keepalive_time", 1..20_000), maybe("net.ipv4.tcp_retries2", 1..15), any::<bool>())
        .prop_map(|(a, b, spaced)| {
            let sign = if spaced { " = " } else { "=" };
            let lines = joined(&present([a, b]), |name, value| format!("{name}{sign}{value}"), "\n");
            (Kind::Sysctl, "/etc/sysctl.d/90.conf", format!("# c\nnet.core.somaxconn = 1\n{lines}"))
        })
}

fn files() -> impl Strategy<Value = File> {
    prop_oneof![
        hikari_files(),
        connection_strings(),
        pgx_files(),
        sqlalchemy_files(),
        node_files(),
        sysctl_files()
    ]
}

/// An idle limit, an age limit, or both: 2 s to 3 h, and now and then less than any unit.
fn limits() -> impl Strategy<Value = Limits> {
    let ns =
        || proptest::option::of(prop_oneof![9 => (2_u64..10_800).prop_map(|s| s * S), 1 => 1_u64..4 * S]);
    (ns(), ns()).prop_map(|(idle_ns, age_ns)| Limits { idle_ns, age_ns })
}

fn versions() -> impl Strategy<Value = Option<Version>> {
    proptest::option::of((0_u32..12, 0_u32..12, 0_u32..3).prop_map(|(a, b, c)| Version(a, b, c)))
}

fn losing(report: &Report) -> Vec<String> {
    let lost = report.judgements.iter().filter(|judgement| judgement.loses);
    lost.map(|judgement| format!("{:?} {}: {}", judgement.limit, judgement.setting, judgement.why)).collect()
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: $cases, failure_persistence: None, ..ProptestConfig::default() })]

            /// The law that matters most. What cannot be written says so, and only that is left.
            #[test]
            fn our_own_advice_loses_no_more((kind, name, text) in files(), limits in limits(), version in versions()) {
                let before = check(name, &text, Some(kind), version, &limits);
                let after_text = apply(&text, &before.edits);
                let after = check(name, &after_text, Some(kind), version, &limits);
                // Nothing loses without a word on what to do.
                let mute = |j: &&Judgement| j.loses && j.write.is_empty() && j.otherwise.as_ref().is_none_or(String::is_empty);
                prop_assert!(!before.judgements.iter().any(|j| mute(&j)), "{text}\n{:?}", losing(&before));
                let hopeless: Vec<_> = before.judgements.iter().filter(|j| j.loses && j.write.is_empty()).map(|j| j.limit).collect();
                let left: Vec<_> = after.judgements.iter().filter(|j| j.loses && !hopeless.contains(&j.limit)).collect();
                prop_assert!(left.is_empty(), "{text}\nbecame\n{after_text}\n{:?}", losing(&after));
                prop_assert_eq!(before.judgements.len(), after.judgements.len(), "{}\nbecame\n{}", text, after_text);
                prop_assert!(after.faults.len() <= before.faults.len(), "{text}\nbecame\n{after_text}\n{:?}", after.faults);
                // Where nothing loses there is nothing to write.
                prop_assert_eq!(before.edits.is_empty(), before.judgements.iter().all(|j| j.write.is_empty()));
                prop_assert!(after.edits.is_empty(), "{after_text}");
            }

            /// It is recognised as what it is, where only one library writes such a file.
            #[test]
            fn file_is_recognised_or_needs_as_option((kind, name, text) in files()) {
                let report = check(name, &text, None, None, &Limits { idle_ns: Some(S), age_ns: None });
                match report.kind {
                    Some(found) => prop_assert_eq!(found, kind, "{}", text),
                    None => prop_assert!(report.faults.len() == 1 && report.faults[0].what.contains("--as"), "{text}"),
                }
            }

            /// A shorter limit never makes a setting hold that lost.
            #[test]
            fn a_shorter_limit_is_no_easier((kind, name, text) in files(), idle in 2_u64..10_800, age in 2_u64..10_800, version in versions()) {
                let at = |by: u64| check(name, &text, Some(kind), version, &Limits { idle_ns: Some(idle * S / by), age_ns: Some(age * S / by) });
                let (long, short) = (at(1), at(2));
                for (long, short) in long.judgements.iter().zip(&short.judgements) {
                    prop_assert!(!long.loses || short.loses, "{text}");
                }
            }

            /// Every character that can be typed, put into any file of ours.
            #[test]
            fn no_bytes_make_it_panic((kind, name, text) in files(), junk in "\\PC{0,12}|[\\x00-\\x7f]{0,12}|[{}\\[\\]:;=&?'\"\\\\#%\n]{0,8}", at in 0.0..1.0_f64, cut in 0_usize..40, forced in any::<bool>(), other in 0_usize..8, limits in limits()) {
                let mut from = (text.len() as f64 * at) as usize;
                while !text.is_char_boundary(from) { from -= 1; }
                let mut to = (from + cut).min(text.len());
                while !text.is_char_boundary(to) { to += 1; }
                let broken = format!("{}{junk}{}", &text[..from], &text[to..]);
                let kinds = [Some(kind), Some(Kind::ALL[other]), None];
                let report = check(name, &broken, kinds[usize::from(!forced)], None, &limits);
                // One line each, and no two at one place.
                let mut places: Vec<_> = report.faults.iter().map(|fault| fault.at).collect();
                prop_assert!(report.faults.iter().all(|fault| !fault.what.contains(['\n', '\r'])));
                places.dedup();
                prop_assert_eq!(places.len(), report.faults.len());
                let lines = broken.split('\n').count();
                prop_assert!(report.faults.iter().all(|fault| fault.at.is_some_and(|at| at.line <= lines && at.column >= 1)));
                let _ = apply(&broken, &report.edits);
                let _ = check("x", &junk, kinds[usize::from(!forced)], None, &limits);
            }

            /// A password, wherever it stands and however the file is broken, is in nothing that is printed.
            #[test]
            fn nothing_secret_is_repeated((kind, name, text) in files(), secret in "S3cr[a-z]{3}[;=&'\" ]{0,2}[a-z]{3}T0p", at in 0.0..1.0_f64, limits in limits()) {
                let mut from = (text.len() as f64 * at) as usize;
                while !text.is_char_boundary(from) { from -= 1; }
                let leaky = format!("{}{secret}{}", &text[..from], &text[from..]);
                // What stands before `hikari.` or the `url` of an .ini in a name is a part of the line to write.
                // So is what stands before the last dot of a name in TOML, with blanks or without.
                let named = |line: &str| line.split(['=', ':']).next().is_some_and(|name| name.contains("S3cr") && name.contains('.'));
                let in_name = |line: &str| line.contains(".hikari.") || line.contains(".url") || named(line);
                prop_assume!(!leaky.lines().any(|line| line.contains("S3cr") && in_name(line)));
                for kind in [Some(kind), None] {
                    let report = check(name, &leaky, kind, None, &limits);
                    let faults = report.faults.iter().map(|fault| fault.what.clone()).collect::<String>();
                    let printed = format!("{}{}{faults}", text_of(&report), json("f", &report));
                    prop_assert!(!printed.contains("S3cr") && !printed.contains("T0p"), "{leaky}\n{printed}");
                }
            }
        }
    };
}

laws!(100);

mod acceptance {
    use super::*;

    laws!(3_000);
}

fn text_of(report: &Report) -> String {
    text("f", report, false)
}

/// What bounds it, at a quarter of the limit, in every library: never told as losing, whatever the version.
#[test]
fn what_is_safe_by_a_margin_never_loses() {
    let limits = Limits { idle_ns: Some(1_200 * S), age_ns: Some(3_600 * S) };
    let safe = [
        (Kind::Hikari, "h.properties", "jdbcUrl=x\nkeepaliveTime=300000\nmaxLifetime=900000\n"),
        (Kind::Hikari, "a.yml", "spring:\n  datasource:\n    hikari:\n      max-lifetime: 300000\n"),
        (Kind::Npgsql, "c.txt", "Host=h;Username=u;Keepalive=300;Connection Lifetime=900"),
        (Kind::Adonet, "c.txt", "Server=h;Initial Catalog=d;Load Balance Timeout=900"),
        (Kind::Pgx, "c.txt", "postgres://h/d?pool_max_conn_idle_time=4m&pool_max_conn_lifetime=15m"),
        (
            Kind::Sqlalchemy,
            "a.ini",
            "[a]\nsqlalchemy.url = mysql+pymysql://h/d\nsqlalchemy.pool_recycle = 300\n",
        ),
        (
            Kind::NodePostgres,
            "d.json",
            "{\"host\": \"h\", \"maxLifetimeSeconds\": 900, \"idleTimeoutMillis\": 300000}",
        ),
        (Kind::Sysctl, "/etc/sysctl.conf", "net.ipv4.tcp_keepalive_time = 300\n"),
    ];
    for (kind, name, text) in safe {
        let report = check(name, text, None, None, &limits);
        assert_eq!(report.kind, Some(kind), "{text}: {:?}", report.faults);
        assert!(report.faults.is_empty(), "{text}: {:?}", report.faults);
        assert!(!report.judgements.is_empty() && losing(&report).is_empty(), "{text}: {:?}", losing(&report));
    }
    let mysql = "{\"host\": \"h\", \"enableKeepAlive\": true, \"keepAliveInitialDelay\": 300000}";
    let report = check("d.json", mysql, None, None, &Limits { age_ns: None, ..limits });
    assert!(report.kind == Some(Kind::Mysql2) && losing(&report).is_empty(), "{:?}", losing(&report));
}

/// "write instead in line 1: max-lifetime=1620000", of a line that said spring.datasource.hikari.max-lifetime: written so, nobody
/// would read it.
#[test]
fn advice_uses_the_full_setting_name() {
    let limits = Limits { age_ns: Some(1_800_000_000_000), ..Limits::default() };
    for (name, text) in [
        ("application.properties", "spring.datasource.hikari.max-lifetime=1800000\n"),
        ("application.yml", "spring.datasource.hikari.max-lifetime: 1800000\n"),
        ("a.ini", "[app]\nsqlalchemy.url = postgresql://u@h/d\nsqlalchemy.pool_recycle = 3600\n"),
    ] {
        let report = check(name, text, None, None, &limits);
        let told = fathom_settings::text(name, &report, false);
        let line = told.lines().find_map(|line| line.trim_start().strip_prefix("write instead in line "));
        let (number, new) = line.and_then(|line| line.split_once(": ")).unwrap_or_else(|| panic!("{told}"));
        let mut lines: Vec<&str> = text.lines().collect();
        lines[number.parse::<usize>().expect("a number") - 1] = new;
        let again = check(name, lines.join("\n"), None, None, &limits);
        assert!(!again.loses() && again.faults.is_empty(), "{name}: {told}");
        let whole = if name == "a.ini" { "sqlalchemy.pool_recycle" } else { "spring.datasource.hikari." };
        assert!(new.starts_with(whole), "{name}: {told}");
    }
}

/// A search that was stopped in its first second "found no limit: nothing loses against it".
#[test]
fn a_search_that_ended_early_says_nothing() {
    let stopped = r#"{"limit":"idle","verdict":"stopped","survived":{"idle_ns":500000000,"hits":3,"of":3,"share_95":[0.4,1.0]},
        "confirmed":false,"how":{},"strays":0,"by":"unknown","up_to_ns":8000000000,"took_ns":1000000000,"meanwhile":[],"lengths":[]}"#;
    let outcome =
        |text: &str| serde_json::from_str::<fathom_core::limits::Outcome>(text).expect("an outcome");
    assert!(Limits::of(&outcome(stopped)).expect_err("nothing is known").contains("ended early"));
    let whole = stopped.replace("stopped", "not_found");
    assert_eq!(Limits::of(&outcome(&whole)), Ok(Limits::default()));
    // "No limit", beside 25 connections of 96 that died: so it stands in older recordings.
    let rows = r#""lengths":[{"length_ns":1000000000,"survived":71,"least_ns":1000000000,"died":25,"most_ns":900000000,"void":0}]"#;
    let strays = whole.replace("\"lengths\":[]", rows).replace("\"strays\":0", "\"strays\":25");
    assert!(Limits::of(&outcome(&strays)).expect_err("many died").contains("25 of its connections died"));
    assert_eq!(Limits::of(&outcome(&strays.replace("25", "1"))), Ok(Limits::default()));
    let unclear =
        whole.replace("not_found", "unclear").replace("\"strays\"", "\"dies_from_ns\":3000000000,\"strays\"");
    assert!(Limits::of(&outcome(&unclear)).expect_err("unclear").contains("died from 3 s on"));
}
