//! `CALL` of a procedure of a real `MariaDB` by `fathom sql`: all at once, and fetched by a cursor.
use serde_json::json;
use crate::support::mariadb::Mariadb;

const PROCEDURES: [&str; 6] = [
    "CREATE TABLE shop.numbers (n INT, body VARCHAR(100))",
    "INSERT INTO shop.numbers SELECT seq, REPEAT('x', 100) FROM seq_1_to_95",
    "CREATE PROCEDURE shop.all_of_them() SELECT * FROM shop.numbers",
    "CREATE PROCEDURE shop.twice() BEGIN SELECT * FROM shop.numbers; SELECT n FROM shop.numbers LIMIT 5; END",
    "CREATE PROCEDURE shop.nothing() SET @done = 1",
    "CREATE PROCEDURE shop.fails() BEGIN SELECT * FROM shop.numbers; SELECT * FROM shop.nothere; END",
];

#[test]
fn a_procedure_is_called_under_a_cursor() {
    let Some(server) = Mariadb::start() else { return };
    for statement in PROCEDURES {
        server.ask(&["--count", "1", "--query", statement]);
    }
    let no_cursor = "the server opened no cursor for this query";
    for (how, turns) in [(&[][..], 1), (&["--fetch-size", "10"], 2), (&["--fetch-size", "1000"], 2)] {
        for (procedure, rows) in [("all_of_them", 95), ("twice", 100), ("nothing", 0)] {
            let query = format!("CALL shop.{procedure}()");
            let outcome = server.ask(&[how, &["--count", "3", "--query", &query]].concat());
            // A cursor is prepared, executed and fetched from; of a procedure the rows come with the second of these.
            assert_eq!(
                (&outcome["rows"], &outcome["turns"]),
                (&json!(3 * rows), &json!(turns)),
                "{how:?} {query}"
            );
            let notes = outcome["notes"].to_string();
            assert_eq!(notes.contains(no_cursor), turns == 2 && rows > 0, "{how:?} {query}: {notes}");
        }
        let out = server.sql(&[how, &["--query", "CALL shop.fails()"]].concat()).output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), told.lines().count()), (Some(1), 1), "{how:?}: {told}");
        assert!(told.contains("error 1146") && told.contains("mend the query"), "{how:?}: {told}");
    }
    // What has a cursor is fetched, and nothing is to be said of it.
    let fetched =
        server.ask(&["--count", "3", "--fetch-size", "10", "--query", "SELECT * FROM shop.numbers"]);
    assert!(fetched["turns"].as_u64() > Some(9) && fetched["notes"] == json!([]), "{fetched:#}");
    // So sizes of fetches are one.
    let swept = server.ask(&["--count", "4", "--fetch-size", "0,10", "--query", "CALL shop.all_of_them()"]);
    assert!(swept["notes"].to_string().contains(no_cursor), "{swept:#}");
}
