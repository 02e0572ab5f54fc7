//! Attempts to connect that failed or hang, in a sentence.

use super::tries::Tries;
use super::words::{count, ordinals, times};
use super::{Confidence, Line};
use crate::units::duration_text as duration;
use crate::verdict::Verdict;

/// `ECONNREFUSED` of Linux.
const REFUSED: i32 = 111;

/// `refused 50 times over 7m, then connected`.
pub(super) fn line(tries: &Tries<'_>) -> Line {
    let what = if tries.count == 0 { unanswered(tries) } else { failed(tries) };
    let local = if tries.local {
        ". Verdict: local, because this host sent nothing: that is no failure of the target"
    } else {
        ""
    };
    let mut line = Line::fact(tries.first.utc, format!("{what}, {}{local}", then(tries)));
    line.evidence =
        tries.errors.iter().take(5).map(|(error, _, n)| format!("{}: {error}", times(*n))).collect();
    if let Some((attempts, remote)) = tries.hanging {
        let text =
            format!("{remote} did not answer: {} to connect without an answer", count(attempts, "attempt"));
        line.evidence.push(text);
    }
    if tries.local {
        (line.verdict, line.confidence) = (Some(Verdict::Local), Confidence::High);
    }
    line
}

fn failed(tries: &Tries<'_>) -> String {
    let refused: u64 =
        tries.errors.iter().filter(|(_, errno, _)| *errno == Some(REFUSED)).map(|(.., n)| n).sum();
    let (subject, failed) = (format!("a connection to {}", tries.target), count(tries.count, "attempt"));
    let lasted = match tries.last.mono_ns.saturating_sub(tries.first.mono_ns) {
        _ if tries.count == 1 => String::new(),
        ns => format!(" over {}", duration(ns)),
    };
    if tries.local {
        format!("this host could not begin {subject}: {failed} failed{lasted}")
    } else if refused == tries.count {
        format!("{subject} was refused {}{lasted}", times(tries.count))
    } else {
        format!("{subject} could not be reached: {failed} failed{lasted}")
    }
}

/// None of the attempts has failed: they have no answer.
fn unanswered(tries: &Tries<'_>) -> String {
    let end = tries.connected.last().map_or(tries.last, |(at, _)| *at);
    let lasted = duration(end.mono_ns.saturating_sub(tries.first.mono_ns));
    format!("no new connection to {} could be made for {lasted}: no attempt was answered", tries.target)
}

/// Describes how the attempts ended.
fn then(tries: &Tries<'_>) -> String {
    let left = match tries.unconnected() {
        n @ 1.. if !tries.connected.is_empty() => format!("; {n} more not by the end of the recording"),
        _ => String::new(),
    };
    let then = match tries.connected.as_slice() {
        [] if tries.gave_up => "then given up".to_owned(),
        [] if tries.other_cause => "and later ones for another reason".to_owned(),
        [] => "and not connected by the end of the recording".to_owned(),
        [.., (at, _)] => {
            let after = duration(at.mono_ns.saturating_sub(tries.first.mono_ns));
            let ids: Vec<u32> = tries.connected.iter().map(|(_, id)| *id).collect();
            let last = if ids.len() > 1 { "the last " } else { "" };
            format!("then connected as {}, {last}{after} after the first attempt", ordinals(&ids))
        }
    };
    format!("{then}{left}")
}
