//! `fathom sql` with several settings: each is asked once a round, is what was granted, and stands in the recording as in the summary.
use crate::support::FATHOM;
use crate::support::database::{recorded, refused, result, says_the_same, sql};
use crate::support::probe::assert_sound;
use crate::support::reflector::Echo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

fn mssql(server: SocketAddr, parameters: &str, dir: &Path, arguments: &[&str]) -> Command {
    let url = format!("mssql://reader@{server}/sales{parameters}");
    let mut command = sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, arguments);
    command.args(["--json", "--record"]).arg(dir);
    command
}

const COLUMNS: [&str; 6] = ["setting", "fetch_size", "packet_size", "turns", "login", "flags"];

/// Of each recorded query these columns: setting, fetch size, packet size, round trips, login and the flag of a warm-up.
pub(super) fn rows(dir: &Path) -> Vec<[Option<i64>; 6]> {
    recorded(dir, COLUMNS).into_iter().map(|(row, _)| row).collect()
}

/// Each round has every setting once, and the rounds' orders differ.
pub(super) fn is_interleaved(rows: &[[Option<i64>; 6]], settings: usize) {
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
        // A send buffer smaller than an answer: the server waits.
        let (echo, server) = Echo::start_tds(&[encrypt, &["--tds-send-buffer", "4KiB"]].concat());
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("kept");
        let arguments = ["--rows", "400", "--count", "8", "--packet-size", "4096,16384,32767"];
        let outcome = result(&mssql(server, parameters, &dir, &arguments).output().unwrap());
        assert_eq!((&outcome["queries"], &outcome["rows"]), (&json!(24), &json!(24 * 400)), "{outcome:#}");
        says_the_same(&dir, &outcome);
        let asked = [4_096, 16_384, 32_767];
        for (at, setting) in outcome["settings"].as_array().unwrap().iter().enumerate() {
            let size = json!({ "asked": asked[at], "granted": granted[at] });
            assert_eq!((&setting["packet_size"], &setting["queries"]), (&size, &json!(8)), "{setting:#}");
            // Full packets of the granted size.
            let tds = &setting["tds"];
            assert_eq!([&tds["too_long"], &tds["not_full"]], [&json!(0); 2], "{setting:#}");
            assert_eq!(tds["longest"], json!(granted[at]), "{setting:#}");
            // Eight rounds are four logins of two rounds, of which the first is a warm-up.
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
        // Four of each size, the observer's, and one that reads the server's counts.
        let served = echo.stop_tds();
        assert_eq!((&served["sessions"], &served["busy"]), (&json!(14), &json!(0)), "{served:#}");
        // The server's counts are the sums over the sizes.
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

/// The server has room for three sessions: none is left for the one that reads its counts, nor for a size's second login.
#[test]
fn later_login_failure_keeps_asked_queries() {
    let (echo, server) = Echo::start_tds(&["--tds-sessions", "3"]);
    // Connections that are only set up would take room, too.
    let beside = echo.address().to_string();
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("kept");
    let arguments = ["--rows", "5", "--packet-size", "4096,8192", "--reflector", &beside];
    let out = mssql(server, "?sslmode=disable", &dir, &arguments).output().unwrap();
    let line = refused(&out, 1);
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
