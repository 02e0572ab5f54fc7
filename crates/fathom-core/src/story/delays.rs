//! Times in which echoes came, and took far longer than usual.

use super::join::{Joined, SAME_SPELL_NS};
use super::moment::Moment;
use super::stood::Stood;
use super::words::{count, list, ordinals, times};
use super::{Confidence, Line};
use crate::event::{Event, EventKind};
use crate::units::duration_text as duration;
use crate::verdict::{Direction, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Why, where no stamps tell more.
pub(super) const WAY_NOT_KNOWN: &str =
    "echoes kept coming, late: a queue or a slower path; on which way is not known";

/// One connection's delay.
#[derive(Debug, Clone, Copy)]
struct Delay {
    connection: Option<u32>,
    from: Moment,
    to: Moment,
    late: u64,
    most_ns: u64,
    /// It lasted until its connection ended, which left so many samples without an echo.
    left: Option<u64>,
    /// Its first sample.
    first_seq: Option<u64>,
    /// How much longer than usual the slowest took there and back, where the reflector's stamps tell.
    ways_ns: Option<(u64, u64)>,
    direction: Option<Direction>,
    confidence: Confidence,
    over: bool,
    /// It goes on in the recording that follows.
    goes_on: bool,
}

/// A delay that has no end: from which sample on.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoesOn {
    first_seq: u64,
    threshold_ns: u64,
}

impl GoesOn {
    /// Whether a sample belongs to it by how long it took.
    pub(super) fn holds_up(self, seq: u64, took_ns: u64) -> bool {
        seq >= self.first_seq && took_ns >= self.threshold_ns / 2
    }
}

/// Those that have no end, by their connection.
pub(super) fn going_on(events: &[Event]) -> BTreeMap<u32, GoesOn> {
    let mut going_on = BTreeMap::new();
    for event in events {
        let Some(connection) = event.connection else { continue };
        match event.kind {
            EventKind::DelayBegan { seq: first_seq, threshold_ns, .. } => {
                going_on.insert(connection, GoesOn { first_seq, threshold_ns });
            }
            EventKind::DelayEnded { .. } => drop(going_on.remove(&connection)),
            _ => {}
        }
    }
    going_on
}

/// A line for each spell of delays. One that has no end is none where its samples waited for a host to run: its probe may not
/// have known of the pause in time. `slow`: connections with a sample that was late and did not wait so.
pub(super) fn lines(events: &[Event], joined: &Joined<'_>, slow: &BTreeSet<u32>) -> Vec<(u64, Line)> {
    let stood = Stood::of(joined);
    let of_the_path = |delay: &Delay| {
        delay.over
            || delay.connection.is_some_and(|connection| slow.contains(&connection))
            || !stood.held_up(delay.from.utc_ns(), delay.most_ns)
    };
    let mut spells: Vec<Vec<Delay>> = Vec::new();
    for delay in delays(events).into_iter().filter(of_the_path) {
        let near = |spell: &&mut Vec<Delay>| {
            spell.iter().any(|one| delay.from.mono_ns <= one.to.mono_ns.saturating_add(SAME_SPELL_NS))
        };
        match spells.last_mut().filter(near) {
            Some(spell) => spell.push(delay),
            None => spells.push(vec![delay]),
        }
    }
    spells.iter().filter_map(|spell| told(spell, joined)).collect()
}

/// From when to when there was one, in ns since the Unix epoch, and the longest round trip. One that was not over goes on.
pub(super) fn spans(events: &[Event]) -> Vec<(i64, i64, u64)> {
    let to_ns = |delay: &Delay| if delay.over { delay.to.utc_ns() } else { i64::MAX };
    delays(events).iter().map(|delay| (delay.from.utc_ns(), to_ns(delay), delay.most_ns)).collect()
}

