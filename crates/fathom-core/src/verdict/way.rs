//! Which way was lost: by the peer report, and by the stamps of the first late echo.

use super::{Direction, Facts, Fresh, Verdict, samples, seconds};
use crate::peer_report::PeerReport;

/// What the reflector said of the connection, and what this end knew when it asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// What it said.
    pub report: PeerReport,
    /// The first sample of the silence: the one after the last that was answered.
    pub first_missing: u64,
    /// Samples that had been sent.
    pub sent: u64,
    /// When the connection was opened, by the reflector's clock (ns since the Unix epoch) as far as its earlier stamps
    /// tell it. `None`: it had not stamped anything.
    pub opened_there_ns: Option<i64>,
}

impl Reported {
    /// Which way was lost: the reflector got the first missing request, and then its echo did not come; or it did not.
    pub(super) fn direction(&self) -> Option<Direction> {
        let last_seq = self.report.last_seq.filter(|_| self.sent > self.first_missing)?;
        Some(if last_seq >= self.first_missing { Direction::Return } else { Direction::Forward })
    }

    /// Whether the reflector that answers began to run after the connection was opened, so that it never had it.
    pub(super) fn is_of_a_younger_reflector(&self) -> bool {
        self.report.began_ns.zip(self.opened_there_ns).is_some_and(|(began, opened)| began > opened)
    }

    /// What the peer report says of the direction, in a sentence.
    fn sentence(&self, direction: Direction) -> String {
        let last_seq = self.report.last_seq.unwrap_or(0);
        match direction {
            Direction::Return => {
                let waiting = match self.report.unacked {
                    Some(n @ 1..) => {
                        format!(", and of its echoes {} there for acknowledgement", waits(n.into()))
                    }
                    _ => String::new(),
                };
                let unseen = if self.sent > last_seq + 1 {
                    " (whether the way there was too, later, cannot be seen)"
                } else {
                    ""
                };
                format!(
                    "the reflector says that it received sample {last_seq}, and no echo came after that of {}: the way back was lost{unseen}{waiting}",
                    before(self.first_missing)
                )
            }
            Direction::Forward => format!(
                "the reflector says that it received nothing after sample {last_seq}, so {} did not reach it: the way there was lost (whether the way back was too cannot be seen)",
                samples(self.sent - self.first_missing)
            ),
        }
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
    if !matches!(verdict, Verdict::PathDown | Verdict::FlowForgotten | Verdict::IdleExpired) {
        return None;
    }
    let by_peer_report = facts
        .reported
        .and_then(|reported| Some((reported.direction()?, reported.sentence(reported.direction()?))));
    let by_stamps =
        facts.delays_ns.filter(|_| verdict == Verdict::PathDown).and_then(|delays| by_stamps(facts, delays));
    let told: Vec<(Direction, String)> = by_peer_report.into_iter().chain(by_stamps).collect();
    let agreed = told.first().map(|told| told.0).filter(|first| told.iter().all(|(way, _)| way == first));
    let disputed = told.len() > 1 && agreed.is_none();
    because.extend(told.into_iter().map(|(_, sentence)| sentence));
    if disputed {
        because.push("so both ways were lost, one after the other".to_owned());
    } else if agreed.is_none()
        && verdict == Verdict::PathDown
        && !matches!(facts.fresh, Fresh::NoRoute | Fresh::Forbidden)
    {
        because.push("which way was lost is not known".to_owned());
    }
    agreed
}

fn by_stamps(facts: &Facts, (forward, back): (i64, i64)) -> Option<(Direction, String)> {
    let half = (facts.silent_ns / 2) as i64;
    if forward >= half {
        let sentence = format!(
            "the reflector received the first late request {} after it was sent: the way there was lost or held it up (whether the way back was too cannot be seen)",
            seconds(forward as u64)
        );
        Some((Direction::Forward, sentence))
    } else if back >= half {
        let sentence = format!(
            "the reflector had received the request in time and its echo took {}: the way back was lost or held it up",
            seconds(back as u64)
        );
        Some((Direction::Return, sentence))
    } else {
        None
    }
}
