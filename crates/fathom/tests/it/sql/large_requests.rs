//! Requests that do not go at once: what the path took to carry one is not the server's, and what the server took to answer one not the
//! path's, whoever may look and whoever may not.
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};
use crate::support::FATHOM;
use crate::support::database::{result, says_the_same};
use crate::support::fabric::Fabric;
use crate::support::postgres::{self, Postgres};
use crate::support::probe::assert_sound;

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

/// Asks what is too long for an argument.
fn ask(mut command: Command, query: &str) -> Value {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(query.as_bytes()).unwrap();
    result(&child.wait_with_output().unwrap())
}

/// The estimate.
fn share(outcome: &Value, party: &str) -> f64 {
    outcome["shares"][party]["estimate"].as_f64().unwrap_or_else(|| panic!("{outcome:#}"))
}

/// 2 MB of SQL over 20 Mbit/s, which take 0.8 s, by a user who may look and one who may not: "server, high" (a stranger).
#[test]
fn slow_request_upload_is_attributed_to_path() {
    let Some(fabric) = Fabric::up(NARROW) else { return };
    let Some(server) = Postgres::start_with("10.91.9.5", |program| fabric.exec("there", program)) else {
        return;
    };
    let query = format!("SELECT length('{}')", "x".repeat(2 << 20));
    for who in ["owner", "md5user"] {
        if who == "md5user" {
            for statement in [
                "CREATE USER md5user PASSWORD 's3cret-w0rd'",
                "REVOKE EXECUTE ON FUNCTION pg_stat_get_activity FROM PUBLIC",
            ] {
                let once = ["--json", "--count", "1", "--simple", "--query", statement];
                result(&postgres::sql(fabric.on("here"), &server.url(), &once).output().unwrap());
            }
        }
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

/// A server's kernel may put the acknowledgement of the last bytes off for 40 ms, while its process has not answered: a fifth of what that
/// takes here. It does so once on a connection, near its beginning, so that each is asked one query.
#[test]
fn large_request_server_time_is_not_path_time() {
    let Some(server) = Postgres::start() else { return };
    let query = format!("SELECT pg_sleep(0.2), length('{}')", "x".repeat(66_000));
    for url in [server.url(), server.url_of_who_may_not_look()] {
        let arguments = ["--query", "-", "--connections", "5", "--count", "1", "--json"];
        let outcome = ask(postgres::sql(Command::new(FATHOM), &url, &arguments), &query);
        let of = |figure: &Value| figure.as_f64().unwrap_or_else(|| panic!("{outcome:#}"));
        assert_eq!(outcome["wall_ns"]["count"], 5, "{outcome:#}");
        assert_ne!(outcome["verdict"]["party"], "path", "{outcome:#}");
        assert!(of(&outcome["shares"]["path"]["low"]) < 0.02, "{outcome:#}");
        // On a busy machine some have no split, which the shares take half of what is open of; or none has one.
        let Some(path_ns) = outcome["path_ns"]["p50"].as_f64() else { continue };
        // When all was sent this side sees as late as it runs; half of all values are at most twice their mean.
        let late_ns = 2.0 * of(&outcome["kept_from_running_ns"]) / of(&outcome["path_ns"]["count"]);
        // Of a query that has a split up to a quarter is open, of which the path may have half. The rest is for the kernel's tick.
        assert!(path_ns < 0.15 * of(&outcome["wall_ns"]["p50"]) + late_ns, "{outcome:#}");
    }
}
