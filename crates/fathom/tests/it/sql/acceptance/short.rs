//! Queries that are over before the server was observed often: what the server says once the answer is whole tells its time from
//! the path's.
use crate::support::database::{result, says_the_same};
use crate::support::fabric::Fabric;
use crate::support::postgres::{self, Postgres};
use crate::support::probe::assert_sound;
use crate::support::rate::assert_rate;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// 12 kB take 5 ms on this path.
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
/// One warm-up and 20 queries that count.
const COUNT: &str = "21";

/// The server certainly has less than half of the time, and the verdict does not name it.
fn is_not_the_servers(dir: &Path, outcome: &Value) {
    let [server, wall] = [&outcome["mean_ns"]["server"]["high"], &outcome["mean_ns"]["wall"]];
    assert!(2 * server.as_u64().unwrap() < wall.as_u64().unwrap(), "{outcome:#}");
    assert_ne!(outcome["verdict"]["party"], "server", "{outcome:#}");
    says_the_same(dir, outcome);
    assert_sound(dir);
}

#[test]
fn short_transfer_does_not_blame_server() {
    assert_rate(2, 3, short_transfers);
}

fn short_transfers() {
    let Some(fabric) = Fabric::up(PATH) else { return };
    let Some(server) = Postgres::start_with("10.91.10.5", |program| fabric.exec("there", program)) else {
        return;
    };
    let (_echo, mssql) = fabric.tds("there", "10.91.10.5");
    let query = "SELECT pg_catalog.repeat('x', 12000)";
    let postgres = postgres::sql(fabric.on("here"), &server.url(), &["--query", query]);
    let mut tds = fabric.on("here");
    tds.args(["sql", &mssql, "--rows", "12", "--row-bytes", "1000", "--quiet"]).stdin(Stdio::null());
    for (name, mut command) in [("postgres", postgres), ("mssql", tds)] {
        let dir = fabric.path(name);
        command.args(["--count", COUNT, "--json", "--record"]).arg(&dir);
        is_not_the_servers(&dir, &result(&command.output().unwrap()));
    }
}
