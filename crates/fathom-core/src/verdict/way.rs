//! Which way was lost: by the peer report, by the stamps of the first late echo, and by the reflector's count.

use super::facts::{Datagrams, Facts, Late};
use super::server::Reported;
use super::{Direction, Fresh, SaidBy, Verdict, samples, seconds};
use crate::text::count;

/// Whether a part of something is most of it: four fifths. A way that took so much of what a round trip took longer than usual
/// held the sample up.
pub(crate) fn is_most(part: u64, all: u64) -> bool {
    part * 5 >= all * 4
}

/// What the peer report says of the direction, in a sentence.
fn sentence(reported: &Reported, direction: Direction) -> String {
    let last_seq = reported.report.last_seq.unwrap_or(0);
    match direction {
        Direction::Return => {
            let waiting = match reported.report.unacked {
                Some(n @ 1..) => {
                    format!(", and of its echoes {} there for acknowledgement", waits(n.into()))
                }
                _ => String::new(),
            };
            let unseen = if reported.sent > last_seq + 1 {
                " (whether the way there was too, later, cannot be seen)"
            } else {
                ""
            };
            format!(
                "the reflector says that it received sample {last_seq}, and no echo came after that of {}: the way back was interrupted{unseen}{waiting}",
                before(reported.first_missing)
            )
        }
        Direction::Forward => format!(
            "the reflector says that it received nothing after sample {last_seq}, so {} did not reach it: the way there was interrupted (whether the way back was too cannot be seen)",
            samples(reported.sent - reported.first_missing)
        ),
    }
}

fn waits(segments: u32) -> String {
    if segments == 1 { "1 segment waits".to_owned() } else { format!("{segments} segments wait") }
}

/// The sample before the first missing one, in words.
fn before(first_missing: u64) -> String {
    first_missing.checked_sub(1).map_or_else(|| "none".to_owned(), |seq| format!("sample {seq}"))
}

/// Which way was lost, where the verdict is one that asks so; says why, or that it is not known.
pub(super) fn direction(facts: &Facts, verdict: Verdict, because: &mut Vec<String>) -> Option<Direction> {
    // Of an end that came at once no way was silent.
    if !matches!(verdict, Verdict::PathDown | Verdict::FlowForgotten | Verdict::IdleExpired)
        || !facts.was_silent()
    {
        return None;
    }
    let by_report = facts.reported.and_then(|reported| {
        let direction = facts.told_direction()?;
        Some((direction, sentence(&reported, direction)))
    });
    let stamps = by_stamps(facts).map(|direction| (direction, words(facts, direction)));
    let mut told: Vec<(Option<Direction>, String)> =
        by_report.into_iter().chain(stamps).map(|(direction, words)| (Some(direction), words)).collect();
    told.extend(facts.datagrams.filter(|datagrams| datagrams.missing > 0).map(by_count));
    let agreed =
        told.first().and_then(|told| told.0).filter(|first| told.iter().all(|(way, _)| *way == Some(*first)));
    let disputed = told.len() > 1 && agreed.is_none();
    let undecided = told.is_empty();
    because.extend(told.into_iter().map(|(_, sentence)| sentence));
    if disputed {
        because.push("so both ways were interrupted, one after the other".to_owned());
    } else if undecided && verdict == Verdict::PathDown {
        if let Some(late) = facts.late.filter(|_| verdict == Verdict::PathDown) {
            because.push(both(late));
        } else if !names_a_place(facts) {
            because.push("which way was lost is not known".to_owned());
        }
    }
    agreed
}

/// What a fresh connection met names the place, which is on the way there.
fn names_a_place(facts: &Facts) -> bool {
    matches!(facts.fresh, Fresh::NoRoute | Fresh::Forbidden)
        || matches!(facts.fresh_said_by, SaidBy::NoGateway(_) | SaidBy::NoCarrier)
        || facts.fresh == Fresh::Refused && matches!(facts.fresh_said_by, SaidBy::Between(_))
}

/// The way that took most of what the first late echo was late by.
pub(super) fn by_stamps(facts: &Facts) -> Option<Direction> {
    let Late { forward_ns, back_ns, .. } = facts.late.filter(|late| late.calm)?;
    let all = forward_ns + back_ns;
    // Where the round trip was hardly longer than usual, its ways explain nothing.
    if all < facts.silent_ns / 2 {
        return None;
    }
    // What waited for a host to run was not on its way all that time, nor was an echo that waited for acknowledgements.
    if facts.has_local_pause() {
        return None;
    }
    match (is_most(forward_ns, all), is_most(back_ns, all)) {
        (true, _) if !facts.request_waited() => Some(Direction::Forward),
        (_, true) if !facts.has_come_again() && !facts.echo_waited() => Some(Direction::Return),
        _ => None,
    }
}

fn words(facts: &Facts, direction: Direction) -> String {
    let Some(Late { forward_ns, back_ns, .. }) = facts.late else { return String::new() };
    match direction {
        Direction::Forward => format!(
            "the reflector received the first late request {} later than usual: it was lost or held up on the way there (whether the way back was too cannot be seen)",
            seconds(forward_ns)
        ),
        Direction::Return => format!(
            "the reflector had received the request in time and its echo came {} later than usual: it was lost or held up on the way back",
            seconds(back_ns)
        ),
    }
}

fn both(late: Late) -> String {
    format!(
        "by the reflector's stamps the first late echo took {} longer than usual on the way there and {} on the way back",
        seconds(late.forward_ns),
        seconds(late.back_ns)
    )
}

/// What the reflector counted says.
fn by_count(Datagrams { missing, received }: Datagrams) -> (Option<Direction>, String) {
    let are = if missing == 1 { "is" } else { "are" };
    let n = format!("{} that {are} missing", count(missing, "datagram"));
    match received {
        0 => (
            Some(Direction::Forward),
            format!("by its count the reflector received none of the {n}: the way there lost them"),
        ),
        received if received >= missing => (
            Some(Direction::Return),
            format!("by its count the reflector received all of the {n}: the way back lost their echoes"),
        ),
        received => {
            (None, format!("by its count the reflector received {received} of the {n}: both ways lost some"))
        }
    }
}
