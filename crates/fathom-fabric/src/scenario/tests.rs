use super::*;

/// Two hosts and the path between them.
const SMALL: &str = r#"format = 1
[[host]]
name = "a"
address = "10.0.0.1"
[[host]]
name = "b"
address = "10.0.0.2"
[[path]]
label = "ab"
from = "a"
to = "b"
both = { delay = "100us" }
"#;

fn wrong(text: &str) -> ScenarioError {
    Scenario::parse(text, "x.toml").expect_err("it must be refused")
}

/// The small scenario with one piece of it replaced.
fn with(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    SMALL.replacen(from, to, 1)
}

#[test]
fn a_small_scenario_reads_as_it_is_written() {
    let text = format!("{SMALL}loss = 1\n").replace("loss = 1\n", "");
    let scenario = Scenario::parse(&text, "small.toml").unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed, scenario.packet_log()), ("small.toml", 1, false));
    assert_eq!(scenario.hosts().len(), 2);
    assert_eq!(scenario.addresses("b"), Some(["10.0.0.2".parse().unwrap()].as_slice()));
    let path = scenario.path("ab").unwrap();
    assert_eq!((path.forward.delay_ns, path.backward.delay_ns), (100_000, 100_000));
    let (a, b) = (scenario.resolve("a").unwrap(), scenario.resolve("b").unwrap());
    assert_eq!(scenario.path_between(b, a).unwrap().label, "ab");
    let plan = scenario.plan();
    assert_eq!((plan.hosts.len(), plan.legs.len(), plan.routes.len()), (2, 1, 2));
}

