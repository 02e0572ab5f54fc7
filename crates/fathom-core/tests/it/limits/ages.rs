//! Searches for age limits in virtual time: a limit that is there is found, whatever its age and however it kills; deaths at one
//! moment, deaths by chance and a table that is full are none.

use super::world::{Fault, Kind, MS, Own, Ran, Random, S, World, go_on, run_ages};
use super::{KINDS, ends, settings, world};
use crate::chance::{is_many, is_rare, is_usual, runs};
use fathom_core::event::{Became, EventKind};
use fathom_core::limits::{Death, Limit, Output, Recorded, Settings, Verdict, What};
use std::collections::BTreeSet;
use std::ops::Range;

/// 24 connections up to a minute: every quarter of a second a request, beginnings one to three seconds apart.
pub(super) fn ages(up_to_ns: u64) -> Settings {
    Settings { per_length: 24, ..settings(up_to_ns) }
}

pub(super) fn aged(age_ns: Option<u64>, seed: u64) -> World {
    World { seed, age_ns, ..world(None, KINDS[(seed % 4) as usize]) }
}

/// Each connection is told of once, never more are open than asked for and two, and what is recorded is what was found.
pub(super) fn ran(world: &World, settings: &Settings) -> Ran {
    let ran = run_ages(world, settings.clone());
    assert!(ran.most_open <= settings.per_length as usize + 2, "{} open: {world:?}", ran.most_open);
    let (mut told, mut recorded) = (BTreeSet::new(), Recorded::default());
    for event in &ran.told {
        recorded.event(event);
        if let EventKind::LimitsJudged { became, most_ns, .. } = &event.kind {
            assert!(told.insert(event.connection), "{event:?} comes again: {world:?}");
            assert_eq!(*became == Became::Died, most_ns.is_some(), "{event:?}");
        }
    }
    let others = world.mean_life_ns.is_some() || world.own_ages.is_some() || world.places.is_some();
    if world.loss == 0 && world.faults.is_empty() && !others {
        for (at, left) in &ran.left {
            assert!(at + left >= ran.took_ns, "{left} to go at {at}, and it took {}: {world:?}", ran.took_ns);
        }
    }
    if let Some(known) = recorded.outcome() {
        assert_eq!((known.limit, known.died, &known.how), (Limit::Age, ran.outcome.died, &ran.outcome.how));
        // A recording that breaks off does not know that no more was to come.
        let ended = known.dies_from_ns != ran.outcome.dies_from_ns;
        assert!(ended || known.survived == ran.outcome.survived, "{world:?}: {known:#?} {:#?}", ran.outcome);
    }
    ran
}

tiers! {
    any_age_limit_is_found: 0..7, 0..200;
    without_an_age_limit_none_is_found: 0..4, 0..40;
    mass_death_is_no_age_limit: 0..3, 0..200;
    deaths_by_chance_are_no_age_limit: &(0..2), &(0..200);
    full_table_is_rarely_an_age_limit: 0..8, 0..100;
    an_age_limit_is_found_among_other_deaths: 0..8, 0..100;
    an_outage_of_the_path_is_no_death: 0..3, 0..60;
    age_search_resumes_earlier_search: 0..4, 0..60;
    jittered_age_limits_are_rarely_called_chance: 0..8, 0..100;
    partial_age_limit_is_found_or_unclear: 0..8, 0..100;
    few_equal_age_deaths_are_not_chance: 0..8, 0..100;
    deaths_by_chance_are_called_so: &(0..3), &(0..200);
}

