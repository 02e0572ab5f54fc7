//! Searches for idle limits in virtual time: whatever the limit, how it kills and what is lost, the bracket contains it, in
//! time; without a limit none is found; what dies for another reason is no limit; connections are asked once and are no more
//! than allowed; equal seeds give equal runs.

#[path = "limits_world/ages.rs"]
mod ages;
#[path = "limits_world/by_chance.rs"]
mod by_chance;
#[path = "limits_world/killed.rs"]
mod killed;
#[path = "limits_world/late.rs"]
mod late;
mod limits_world;
#[path = "limits_world/moment.rs"]
mod moment;
#[path = "limits_world/one_way.rs"]
mod one_way;
#[path = "limits_world/outages.rs"]
mod outages;
#[path = "limits_world/unanswered.rs"]
mod unanswered;

use fathom_core::event::{Became, EventKind};
use fathom_core::limits::{
    AtMost, Death, Limit, OPENINGS_A_SECOND, Outcome, Output, Recorded, Row, Settings, Verdict, What,
};
use limits_world::{Counts, Fault, Kind, MS, Ran, Random, S, World, go_on, run};
use std::collections::{BTreeMap, BTreeSet};

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

/// What holds for every run.
fn check(ran: &Ran, settings: &Settings, what: &dyn std::fmt::Debug) {
    let mut sends: BTreeMap<u32, u32> = BTreeMap::new();
    let mut looks: BTreeMap<u32, u32> = BTreeMap::new();
    let mut openings = Vec::new();
    for (at, output) in &ran.outputs {
        match output {
            Output::Send { id, .. } => *sends.entry(*id).or_default() += 1,
            Output::Look { id } => *looks.entry(*id).or_default() += 1,
            Output::Open { .. } => openings.push(*at),
            Output::Close { .. } | Output::Event { .. } => {}
        }
    }
    let all_died = ran.outcome.meanwhile.iter().any(|m| matches!(m.what, What::AllDied { .. }));
    let told = |id: u32| {
        ran.told.iter().filter(move |event| event.connection == Some(id)).find_map(|event| match event.kind {
            EventKind::LimitsJudged { became, how, .. } => Some((became, how)),
            _ => None,
        })
    };
    for (id, times) in &looks {
        // A second look is at a silence.
        let silent = [None, Some(Death::Silent), Some(Death::NotAnswered)];
        let again = told(*id).is_none_or(|(became, how)| became != Became::Survived && silent.contains(&how));
        assert!(*times == 1 || (*times == 2 && again), "{id} is looked at once: {what:?}");
        // Unless it was closed at that moment, because a control connection died; at those is looked when they are silent.
        let sends = sends[id];
        let closed = all_died && (sends == 1 || told(*id).is_none());
        assert!(sends == 2 || closed, "{id}, opened and asked once: {what:?}");
    }
    let judged: u32 = ran.outcome.lengths.iter().map(|row| row.survived + row.died).sum();
    assert!(judged as usize <= ran.outputs.len());
    let asked = looks.len() as u32;
    let idle = ran.outcome.lengths.iter().map(|row| row.survived).sum::<u32>();
    let earlier = ran.told.iter().filter(|event| {
        let survived = matches!(event.kind, EventKind::LimitsJudged { became: Became::Survived, .. });
        survived && event.connection.is_none()
    });
    assert!(idle <= asked + earlier.count() as u32, "who survived was asked: {what:?}");
    assert!(ran.most_open <= settings.connections.0, "{} open: {what:?}", ran.most_open);
    for window in openings.windows(OPENINGS_A_SECOND as usize + 1) {
        assert!(
            window[window.len() - 1] - window[0] >= S,
            "more than {OPENINGS_A_SECOND} in a second: {what:?}"
        );
    }
    check_told(ran, what);
    // "Died of" is what the row of its length says.
    let is_row = |row: &Row| {
        ran.outcome.died.is_some_and(|end| row.most_ns == Some(end.idle_ns) && row.died == end.hits)
    };
    assert!(
        ran.outcome.died.is_none() || ran.outcome.lengths.iter().any(is_row),
        "{what:?}: {:#?}",
        ran.outcome
    );
    let goes_on = ran
        .told
        .iter()
        .any(|event| matches!(event.kind, EventKind::LimitsJudged { .. }) && event.connection.is_none());
    for row in &ran.outcome.lengths {
        let least = row.least_ns.is_none_or(|least| least + 50 * MS >= row.length_ns || row.survived == 0);
        // A recording says of which length a connection was, and not of which set of that length.
        let all = row.survived + row.died + row.void;
        // The shortest that was died of is tried once more in each round.
        let most = 4 * settings.per_length;
        assert!(all <= most || row.void > 0 || goes_on, "{row:?} {what:?}");
        assert!(least || ran.outcome.survived.is_some(), "{row:?}");
    }
}

