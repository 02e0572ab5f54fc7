//! Searches for idle limits in virtual time: whatever the limit, how it kills and what is lost, the bracket contains it, in
//! time; without a limit none is found; what dies for another reason is no limit; connections are asked once and are no more
//! than allowed; equal seeds give equal runs.

mod ages;
mod by_chance;
mod killed;
mod late;
mod laws;
mod moment;
mod one_way;
mod outages;
mod swept;
mod unanswered;
mod went_on;
mod world;

use crate::chance::{is_usual, runs};
use fathom_core::limits::{AtMost, Death, Outcome, Settings, Verdict, What};
use laws::check;
use std::collections::BTreeMap;
use std::ops::Range;
use world::{Counts, Fault, Kind, MS, Ran, Random, S, World, run};

const KINDS: [Kind; 4] = [Kind::Silent, Kind::ResetAtExpiry, Kind::FinAtExpiry, Kind::ResetOnPacket];

fn settings(up_to_ns: u64) -> Settings {
    Settings {
        target: "there".to_owned(),
        up_to_ns,
        per_length: 3,
        keepalive_ns: None,
        one_way: None,
        resolution: 0.02,
        connections: AtMost(2_000),
        session: 7,
        secret: None,
    }
}

fn world(limit_ns: Option<u64>, kind: Kind) -> World {
    let (rtt_ns, loss) = (2 * MS, 0);
    World {
        seed: 1,
        limit_ns,
        kind,
        sweeps_every_ns: None,
        counts: Counts::All,
        plain: false,
        mute: false,
        age_ns: None,
        mean_life_ns: None,
        own_limits: None,
        own_ages: None,
        places: None,
        rtt_ns,
        loss,
        faults: Vec::new(),
        stop_ns: None,
        kernel: true,
    }
}

/// Any world; limits from 0.7 s to the 11 min of which 10 are tried.
fn any_world(seed: u64) -> World {
    let mut random = Random(seed);
    let scale = [S, 10 * S, 100 * S][random.below(3) as usize];
    World {
        limit_ns: Some(random.between(7 * scale / 10, 66 * scale / 10)),
        kind: random.one_of(&KINDS),
        rtt_ns: random.between(MS / 10, 150 * MS),
        loss: if random.percent(40) { 0 } else { random.one_of(&[10, 100]) },
        seed,
        ..world(None, Kind::Silent)
    }
}

fn ends(outcome: &Outcome) -> (u64, u64) {
    let of = |end: Option<fathom_core::limits::End>, else_ns| end.map_or(else_ns, |end| end.idle_ns);
    (of(outcome.survived, 0), of(outcome.died, u64::MAX))
}

fn ran(world: &World, settings: &Settings) -> Ran {
    let ran = run(world, settings.clone());
    check(&ran, settings, world);
    ran
}

tiers! {
    the_bracket_contains_the_limit: 0..5, 0..100;
    one_connection_bracket_contains_the_limit: 0..60, 0..300;
    search_time_stays_near_the_limit: &[1_234], &[3_600, 3_000, 1_234];
    without_a_limit_none_is_found: 0..8, 0..100;
    other_endings_are_no_limit: 0..7, 0..80;
    a_limit_is_found_beside_other_endings: 0..8, 0..80;
    search_works_without_kernel_information: 0..4, 0..50;
    equal_seeds_give_equal_runs: 0..3, 0..20;
}

fn the_bracket_contains_the_limit(seeds: Range<u64>) {
    let settings = settings(600 * S);
    for seed in seeds {
        let world = any_world(seed);
        let limit = world.limit_ns.expect("one");
        let Ran { outcome, .. } = ran(&world, &settings);
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}: {outcome:#?}");
        if limit >= 600 * S {
            assert_eq!(outcome.verdict, Verdict::NotFound, "{world:?}: {outcome:#?}");
            continue;
        }
        if limit > 590 * S {
            continue;
        }
        assert_eq!(outcome.verdict, Verdict::Found, "{world:?}: {outcome:#?}");
        // If a connection died at the shorter end, or of less, others try that length.
        let again =
            outcome.lengths.iter().any(|row| row.died > 0 && row.length_ns < survived + world.rtt_ns + S);
        let took = limit + limit / 10 + 60 * S + if again { 3 * limit } else { 0 };
        assert!(outcome.took_ns <= took, "{} instead of {took}: {world:?}", outcome.took_ns);
        // Within 5 % or half a second, but for what a long way adds.
        let off = (survived + (died - survived) / 2).abs_diff(limit);
        assert!(off <= (limit / 20).max(S / 2) + world.rtt_ns, "{survived} {limit} {died}: {world:?}");
    }
}