fn any_age_limit_is_found(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed);
        let limit = random.between(S, 55 * S);
        let loss = random.one_of(&[0, 0, 10, 100]);
        let world = World { loss, rtt_ns: random.between(MS / 10, 150 * MS), ..aged(Some(limit), seed) };
        let Ran { outcome, .. } = ran(&world, &ages(60 * S));
        let (lived, died) = ends(&outcome);
        assert_eq!(outcome.verdict, Verdict::Found, "{limit}: {world:?}: {outcome:#?}");
        assert!(lived <= limit && limit <= died, "{lived} {limit} {died}: {world:?}");
        let wide = S + limit / 20 + 3 * world.rtt_ns;
        assert!(died - lived <= wide, "{lived} {died}: {world:?}");
        // Not all 24 are needed: eight or so, which begin within three seconds of each other.
        assert!(outcome.took_ns <= limit + 60 * S, "{} {limit}: {world:?}", outcome.took_ns);
    }
}

#[test]
fn cause_of_busy_deaths_is_reported() {
    let deaths = [Death::Silent, Death::ResetWhileIdle, Death::ClosedWhileIdle, Death::ResetOnRequest];
    for (seed, death) in (0..).zip(deaths) {
        let Ran { outcome, .. } = ran(&aged(Some(20 * S + 100 * MS), seed), &ages(60 * S));
        let how: Vec<Death> = outcome.how.keys().copied().collect();
        assert_eq!(how, [death], "{outcome:#?}");
    }
}

fn without_an_age_limit_none_is_found(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed);
        let world =
            World { loss: random.one_of(&[0, 100]), ..aged(random.one_of(&[None, Some(90 * S)]), seed) };
        let Ran { outcome, .. } = ran(&world, &ages(60 * S));
        assert_eq!(outcome.verdict, Verdict::NotFound, "{world:?}: {outcome:#?}");
        let survived = outcome.survived.expect("they did");
        assert_eq!((survived.idle_ns, survived.hits, survived.of), (60 * S, 24, 24), "{world:?}");
    }
}

/// Firewalls that are reloaded and reflectors that are restarted, once or again and again.
fn mass_death_is_no_age_limit(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed);
        let mut faults = Vec::new();
        let (mut at, times) = (0, random.between(1, 5));
        for _ in 0..times {
            at += random.between(4 * S, 50 * S);
            faults.push(if random.percent(50) { Fault::Flush(at) } else { Fault::Restart(at, S / 10) });
        }
        let world = World { faults, ..aged(None, seed) };
        let Ran { outcome, .. } = ran(&world, &ages(60 * S));
        assert_ne!(outcome.verdict, Verdict::Found, "{world:?}: {outcome:#?}");
        let together = outcome.meanwhile.iter().any(|m| matches!(m.what, What::DiedTogether { .. }));
        assert!(together || at < 20 * S || outcome.strays <= 2, "{world:?}: {outcome:#?}");
    }
}

/// The figure of issue 18: a constant hazard is called an age limit in no more than 5 % of runs.
fn deaths_by_chance_are_no_age_limit(seeds: &Range<u64>) {
    let of = runs(seeds);
    for mean_s in [3, 10, 30, 100] {
        let found = seeds.clone().filter(|seed| {
            let world = World { mean_life_ns: Some(mean_s * S), ..aged(None, 1_000 * mean_s + seed) };
            let Ran { outcome, .. } = ran(&world, &ages(60 * S));
            assert!(outcome.strays > 0 || outcome.died.is_some(), "{world:?}: {outcome:#?}");
            outcome.verdict == Verdict::Found
        });
        let found = found.count() as u64;
        assert!(is_rare(found, of, 5), "{found} of {of} at a mean life of {mean_s} s");
    }
}

/// What puts the oldest connection out when a new one begins ends each at nearly one age where they begin evenly.
fn full_table_is_rarely_an_age_limit(seeds: Range<u64>) {
    let of = runs(&seeds);
    let found = seeds.filter(|seed| {
        let world = World { places: Some(4 + (*seed as usize) % 8), ..aged(None, *seed) };
        let settings = Settings { session: *seed as u32, ..ages(60 * S) };
        ran(&world, &settings).outcome.verdict == Verdict::Found
    });
    let found = found.count() as u64;
    assert!(is_rare(found, of, 5), "{found} of {of}");
}

