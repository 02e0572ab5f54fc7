//! Datagrams that were lost, by the reflector's count.

use super::moment::Moment;
use super::words::{count, ordinals};
use super::{Confidence, Line, next};
use crate::event::{Event, EventKind};
use crate::loss::Losses;
use crate::verdict::Direction;

/// One line for all that was lost; none where nothing was.
pub(super) fn line(events: &[Event]) -> Option<(u64, Line)> {
    let (mut all, mut first, mut connections) = (Losses::default(), None, Vec::new());
    for event in events {
        let EventKind::LossAttributed { losses } = event.kind else { continue };
        if losses.forward + losses.backward + losses.unknown > 0 {
            first.get_or_insert(Moment::of(event));
            connections.extend(event.connection);
        }
        all.add(losses);
    }
    let first = first?;
    connections.sort_unstable();
    connections.dedup();
    let Losses { forward, backward, unknown, .. } = all;
    let lost = count(forward + backward + unknown, "datagram");
    let ways =
        [(forward, "on the way there"), (backward, "on the way back"), (unknown, "where nobody can say")];
    let ways: Vec<String> =
        ways.iter().filter(|(n, _)| *n > 0).map(|(n, way)| format!("{n} {way}")).collect();
    let what = match connections.as_slice() {
        [] => String::new(),
        [one] => format!(" on connection #{one}"),
        several => format!(" on connections {}", ordinals(several)),
    };
    let (they, were) = if forward + backward + unknown == 1 { ("it", "was") } else { ("they", "were") };
    let statement = if forward + backward == 0 {
        // A reflector that is stopped to the end answers none, and got them all.
        format!("{lost}{what} had no answer; nobody can say whether, and on which way, {they} {were} lost")
    } else {
        format!("{lost}{what} {were} lost, by the reflector's count: {}", ways.join(", "))
    };
    let mut line = Line { connection: None, ..Line::fact(first.utc, statement) };
    if let [one] = connections[..] {
        line.connection = Some(one);
    }
    line.confidence = Confidence::High;
    let direction = match (forward, backward) {
        (0, 0) => None,
        (_, 0) => Some(Direction::Forward),
        (0, _) => Some(Direction::Return),
        _ => None,
    };
    line.evidence.push(format!("to look at next: {}", next::dropped(direction)));
    Some((first.mono_ns, line))
}