/// With one connection a length no other makes up for what was sent again, which moves the beginning of an idleness or its end.
fn one_connection_bracket_contains_the_limit(seeds: Range<u64>) {
    let settings = Settings { per_length: 1, ..settings(10 * S) };
    for seed in seeds {
        let limit = Random(seed).between(S, 7 * S);
        let world = World { limit_ns: Some(limit), loss: 200, rtt_ns: 20 * MS, ..any_world(seed) };
        let Ran { outcome, .. } = ran(&world, &settings);
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}: {outcome:#?}");
    }
}

#[test]
fn kind_of_death_is_reported() {
    let deaths = [Death::Silent, Death::ResetWhileIdle, Death::ClosedWhileIdle, Death::ResetOnRequest];
    for (kind, death) in KINDS.into_iter().zip(deaths) {
        let Ran { outcome, .. } = ran(&world(Some(7_300 * MS), kind), &settings(60 * S));
        assert_eq!(outcome.how, BTreeMap::from([(death, 3)]), "{outcome:#?}");
        assert!(outcome.confirmed && outcome.meanwhile.is_empty() && outcome.strays == 0, "{outcome:#?}");
        assert_eq!(outcome.died.expect("they died").hits, 3);
        assert_eq!(outcome.survived.expect("they lived").hits, 3);
    }
}

fn search_time_stays_near_the_limit(limits_s: &[u64]) {
    for &limit_s in limits_s {
        let world = World { rtt_ns: 30 * MS, ..world(Some(limit_s * S), Kind::Silent) };
        let Ran { outcome, .. } = ran(&world, &settings(2 * 3_600 * S));
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit_s * S && limit_s * S <= died && outcome.confirmed, "{outcome:#?}");
        assert!(died - survived <= limit_s * S / 40, "{survived} {died}");
        assert!(outcome.took_ns <= limit_s * S * 11 / 10 + 60 * S, "{}", outcome.took_ns);
    }
}

fn without_a_limit_none_is_found(seeds: Range<u64>) {
    let settings = settings(60 * S);
    for seed in seeds {
        let world = World { limit_ns: None, loss: 100, ..any_world(seed) };
        let Ran { outcome, .. } = ran(&world, &settings);
        assert_eq!(outcome.verdict, Verdict::NotFound, "{world:?}: {outcome:#?}");
        assert!(outcome.died.is_none() && outcome.meanwhile.is_empty(), "{outcome:#?}");
        // A lost packet is no death.
        assert!(outcome.lengths.iter().all(|row| row.died == 0), "{world:?}: {outcome:#?}");
        // What was sent again after a loss ended an idleness a little later than it seemed.
        assert!(outcome.survived.expect("they lived").idle_ns >= 59 * S, "{outcome:#?}");
    }
}

fn other_endings_are_no_limit(seeds: Range<u64>) {
    let settings = settings(60 * S);
    for seed in seeds {
        let mut random = Random(seed);
        let at = random.between(2 * S, 70 * S);
        let fault = match random.below(4) {
            0 => Fault::Restart(at, random.between(1, 20 * S)),
            1 => Fault::Flush(at),
            2 => Fault::Outage(at, at + random.between(S, 40 * S)),
            _ => Fault::Pause(at, at + random.between(2 * S, 40 * S)),
        };
        let world = World { limit_ns: None, faults: vec![fault], ..any_world(seed) };
        let Ran { outcome, .. } = ran(&world, &settings);
        assert_ne!(outcome.verdict, Verdict::Found, "{world:?}: {outcome:#?}");
        assert!(outcome.died.is_none(), "{world:?}: {outcome:#?}");
        let ended = matches!(fault, Fault::Restart(..) | Fault::Flush(_));
        // The search is over after a little more than a minute.
        if ended && at < 55 * S {
            let died = |m: &fathom_core::limits::Meanwhile| matches!(m.what, What::AllDied { .. });
            assert!(outcome.meanwhile.iter().any(died), "{world:?}: {outcome:#?}");
            assert_eq!(outcome.verdict, Verdict::NotFound, "{world:?}: {outcome:#?}");
        }
    }
}