/// Maintenance and deaths by chance beside a limit: it is found in most runs, and the bracket holds in all.
fn an_age_limit_is_found_among_other_deaths(seeds: Range<u64>) {
    let (mut found, of) = (0, runs(&seeds));
    for seed in seeds {
        let mut random = Random(seed);
        let limit = random.between(10 * S, 40 * S);
        let world = World {
            faults: vec![Fault::Restart(random.between(5 * S, 60 * S), S / 10)],
            mean_life_ns: Some(100 * S),
            ..aged(Some(limit), seed)
        };
        let Ran { outcome, .. } = ran(&world, &ages(60 * S));
        let (lived, died) = ends(&outcome);
        assert!(
            outcome.died.is_none() || (lived <= limit && limit <= died),
            "{lived} {limit} {died}: {world:?}"
        );
        found += u64::from(outcome.verdict == Verdict::Found);
    }
    assert!(is_usual(found, of, 90), "{found} of {of}");
}

fn an_outage_of_the_path_is_no_death(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed);
        let from = random.between(2 * S, 60 * S);
        let outage = Fault::Outage(from, from + random.between(S / 2, 40 * S));
        let world = World { faults: vec![outage], ..aged(None, seed) };
        let Ran { outcome, .. } = ran(&world, &ages(60 * S));
        assert_eq!(outcome.verdict, Verdict::NotFound, "{world:?}: {outcome:#?}");
        assert_eq!(outcome.strays, 0, "{world:?}: {outcome:#?}");
    }
}

#[test]
fn age_search_stops_fails_and_repeats() {
    let stopped = World { stop_ns: Some(20 * S), ..aged(None, 1) };
    let Ran { outcome, .. } = ran(&stopped, &ages(600 * S));
    let (lived, died) = ends(&outcome);
    assert_eq!((outcome.verdict, outcome.took_ns, died), (Verdict::Stopped, 20 * S, u64::MAX));
    assert!((15 * S..20 * S).contains(&lived), "{outcome:#?}");
    let down = World { faults: vec![Fault::Restart(0, 100 * S)], ..aged(None, 1) };
    let Ran { outcome, .. } = ran(&down, &ages(60 * S));
    assert!(outcome.verdict == Verdict::Failed && outcome.why.is_some(), "{outcome:#?}");
    let gone = World { faults: vec![Fault::Restart(9 * S, 9_000 * S)], ..aged(None, 1) };
    let Ran { outcome, .. } = ran(&gone, &ages(600 * S));
    assert_eq!(outcome.verdict, Verdict::Unclear, "{outcome:#?}");
    for seed in 0..4 {
        let world = World { loss: 100, mean_life_ns: Some(20 * S), ..aged(Some(30 * S), seed) };
        let [one, two] = [0, 1].map(|_| ran(&world, &ages(60 * S)));
        assert!(one.outcome == two.outcome && one.outputs == two.outputs);
    }
}

/// Busy: every connection is asked again within the time that is said, as long as it is open and answered.
#[test]
fn connections_are_kept_in_use() {
    let Ran { outputs, .. } = ran(&aged(None, 1), &ages(60 * S));
    let mut sent = std::collections::BTreeMap::new();
    for (at, output) in &outputs {
        match output {
            Output::Send { id, .. } => {
                let before = sent.insert(*id, *at).unwrap_or(*at);
                assert!(at - before <= S / 2, "{id} was idle for {} ns", at - before);
            }
            Output::Close { id } => assert!(sent.get(id).is_none_or(|before| at - before <= S / 2), "{id}"),
            _ => {}
        }
    }
    assert_eq!(sent.len(), 24);
}

