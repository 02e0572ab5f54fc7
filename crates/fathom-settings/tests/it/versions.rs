//! Versions that know the advised settings, by the tags of each library.

use fathom_settings::{Kind, Limits, Report, Version, apply, check, text};

const S: u64 = 1_000_000_000;
const MIN: u64 = 60 * S;

fn both() -> Limits {
    Limits { idle_ns: Some(4 * MIN), age_ns: Some(30 * MIN) }
}

/// A file, a setting that is advised for it, and the last version without that and the first one with it.
type Case = (Kind, &'static str, &'static str, &'static str, &'static str);

const CASES: [Case; 5] = [
    (Kind::Hikari, "jdbcUrl=x\nmaximumPoolSize=5\n", "keepaliveTime", "3.4.5", "4.0.0"),
    (Kind::Npgsql, "Host=h;Username=u\n", "Connection Lifetime", "4.1.9", "5.0.0"),
    (Kind::NodePostgres, "{\"host\": \"h\", \"max\": 5}\n", "maxLifetimeSeconds", "8.7.2", "8.7.3"),
    (Kind::Mysql2, "{\"host\": \"h\", \"connectionLimit\": 5}\n", "keepAliveInitialDelay", "2.0.2", "2.1.0"),
    (Kind::Pgx, "postgres://h/d?pool_max_conns=4\n", "pool_max_conn_idle_time", "4.3.0", "4.4.0"),
];

fn of(case: &Case, version: Option<&str>) -> (Report, String) {
    let version = version.map(|version| version.parse::<Version>().expect("a version"));
    let report = check("x", case.1, Some(case.0), version, &both());
    let said = format!("{version:?}: {}", text("x", &report, false));
    (report, said)
}

fn advises(report: &Report, setting: &str) -> bool {
    report.judgements.iter().flat_map(|judgement| &judgement.write).any(|line| line.text.contains(setting))
}

/// `HikariCP` 2.4.7 was told to set keepaliveTime, which exists since 4.0.0.
#[test]
fn advice_uses_settings_of_that_version() {
    for case in &CASES {
        let (_, _, setting, without, with) = *case;
        let (report, said) = of(case, Some(without));
        assert!(!advises(&report, setting), "{said}");
        let after = apply(case.1, &report.edits);
        let version = without.parse().expect("a version");
        let again = check("x", &after, Some(case.0), Some(version), &both());
        assert!(again.faults.is_empty(), "{after}: {:?}", again.faults);
        // Pgxpool's and Npgsql's idleness is bounded without advice since some versions.
        let (report, said) = of(case, Some(with));
        let loses = report.judgements.iter().any(|judgement| judgement.loses && judgement.setting == setting);
        assert!(advises(&report, setting) || !loses, "{said}");
    }
    let (report, said) = of(&CASES[0], Some("2.4.7"));
    assert!(advises(&report, "maxLifetime") && !said.contains("keepalive"), "{said}");
}

/// If the version is unknown, the advice names the first version that has the setting.
#[test]
fn advice_names_first_version_with_setting() {
    for case in CASES.iter().take(4) {
        let (_, _, setting, _, with) = *case;
        let (report, said) = of(case, None);
        let lines = report.judgements.iter().flat_map(|judgement| &judgement.write);
        let mut of_setting = lines.filter(|line| line.text.contains(setting)).peekable();
        assert!(of_setting.peek().is_some(), "{said}");
        assert!(of_setting.all(|line| line.since.is_some_and(|since| since.to_string() == with)), "{said}");
        assert!(said.contains(&format!("has that setting since {with}")), "{said}");
    }
}

/// A file that has the setting belongs to a version that knows it.
#[test]
fn set_setting_tells_the_version() {
    let content = "jdbcUrl=x\nkeepaliveTime=600000\n";
    let limits = Limits { age_ns: None, ..both() };
    let report = check("h.properties", content, None, None, &limits);
    let said = text("h.properties", &report, false);
    assert!(
        said.contains("write instead in line 2: keepaliveTime=120000\n") && !said.contains("since"),
        "{said}"
    );
    let after = apply(content, &report.edits);
    assert!(!check("h.properties", &after, None, None, &limits).loses(), "{after}");
}

/// mysql2 has TCP keepalives since 2.1.0, and no setting turned them off before 3.3.2.
#[test]
fn mysql2_keepalives_follow_its_versions() {
    let content = "{\"host\": \"h\", \"enableKeepAlive\": false, \"keepAliveInitialDelay\": 60000}\n";
    let limits = Limits { age_ns: None, ..both() };
    for (version, loses) in [("2.1.0", false), ("3.3.1", false), ("3.3.2", true)] {
        let version = Some(version.parse().expect("a version"));
        let report = check("db.json", content, Some(Kind::Mysql2), version, &limits);
        assert_eq!(report.loses(), loses, "{version:?}: {}", text("db.json", &report, false));
    }
}
