//! Peers whose kernel acknowledges while their application does not answer, in virtual time: no limit of the path.

use super::world::{Kind, MS, Ran, Random, S, World};
use super::{ages, any_world, ends, ran, settings, world};
use crate::chance::{is_many, is_rare, runs};
use fathom_core::event::EventKind;
use fathom_core::limits::{Death, Recorded, Verdict};
use std::collections::BTreeMap;
use std::ops::Range;

tiers! {
    acknowledged_but_unanswered_is_no_limit: 0..4, 0..200;
    unanswered_busy_connections_are_no_age_limit: 0..8, 0..50;
}

/// The path carries requests, and the peer's application does not answer them: whatever is lost besides, no limit is claimed, and
/// it is told from when on. What breaks off says so too.
fn acknowledged_but_unanswered_is_no_limit(seeds: Range<u64>) {
    let settings = settings(600 * S);
    let (mut early, mut others, of) = (0, 0, runs(&seeds));
    for seed in seeds {
        let world = World { kind: Kind::NotAnswered, ..any_world(seed) };
        let limit = world.limit_ns.expect("one");
        if limit > 590 * S {
            continue;
        }
        let Ran { outcome, told, .. } = ran(&world, &settings);
        let from_ns = outcome.dies_from_ns.unwrap_or_else(|| panic!("{world:?}: {outcome:#?}"));
        assert!(limit <= from_ns && ends(&outcome).0 <= limit, "{world:?}: {outcome:#?}");
        assert_eq!((outcome.verdict, outcome.died), (Verdict::Unclear, None), "{world:?}: {outcome:#?}");
        if !outcome.is_unanswered() {
            // What was sent again at the beginning of an idleness made it shorter, so that one outlived the others.
            (others, early) = (others + 1, early + 1);
            assert!(world.loss > 0 && outcome.how.is_empty(), "{world:?}: {outcome:#?}");
            continue;
        }
        assert_eq!(outcome.how.keys().collect::<Vec<_>>(), [&Death::NotAnswered], "{world:?}: {outcome:#?}");
        let text = outcome.text("there");
        assert!(text.contains("or a proxy before it that lost it: nobody tells"), "{text}");
        let mut recorded = Recorded::default();
        for event in told.iter().filter(|event| !matches!(event.kind, EventKind::LimitsEnded { .. })) {
            recorded.event(event);
        }
        early += u64::from(recorded.outcome().is_some_and(|outcome| outcome.is_unanswered()));
    }
    assert!(!is_many(of) || early * 4 > of * 3, "{early} of {of}");
    assert!(is_rare(others, of, 2), "{others} of {of}");
    // A system that tells nothing of its kernel cannot know.
    let world = World { kernel: false, ..world(Some(7_300 * MS), Kind::NotAnswered) };
    let Ran { outcome, .. } = ran(&world, &settings);
    assert_eq!(outcome.how, BTreeMap::from([(Death::Silent, 3)]), "{outcome:#?}");
}

fn unanswered_busy_connections_are_no_age_limit(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed);
        let (limit, loss) = (random.between(S, 50 * S), random.one_of(&[0, 0, 100]));
        let world = World { loss, kind: Kind::NotAnswered, ..ages::aged(Some(limit), seed) };
        let Ran { outcome, .. } = ages::ran(&world, &ages::ages(60 * S));
        assert_eq!((outcome.verdict, outcome.died), (Verdict::Unclear, None), "{world:?}: {outcome:#?}");
        assert!(outcome.dies_from_ns.is_some_and(|from_ns| limit <= from_ns), "{world:?}: {outcome:#?}");
        assert_eq!(outcome.how.keys().collect::<Vec<_>>(), [&Death::NotAnswered], "{world:?}: {outcome:#?}");
        assert!(
            outcome.text("there").contains("age limit unclear: requests were acknowledged"),
            "{outcome:#?}"
        );
    }
}
