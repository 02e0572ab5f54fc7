//! Queries that are over before the server was seen often: what it says once the answer is whole tells it from the path.
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use crate::support::database::{result, says_the_same};
use crate::support::fabric::Fabric;
use crate::support::postgres::{self, Postgres};
use crate::support::probe::assert_sound;

/// Twelve kilobytes take 5 ms on the way.
const PATH: &str = r#"
format = 1
[[host]]
name = "here"
address = "10.91.10.4"
[[host]]
name = "there"
address = "10.91.10.5"
[[path]]
label = "wide"
from = "here"
to = "there"
both = { delay = "1ms", rate = "20Mbit/s", queue = "4MiB" }
"#;
const COUNT: u64 = 20;

/// The server has less than half of it for sure, and is not who most of it is said to be.
fn is_not_the_servers(dir: &Path, outcome: &Value) {
    let [server, wall] = [&outcome["mean_ns"]["server"]["high"], &outcome["mean_ns"]["wall"]];
    assert!(2 * server.as_u64().unwrap() < wall.as_u64().unwrap(), "{outcome:#}");
    assert_ne!(outcome["verdict"]["party"], "server", "{outcome:#}");
    says_the_same(dir, outcome);
    assert_sound(dir);
}

fn count() -> String {
    (COUNT + 1).to_string()
}

#[test]
fn short_postgresql_transfer_does_not_blame_server() {
    let Some(fabric) = Fabric::up(PATH) else { return };
    let Some(server) = Postgres::start_with("10.91.10.5", |program| fabric.exec("there", program)) else {
        return;
    };
    let dir = fabric.path("postgres");
    let (count, query) = (count(), "SELECT pg_catalog.repeat('x', 12000)");
    let arguments = ["--query", query, "--count", &count, "--json", "--record", dir.to_str().unwrap()];
    let outcome = result(&postgres::sql(fabric.on("here"), &server.url(), &arguments).output().unwrap());
    is_not_the_servers(&dir, &outcome);
}

#[test]
fn short_mssql_transfer_does_not_blame_server() {
    let Some(fabric) = Fabric::up(PATH) else { return };
    let (_echo, url) = fabric.tds("there", "10.91.10.5");
    let dir = fabric.path("mssql");
    let count = count();
    let arguments =
        ["--rows", "12", "--row-bytes", "1000", "--count", &count, "--json", "--quiet", "--record"];
    let mut command: Command = fabric.on("here");
    command.args(["sql", &url]).args(arguments).arg(&dir).stdin(Stdio::null());
    let outcome = result(&command.output().unwrap());
    is_not_the_servers(&dir, &outcome);
}