/// What is recorded of the connections amounts to the result, and tells of each connection once.
fn check_told(ran: &Ran, what: &dyn std::fmt::Debug) {
    let mut told: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    let mut once = BTreeSet::new();
    for event in &ran.told {
        let EventKind::LimitsJudged { length_ns, became, .. } = &event.kind else { continue };
        // What an earlier search judged has no number in this one.
        assert!(
            event.connection.is_none() || once.insert(event.connection),
            "{event:?} comes again: {what:?}"
        );
        let (survived, died) = told.entry(*length_ns).or_default();
        match became {
            Became::Survived => *survived += 1,
            Became::Died => *died += 1,
            Became::Void => {}
        }
    }
    let mut rows: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    for row in &ran.outcome.lengths {
        let before = rows.insert(row.length_ns, (row.survived, row.died));
        assert_eq!(before, None, "a length stands there once: {what:?}");
    }
    told.retain(|_, counts| *counts != (0, 0));
    rows.retain(|_, counts| *counts != (0, 0));
    assert_eq!(told, rows, "{what:?}");
}

fn ran(world: &World, settings: &Settings) -> Ran {
    let ran = run(world, settings.clone());
    check(&ran, settings, world);
    ran
}

#[test]
fn the_bracket_contains_the_limit_whatever_it_is() {
    let settings = settings(600 * S);
    for seed in 0..100 {
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
        let took = limit + limit / 10 + 60 * S;
        assert!(outcome.took_ns <= took, "{} instead of {took}: {world:?}", outcome.took_ns);
        // Within 5 % or half a second, but for what a long way adds.
        let off = (survived + (died - survived) / 2).abs_diff(limit);
        assert!(off <= (limit / 20).max(S / 2) + world.rtt_ns, "{survived} {limit} {died}: {world:?}");
    }
}

/// With one connection a length no other makes up for what was sent again, which moves the beginning of an idleness or its end.
#[test]
fn one_connection_claims_no_more_than_it_has_seen() {
    let settings = Settings { per_length: 1, ..settings(10 * S) };
    for seed in 0..300 {
        let limit = Random(seed).between(S, 7 * S);
        let world = World { limit_ns: Some(limit), loss: 200, rtt_ns: 20 * MS, ..any_world(seed) };
        let Ran { outcome, .. } = ran(&world, &settings);
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}: {outcome:#?}");
    }
}

#[test]
fn how_they_died_is_told() {
    let deaths = [Death::Silent, Death::ResetWhileIdle, Death::ClosedWhileIdle, Death::ResetOnRequest];
    for (kind, death) in KINDS.into_iter().zip(deaths) {
        let Ran { outcome, .. } = ran(&world(Some(7_300 * MS), kind), &settings(60 * S));
        assert_eq!(outcome.how, BTreeMap::from([(death, 3)]), "{outcome:#?}");
        assert!(outcome.confirmed && outcome.meanwhile.is_empty() && outcome.strays == 0, "{outcome:#?}");
        assert_eq!(outcome.died.expect("they died").hits, 3);
        assert_eq!(outcome.survived.expect("they lived").hits, 3);
    }
}

