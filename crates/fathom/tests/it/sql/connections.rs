//! `fathom sql --connections` against `fathom echo --tds`.
use crate::support::FATHOM;
use crate::support::database::{refused, result, says_the_same, sql};
use crate::support::probe::assert_sound;
use crate::support::reflector::Echo;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;

pub(super) fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name}: {of:#}"))
}

pub(super) fn each(outcome: &Value) -> &Vec<Value> {
    outcome["connections"].as_array().unwrap_or_else(|| panic!("{outcome:#}"))
}

/// The run's counts are the sums over its connections, and each connection's failures add up.
pub(super) fn is_conserved(outcome: &Value, connections: usize) {
    let each = each(outcome);
    assert_eq!(each.len(), connections, "{outcome:#}");
    for name in ["queries", "failed", "cancelled", "rows", "unrecorded"] {
        let sum: u64 = each.iter().map(|one| number(one, name)).sum();
        assert_eq!(sum, number(outcome, name), "{name}: {outcome:#}");
    }
    for one in each {
        let kinds = one["failures"].as_object().unwrap().values();
        assert_eq!(kinds.map(|n| n.as_u64().unwrap()).sum::<u64>(), number(one, "failed"), "{outcome:#}");
    }
}

/// The clients work on more rows than the buffers hold, so the server waits for them.
#[test]
fn server_counts_are_sums_over_sessions() {
    let (echo, server) = Echo::start_tds(&["--tds-send-buffer", "64KiB"]);
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("kept");
    let url = format!("mssql://reader@{server}/sales?sslmode=disable");
    let rows = ["--rows", "1200", "--row-bytes", "8000", "--think", "400us", "--connections", "3"];
    let arguments = [&rows[..], &["--count", "2", "--json", "--record"]].concat();
    let mut command = sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, &arguments);
    let outcome = result(&command.arg(&dir).output().unwrap());
    is_conserved(&outcome, 3);
    assert_sound(&dir);
    says_the_same(&dir, &outcome);
    let waits = echo.stop_tds()["waits"].clone();
    for name in ["waits", "ns", "queries", "wall_ns"] {
        let of_each = each(&outcome).iter().map(|one| number(&one["server_counted"], name));
        assert_eq!(of_each.sum::<u64>(), number(&outcome["server_counted"], name), "{name}: {outcome:#}");
    }
    assert!(number(&outcome["server_counted"], "ns") > 0, "{outcome:#}");
    assert_eq!(outcome["server_counted"]["waits"], waits["shown_count"], "{outcome:#} {waits:#}");
    // Six answers of 1,200 rows of 8,000 bytes.
    assert!(number(&outcome["tds"], "bytes") >= 6 * 1_200 * 8_000, "{outcome:#}");
}

/// Relays connections to a server, and cuts the one with this ordinal after so many bytes of the server.
fn cutting(server: SocketAddr, ordinal: usize, after: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pass = |mut from: TcpStream, mut to: TcpStream, mut left: usize| {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            left = left.saturating_sub(n);
            if left == 0 || to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        for end in [from, to] {
            _ = end.shutdown(Shutdown::Both);
        }
    };
    std::thread::spawn(move || {
        for (at, client) in listener.incoming().enumerate() {
            let (Ok(client), Ok(there)) = (client, TcpStream::connect(server)) else { return };
            // Small buffers, so that the server waits.
            socket2::SockRef::from(&there).set_recv_buffer_size(64 << 10).unwrap();
            socket2::SockRef::from(&client).set_send_buffer_size(64 << 10).unwrap();
            let (to_client, to_server) = (client.try_clone().unwrap(), there.try_clone().unwrap());
            std::thread::spawn(move || pass(client, to_server, usize::MAX));
            let left = if at == ordinal { after } else { usize::MAX };
            std::thread::spawn(move || pass(there, to_client, left));
        }
    });
    address
}

/// The lost session's counts are lost; those of the other session and of its replacement stay.
#[test]
fn lost_session_keeps_other_sessions_counts() {
    let (echo, server) = Echo::start_tds(&["--tds-send-buffer", "64KiB"]);
    // The second connection that asks. Round trips beside the queries do not go through the relay.
    let url = format!("mssql://reader@{}/sales?sslmode=disable", cutting(server, 1, 2_000_000));
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("kept");
    let beside = echo.address().to_string();
    // More than the buffers hold, so that the server waits.
    let rows = ["--rows", "1200", "--row-bytes", "8000", "--think", "600us", "--connections", "2"];
    let arguments = [&rows[..], &["--count", "2", "--json", "--reflector", &beside, "--record"]].concat();
    let mut command = sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, &arguments);
    let out = command.arg(&dir).output().unwrap();
    refused(&out, 1);
    let outcome: Value = serde_json::from_slice(&out.stdout).unwrap();
    is_conserved(&outcome, 2);
    assert_sound(&dir);
    says_the_same(&dir, &outcome);
    assert_eq!((number(&outcome, "queries"), number(&outcome, "failed")), (4, 1), "{outcome:#}");
    let of_each = [0, 1].map(|at| &each(&outcome)[at]["server_counted"]);
    let lost = [&outcome["server_counted"], of_each[0], of_each[1]].map(|of| number(of, "lost_sessions"));
    assert_eq!(lost, [1, 0, 1], "{outcome:#}");
    for name in ["waits", "ns"] {
        let [first, second] = of_each.map(|of| number(of, name));
        assert!(first + second > 0, "{outcome:#}");
        assert_eq!(first + second, number(&outcome["server_counted"], name), "{outcome:#}");
    }
}
