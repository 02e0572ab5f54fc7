//! `fathom sql` with several settings: each is asked once a round, is what was granted, and stands in the recording as in the summary.
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use crate::support::database::{Server, says_the_same};
use crate::support::mariadb::Mariadb;
use crate::support::postgres::Postgres;
use crate::support::probe::assert_sound;
use crate::support::reflector::Echo;
use crate::support::{FATHOM, wait_for};

fn mssql(server: std::net::SocketAddr, parameters: &str, arguments: &[&str]) -> Output {
    let url = format!("mssql://reader@{server}/sales{parameters}");
    let mut command = Command::new(FATHOM);
    command.args(["sql", &url, "--quiet"]).args(arguments).env("FATHOM_CLOUD", "off");
    command.stdin(Stdio::null()).output().unwrap()
}

fn json_of(out: &Output) -> Value {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

const COLUMNS: [&str; 6] = ["setting", "fetch_size", "packet_size", "turns", "login", "flags"];

/// Of each row its setting, rows of a round trip, size of packets, round trips, login and whether it is a first one.
fn rows(dir: &Path) -> Vec<[Option<i64>; 6]> {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int64Type;
    let file = std::fs::File::open(dir.join("queries-00000.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let mut rows = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let of = |name: &str, row: usize| {
            let column = batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
            (!column.is_null(row)).then(|| column.value(row))
        };
        rows.extend((0..batch.num_rows()).map(|row| COLUMNS.map(|name| of(name, row))));
    }
    rows
}

/// Each round has every setting once, and not all rounds in one order.
fn is_interleaved(rows: &[[Option<i64>; 6]], settings: usize) {
    let rounds: Vec<Vec<i64>> =
        rows.chunks(settings).map(|round| round.iter().map(|row| row[0].unwrap()).collect()).collect();
    for round in &rounds {
        let mut sorted = round.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..settings as i64).collect::<Vec<_>>());
    }
    assert!(rounds.iter().any(|round| *round != rounds[0]), "{rounds:?}");
}

#[test]
fn packet_sizes_alternate_and_match_grants() {
    for (encrypt, parameters, granted) in [
        (&[][..], "?sslmode=disable", [4_096, 16_384, 32_767]),
        (&["--tds-encrypt"], "?sslmode=require", [4_096, 16_383, 16_383]),
    ] {
        // Less than an answer holds: sending is held up.
        let (echo, server) = Echo::start_tds(&[encrypt, &["--tds-send-buffer", "4KiB"]].concat());
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("kept");
        let arguments =
            ["--rows", "400", "--count", "8", "--packet-size", "4096,16384,32767", "--json", "--record"];
        let outcome =
            json_of(&mssql(server, parameters, &[&arguments[..], &[dir.to_str().unwrap()]].concat()));
        assert_eq!((&outcome["queries"], &outcome["rows"]), (&json!(24), &json!(24 * 400)), "{outcome:#}");
        says_the_same(&dir, &outcome);
        let asked = [4_096, 16_384, 32_767];
        for (at, setting) in outcome["settings"].as_array().unwrap().iter().enumerate() {
            let size = json!({ "asked": asked[at], "granted": granted[at] });
            assert_eq!((&setting["packet_size"], &setting["queries"]), (&size, &json!(8)), "{setting:#}");
            // What was seen is what was granted: full packets of 40 kB of rows.
            let tds = &setting["tds"];
            assert_eq!([&tds["too_long"], &tds["not_full"]], [&json!(0); 2], "{setting:#}");
            assert_eq!(tds["longest"], json!(granted[at]), "{setting:#}");
            // Eight rounds are four logins of two, whose first finds nothing warm; seven were needed.
            let ratio = if at == 0 { [Value::Null, Value::Null] } else { [json!(4), json!(4)] };
            let [rounds, logins] = &ratio;
            assert_eq!([&setting["ratio"]["rounds"], &setting["ratio"]["logins"]], [rounds, logins]);
        }
        let rows = rows(&dir);
        is_interleaved(&rows, 3);
        for (number, row) in rows.iter().enumerate() {
            assert_eq!(row[2], Some(granted[row[0].unwrap() as usize]), "{row:?}");
            let round = number as i64 / 3;
            assert_eq!((row[4], row[5]), (Some(round / 2), Some(1 - round % 2)), "{number}: {row:?}");
        }
        assert_sound(&dir);
        // Of each size four, one that looks, and one that reads what the server counts.
        let served = echo.stop_tds();
        assert_eq!((&served["sessions"], &served["busy"]), (&json!(14), &json!(0)), "{served:#}");
        // What it counted of each size's sessions is all that it counted.
        let of = |value: &Value, name: &str| value["server_counted"][name].as_u64().unwrap();
        for name in ["waits", "ns", "queries", "wall_ns"] {
            let each: u64 = outcome["settings"].as_array().unwrap().iter().map(|one| of(one, name)).sum();
            assert_eq!(each, of(&outcome, name), "{name}: {outcome:#}");
        }
        let really = served["waits"]["shown_count"].as_u64().unwrap();
        assert!(really > 0 && of(&outcome, "waits") == really, "{served:#} {:#}", outcome["server_counted"]);
        let packets =
            outcome["settings"].as_array().unwrap().iter().map(|setting| &setting["tds"]["packets"]);
        assert!(packets.clone().all(|packets| packets.as_u64() >= Some(8)), "{outcome:#}");
    }
}

