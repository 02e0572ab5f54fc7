//! `fathom sql` with several fetch sizes against real servers.
use crate::sql::sweep::{is_interleaved, rows};
use crate::support::database::{Server, result, says_the_same};
use crate::support::mariadb::Mariadb;
use crate::support::postgres::Postgres;
use crate::support::wait_for;
use serde_json::{Value, json};
use std::process::Command;

/// 500 rows at once and by 10, 100 and 1,000, with these numbers of round trips.
fn sizes_of_fetches(server: &Server, sql: impl Fn(&[&str]) -> Command, round_trips: [i64; 4]) {
    let dir = server.home.path().join("kept");
    let arguments = ["--json", "--rows", "500", "--count", "9", "--fetch-size", "0,10,100,1000", "--record"];
    let outcome = result(&sql(&[&arguments[..], &[dir.to_str().unwrap()]].concat()).output().unwrap());
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
    let settings = outcome["settings"].as_array().unwrap();
    let turns: Vec<_> = settings.iter().map(|setting| setting["turns"].clone()).collect();
    assert_eq!(turns, round_trips.map(Value::from), "{outcome:#}");
    // One or two disturbed rounds of nine may leave the interval open, but not the median.
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
    // By ten: 50 pieces, and one that says that there are no more.
    sizes_of_fetches(&server, |arguments| server.sql(arguments), [1, 51, 6, 1]);
}

/// A cursor takes two more round trips: one prepares the statement, and one executes it.
#[test]
fn cursor_determines_round_trips() {
    let Some(server) = Mariadb::start() else { return };
    sizes_of_fetches(&server, |arguments| server.sql(arguments), [1, 53, 8, 3]);
    // The server keeps no statement.
    let left = "SELECT 1 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'PREPARED_STMT_COUNT' AND VARIABLE_VALUE > 0";
    wait_for("the end of all statements", || {
        (server.ask(&["--count", "1", "--query", left])["rows"] == 0).then_some(())
    });
}
