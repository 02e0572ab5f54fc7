//! What holds of every split, whatever world it is of.

use super::{Confidence, PARTIES, Party, Split, Verdict};
use fathom_core::query::Part;

/// The laws of every split. `denied_ns`: so long an echo beside it was not answered, and nobody saw the server meanwhile.
pub(super) fn lawful(split: &Split, wall: u64, denied_ns: u64) {
    assert_eq!(split.wall_ns, wall);
    let parts = PARTIES.map(|party| split.part(party));
    assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), wall, "{split:?}");
    assert!(parts.iter().map(|part| part.low_ns).sum::<u64>() <= wall, "{split:?}");
    assert!(parts.iter().all(|p| p.low_ns <= p.ns && p.ns <= p.high_ns && p.high_ns <= wall), "{split:?}");
    assert!(split.open_ns <= wall, "{split:?}");
    as_recorded(split);
    what_echoes_were_denied_is_not_the_servers(split, denied_ns);
}

/// Of that time the server has none for sure; nor is it named for a run in which it cannot have most of the time, whatever the other
/// queries are.
fn what_echoes_were_denied_is_not_the_servers(split: &Split, denied_ns: u64) {
    let servers_ns = split.wall_ns - denied_ns;
    assert!(split.part(Party::Server).low_ns <= servers_ns, "{denied_ns} denied: {split:?}");
    // Tenths of the wall time: the server's and the path's of another query.
    for (server, path) in [(0, 0), (6, 0), (5, 5), (6, 5), (20, 0), (20, 19)] {
        let of = |tenths: u64| {
            let ns = split.wall_ns * tenths / 10;
            Part { low_ns: ns, ns, high_ns: ns }
        };
        let (server, path) = (of(server), of(path));
        let other = Split::of_recording(server.ns + path.ns, [server, path, Part::default()], None);
        let mut run = Verdict::default();
        run.add(split);
        run.add(&other);
        let wall_ns = split.wall_ns + other.wall_ns;
        if denied_ns > 0 && 2 * (servers_ns + server.ns) <= wall_ns {
            assert_ne!(run.most().0, Some(Party::Server), "{denied_ns} denied: {split:?} and {other:?}");
        }
    }
}

/// What is recorded of a split (`schema/queries.json`) comes to the same as the split itself.
pub(super) fn as_recorded(split: &Split) {
    let estimates = split.estimates();
    let part = |party| Part { ns: estimates.map_or(0, |of| of[party as usize]), ..split.part(party) };
    let recorded = Split::of_recording(split.wall_ns, PARTIES.map(part), split.why_not());
    assert_eq!((recorded.estimates(), recorded.why_not()), (estimates, split.why_not()));
    let verdict = |queries: [&Split; 3]| {
        let mut verdict = Verdict::default();
        for query in queries {
            verdict.add(query);
        }
        (PARTIES.map(|party| verdict.share(party)), verdict.most(), verdict.mean())
    };
    // Of three, one of which may have no estimate: theirs are then given.
    let known = Split::of_recording(9, [3, 2, 4].map(|ns| Part { low_ns: ns, ns, high_ns: ns }), None);
    assert_eq!(verdict([split, &known, &known]), verdict([&recorded, &known, &known]));
    let reckoned = split.reckoned();
    let sum = reckoned.iter().map(|part| part.ns).sum::<u64>();
    assert!(sum <= split.wall_ns && split.wall_ns - sum < 3, "{reckoned:?} of {split:?}");
    assert!(reckoned.iter().all(|part| (part.low_ns..=part.high_ns).contains(&part.ns)), "{reckoned:?}");
}

pub(super) fn verdict(split: &Split) -> (Option<Party>, Confidence) {
    let mut verdict = Verdict::default();
    verdict.add(split);
    verdict.most()
}
