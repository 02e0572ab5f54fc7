use super::*;
use crate::policy::{BreakerRule, Fallback, RecoveryRule, Window};

fn wrong(text: &str) -> String {
    let error = Policy::parse("p.toml", text).expect_err(text).to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn empty_policy_file_gives_defaults() {
    assert_eq!(Policy::parse("p.toml", ""), Ok(Policy::default()));
    let policy = Policy::parse("p.toml", "[retry]\n[breaker]\n").expect("sound");
    assert_eq!((policy.retry, policy.breaker), (Some(Retry::default()), Some(BreakerRule::default())));
}

#[test]
fn every_key_is_read() {
    let text = r#"
        [request]
        size = 256
        idempotent = true
        deadline = "2s"
        try_timeout = "300ms"
        [retry]
        at_most = 4
        first = "50ms"
        cap = "1s"
        jitter = "decorrelated"
        budget = { tokens = 20, ratio = 0.5 }
        [connection]
        connect_timeout = "1s"
        keepalive = "30s"
        user_timeout = "10s"
        age = "4h"
        age_jitter = "10m"
        [pool]
        min = 2
        max = 20
        wait = "700ms"
        order = "fifo"
        idle = "5m"
        validate_after = 0
        check_every = "30s"
        validation_timeout = "200ms"
        [breaker]
        window = "30s"
        least = 5
        failures = "40%"
        open = "3s"
        trials = 2
        [recovery]
        every = "500ms"
        after = 3
        timeout = "250ms"
        [fallback]
        target = "db2:7007"
    "#;
    let ms = |n: u64| n * MS;
    let expected = Policy {
        requests: Requests { size: 256, idempotent: true, deadline_ns: ms(2_000), try_timeout_ns: ms(300) },
        retry: Some(Retry {
            at_most: 4,
            backoff: Backoff { first_ns: ms(50), cap_ns: ms(1_000), jitter: Jitter::Decorrelated },
            budget: Some(BudgetRule::Throttle { tokens: 20, ratio: 0.5 }),
        }),
        connect_timeout_ns: ms(1_000),
        keepalive_ns: Some(30 * S),
        user_timeout_ns: Some(10 * S),
        age: Some(Age { at_most_ns: 4 * 3_600 * S, jitter_ns: 600 * S }),
        pool: PoolRule {
            min: 2,
            max: 20,
            wait_ns: ms(700),
            order: Order::Fifo,
            idle_ns: Some(300 * S),
            validate_after_ns: Some(0),
            check_every_ns: Some(30 * S),
            validation_timeout_ns: ms(200),
        },
        breaker: Some(BreakerRule {
            window: Window::Ns(30 * S),
            least: 5,
            failures: 0.4,
            open_ns: 3 * S,
            trials: 2,
        }),
        recovery: Some(RecoveryRule { every_ns: ms(500), after: 3, timeout_ns: ms(250) }),
        fallback: Some(Fallback::Target("db2:7007".to_owned())),
    };
    assert_eq!(Policy::parse("p.toml", text), Ok(expected));
    let other = "[retry]\nbudget = { share = \"10%\", burst = 3 }\n[breaker]\nwindow = 20\n[fallback]\nlast_answer = \"5m\"";
    let policy = Policy::parse("p.toml", other).expect("sound");
    assert_eq!(policy.retry.and_then(|retry| retry.budget), Some(BudgetRule::Share { share: 0.1, burst: 3 }));
    assert_eq!(policy.breaker.map(|b| (b.window, b.least)), Some((Window::Count(20), 20)));
    assert_eq!(policy.fallback, Some(Fallback::LastAnswer(300 * S)));
    let none = Policy::parse("p.toml", "[retry]\nbudget = \"none\"").expect("sound");
    assert_eq!(none.retry.map(|retry| retry.budget), Some(None));
}

/// Each says where and what; a contradiction also says what to do.
#[test]
fn error_has_place_cause_and_remedy() {
    for (text, place, what, remedy) in [
        (
            "[recovery]\nevery = \"1s\"",
            "p.toml:1:1: ",
            "[recovery] does nothing without a breaker",
            "add [breaker]",
        ),
        (
            "[breaker]\nopen = \"3s\"\n[recovery]\nevery = \"1s\"\nafter = 3",
            "p.toml:4:9: ",
            "3 checks, one every 1s, are not over before the breaker's `open` 3s",
            "lower `every` or `after`",
        ),
        ("[breaker]\n[recovery]\nevery = \"9ms\"", "p.toml:3:9: ", "`every` is below 10ms", "write more"),
        (
            "[pool]\nwait = \"1s\"\nvalidation_timeout = \"2s\"\nvalidate_after = 0",
            "p.toml:3:22: ",
            "`validation_timeout` 2s is above the pool's `wait` 1s",
            "raise `wait`",
        ),
        ("[pool]\nmin = 5\nmax = 2", "p.toml:2:7: ", "`min` 5 is above `max` 2", "raise `max`"),
        (
            "[connection]\nage = \"1m\"\nkeepalive = \"1m\"",
            "p.toml:3:13: ",
            "`keepalive` 1m 0s is not below `age` 1m 0s",
            "lower it",
        ),
        (
            "[connection]\nage = \"1m\"\nage_jitter = \"1m\"",
            "p.toml:3:14: ",
            "`age_jitter` 1m 0s is not below",
            "lower it",
        ),
        ("[connection]\nage_jitter = \"1m\"", "p.toml:2:14: ", "without `age`", "add age"),
        (
            "[connection]\nage = \"1m\"\n[pool]\nidle = \"2m\"",
            "p.toml:4:8: ",
            "`idle` 2m 0s is not below `age`",
            "lower it",
        ),
        (
            "[request]\ndeadline = \"1s\"\ntry_timeout = \"2s\"",
            "p.toml:3:15: ",
            "`try_timeout` 2s is above `deadline` 1s",
            "raise `deadline`",
        ),
        (
            "[retry]\nfirst = \"3s\"\ncap = \"2s\"",
            "p.toml:2:9: ",
            "`first` 3s is above `cap` 2s",
            "raise `cap`",
        ),
        (
            "[retry]\nbudget = { share = 0.2, tokens = 4 }",
            "p.toml:2:10: ",
            "either a share or tokens",
            "write budget = ",
        ),
        ("[retry]\nbudget = { share = 0, burst = 0 }", "p.toml:2:10: ", "allows no retry", "raise `share`"),
        ("[breaker]\nwindow = 10\nleast = 11", "p.toml:3:9: ", "would never open", "raise `window`"),
        ("[breaker]\nfailures = 0", "p.toml:2:12: ", "at once", "\"50%\""),
        ("[pool]\nvalidation_timeout = \"1s\"", "p.toml:2:22: ", "does nothing", "add validate_after"),
        ("[fallback]\ntarget = \"a\"\nlast_answer = \"1s\"", "p.toml:1:1: ", "one of two", "write target"),
        ("[fallback]\n", "p.toml:1:1: ", "one of two", "write target"),
        ("[pool]\nsize = 5", "p.toml:2:1: ", "unknown key `size`, expected one of `min`, `max`", ""),
        ("[retries]\n", "p.toml:1:2: ", "unknown key `retries`, expected one of `request`, `retry`", ""),
        ("[pool]\nwait = 5", "p.toml:2:8: ", "a duration with its unit", ""),
        ("[pool]\nwait = \"5\"", "p.toml:2:8: ", "which unit? write 5s", ""),
        ("[pool]\nwait = \"soon\"", "p.toml:2:8: ", "write a duration as in", ""),
        ("[pool]\nwait = 0", "p.toml:2:8: ", "`wait` is below 1ms; write more", ""),
        ("[pool]\nmax = -1", "p.toml:2:7: ", "`max` goes from 1 to 10000, not -1", ""),
        ("[pool]\norder = \"random\"", "p.toml:2:9: ", "write \"fifo\" or \"lifo\"", ""),
        (
            "[retry]\njitter = \"half\"",
            "p.toml:2:10: ",
            "write \"none\", \"full\", \"equal\" or \"decorrelated\"",
            "",
        ),
        ("[retry]\nat_most = 0", "p.toml:2:11: ", "`at_most` goes from 1 to 100", ""),
        ("[retry]\nbudget = \"much\"", "p.toml:2:10: ", "or \"none\"", ""),
        ("[retry]\nbudget = { part = 1 }", "p.toml:2:12: ", "unknown key `part`", ""),
        ("[breaker]\nfailures = 50", "p.toml:2:12: ", "a share from 0 to 1", ""),
        ("[breaker]\nfailures = \"101%\"", "p.toml:2:12: ", "no share", ""),
        ("[breaker]\nwindow = 0", "p.toml:2:10: ", "from 1 on", ""),
        ("[request]\nidempotent = \"yes\"", "p.toml:2:14: ", "write true or false", ""),
        ("[request]\nsize = 12", "p.toml:2:8: ", "`size` goes from 64 to 1048576, not 12", ""),
        ("[connection]\nkeepalive = \"1500ms\"", "p.toml:2:13: ", "whole seconds", ""),
        ("[connection]\nkeepalive = \"32768s\"", "p.toml:2:13: ", "the most that Linux takes", ""),
        ("[connection]\nuser_timeout = \"597h\"", "p.toml:2:16: ", "the most that Linux takes", ""),
        ("[pool\n", "p.toml:1:6: ", "", ""),
        ("[pool]\nmin = 1\nmin = 2", "p.toml:3:1: ", "duplicate key", ""),
    ] {
        let error = wrong(text);
        assert!(
            error.starts_with(place) && error.contains(what) && error.contains(remedy),
            "{text}\n{error}"
        );
    }
}

/// Every key with a value of every wrong kind: the message has its place, and no word of the parser's.
#[test]
fn wrong_type_error_hides_parser_terms() {
    const KEYS: [&str; 35] = [
        "request",
        "request.size",
        "request.idempotent",
        "request.deadline",
        "request.try_timeout",
        "retry",
        "retry.at_most",
        "retry.first",
        "retry.cap",
        "retry.jitter",
        "retry.budget",
        "retry.budget.share",
        "retry.budget.burst",
        "retry.budget.tokens",
        "retry.budget.ratio",
        "connection",
        "connection.connect_timeout",
        "connection.keepalive",
        "connection.age",
        "pool",
        "pool.min",
        "pool.max",
        "pool.wait",
        "pool.order",
        "pool.idle",
        "pool.validate_after",
        "breaker",
        "breaker.window",
        "breaker.least",
        "breaker.failures",
        "breaker.open",
        "breaker.trials",
        "fallback",
        "fallback.target",
        "fallback.last_answer",
    ];
    const VALUES: [&str; 10] =
        ["5", "-1", "1.5", "nan", "\"x\"", "true", "[1]", "{ x = 1 }", "1979-05-27", "99999999999999999999"];
    const PARSERS: [&str; 16] = [
        "struct",
        "i64",
        "u64",
        "i128",
        "u128",
        "f64",
        "variant",
        "enum",
        "sequence",
        " map",
        "invalid type",
        "invalid value",
        "serde",
        "expected a",
        "wanted",
        "Spanned",
    ];
    let mut told = 0;
    for key in KEYS {
        for value in VALUES {
            let Err(error) = Policy::parse("p.toml", &format!("{key} = {value}\n")) else { continue };
            let error = error.to_string();
            told += 1;
            assert!(error.starts_with("p.toml:1:") && error.lines().count() == 1, "{key} = {value}: {error}");
            let of_the_parser = PARSERS.iter().find(|word| error.contains(*word));
            assert_eq!(of_the_parser, None, "{key} = {value}: {error}");
        }
    }
    assert!(told > 250, "{told}");
    // A list was taken for the values of the first few keys.
    for list in ["[[pool]]\n", "pool = [1, 2]\n"] {
        assert!(
            wrong(list).contains("a list cannot stand here; write a table of keys, as [pool] begins one")
        );
    }
    assert!(wrong("[pool]\nmax = \"10\"").contains("p.toml:2:7: \"10\" is text: write a whole number"));
}

#[test]
fn what_is_no_text_has_its_place() {
    let error = Policy::read("p.toml", b"[pool]\nmax = 1\n# caf\xe9\n").expect_err("latin 1").to_string();
    assert_eq!(error, "p.toml:3:6: the byte 0xe9 is no UTF-8 text; save the file as UTF-8, or name another");
    // What Windows' editors put before UTF-8 is none of the text.
    assert!(Policy::read("p.toml", b"\xef\xbb\xbf[pool]\nmax = 1\nmin = 1\n").is_ok());
}
