//! The queries of `fathom sql` itself use `PostgreSQL`'s own functions and operators, with any `search_path` of the user.
use crate::support::postgres::Postgres;

/// A schema that comes before the server's own.
const OTHERS: &str = "
CREATE SCHEMA others;
CREATE FUNCTION others.stolen() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'stolen'; END $$;
CREATE FUNCTION others.repeat(text, integer) RETURNS text LANGUAGE sql AS $$ SELECT others.stolen()::text $$;
CREATE FUNCTION others.generate_series(integer, integer) RETURNS SETOF integer LANGUAGE sql AS 'SELECT 7';
CREATE FUNCTION others.pg_backend_pid() RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION others.minus(timestamptz, timestamptz) RETURNS interval LANGUAGE sql
    AS $$ SELECT others.stolen()::text::interval $$;
CREATE OPERATOR others.- (FUNCTION = others.minus, LEFTARG = timestamptz, RIGHTARG = timestamptz);
CREATE FUNCTION others.times(numeric, integer) RETURNS numeric LANGUAGE sql AS $$ SELECT others.stolen()::text::numeric $$;
CREATE OPERATOR others.* (FUNCTION = others.times, LEFTARG = numeric, RIGHTARG = integer);
CREATE DOMAIN others.int8 AS integer CHECK (VALUE < 0);
ALTER ROLE owner SET search_path = others, pg_catalog";

#[test]
fn search_path_overrides_are_never_called() {
    let Some(server) = Postgres::start() else { return };
    server.ask(&["--count", "1", "--simple", "--query", OTHERS]);
    // An unqualified name now means these.
    let stolen = server.sql(&["--query", "SELECT repeat('x', 3)"]).output().unwrap();
    assert!(String::from_utf8_lossy(&stolen.stderr).contains("stolen"));
    for how in [&[][..], &["--simple"], &["--fetch-size", "2"]] {
        let rows = ["--count", "2", "--rows", "5", "--row-bytes", "100"];
        let outcome = server.ask(&[&rows[..], how].concat());
        assert_eq!((&outcome["rows"], &outcome["failed"]), (&10.into(), &0.into()), "{outcome:#}");
        // Five rows of 100 bytes, twice.
        assert!(outcome["bytes_received"].as_u64() >= Some(1_000), "{outcome:#}");
    }
    // The observer sees the session, and since when it sleeps.
    let outcome = server.ask(&["--count", "3", "--query", "SELECT pg_catalog.pg_sleep(0.2)"]);
    assert_eq!(outcome["server_waits"], serde_json::json!({ "Timeout/PgSleep": 2 }), "{outcome:#}");
    assert!(!outcome["notes"].to_string().contains("not known"), "{outcome:#}");
}