/// Another search goes on with what one knew that broke off: it keeps fewer connections, and the bracket contains the limit.
fn age_search_resumes_earlier_search(seeds: Range<u64>) {
    let (mut found, mut fewer, of) = (0, 0, runs(&seeds));
    for seed in seeds {
        let mut random = Random(seed);
        let limit = random.between(5 * S, 55 * S);
        let world = aged(Some(limit), seed);
        let mut told = ran(&world, &ages(60 * S)).told;
        told.truncate(random.below(told.len() as u64) as usize);
        let died = |event: &&fathom_core::event::Event| {
            matches!(event.kind, EventKind::LimitsJudged { became: Became::Died, .. })
        };
        let deaths = told.iter().filter(died).count();
        let Ran { outcome, told: again, .. } = go_on(&world, ages(60 * S), &told);
        assert_eq!(
            again.iter().filter(died).count(),
            outcome.lives.iter().filter(|l| l.most_ns.is_some()).count()
        );
        let (lived, most) = ends(&outcome);
        assert!(
            outcome.died.is_none() || (lived <= limit && limit <= most),
            "{lived} {limit} {most}: {world:?}"
        );
        found += u64::from(outcome.verdict == Verdict::Found);
        fewer += u64::from(outcome.opened.expect("known") + deaths as u64 <= 24 + 2);
    }
    assert!(is_usual(found, of, 91), "{found} of {of} found the limit");
    assert!(is_usual(fewer, of, 91), "{fewer} of {of} opened no more than were wanted");
}

/// "No limit: 1 connection died at other ages", of one that lived for 18.34 s to 21.92 s beside a limit between 19.93 s and 20.20 s.
#[test]
fn possible_limit_deaths_are_not_strays() {
    let mut wide = 0;
    for seed in 0..60 {
        let mut random = Random(seed ^ 0xF12);
        let limit = random.between(10 * S, 20 * S);
        let at = limit + random.between(S, 20 * S);
        let faults = vec![Fault::Outage(at, at + random.between(S, 4 * S))];
        let Ran { outcome, .. } = ran(&World { faults, ..aged(Some(limit), seed) }, &ages(60 * S));
        let (low, high) = ends(&outcome);
        if outcome.died.is_none() {
            continue;
        }
        let died = || outcome.lives.iter().filter_map(|life| Some((life.least_ns, life.most_ns?)));
        let others = died().filter(|(least, most)| *most < low || high < *least).count();
        assert!(outcome.strays as usize <= others, "{others}: {outcome:#?}");
        wide += u32::from(died().any(|(least, most)| most - least > 2 * S));
    }
    assert!(wide >= 5, "{wide} of 60 searches have a death whose age is hardly known");
}

/// What is said of connections that died of no limit that was found, and never that there is none beside many.
fn check_none(ran: &Ran, up_to_ns: u64) -> bool {
    let outcome = &ran.outcome;
    let became = outcome.lives.iter().filter(|l| l.most_ns.is_none() && l.least_ns >= up_to_ns).count();
    let none = outcome.verdict == Verdict::NotFound;
    assert!(!none || outcome.strays as usize * 3 <= became, "{outcome:#?}");
    let text = outcome.text("there");
    let headline = text.lines().next().expect("a headline");
    let claims = outcome.dies_from_ns.is_none() || headline.contains(": age limit unclear: ");
    assert!(claims, "{text}");
    text.contains("as by chance")
}

/// Every connection has an age limit of its own, half to one and a half of some age: "no age limit up to 13.27 s; 24 connections died
/// at ages without a pattern, as by chance", where all had died and none had reached 18 s.
fn jittered_age_limits_are_rarely_called_chance(seeds: Range<u64>) {
    let (mut chance, mut found, of) = (0, 0, runs(&seeds));
    for seed in seeds {
        let age = Random(seed ^ 0x0A6E).between(6 * S, 35 * S);
        let own_ages = Some(Own { percent: 100, from_ns: age / 2, to_ns: age * 3 / 2 });
        let ran = ran(&World { own_ages, ..aged(None, seed) }, &ages(60 * S));
        assert_ne!(ran.outcome.verdict, Verdict::NotFound, "{:#?}", ran.outcome);
        chance += u64::from(check_none(&ran, 60 * S));
        found += u64::from(ran.outcome.verdict == Verdict::Found);
    }
    assert!(
        is_rare(chance, of, 5) && is_rare(found, of, 5),
        "{chance} called chance, {found} found, of {of}"
    );
}

