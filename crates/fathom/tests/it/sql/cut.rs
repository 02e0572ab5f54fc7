//! `fathom sql` over a path that is cut for a second and a half, and again, one way or both: what nobody can split is not the server's.
use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use crate::support::database::{far, says_the_same};
use crate::support::fabric::Fabric;
use crate::support::postgres::{self, Postgres};
use crate::support::probe::assert_sound;
use crate::support::{FATHOM, ended, signal, wait_for};

/// The server does next to nothing, at three rates; it makes rows, 10 ms each, while they are read; and it has more of each query than the
/// path, and less of the run, of which two cuts are a third and more.
const NOTHING: &str = "SELECT 1";
const ROWS: &str = "SELECT pg_sleep(0.01), repeat('x', 2000) FROM generate_series(1, 60)";
const RUNS: [(&str, &[&str]); 5] = [
    ("half", &["--query", "SELECT pg_sleep(0.03)", "--count", "110"]),
    ("every-100", &["--query", NOTHING, "--every", "100ms", "--for", "5m"]),
    ("every-10", &["--query", NOTHING, "--every", "10ms", "--reflector", "10.91.7.5:7", "--for", "5m"]),
    ("at-once", &["--query", NOTHING, "--for", "5m"]),
    ("rows", &["--query", ROWS, "--reflector", "10.91.7.5:7", "--for", "5m"]),
];

/// Wall time, and of it the server's at the least and by the estimate.
#[expect(clippy::struct_field_names, reason = "times, each of its own kind")]
struct Row {
    wall_ns: i64,
    low_ns: i64,
    estimate_ns: Option<i64>,
}

fn rows(dir: &Path) -> Vec<Row> {
    let reader =
        ParquetRecordBatchReader::try_new(File::open(dir.join("queries-00000.parquet")).unwrap(), 65_536);
    let mut rows = vec![];
    for batch in reader.unwrap() {
        let batch = batch.unwrap();
        let [wall, low, estimate] = ["wall_ns", "server_low_ns", "server_ns"]
            .map(|name| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>());
        // The one that was ended with the run is none of it.
        let failed = batch.column_by_name("error").unwrap();
        rows.extend((0..batch.num_rows()).filter(|&i| failed.is_null(i)).map(|i| Row {
            wall_ns: wall.value(i),
            low_ns: low.value(i),
            estimate_ns: estimate.is_valid(i).then(|| estimate.value(i)),
        }));
    }
    rows
}

fn begin(mut command: Command, dir: &Path) -> Child {
    command.args(["--json", "--record"]).arg(dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Queries of a run so far, as its recording has them.
fn so_far(dir: &Path) -> u64 {
    let out = Command::new(FATHOM).args(["recording", "summary", "--json"]).arg(dir).output().unwrap();
    let summary: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    summary["queries"]["queries"].as_u64().unwrap_or(0)
}

/// What the run came to, which its recording says again, and its rows.
fn end(child: Child, dir: &Path) -> (Value, Vec<Row>) {
    let output = ended(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_sound(dir);
    says_the_same(dir, &outcome);
    (outcome, rows(dir))
}

/// "Seems to be the server", of a path that was cut for 1.5 s (a stranger).
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
        // The one that is under way, and one after the cut: so the next comes while echoes of this one are remembered.
        on(&runs[3].2, 2);
    }
    on(&runs[4].2, 2);
    for (name, child, dir) in runs {
        if name != "half" {
            signal(&child, "INT");
        }
        let (outcome, rows) = end(child, &dir);
        let what = format!("{direction}, {name}");
        // Cut ones wait for twice the least timeout at the least.
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

/// The last query of a run, a second of the server's, whose answer comes into the cut.
fn cut_at_the_end(fabric: &Fabric, postgres: &Postgres, direction: &str) {
    let dir = fabric.path(&format!("{direction}-end"));
    let arguments = ["--count", "1", "--query", "SELECT pg_sleep(1)"];
    let child = begin(postgres::sql(fabric.on("here"), &postgres.url(), &arguments), &dir);
    let asleep =
        ["--count", "1", "--json", "--query", "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"];
    wait_for("a server that sleeps", || {
        let out = postgres::sql(fabric.on("there"), &postgres.url(), &asleep).output().unwrap();
        (crate::support::database::result(&out)["rows"] == 1).then_some(())
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