#[test]
fn an_hours_limit_takes_little_more_than_an_hour() {
    for limit_s in [3_600, 3_000, 1_234] {
        let world = World { rtt_ns: 30 * MS, ..world(Some(limit_s * S), Kind::Silent) };
        let Ran { outcome, .. } = ran(&world, &settings(2 * 3_600 * S));
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit_s * S && limit_s * S <= died && outcome.confirmed, "{outcome:#?}");
        assert!(died - survived <= limit_s * S / 40, "{survived} {died}");
        assert!(outcome.took_ns <= limit_s * S * 11 / 10 + 60 * S, "{}", outcome.took_ns);
    }
}

#[test]
fn without_a_limit_none_is_found() {
    let settings = settings(60 * S);
    for seed in 0..100 {
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

#[test]
fn what_else_ends_connections_is_no_limit() {
    let settings = settings(60 * S);
    for seed in 0..80 {
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

#[test]
fn a_limit_is_found_whatever_else_happens() {
    let settings = settings(60 * S);
    let mut found = 0;
    for seed in 0..80 {
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
        found += u32::from(outcome.verdict == Verdict::Found);
    }
    assert!(found >= 75, "{found} of 80");
}

#[test]
fn a_system_that_tells_nothing_of_its_kernel_will_do() {
    for seed in 0..50 {
        let world = World { kernel: false, loss: 0, ..any_world(seed) };
        let limit = world.limit_ns.expect("one");
        let Ran { outcome, .. } = ran(&world, &settings(600 * S));
        let (survived, died) = ends(&outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}");
    }
}

#[test]
fn a_limit_below_the_shortest_length_has_no_lower_end() {
    let Ran { outcome, .. } = ran(&world(Some(400 * MS), Kind::ResetOnPacket), &settings(10 * S));
    assert_eq!(outcome.verdict, Verdict::Found, "{outcome:#?}");
    assert!(ends(&outcome).0 <= 400 * MS && ends(&outcome).1 >= 400 * MS, "{outcome:#?}");
}

#[test]
fn stopped_it_tells_what_it_knows() {
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
fn a_peer_that_goes_for_good_ends_it_within_a_minute() {
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

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..20 {
        let world = World { faults: vec![Fault::Flush(9 * S)], ..any_world(seed) };
        let [one, two] = [0, 1].map(|_| ran(&world, &settings(60 * S)));
        assert_eq!(one.outcome, two.outcome);
        assert!(one.outputs == two.outputs);
    }
}

/// A recording that breaks off says no more than what had been judged by then, and nothing of a length some of whose
/// connections had not been.
#[test]
fn what_was_recorded_until_then_is_what_is_known() {
    let limit = 9 * S;
    let Ran { told, outcome, .. } = ran(&world(Some(limit), Kind::ResetOnPacket), &settings(60 * S));
    let mut recorded = Recorded::default();
    assert_eq!(recorded.outcome(), None);
    let mut died = false;
    for event in &told {
        recorded.event(event);
        let Some(known) = recorded.outcome() else { continue };
        assert_eq!((known.verdict, known.up_to_ns), (Verdict::Stopped, 60 * S));
        let (survived, most) = ends(&known);
        assert!(survived <= limit && limit <= most, "{survived} {most}");
        assert!(known.survived.is_none_or(|end| end.hits >= 2), "{known:#?}");
        died |= known.died.is_some();
    }
    assert!(died && ends(&recorded.outcome().expect("it is known")) == ends(&outcome));
}

/// A search that breaks off anywhere, and another that goes on: the bracket contains the limit, and what the first one knew is
/// not tried again.
#[test]
fn a_search_goes_on_where_another_ended() {
    let settings = settings(600 * S);
    let mut saved = 0;
    for seed in 0..100 {
        let world = any_world(seed);
        let whole = ran(&world, &settings);
        let mut told = whole.told.clone();
        let before = Random(seed).below(told.len() as u64 + 1) as usize;
        told.truncate(before);
        let again = go_on(&world, settings.clone(), &told);
        check(&again, &settings, &world);
        let (survived, died) = ends(&again.outcome);
        let limit = world.limit_ns.expect("it has one");
        let within = limit <= 600 * S;
        let verdict = if within { Verdict::Found } else { Verdict::NotFound };
        assert_eq!(again.outcome.verdict, verdict, "{before} of it: {world:?}: {:#?}", again.outcome);
        assert!(survived <= limit && limit <= died, "{survived} {limit} {died}: {world:?}");
        let judged: BTreeSet<u64> = whole_lengths(&told, settings.per_length);
        let bracket = |length: &&u64| {
            again.told.iter().any(|event| {
                let EventKind::LimitsJudged { length_ns, .. } = &event.kind else { return false };
                event.connection.is_some() && length_ns == *length
            })
        };
        let again_tried: Vec<&u64> = judged.iter().filter(bracket).collect();
        assert!(again_tried.len() <= 1, "but for the shorter end: {again_tried:?}: {world:?}");
        saved += usize::from(again.outcome.opened < whole.outcome.opened);
    }
    assert!(saved >= 60, "{saved} of 100 opened fewer connections than a whole search");
}

/// Lengths all of whose connections survived.
fn whole_lengths(told: &[fathom_core::event::Event], per_length: u32) -> BTreeSet<u64> {
    let mut survived: BTreeMap<u64, u32> = BTreeMap::new();
    for event in told {
        if let EventKind::LimitsJudged { length_ns, became: Became::Survived, .. } = &event.kind {
            *survived.entry(*length_ns).or_default() += 1;
        }
    }
    survived.into_iter().filter(|(_, times)| *times >= per_length).map(|(length, _)| length).collect()
}

/// What was "at most 8 s" took 11: wherever the limit is, however it kills, and whether the search goes on from another, what is
/// told of the time to go is a bound, at every moment.
#[test]
fn no_search_takes_longer_than_it_says() {
    let check = |ran: &Ran, what: &dyn std::fmt::Debug| {
        assert!(!ran.left.is_empty(), "{what:?}");
        for (at, left) in &ran.left {
            let (at_s, left_s, took_s) = (*at as f64 / 1e9, *left as f64 / 1e9, ran.took_ns as f64 / 1e9);
            assert!(
                at + left >= ran.took_ns,
                "after {at_s} s at most {left_s} s to go, and it took {took_s} s: {what:?} {:#?}",
                ran.outcome
            );
        }
    };
    for seed in 0..80 {
        let mut random = Random(1_000 + seed);
        let up_to_ns = [S, 8 * S, 40 * S, 200 * S][random.below(4) as usize];
        let mut world = World { loss: 0, ..any_world(seed) };
        world.limit_ns = random.percent(80).then(|| random.between(up_to_ns / 4, up_to_ns * 11 / 10));
        let per_length = random.one_of(&[1, 3, 9]);
        let settings = Settings { per_length, ..settings(up_to_ns) };
        let whole = run(&world, settings.clone());
        check(&whole, &(&world, &settings));
        // And where it was stopped and goes on.
        world.stop_ns = Some(random.between(S / 2, whole.took_ns.max(S)));
        let stopped = run(&world, settings.clone());
        let earlier = stopped.told.iter().any(|e| matches!(e.kind, EventKind::LimitsJudged { .. }));
        if stopped.outcome.verdict == Verdict::Stopped && earlier {
            world.stop_ns = None;
            check(&go_on(&world, settings.clone(), &stopped.told), &("went on", &world, &settings));
        }
    }
}

/// A search that survived a minute was said to go on up to ten seconds, and had nothing to do.
#[test]
fn a_search_goes_on_only_to_what_it_does_not_know() {
    let mut world = world(None, Kind::Silent);
    world.stop_ns = Some(65 * S);
    let stopped = run(&world, settings(600 * S));
    let mut recorded = Recorded::default();
    stopped.told.iter().for_each(|event| recorded.event(event));
    let why = |up_to_s: u64, limit| recorded.why_not("there", limit, &settings(up_to_s * S));
    assert_eq!(why(600, Limit::Idle), None);
    let refused = why(10, Limit::Idle).expect("refused");
    assert!(refused.contains("survived") && refused.contains("--up-to is 10s"), "{refused}");
    assert!(why(600, Limit::Age).is_some_and(|why| why.contains("leave out --age")));
    let elsewhere = recorded.why_not("elsewhere", Limit::Idle, &settings(600 * S));
    assert!(elsewhere.is_some_and(|why| why.contains("a search of elsewhere, not of there")));
}
