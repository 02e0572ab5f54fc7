//! Files with several documents, and values that something else fills in, are judged as the framework reads them.

use fathom_settings::{Kind, Limits, Report, apply, check, text};

const S: u64 = 1_000_000_000;
const MIN: u64 = 60 * S;

fn idle() -> Limits {
    Limits { idle_ns: Some(4 * MIN), age_ns: None }
}

fn of(name: &str, content: &str) -> (Report, String) {
    let report = check(name, content, None, None, &idle());
    let faults: Vec<_> = report.faults.iter().map(|fault| fault.what.as_str()).collect();
    let said = format!("{content}\n{}{}", text(name, &report, false), faults.join("\n"));
    (report, said)
}

/// Line and verdict of each judgement.
fn verdicts(report: &Report) -> Vec<(usize, bool)> {
    report.judgements.iter().map(|judgement| (judgement.at.line, judgement.loses)).collect()
}

const FIRST: &str = "spring:\n  datasource:\n    hikari:\n      keepalive-time: 120000\n---\n";
const POOL: &str = "  datasource:\n    hikari:\n      maximum-pool-size: 50\n";

/// The second document lost, though what the first one sets counts there too.
#[test]
fn second_document_inherits_the_first() {
    for activation in [
        "spring:\n  config:\n    activate:\n      on-profile: prod\n",
        "spring:\n  config.activate.on-profile: \"prod & eu\"\n",
        "spring:\n  config:\n    activate:\n      on-profile:\n      - prod\n      - test\n",
        "spring:\n  config:\n    activate:\n      on-cloud-platform: kubernetes\n",
        "spring:\n  profiles: prod\n",
        "spring:\n",
    ] {
        let (report, said) = of("application.yml", &format!("{FIRST}{activation}{POOL}"));
        assert!(!report.judgements.is_empty() && !report.loses() && report.faults.is_empty(), "{said}");
        assert!(verdicts(&report).iter().all(|(line, _)| *line == 4), "{said}");
    }
    let properties = "spring.datasource.hikari.keepalive-time=120000\n#---\nspring.config.activate.on-profile=prod\nspring.datasource.hikari.maximum-pool-size=50\n";
    let (report, said) = of("application.properties", properties);
    assert_eq!((verdicts(&report), report.faults.len()), (vec![(1, false)], 0), "{said}");
}

/// Each profile is judged alone: another profile's settings neither help nor harm it.
#[test]
fn profiles_do_not_inherit_each_other() {
    let profile = |name: &str, setting: &str| {
        format!("---\nspring:\n  config.activate.on-profile: {name}\n  datasource.hikari:\n    {setting}\n")
    };
    let first = "spring:\n  datasource.hikari:\n    maximum-pool-size: 5\n";
    let content = format!(
        "{first}{}{}",
        profile("prod", "keepalive-time: 120000"),
        profile("test", "maximum-pool-size: 9")
    );
    let (report, said) = of("application.yml", &content);
    assert_eq!(verdicts(&report), [(3, true), (8, false), (13, true)], "{said}");
    let after = apply(&content, &report.edits);
    let (report, said) = of("application.yml", &after);
    assert!(!report.loses() && report.judgements.len() == 3, "{said}");
}

/// The last document that sets something counts.
#[test]
fn later_document_overrides_the_earlier() {
    let content = format!("{FIRST}spring:\n  datasource:\n    hikari:\n      keepalive-time: 600000\n");
    let (report, said) = of("application.yml", &content);
    assert_eq!(verdicts(&report), [(9, true)], "{said}");
    assert!(report.faults.is_empty(), "{said}");
    // Other software's documents are no layers.
    let (report, said) = of(
        "pools.yml",
        "a:\n  hikari:\n    keepalive-time: 120000\n---\na:\n  hikari:\n    maximum-pool-size: 5\n",
    );
    assert_eq!(verdicts(&report), [(3, false), (7, true)], "{said}");
}

/// The pool of all other profiles was not judged.
#[test]
fn pool_outside_a_profile_has_its_defaults() {
    let content = "spring:\n  datasource:\n    url: jdbc:x\n---\nspring:\n  config.activate.on-profile: prod\n  datasource.hikari:\n    keepalive-time: 120000\n";
    let (report, said) = of("application.yml", content);
    assert_eq!(verdicts(&report), [(3, true), (8, false)], "{said}");
}

/// A file for one profile overrides another file, which is unknown.
#[test]
fn profile_file_is_noted_as_such() {
    let content = "spring:\n  datasource:\n    hikari:\n      maximum-pool-size: 5\n";
    let noted = |name| of(name, content).0.notes.iter().any(|note| note.contains("lays this file over"));
    assert!(noted("config/application-prod.yml") && !noted("config/application.yml"));
}

/// A placeholder's default was not read: the setting was judged as if it were not there.
#[test]
fn placeholder_default_is_judged() {
    for (name, content, kind) in [
        (
            "application.yml",
            "spring:\n  datasource:\n    hikari:\n      keepalive-time: ${KEEPALIVE:@}\n",
            Kind::Hikari,
        ),
        (
            "application.properties",
            "spring.datasource.url=jdbc:x\nspring.datasource.hikari.keepalive-time=${pool.keepalive:${KEEPALIVE:@}}\n",
            Kind::Hikari,
        ),
        (".env", "CS=Host=h;Username=u;Keepalive=${KEEPALIVE:-@}\n", Kind::Npgsql),
        ("/etc/sysctl.conf", "net.ipv4.tcp_keepalive_time = ${TIME-@}\n", Kind::Sysctl),
    ] {
        let unit = if kind == Kind::Hikari { 1_000 } else { 1 };
        for (seconds, loses) in [(120, false), (600, true)] {
            let content = content.replace('@', &(seconds * unit).to_string());
            let (report, said) = of(name, &content);
            assert_eq!(report.kind, Some(kind), "{said}");
            assert_eq!(report.loses(), loses, "{said}");
            assert!(report.faults.is_empty(), "{said}");
            assert!(report.notes.iter().any(|note| note.contains("judged by the default")), "{said}");
            // The placeholder stays, with another default.
            let after = apply(&content, &report.edits);
            let (report, said) = of(name, &after);
            assert!(!report.loses() && after.contains("${"), "{said}");
        }
    }
}

/// "No connection is idle for longer than 30 s" was said of connections that a caller holds, too.
#[test]
fn held_connections_are_not_promised_anything() {
    for (content, words) in [
        ("jdbcUrl=x\nmaxLifetime=60000\n", "one that a caller holds may be"),
        ("jdbcUrl=x\nkeepaliveTime=60000\n", "one that a caller holds may be"),
        ("Host=h;Username=u;Keepalive=60\n", "no connection is silent for longer than 1m 0s"),
        ("Server=h;Initial Catalog=d;User ID=u\n", "no connection is silent for longer than 30 s"),
        ("{\"host\": \"h\", \"idleTimeoutMillis\": 60000}\n", "one that a caller holds may be"),
    ] {
        let (report, said) = of("-", content);
        assert!(!report.loses() && said.contains(words), "{said}");
    }
}
