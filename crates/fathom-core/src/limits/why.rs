//! Why a search came to no clear result, in words.

use super::age::{Life, died_and_became, may_be_chance};
use super::doubt::Doubt;
use super::plan::S;
use crate::event::Limit;
use crate::text::count;
use crate::units::duration_text as duration;

/// To hundredths of a second below a minute: the two ends of a bracket may be that near.
pub(super) fn exact(ns: u64) -> String {
    if ns < 60 * S { format!("{:.2} s", ns as f64 / 1e9) } else { duration(ns) }
}

/// Why what became of idle connections is neither a limit nor none.
pub(super) fn contradicted(doubt: &Doubt) -> String {
    let Doubt { from_ns, died, judged, survived_ns } = *doubt;
    let judged = count(judged.into(), "connection");
    format!(
        "{died} of {judged} died, from {} of idleness on, and others survived {}: that is neither one limit nor none; several instances with limits of their own look so, deaths by chance, and one moment that ends what is idle (`fathom probe` explains each)",
        exact(from_ns),
        exact(survived_ns)
    )
}

/// Why requests that were acknowledged and not answered are not claimed to be a limit.
pub(super) fn not_answered(limit: Limit, from_ns: u64) -> String {
    let from = match limit {
        Limit::Idle => format!("{} of idleness", exact(from_ns)),
        Limit::Age => format!("the age of {}", exact(from_ns)),
    };
    format!(
        "from {from} on requests were acknowledged and not answered: the path carries them to whoever acknowledges, and the application there does not answer, or a proxy there lost what is behind it (`fathom echo` behind it tells which)"
    )
}

/// Why the lives of busy connections are neither an age limit nor none.
pub(super) fn no_age_for_all(lives: &[Life], up_to_ns: u64) -> String {
    let (died, became) = died_and_became(lives, up_to_ns);
    let all = count((died + became).into(), "connection");
    let ages = match may_be_chance(lives) {
        Some(false) => {
            "at ages that chance does not make and that are not one age; connections, or instances, may have limits of their own"
        }
        Some(true) => "at any age alike, as by chance; too few became so old to say that there is no limit",
        None => "too few to tell of what",
    };
    format!("{died} of {all} died before the age of {}: {ages}", exact(up_to_ns))
}

/// What a target does whose connections end early.
pub(super) fn not_asked_again(most_ns: u64, every_ns: u64) -> String {
    format!(
        "ended each connection within {}, before it was asked again after {}: that may be an idle limit (look for it first, without --age) or a server that takes one request",
        exact(most_ns),
        exact(every_ns)
    )
}
