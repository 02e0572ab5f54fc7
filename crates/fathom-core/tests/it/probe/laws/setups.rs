//! Laws for connections that are samples, and for attempts that this host could not begin.

use super::script::{Script, Speech};
use crate::world::{Fault, Outcome, S, START};
use fathom_core::event::EventKind;
use fathom_core::statistics::{LOCAL, Outage, Statistics};

/// An attempt that failed in this host is no sample, and lowers no availability. Availability is the share of answered
/// samples among those sent and those that fell due without a connection because of the network or the peer.
pub(super) fn check_local(script: &Script, outcome: &Outcome) {
    let mut told = Statistics::default();
    outcome.events.iter().for_each(|(_, event)| told.event(event));
    outcome.samples.iter().for_each(|(_, sample)| told.sample(sample));
    let failed_here = outcome.of(|kind| match kind {
        EventKind::ConnectionRefused { local, .. } => Some(*local),
        _ => None,
    });
    let failed_here = failed_here.iter().filter(|(.., local)| *local).count() as u64;
    let without_ports = script.faults.iter().any(|(_, fault)| matches!(fault, Fault::NoPorts(_)));
    assert!(
        without_ports || failed_here == 0,
        "{failed_here} attempts failed here, and nothing was wrong here"
    );
    if matches!(script.speech, Speech::Connect(_)) {
        assert_eq!(told.not_sent.of(LOCAL), failed_here, "each that failed here was due and is not sent");
    }
    let beyond = told.not_sent.of("unconnected") + told.not_sent.of("blocked");
    let asked = told.samples + beyond - told.lost_here();
    let share = (asked > 0).then(|| told.answered as f64 / asked as f64);
    assert_eq!(told.availability(), share, "{:?}", told.not_sent);
}

/// If no connection could be made for a while despite attempts, there is an outage. It begins with the first attempt
/// that failed or hangs, is recorded while it lasts, and ends with the next connection. No connection is made during an
/// outage.
pub(super) fn check_outages(script: &Script, outcome: &Outcome) {
    let Some(threshold_ns) = script.settings.stall_after_ns else { return };
    let here = script.faults.iter().any(|(_, fault)| matches!(fault, Fault::NoPorts(_)));
    if !matches!(script.speech, Speech::Connect(_)) || outcome.clock_was_set || here {
        return;
    }
    for path in 0..script.settings.targets.len() {
        let mut told = Statistics::default();
        let of_path = outcome.events.iter().filter(|(of, _)| *of == Some(path));
        of_path.clone().for_each(|(_, event)| told.event(event));
        let mono_ns = |utc_ns: i64| START.mono_ns + (utc_ns - START.utc_ns) as u64;
        let rows = outcome.samples.iter().filter(|(of, _)| *of == path).map(|(_, sample)| sample);
        let tries: Vec<(u64, Option<u64>)> = rows
            .map(|sample| (mono_ns(sample.sent_ns), sample.rtt_ns))
            .map(|(sent, rtt)| (sent, rtt.map(|rtt| sent + rtt as u64)))
            .collect();
        let mut made: Vec<u64> = tries.iter().filter_map(|(_, made)| *made).collect();
        made.sort_unstable();
        let outages = told.outages.all();
        let within =
            |outage: &Outage, at: u64| outage.began_ns < at && outage.end.is_some_and(|end| at < end.at_ns);
        let broken = outages.iter().find(|outage| made.iter().any(|&at| within(outage, at)));
        assert_eq!(broken, None, "a connection was made in it");
        // Detection takes two thresholds and a second, and the next check comes as much later.
        let known_by_ns = 2 * (S + threshold_ns);
        for (from, to) in std::iter::once(0).chain(made.iter().copied()).zip(made.iter().copied()) {
            let first = tries.iter().map(|(sent, _)| *sent).filter(|sent| (from..to).contains(sent)).min();
            let Some(first) = first.filter(|first| to - first > known_by_ns) else { continue };
            let covers =
                |outage: &&Outage| outage.began_ns <= first && outage.end.is_some_and(|end| end.at_ns == to);
            assert!(outages.iter().any(|outage| covers(&outage)), "{first} to {to}: {outages:?}");
            let tells = of_path.clone().any(|(_, event)| {
                let tells = matches!(
                    event.kind,
                    EventKind::ConnectionUnanswered { .. } | EventKind::ConnectionRefused { .. }
                );
                tells && (first..=first + known_by_ns).contains(&event.mono_ns)
            });
            assert!(tells, "not told while it lasted: {first} to {to}");
        }
    }
}
