//! What holds among the steps of a search for the rate ceiling and its result. `fathom recording verify` asks for it.

use super::outcome::{Bound, Ceiling};
use super::search::{Asked, CeilingSearch};
use super::step::Step;
use super::tally::{Seen, due_in_windows};
use crate::event::{CeilingStepped, Window};
use crate::limits::Verdict;

/// In each window and in all.
pub(super) const ADDS_UP: &str =
    "of a step: due = sent + refused, sent = answered + outstanding, and its windows are the step";
pub(super) const DELAYS: &str = "a step has delays exactly where a packet was answered, and they rise";
pub(super) const ORDER: &str = "steps come in the order in which the search takes them";
pub(super) const JUDGED: &str = "a step is judged by its windows and those of the steps before it";
pub(super) const RESULT: &str = "the result follows from the steps";

/// What does not agree, each with its law.
pub(super) fn contradictions(
    asked: Asked,
    steps: &[CeilingStepped],
    ended: Option<&Ceiling>,
    whole: bool,
) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let named = |what: &str| format!("step {} ({}/s): {what}", at + 1, step.rate_per_s);
        if let Some(what) = does_not_add_up(step) {
            all.push((ADDS_UP, named(what)));
        }
        if !has_its_delays(step) {
            all.push((DELAYS, named("its delays")));
        }
    }
    if !whole {
        return all;
    }
    let mut search = CeilingSearch::new(asked);
    for (at, step) in steps.iter().enumerate() {
        let named = |what: String| format!("step {} ({}/s): {what}", at + 1, step.rate_per_s);
        let expected = search.step();
        let follows = at == 0 || steps[at - 1].earlier >= step.earlier;
        if expected != Some(Step::of(step)) || !follows {
            let text = match expected {
                Some(expected) if expected != Step::of(step) => {
                    format!("{}/s for {} ns was next", expected.rate_per_s, expected.lasts_ns)
                }
                Some(_) => "it is of an earlier search, after one that is not".to_owned(),
                None => "the search was over".to_owned(),
            };
            all.push((ORDER, named(text)));
            return all;
        }
        let Some(judged) = search.seen(Seen::of(step)) else { break };
        if (judged.judged, judged.worse) != (step.judged, step.worse) {
            all.push((JUDGED, named(format!("{:?}, and it is {:?}", step.judged, judged.judged))));
        }
    }
    all.extend(ended.and_then(|ended| does_not_follow(search, steps, ended)).map(|text| (RESULT, text)));
    all
}

fn does_not_add_up(step: &CeilingStepped) -> Option<&'static str> {
    let windows = &step.windows;
    let sum = |what: fn(&Window) -> u64| windows.iter().map(what).fold(0, u64::saturating_add);
    let is_sum = |a: u64, b: u64, sum: u64| a.checked_add(b) == Some(sum);
    let due = windows.iter().map(|window| window.due);
    // A step of no packets has no times; one of hours would have windows without number.
    if !(1..=1_000_000).contains(&step.rate_per_s) || step.lasts_ns > 3_600_000_000_000 {
        return Some("no search has such a step");
    }
    let told = [step.due, step.sent, step.refused, step.answered, step.again];
    let summed = [sum(|w| w.due), sum(|w| w.sent), sum(|w| w.refused), sum(|w| w.answered), sum(|w| w.again)];
    let segments = windows.iter().map(|w| w.segments).try_fold(0, |sum: u64, n| Some(sum.saturating_add(n?)));
    let some = windows.iter().any(|w| w.segments.is_some());
    if told != summed || step.segments != segments || (segments.is_none() && some) {
        Some("its figures are not the sums of its windows")
    } else if !due.eq(due_in_windows(Step::of(step))) {
        Some("other packets are due at that rate")
    } else if !windows.iter().all(|w| is_sum(w.sent, w.refused, w.due)) {
        Some("what was due is not what was sent and what was refused")
    } else if !windows.iter().all(|w| w.answered <= w.sent)
        || !is_sum(step.answered, step.outstanding, step.sent)
    {
        Some("what was sent is not what was answered and what was outstanding")
    } else if !windows.iter().all(|w| w.delay_ns.is_some() == (w.answered > w.due / 2)) {
        Some("a window has its median where more than half were answered, and nowhere else")
    } else {
        None
    }
}

fn has_its_delays(step: &CeilingStepped) -> bool {
    let rise = step.delays.is_none_or(|d| d.p50_ns <= d.p99_ns && d.p99_ns <= d.max_ns);
    rise && step.delays.is_some() == (step.answered > 0)
}

/// How the result is another than that of the same search.
fn does_not_follow(mut search: CeilingSearch, steps: &[CeilingStepped], ended: &Ceiling) -> Option<String> {
    if !search.is_over() {
        match (ended.verdict, &ended.why) {
            (Verdict::Stopped, None) => search.stop(None),
            // A connection broke, say: that is told by nobody else.
            (Verdict::Unclear, Some(why)) => search.stop(Some(why.clone())),
            (verdict, _) => return Some(format!("{verdict:?}, and the steps do not decide it")),
        }
    }
    let earlier = steps.iter().filter(|step| step.earlier).count() as u64;
    let follows = Ceiling { earlier, ..search.outcome(ended.took_ns) };
    // By way of its text, because that is how the other came here.
    let text = serde_json::to_string(&follows).ok()?;
    let follows: Ceiling = serde_json::from_str(&text).ok()?;
    if follows == *ended {
        return None;
    }
    let ends = |found: &Ceiling| {
        let rate = |end: Option<Bound>| end.map_or("none".to_owned(), |end| format!("{}/s", end.rate_per_s));
        format!("{:?}, good {}, bad {}", found.verdict, rate(found.good), rate(found.bad))
    };
    let (told, led) = (ends(ended), ends(&follows));
    Some(if told == led {
        "other figures".to_owned()
    } else {
        format!("it tells {told}; the steps lead to {led}")
    })
}
