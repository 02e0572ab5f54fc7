//! What holds for every search for the idle limit, and for what is recorded of it.

use super::world::{MS, Ran, S};
use fathom_core::event::{Became, EventKind};
use fathom_core::limits::{Death, OPENINGS_A_SECOND, Output, Row, Settings, What};
use std::collections::{BTreeMap, BTreeSet};

/// What holds for every run.
pub(super) fn check(ran: &Ran, settings: &Settings, what: &dyn std::fmt::Debug) {
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
    let band = ran.outcome.is_band();
    let is_row = |row: &Row| {
        ran.outcome.died.is_some_and(|end| {
            // A connection that was seen to end may have died of a shorter idle time than others of a band survived.
            let most_ns = if band { row.most_ns.max(Some(row.length_ns)) } else { row.most_ns };
            most_ns == Some(end.idle_ns) && row.died == end.hits
        })
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
        // The shortest length with a death is tried once more in each round. If connections contradict each other,
        // twelve connections try both ends, up to seven times.
        let most = 4 * settings.per_length + 7 * 12;
        assert!(all <= most || row.void > 0 || goes_on, "{row:?} {what:?}");
        assert!(least || ran.outcome.survived.is_some(), "{row:?}");
    }
}

/// What is recorded of the connections amounts to the result, and tells of each connection once.
pub(super) fn check_told(ran: &Ran, what: &dyn std::fmt::Debug) {
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
