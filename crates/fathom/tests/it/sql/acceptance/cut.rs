//! `fathom sql` over a path that is cut for a second and a half, once or twice, in one direction or both: the server is not
//! blamed.
use crate::support::database::{begun, far, recorded, result, says_the_same};
use crate::support::fabric::Fabric;
use crate::support::postgres::{self, Postgres};
use crate::support::probe::assert_sound;
use crate::support::{FATHOM, ended, signal, wait_for};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The server does next to nothing, at three rates; it makes rows of 10 ms each; and it has more of each query than the path,
/// but less of the run.
const NOTHING: &str = "SELECT 1";
const ROWS: &str = "SELECT pg_sleep(0.01), repeat('x', 2000) FROM generate_series(1, 60)";
const RUNS: [(&str, &[&str]); 5] = [
    ("half", &["--query", "SELECT pg_sleep(0.03)", "--count", "110"]),
    ("every-100", &["--query", NOTHING, "--every", "100ms", "--for", "5m"]),
    ("every-10", &["--query", NOTHING, "--every", "10ms", "--reflector", "10.91.7.5:7", "--for", "5m"]),
    ("at-once", &["--query", NOTHING, "--for", "5m"]),
    ("rows", &["--query", ROWS, "--reflector", "10.91.7.5:7", "--for", "5m"]),
];

/// Wall time of a query, and the server's part of it: the least and the estimate.
#[expect(clippy::struct_field_names, reason = "all are times")]
struct Row {
    wall_ns: i64,
    low_ns: i64,
    estimate_ns: Option<i64>,
}

/// The queries that have a whole answer.
fn rows(dir: &Path) -> Vec<Row> {
    let rows = recorded(dir, ["wall_ns", "server_low_ns", "server_ns"]).into_iter();
    rows.filter(|(_, failed)| !failed)
        .map(|([wall, low, estimate_ns], _)| Row {
            wall_ns: wall.expect("a time"),
            low_ns: low.expect("a time"),
            estimate_ns,
        })
        .collect()
}

fn begin(mut command: Command, dir: &Path) -> Child {
    command.arg("--record").arg(dir);
    begun(command)
}

/// Queries of a run so far, as its recording has them.
fn so_far(dir: &Path) -> u64 {
    let out = Command::new(FATHOM).args(["recording", "summary", "--json"]).arg(dir).output().unwrap();
    let summary: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    summary["queries"]["queries"].as_u64().unwrap_or(0)
}

/// The run's result, which its recording repeats, and its rows.
fn end(child: Child, dir: &Path) -> (Value, Vec<Row>) {
    let outcome = result(&ended(child));
    assert_sound(dir);
    says_the_same(dir, &outcome);
    (outcome, rows(dir))
}

#[test]
fn cut_path_is_not_blamed_on_server() {
    let Some(fabric) = far("10.91.7.4", "10.91.7.5") else { return };
    let Some(postgres) = Postgres::start_with("10.91.7.5", |program| fabric.exec("there", program)) else {
        return;
    };
    let _reflector = fabric.reflector("there");
    for direction in ["forward", "backward"] {
        cut_twice(&fabric, &postgres, direction);
    }
    for direction in ["forward", "backward", "both"] {
        cut_at_the_end(&fabric, &postgres, direction);
    }
}

fn cut(fabric: &Fabric, direction: &str) {
    fabric.must("event", &format!("link-cut --path far --direction {direction} --for 1500ms"));
}

fn cut_twice(fabric: &Fabric, postgres: &Postgres, direction: &str) {
    let runs = RUNS.map(|(name, arguments)| {
        let dir = fabric.path(&format!("{direction}-{name}"));
        let command = postgres::sql(fabric.on("here"), &postgres.url(), arguments);
        (name, begin(command, &dir), dir)
    });
    let on = |dir: &PathBuf, more: u64| {
        let before = so_far(dir);
        wait_for("further queries", || (so_far(dir) >= before + more).then_some(()));
    };
    for (_, _, dir) in &runs {
        on(dir, 2);
    }
    for _ in 0..2 {
        cut(fabric, direction);
        // The query under way and the next one: the second cut comes while the first is still remembered.
        on(&runs[3].2, 2);
    }
    on(&runs[4].2, 2);
    for (name, child, dir) in runs {
        if name != "half" {
            signal(&child, "INT");
        }
        let (outcome, rows) = end(child, &dir);
        let what = format!("{direction}, {name}");
        // A cut query waits for at least two of TCP's shortest time-outs.
        let least_ns = rows.iter().map(|row| row.wall_ns).min().unwrap();
        let cut_ones: Vec<&Row> = rows.iter().filter(|row| row.wall_ns > least_ns + 600_000_000).collect();
        assert!(!cut_ones.is_empty(), "{what}: {outcome:#}");
        for row in cut_ones {
            let own_ns = if name == "rows" { least_ns + least_ns / 4 } else { row.wall_ns / 6 };
            assert!(row.low_ns <= own_ns, "{what}: {} of {} ns", row.low_ns, row.wall_ns);
            let most_ns = own_ns.max(row.wall_ns / 2);
            assert!(
                row.estimate_ns.is_none_or(|ns| ns <= most_ns),
                "{what}: {:?} of {} ns",
                row.estimate_ns,
                row.wall_ns
            );
        }
        if name != "rows" {
            assert_ne!(outcome["verdict"]["party"], "server", "{what}: {outcome:#}");
        }
    }
}

/// The cut delays the answer to the run's last query, for which the server sleeps a second.
fn cut_at_the_end(fabric: &Fabric, postgres: &Postgres, direction: &str) {
    let dir = fabric.path(&format!("{direction}-end"));
    let arguments = ["--count", "1", "--query", "SELECT pg_sleep(1)"];
    let child = begin(postgres::sql(fabric.on("here"), &postgres.url(), &arguments), &dir);
    let asleep =
        ["--count", "1", "--json", "--query", "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"];
    wait_for("a server that sleeps", || {
        let out = postgres::sql(fabric.on("there"), &postgres.url(), &asleep).output().unwrap();
        (result(&out)["rows"] == 1).then_some(())
    });
    cut(fabric, direction);
    let (outcome, rows) = end(child, &dir);
    let row = &rows[0];
    assert!(row.low_ns <= 1_100_000_000, "{direction}: {} of {} ns: {outcome:#}", row.low_ns, row.wall_ns);
    assert!(
        row.estimate_ns.is_none_or(|ns| ns <= 1_300_000_000),
        "{direction}: {:?} of {} ns",
        row.estimate_ns,
        row.wall_ns
    );
}