#[test]
fn mistakes_have_line_column_and_remedy() {
    let event = |text: &str| format!("{SMALL}[[event]]\nat = \"1s\"\n{text}\n");
    let cases = [
        (with("format = 1", ""), 1, 1, "add format = 1"),
        (with("format = 1", "format = 2"), 1, 10, "reads format 1 only"),
        (with("format = 1", "format = 1\nhosts = 3"), 2, 1, "did you mean `host`?"),
        (
            with("delay = ", "dealy = "),
            12,
            10,
            "unknown key `dealy` in `both` of path \"ab\"; did you mean `delay`?",
        ),
        (with("\"100us\"", "\"100\""), 12, 18, "which unit?"),
        (with("\"100us\"", "100"), 12, 18, "must be a duration in quotes"),
        (with("\"100us\"", "\"100us\", mtu = 40"), 12, 8, "RFC 791"),
        (with("\"100us\"", "\"100us\", loss = 1.5"), 12, 34, "between 0 and 1"),
        (with("to = \"b\"", "to = \"bb\""), 11, 6, "there is no \"bb\""),
        (with("to = \"b\"", "to = \"a\""), 11, 6, "joins two nodes"),
        (with("to = \"b\"", "to = \"b\"\nvia = [\"fw\"]"), 12, 8, "add a [[middlebox]]"),
        (with("10.0.0.2", "10.0.0.1"), 7, 11, "which \"a\" has already"),
        (with("10.0.0.2", "10.0.0"), 7, 11, "write it as in 10.0.0.4"),
        (with("10.0.0.2", "127.0.0.1"), 7, 11, "unicast"),
        (with("name = \"b\"", "name = \"a\""), 6, 8, "used twice, first in line 3"),
        (with("name = \"b\"", "name = \"b b\""), 6, 8, "use letters"),
        (with("both = { delay = \"100us\" }", ""), 8, 1, "has no model; add rtt"),
        (with("both =", "forward ="), 8, 1, "add the other"),
        (with("both = {", "rtt = { mean = \"1ms\" }\nboth = {"), 8, 1, "keep one"),
        (
            with("both = { delay = \"100us\" }", "rtt = { mean = \"2ms\", min = \"4ms\" }"),
            12,
            7,
            "no mean lies below",
        ),
        (
            with("delay = \"100us\"", "jitter = { distribution = \"gama\" }"),
            12,
            36,
            "did you mean \"gamma\"?",
        ),
        (
            with("delay = \"100us\"", "jitter = { distribution = \"gamma\", mean = \"1us\" }"),
            12,
            19,
            "has no `sd`",
        ),
        (event("kind = \"host-pause\"\nhost = \"c\"\nduration = \"1s\""), 16, 8, "there is no \"c\""),
        (event("kind = \"host-pause\"\nhost = \"a\""), 13, 1, "add duration = \"2s\""),
        (event("every = \"1h\"\nkind = \"x\""), 13, 1, "add times = 60"),
        (event("every = \"0s\"\ntimes = 2\nkind = \"x\""), 15, 9, "longer than 0"),
        (event("every = \"1s\"\ntimes = 0\nkind = \"x\""), 16, 9, "between 1 and"),
        (event("times = 3\nkind = \"x\""), 15, 9, "add every"),
        (event("kind = \"link-cut\"\npath = \"ba\""), 16, 8, "there is no \"ba\""),
        (event("kind = \"link-cut\"\npath = \"ab\"\ndirection = \"up\""), 17, 13, "`forward`"),
        (event("kind = \"host-pose\"\nhost = \"a\""), 15, 8, "did you mean \"host-pause\"?"),
        (event("kind = \"flush-flows\"\nmiddlebox = \"fw\""), 16, 13, "there is no \"fw\""),
        (format!("{SMALL}[simulate]\nfor = \"0\"\n"), 14, 7, "longer than 0"),
        (format!("{SMALL}[[simulate.probe]]\npath = \"x\"\n"), 14, 8, "there is no \"x\""),
        (
            format!("{SMALL}[[simulate.probe]]\npath = \"ab\"\naddresses = [\"10.0.0.9\"]\n"),
            15,
            13,
            "add \"10.0.0.2\"",
        ),
        (
            format!("{SMALL}[[simulate.restart]]\nhost = \"x\"\nat = \"1s\"\nfor = \"1s\"\n"),
            14,
            8,
            "there is no \"x\"",
        ),
        ("format = 1\n[[host]\n".to_owned(), 2, 8, "expected"),
        ("format = 1\n".to_owned(), 1, 1, "add [[host]]"),
        ("format = 1\n[host]\nname = \"a\"\n".to_owned(), 2, 1, "double brackets"),
    ];
    for (text, line, column, part) in cases {
        let error = wrong(&text);
        assert!(error.message.contains(part), "{error} lacks {part:?} for\n{text}");
        assert_eq!((error.line, error.column), (line, column), "{error} for\n{text}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert!(error.to_string().starts_with(&format!("x.toml:{line}:{column}: ")), "{error}");
    }
}

#[test]
fn middlebox_parses_and_errors_have_positions() {
    let text = with("[[path]]", "[[middlebox]]\nname = \"fw\"\nkind = \"firewall\"\nidle = \"5m\"\n[[path]]")
        .replace("to = \"b\"", "to = \"b\"\nvia = [\"fw\"]");
    let scenario = Scenario::parse(&text, "x.toml").unwrap();
    let plan = scenario.plan();
    assert_eq!((plan.legs.len(), plan.stages.len()), (2, 1));
    assert_eq!((plan.legs[0].forward.delay_ns, plan.legs[1].forward.delay_ns), (100_000, 0));
    for (from, to, line, part) in [
        ("kind = \"firewall\"", "kind = \"firewal\"", 10, "firewall"),
        ("kind = \"firewall\"\n", "", 8, "kind = \"firewall\""),
        ("idle = \"5m\"", "idel = \"5m\"", 11, "idel"),
        ("idle = \"5m\"", "idle = \"5\"", 11, "unit"),
        ("idle = \"5m\"", "instances = 0", 8, "at least one instance"),
    ] {
        assert!(text.contains(from));
        let error = wrong(&text.replace(from, to));
        assert!(error.message.contains(part), "{error}");
        assert!(error.message.contains("middlebox \"fw\""), "{error}");
        assert_eq!(error.line, line, "{error}");
    }
    let event = "[[event]]\nat = \"1s\"\nkind = \"idle-limit\"\nmiddlebox = \"fw\"\nidle = \"30s\"\n";
    let scenario = Scenario::parse(&format!("{text}{event}"), "x.toml").unwrap();
    let Event::Stage { node, event: crate::event::StageEvent::IdleLimit { idle_ns } } =
        &scenario.events()[0].event
    else {
        panic!("{:?}", scenario.events())
    };
    assert_eq!((node.as_str(), *idle_ns), ("fw", 30_000_000_000));
    let single = scenario.event("kind = \"flush-flows\"\nmiddlebox = \"fw\"").unwrap();
    assert!(matches!(single, Event::Stage { .. }), "{single:?}");
    let error = scenario.event("kind = \"flush-flows\"\nmiddlebox = \"fw\"\nall = true").unwrap_err();
    assert!(error.line == 3 && error.message.contains("unknown key `all`"), "{error}");
    assert!(scenario.event("kind = \"flush-flows\"\nmiddlebox = \"fv\"").unwrap_err().message.contains("fv"));
}

#[test]
fn several_paths_join_two_hosts_by_their_addresses() {
    let text = with("address = \"10.0.0.2\"", "addresses = [\"10.0.0.2\", \"10.0.0.3\"]")
        + "[[path]]\nlabel = \"other\"\nfrom = \"a\"\nto = \"10.0.0.3\"\nboth = { delay = \"5ms\" }\n";
    let scenario = Scenario::parse(&text, "x.toml").unwrap();
    let to =
        |address: &str| scenario.path_between("10.0.0.1".parse().unwrap(), address.parse().unwrap()).unwrap();
    assert_eq!((to("10.0.0.2").label.as_str(), to("10.0.0.3").label.as_str()), ("ab", "other"));
    let error = wrong(&text.replace("to = \"10.0.0.3\"", "to = \"b\""));
    assert!(error.message.contains("\"ab\" and \"other\" both carry 10.0.0.1 to 10.0.0.2"), "{error}");
    assert_eq!(error.line, 13);
}

#[test]
fn path_to_middlebox_needs_its_address() {
    let text = with("[[path]]", "[[middlebox]]\nname = \"fw\"\nkind = \"firewall\"\n[[path]]")
        .replace("to = \"b\"", "to = \"fw\"");
    assert!(wrong(&text).message.contains("via = [\"fw\"]"));
}

#[test]
fn an_event_with_every_happens_so_often() {
    let text = format!(
        "{SMALL}[[event]]\nat = \"1h\"\nevery = \"1d\"\ntimes = 3\nkind = \"host-pause\"\nhost = \"a\"\nduration = \"1s\"\n\
         [[event]]\nat = \"2h\"\nkind = \"link-cut\"\npath = \"ab\"\n"
    );
    let scenario = Scenario::parse(&text, "x.toml").unwrap();
    let hours: Vec<u64> = scenario.events().iter().map(|event| event.at_ns / 3_600_000_000_000).collect();
    assert_eq!(hours, [1, 2, 25, 49]);
    assert!(matches!(scenario.events()[1].event, Event::LinkCut { .. }));
}
