//! How requests and connections end, at the edges.

use super::{MS, S, applicant, play, scenario};
use fathom_core::cause::ClosingCause;
use fathom_core::event::EventKind;
use fathom_core::policy::Counts;
use fathom_fabric::scenario::Scenario;
use fathom_fabric::simulate::{Options, simulate_clients};

/// What was under way when the last request had fallen due was counted as failed, though nothing had gone wrong.
#[test]
fn requests_due_before_end_may_finish_later() {
    let clients = play(&scenario(""), &[applicant("", S)], 1, MS);
    assert_eq!(clients[0].counts, Counts { due: 1, answered: 1, ..Counts::default() });
    // A host that stands still beyond the end sends when it runs again.
    let pause = "[[event]]\nat = \"5s\"\nkind = \"host-pause\"\nhost = \"a\"\nduration = \"10s\"";
    let clients = play(&scenario(pause), &[applicant("", S / 10)], 1, 10 * S);
    assert_eq!(clients[0].counts, Counts { due: 100, answered: 99, failed: 1, ..Counts::default() });
    // ...unless that is long after everybody has given up.
    let pause = "[[event]]\nat = \"5s\"\nkind = \"host-pause\"\nhost = \"a\"\nduration = \"10000h\"";
    let clients = play(&scenario(pause), &[applicant("", S / 10)], 1, 10 * S);
    assert_eq!(clients[0].counts, Counts { due: 100, answered: 50, failed: 50, ..Counts::default() });
}

/// The cause was "closed by the peer", which had said nothing.
#[test]
fn a_connection_that_keepalive_ends_has_timed_out() {
    let cut = "[[event]]\nat = \"10s\"\nkind = \"link-cut\"\npath = \"ab\"";
    let policy = "[connection]\nkeepalive = \"5s\"\nuser_timeout = \"4s\"";
    let clients = play(&scenario(cut), &[applicant(policy, 50 * S)], 1, 90 * S);
    let causes: Vec<_> = clients[0]
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ConnectionClosed { cause, errno, .. } => Some((*cause, *errno)),
            _ => None,
        })
        .collect();
    assert_eq!(causes.first(), Some(&(ClosingCause::TimedOut, Some(110))), "{causes:?}");
}

/// Linux looks at the user timeout when it would send again, which is never before the answer can have come.
#[test]
fn user_timeout_below_rtt_closes_nothing() {
    let slow = "[[event]]\nat = \"0s\"\nkind = \"path-change\"\npath = \"ab\"\nadded = \"50ms\"";
    let policy = "[connection]\nuser_timeout = \"20ms\"";
    let clients = play(&scenario(slow), &[applicant(policy, S)], 1, 20 * S);
    assert_eq!(clients[0].counts, Counts { due: 20, answered: 20, ..Counts::default() });
}

/// Keepalive ended a connection with a request under way, which retransmission looks after (Linux's timer does nothing then):
/// the request was ambiguous, and on real kernels answered.
#[test]
fn keepalive_spares_connection_with_request_in_flight() {
    let cut = "[[event]]\nat = \"15s\"\nkind = \"link-cut\"\npath = \"ab\"\nduration = \"25s\"";
    let policy = "[request]\ndeadline = \"40s\"\ntry_timeout = \"39s\"\n[connection]\nkeepalive = \"1s\"";
    let clients = play(&scenario(cut), &[applicant(policy, 20 * S)], 1, 30 * S);
    assert_eq!(clients[0].counts, Counts { due: 2, answered: 2, ..Counts::default() });
    assert_eq!(clients[0].of_kind(|kind| matches!(kind, EventKind::ConnectionOpened { .. })), 1);
}

/// Two probes of one path, with one of another between them: the path was compared with itself.
#[test]
fn each_path_has_each_application_once() {
    let probes = "[[simulate.probe]]\npath = \"ac\"\n[[simulate.probe]]\npath = \"ab\"";
    let simulation = simulate_clients(&scenario(probes), &Options::default(), &[applicant("", S)]);
    let paths: Vec<_> =
        simulation.expect("a simulation").clients().iter().map(|client| client.path.clone()).collect();
    assert_eq!(paths, ["ab", "ac"]);
}

#[test]
fn fallback_must_exist_with_same_ip_version() {
    let text = "format = 1\nhost = [{ name = \"a\", address = \"10.0.0.1\" }, { name = \"b\", address = \"10.0.0.2\" }, \
                { name = \"six\", address = \"fd00::6\" }]\npath = [{ label = \"ab\", from = \"a\", to = \"b\", both = { delay = \"1ms\" } }]";
    let scenario = Scenario::parse(text, "a test").expect("a scenario");
    for (target, part) in [
        ("b", None),
        ("b:80", None),
        ("10.0.0.2:80", None),
        ("nobody", Some("nobody is no host")),
        ("10.0.0.9", Some("10.0.0.9 is no host")),
        ("10.0.0.9:80", Some("10.0.0.9:80 is no host")),
        ("b:99999", Some("\"99999\" for a port")),
        ("six", Some("IP version")),
        ("[fd00::6]:80", Some("IP version")),
    ] {
        let one = applicant(&format!("[fallback]\ntarget = \"{target}\""), S);
        let error = simulate_clients(&scenario, &Options::default(), &[one]).err();
        assert_eq!(error.is_some(), part.is_some(), "{target}: {error:?}");
        let error = error.unwrap_or_default();
        assert!(error.contains(part.unwrap_or_default()), "{target}: {error}");
        assert!(error.is_empty() || error.starts_with("policy it: "), "{error}");
    }
}