fn a_limit_is_found_beside_other_endings(seeds: Range<u64>) {
    let settings = settings(60 * S);
    let (mut found, of) = (0, runs(&seeds));
    for seed in seeds {
        let mut random = Random(seed ^ 0xFA_017);
        let limit = random.between(2 * S, 50 * S);
        let at = random.between(S, limit + 10 * S);
        let fault = match random.below(4) {
            0 => Fault::Restart(at, random.between(1, 20 * S)),
            1 => Fault::Flush(at),
            2 => Fault::Outage(at, at + random.between(S, 20 * S)),
            _ => Fault::Pause(at, at + random.between(2 * S, 20 * S)),
        };
        let world = World { limit_ns: Some(limit), faults: vec![fault], ..any_world(seed) };
        let Ran { outcome, .. } = ran(&world, &settings);
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}: {outcome:#?}");
        assert_ne!(outcome.verdict, Verdict::NotFound, "{world:?}: {outcome:#?}");
        found += u64::from(outcome.verdict == Verdict::Found);
    }
    assert!(is_usual(found, of, 93), "{found} of {of}");
}

fn search_works_without_kernel_information(seeds: Range<u64>) {
    for seed in seeds {
        let world = World { kernel: false, loss: 0, ..any_world(seed) };
        let limit = world.limit_ns.expect("one");
        let Ran { outcome, .. } = ran(&world, &settings(600 * S));
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}");
    }
}

#[test]
fn limit_below_shortest_has_no_lower_bound() {
    let Ran { outcome, .. } = ran(&world(Some(400 * MS), Kind::ResetOnPacket), &settings(10 * S));
    assert_eq!(outcome.verdict, Verdict::Found, "{outcome:#?}");
    assert!(ends(&outcome).0 <= 400 * MS && ends(&outcome).1 >= 400 * MS, "{outcome:#?}");
}

#[test]
fn stopped_search_reports_what_it_knows() {
    let world = World { stop_ns: Some(20 * S), ..world(None, Kind::Silent) };
    let Ran { outcome, .. } = ran(&world, &settings(600 * S));
    assert_eq!(outcome.verdict, Verdict::Stopped);
    let (survived, died) = ends(&outcome);
    assert!((10 * S..20 * S).contains(&survived) && died == u64::MAX, "{outcome:#?}");
    assert_eq!(outcome.took_ns, 20 * S);
}

#[test]
fn no_peer_is_a_failure_and_says_why() {
    let down = World { faults: vec![Fault::Restart(0, 100 * S)], ..world(None, Kind::Silent) };
    let Ran { outcome, .. } = ran(&down, &settings(60 * S));
    assert_eq!(outcome.verdict, Verdict::Failed);
    assert!(outcome.why.as_ref().is_some_and(|why| why.contains("there refused")), "{outcome:#?}");
    let silent = World { faults: vec![Fault::Outage(0, 100 * S)], ..world(None, Kind::Silent) };
    assert_eq!(ran(&silent, &settings(60 * S)).outcome.verdict, Verdict::Failed);
}

#[test]
fn lost_peer_ends_search_as_unclear() {
    let gone = World { faults: vec![Fault::Restart(9 * S, 9_000 * S)], ..world(None, Kind::Silent) };
    let Ran { outcome, .. } = ran(&gone, &settings(600 * S));
    assert_eq!(outcome.verdict, Verdict::Unclear, "{outcome:#?}");
    assert!(outcome.took_ns <= 75 * S && outcome.survived.is_some() && outcome.why.is_some(), "{outcome:#?}");
}

#[test]
fn connections_are_no_more_than_allowed() {
    let few = Settings { connections: AtMost(40), ..settings(600 * S) };
    assert!(few.check().is_err_and(|e| e.needed > 300), "{:?}", few.check());
    // A machine that is not asked whether it can be done keeps to it all the same.
    let Ran { outcome, most_open, .. } = ran(&world(Some(3 * S), Kind::Silent), &few);
    assert!(most_open <= 40 && outcome.verdict == Verdict::Found, "{outcome:#?}");
    assert_eq!(settings(600 * S).check(), Ok(()));
}

fn equal_seeds_give_equal_runs(seeds: Range<u64>) {
    for seed in seeds {
        let world = World { faults: vec![Fault::Flush(9 * S)], ..any_world(seed) };
        let [one, two] = [0, 1].map(|_| ran(&world, &settings(60 * S)));
        assert_eq!(one.outcome, two.outcome);
        assert!(one.outputs == two.outputs);
    }
}