/// The server lets in two sessions and the one that looks: the one that reads its counts is one too many, which is said; and so is the
/// second login of a size.
#[test]
fn later_login_failure_keeps_asked_queries() {
    let (echo, server) = Echo::start_tds(&["--tds-sessions", "3"]);
    // A connection that is set up to the server's port takes one of them, too.
    let beside = echo.address().to_string();
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("kept");
    let arguments =
        ["--rows", "5", "--packet-size", "4096,8192", "--reflector", &beside, "--json", "--record"];
    let out = mssql(server, "?sslmode=disable", &[&arguments[..], &[dir.to_str().unwrap()]].concat());
    let line = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((out.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.contains("17809"), "{line}");
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!([&outcome["queries"], &outcome["failed"]], [&json!(6), &json!(0)], "{outcome:#}");
    let told: Vec<_> = outcome["notes"].as_array().unwrap().iter().map(Value::to_string).collect();
    let uncounted = told.iter().filter(|text| text.contains("what the server counts itself is not known"));
    assert_eq!((uncounted.count(), &outcome["server_counted"]), (1, &Value::Null), "{told:?}");
    let ratio = &outcome["settings"][1]["ratio"];
    assert_eq!([&ratio["logins"], &ratio["verdict"]], [&json!(1), &json!("cannot be decided")], "{ratio:#}");
    says_the_same(&dir, &outcome);
}

/// 500 rows, all at once, and by 10, 100 and 1,000, of which each takes so many round trips.
fn sizes_of_fetches(server: &Server, sql: impl Fn(&[&str]) -> Command, round_trips: [i64; 4]) {
    let dir = server.home.path().join("kept");
    let arguments = ["--json", "--rows", "500", "--count", "9", "--fetch-size", "0,10,100,1000", "--record"];
    let outcome = json_of(&sql(&[&arguments[..], &[dir.to_str().unwrap()]].concat()).output().unwrap());
    assert_eq!((&outcome["failed"], &outcome["rows"]), (&json!(0), &json!(36 * 500)), "{outcome:#}");
    says_the_same(&dir, &outcome);
    let rows = rows(&dir);
    is_interleaved(&rows, 4);
    for row in &rows {
        let setting = row[0].unwrap() as usize;
        let fetch = [None, Some(10), Some(100), Some(1_000)][setting];
        let wanted = (fetch, None, Some(round_trips[setting]), None);
        assert_eq!((row[1], row[2], row[3], row[4]), wanted, "{row:?}");
    }
    let sizes: BTreeMap<_, _> = rows.iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(sizes.len(), 4);
    let settings = outcome["settings"].as_array().unwrap();
    let turns: Vec<_> = settings.iter().map(|setting| setting["turns"].clone()).collect();
    assert_eq!(turns, round_trips.map(Value::from), "{outcome:#}");
    // Of nine rounds one or two that were disturbed leave the interval open, but not the median.
    let ratio = &settings[1]["ratio"];
    assert!(ratio["value"].as_f64() > Some(1.0), "{outcome:#}");
    let within =
        [&ratio["low"], &ratio["high"]].map(|bound| bound.as_f64().expect("nine rounds have an interval"));
    let verdict = if within[0] > 1.0 { "slower" } else { "no difference shown" };
    assert!(within[0] < within[1] && within[1] > 1.0 && ratio["verdict"] == verdict, "{outcome:#}");
    let out = sql(&["--rows", "500", "--count", "9", "--fetch-size", "0,10"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("all rows ")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("10 rows ") && line.contains(" % (")), "{text}");
}

#[test]
fn fetch_size_determines_round_trips() {
    let Some(server) = Postgres::start() else { return };
    // By ten: 50 pieces, and one to learn that there are no more; as PostgreSQL's portals have it.
    sizes_of_fetches(&server, |arguments| server.sql(arguments), [1, 51, 6, 1]);
}

/// A cursor takes two round trips more: one prepares the statement, and one executes it.
#[test]
fn cursors_have_their_round_trips_too() {
    let Some(server) = Mariadb::start() else { return };
    sizes_of_fetches(&server, |arguments| server.sql(arguments), [1, 53, 8, 3]);
    // No statement is left at the server, and no temporary table of a cursor.
    let left = "SELECT 1 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'PREPARED_STMT_COUNT' AND VARIABLE_VALUE > 0";
    wait_for("no statement that is left", || {
        (json_of(&server.sql(&["--json", "--count", "1", "--query", left]).output().unwrap())["rows"] == 0)
            .then_some(())
    });
}

/// It was held against itself.
#[test]
fn a_size_is_named_once() {
    for (url, option, sizes, twice) in [
        ("postgres://me@127.0.0.1:1/d", "--fetch-size", "0,0", "0"),
        ("mysql://me@127.0.0.1:1/d", "--fetch-size", "10,0,10", "10"),
        ("mssql://me@127.0.0.1:1/d", "--packet-size", "4096,8192,8192", "8192"),
    ] {
        let out = Command::new(FATHOM).args(["sql", url, option, sizes]).output().unwrap();
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{line}");
        assert!(line.contains(&format!("{option}: {twice} stands there twice")), "{line}");
    }
}

#[test]
fn sweep_rejects_option_of_other_protocol() {
    for (url, arguments) in [
        ("postgres://me@127.0.0.1:1/d", ["--packet-size", "4096,8192"]),
        ("mssql://me@127.0.0.1:1/d", ["--fetch-size", "0,10"]),
    ] {
        let out = Command::new(FATHOM).args(["sql", url]).args(arguments).output().unwrap();
        let line = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{line}");
        assert!(line.contains(arguments[0]), "{line}");
    }
}