/// "Died by 12.00 s: 5 of 12", though it is to be the age by which most had died.
fn partial_age_limit_is_found_or_unclear(seeds: Range<u64>) {
    let (mut chance, mut found, of) = (0, 0, runs(&seeds));
    for seed in seeds {
        let mut random = Random(seed ^ 0x50A6E);
        let (age, percent) = (random.between(5 * S, 40 * S), random.one_of(&[40, 50, 60, 80]));
        let own_ages = Some(Own { percent, from_ns: age, to_ns: age + 1 });
        let ran = ran(&World { own_ages, ..aged(None, seed) }, &ages(60 * S));
        chance += u64::from(check_none(&ran, 60 * S));
        if let Some(died) = ran.outcome.died {
            let (low, high) = ends(&ran.outcome);
            assert!(low <= age && age <= high, "{low} {age} {high}: {:#?}", ran.outcome);
            assert!(died.hits * 2 > died.of, "most had died by then: {:#?}", ran.outcome);
            found += 1;
        } else {
            assert_ne!(ran.outcome.verdict, Verdict::NotFound, "{:#?}", ran.outcome);
        }
    }
    assert!(is_rare(chance, of, 2), "{chance} of {of} called chance");
    assert!(!is_many(of) || found * 5 >= of, "{found} of {of} found");
}

/// Ended when three had died of a limit: "3 connections died at ages without a pattern, as by chance (from 12.00 s to 12.00 s)".
fn few_equal_age_deaths_are_not_chance(seeds: Range<u64>) {
    let (mut told, of) = (0, runs(&seeds));
    for seed in seeds {
        let age = Random(seed ^ 0x3).between(4 * S, 50 * S);
        let stop_ns = Some(age + 9 * S);
        let ran = ran(&World { stop_ns, ..aged(Some(age), seed) }, &ages(60 * S));
        assert!(!check_none(&ran, 60 * S), "{:#?}", ran.outcome);
        told += u64::from(ran.outcome.verdict == Verdict::Stopped && ran.outcome.dies_from_ns.is_some());
    }
    assert!(!is_many(of) || told * 2 >= of, "{told} of {of}");
}

/// Of a constant hazard it is said, in 97 of 100 cases, that it may be chance.
fn deaths_by_chance_are_called_so(seeds: &Range<u64>) {
    for mean_s in [10, 30, 100] {
        let (mut called, mut of) = (0, 0);
        for seed in seeds.clone() {
            let world = World { mean_life_ns: Some(mean_s * S), ..aged(None, 5_000 * mean_s + seed) };
            let ran = ran(&world, &ages(60 * S));
            let chance = check_none(&ran, 60 * S);
            if ran.outcome.died.is_none() && ran.outcome.strays >= 3 {
                called += u64::from(chance);
                of += 1;
            }
        }
        assert!(!is_many(runs(seeds)) || of * 2 >= runs(seeds), "{of} with three deaths or more");
        assert!(is_usual(called, of, 97), "{called} of {of} at a mean life of {mean_s} s");
    }
}

/// What is closed before it is asked again ended in "as by chance", and the search went on for an hour without a connection.
#[test]
fn death_before_second_request_ends_search() {
    for limit_ns in [MS, S] {
        for seed in 0..20 {
            let world = World { seed, ..world(Some(limit_ns), Kind::FinAtExpiry) };
            let Ran { outcome, .. } = ran(&world, &ages(7_200 * S));
            assert_eq!(outcome.verdict, Verdict::Unclear, "{outcome:#?}");
            assert!(outcome.why.as_ref().is_some_and(|why| why.contains("asked again")), "{outcome:#?}");
            assert!(outcome.took_ns < 60 * S, "{outcome:#?}");
        }
    }
}
