//! Large requests: the time to send one is the path's, and the time to answer it the server's, with and without observation.
use crate::support::database::{result, says_the_same};
use crate::support::fabric::Fabric;
use crate::support::postgres::{self, Postgres, WITHOUT_OBSERVER};
use crate::support::probe::assert_sound;
use crate::support::rate::assert_rate;
use crate::support::{FATHOM, ended};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

const NARROW: &str = r#"
format = 1
[[host]]
name = "here"
address = "10.91.9.4"
[[host]]
name = "there"
address = "10.91.9.5"
[[path]]
label = "narrow"
from = "here"
to = "there"
both = { delay = "1ms", rate = "20Mbit/s", queue = "128KiB" }
"#;

/// Asks a query that is too long for an argument.
fn ask(mut command: Command, query: &str) -> Value {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(query.as_bytes()).unwrap();
    result(&ended(child))
}

fn share(outcome: &Value, party: &str) -> f64 {
    outcome["shares"][party]["estimate"].as_f64().unwrap_or_else(|| panic!("{outcome:#}"))
}

/// 2 MB of SQL over 20 Mbit/s take 0.8 s.
#[test]
fn slow_request_upload_is_attributed_to_path() {
    let Some(fabric) = Fabric::up(NARROW) else { return };
    let Some(server) = Postgres::start_with("10.91.9.5", |program| fabric.exec("there", program)) else {
        return;
    };
    let make = ["--json", "--count", "1", "--simple", "--query", WITHOUT_OBSERVER];
    result(&postgres::sql(fabric.on("here"), &server.url(), &make).output().unwrap());
    let query = format!("SELECT length('{}')", "x".repeat(2 << 20));
    for who in ["owner", "md5user"] {
        let url = server.url().replace("owner@", &format!("{who}@"));
        let dir = fabric.path(who);
        let arguments = ["--query", "-", "--count", "3", "--json", "--record", dir.to_str().unwrap()];
        let outcome = ask(postgres::sql(fabric.on("here"), &url, &arguments), &query);
        assert_eq!(outcome["verdict"]["party"], "path", "{who}: {outcome:#}");
        assert!(share(&outcome, "path") > 0.8, "{who}: {outcome:#}");
        says_the_same(&dir, &outcome);
        assert_sound(&dir);
    }
}

#[test]
fn large_request_server_time_is_not_path_time() {
    assert_rate(2, 3, large_requests_are_the_servers);
}

/// A server's kernel may delay the acknowledgement of the last bytes by 40 ms, a fifth of the answer's time here. It does so once
/// on a connection, near its beginning, so that each is asked one query.
fn large_requests_are_the_servers() {
    let Some(server) = Postgres::start() else { return };
    let query = format!("SELECT pg_sleep(0.2), length('{}')", "x".repeat(66_000));
    for url in [server.url(), server.url_without_observer()] {
        let arguments = ["--query", "-", "--connections", "5", "--count", "1", "--json"];
        let outcome = ask(postgres::sql(Command::new(FATHOM), &url, &arguments), &query);
        let of = |figure: &Value| figure.as_f64().unwrap_or_else(|| panic!("{outcome:#}"));
        assert_eq!(outcome["wall_ns"]["count"], 5, "{outcome:#}");
        assert_ne!(outcome["verdict"]["party"], "path", "{outcome:#}");
        assert!(of(&outcome["shares"]["path"]["low"]) < 0.02, "{outcome:#}");
        // On a busy machine queries may lack a split.
        let Some(path_ns) = outcome["path_ns"]["p50"].as_f64() else { continue };
        // The client notices the end of sending as late as it runs; half of all values are at most twice their mean.
        let late_ns = 2.0 * of(&outcome["kept_from_running_ns"]) / of(&outcome["path_ns"]["count"]);
        // A split leaves up to a quarter open, and the path may have half of that. The rest is for the kernel's tick.
        assert!(path_ns < 0.15 * of(&outcome["wall_ns"]["p50"]) + late_ns, "{outcome:#}");
    }
}