/// By their beginnings.
fn delays(events: &[Event]) -> Vec<Delay> {
    let (mut delays, mut continued): (Vec<Delay>, bool) = (Vec::new(), false);
    for event in events {
        let (at, connection) = (Moment::of(event), event.connection);
        match event.kind {
            EventKind::RecordingContinues { .. } => continued = true,
            EventKind::RecordingRotated { .. } => {
                for delay in delays.iter_mut().filter(|delay| !delay.over && delay.left.is_none()) {
                    (delay.to, delay.goes_on) = (at, true);
                }
            }
            EventKind::DelayBegan { seq, rtt_ns, .. } => delays.push(Delay {
                connection,
                from: at.earlier(rtt_ns),
                to: at,
                late: 1,
                most_ns: rtt_ns,
                left: None,
                first_seq: Some(seq),
                ways_ns: None,
                direction: None,
                confidence: Confidence::Medium,
                over: false,
                goes_on: false,
            }),
            // The pause tells all of it.
            EventKind::DelayEnded { verdict: Verdict::LocalPaused | Verdict::PeerPaused, .. } => {
                let open = delays.iter().rposition(|delay| delay.connection == connection && !delay.over);
                open.map(|at| delays.remove(at));
            }
            EventKind::DelayEnded {
                duration_ns,
                samples,
                most_ns,
                forward_ns,
                back_ns,
                direction,
                confidence,
                ..
            } => {
                let is_it = |delay: &Delay| delay.connection == connection && !delay.over;
                let open = delays.iter().rposition(is_it);
                // One that began in the recording before.
                let from = match open {
                    Some(open) => delays[open].from,
                    None if continued => at.earlier(duration_ns),
                    None => continue,
                };
                let ways_ns = forward_ns.zip(back_ns);
                // It is told some samples after its last one.
                let after_ns = at.mono_ns.saturating_sub(from.mono_ns).saturating_sub(duration_ns);
                let (to, late, over) = (at.earlier(after_ns), samples, true);
                let (left, first_seq) = (None, None);
                let goes_on = false;
                let delay = Delay {
                    connection,
                    from,
                    to,
                    late,
                    most_ns,
                    left,
                    first_seq,
                    ways_ns,
                    direction,
                    confidence,
                    over,
                    goes_on,
                };
                match open {
                    Some(open) => delays[open] = delay,
                    None => delays.push(delay),
                }
            }
            EventKind::ConnectionClosed { ref evidence, .. } => {
                let open =
                    delays.iter_mut().rev().find(|delay| delay.connection == connection && !delay.over);
                let Some(delay) = open else { continue };
                (delay.to, delay.left) = (at, Some(evidence.outstanding));
                // Echoes of a stream come in order.
                if let Some((last, first)) = evidence.last_answered_seq.zip(delay.first_seq) {
                    delay.late = last.saturating_sub(first) + 1;
                }
            }
            _ => {}
        }
    }
    delays.sort_by_key(|delay| delay.from.mono_ns);
    delays
}

fn told(spell: &[Delay], joined: &Joined<'_>) -> Option<(u64, Line)> {
    let (first, slowest) = (spell.first()?, spell.iter().max_by_key(|delay| delay.most_ns)?);
    let mut connections: Vec<u32> = spell.iter().filter_map(|delay| delay.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    let to_ns = spell.iter().map(|delay| delay.to.mono_ns).max()?;
    let lasted = duration(to_ns.saturating_sub(first.from.mono_ns));
    let who = match connections.as_slice() {
        [] => "a connection was".to_owned(),
        [id] => match joined.remotes.get(id) {
            Some(remote) => format!("connection #{id} to {remote} was"),
            None => format!("connection #{id} was"),
        },
        all => format!("{} ({}) were", count(all.len() as u64, "connection"), ordinals(all)),
    };
    let often = match spell.len() {
        1 => format!("slow for {lasted}"),
        n => format!("slow {} within {lasted}", times(n as u64)),
    };
    let late: u64 = spell.iter().map(|delay| delay.late).sum();
    let goes_on = match spell {
        all if all.iter().all(|delay| delay.over) => "",
        [delay] if delay.left.is_some() => ", to its end",
        all if all.iter().all(|delay| delay.over || delay.goes_on) => ", and goes on in the next recording",
        _ => ", and still was when last heard of",
    };
    let most = duration(slowest.most_ns);
    let because = because(slowest);
    let echoes = count(late, "echo").replace("echos", "echoes");
    let came = match spell {
        // What was slow to the end was measured at its beginning.
        [delay] if delay.left.is_some() => format!("{echoes} came, the first after {most}"),
        _ => format!("{echoes} took up to {most}, and came"),
    };
    let left = match spell.iter().filter_map(|delay| delay.left).sum() {
        0 => String::new(),
        n => format!(", and {} still waited", count(n, "sample")),
    };
    let statement = format!("{who} {often}{goes_on}: {came}{left}. Verdict: delayed, because {because}");
    let mut evidence = vec![because];
    let ways: Vec<Option<Direction>> = spell.iter().map(|delay| delay.direction).collect();
    if ways.iter().any(|way| *way != ways[0]) {
        evidence.push("not every one of them was slow on the same way".to_owned());
    }
    let line = Line {
        at: first.from.utc,
        connection: first.connection.filter(|_| connections.len() == 1),
        statement,
        evidence,
        cause: None,
        verdict: Some(Verdict::Delayed),
        confidence: spell.iter().map(|delay| delay.confidence).min()?,
    };
    Some((first.from.mono_ns, line))
}

/// What speaks for it, by the slowest sample.
fn because(slowest: &Delay) -> String {
    let Some((there, back)) = slowest.ways_ns else {
        return WAY_NOT_KNOWN.to_owned();
    };
    let ways = [(there, "on the way there"), (back, "on the way back")];
    let ways = ways.map(|(ns, way)| format!("{} {way}", duration(ns)));
    format!("echoes kept coming, and the slowest was late by {}: a queue or a slower path", list(&ways))
}
