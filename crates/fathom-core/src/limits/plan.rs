//! Which lengths of idleness are tried.
//!
//! A connection that has died tells nothing of shorter lengths, and to begin anew with those would take as long again: an
//! hour's limit two hours. So all lengths of the ladder begin together, and behind it, at moments that are chosen by how
//! long the ladder's steps are, some connections begin as a reserve. When two neighbours of the ladder are the bracket, a
//! reserve has been idle for a little less than the shorter of them, and is asked at lengths between the two, and at both.
//! At the shorter one, because a reserve was there before the ladder's connections died: what ends all that is idle at one
//! moment ends it too, and only those that live to the shorter end once more say that it was no such moment.

use super::settings::{OPENINGS_A_SECOND, Settings, TooMany};
use fathom_wire::one_way::SEGMENTS_MOST;

pub(super) const S: u64 = 1_000_000_000;
/// The shortest length, and the smallest step of the ladder.
pub(super) const SHORTEST_NS: u64 = S / 2;
/// Steps of the ladder are this share of their length, so that a limit is found in 1.1 times its length.
const STEP: f64 = 0.04;
/// A bracket below this length is divided by connections that are begun then; above it, by a reserve.
pub(super) const BEGUN_ANEW_NS: u64 = 30 * S;
/// From one reserve to the next, the lengths that they are for grow by this.
const RESERVE_GROWS: f64 = 1.2;
/// Time over which the connections of a reserve begin, and its share of the reserve's length.
const RESERVE_OVER_NS: u64 = 10 * S;
const RESERVE_OVER: f64 = 0.011;
/// From the end of a length until its connections are judged, with something to spare.
pub(super) const JUDGED_AFTER_NS: u64 = 6 * S;
/// A bracket is divided into at most so many parts in one round.
const MOST_PARTS: u32 = 10;
/// Connections that are none of those under test: controls, a fresh one, one to ask the reflector.
pub(super) const OTHERS: usize = 4;

/// One reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "each field is a time, and its name ends in the unit")]
pub(super) struct Reserve {
    /// When its connections are to begin, in ns after the ladder.
    pub(super) after_ns: u64,
    /// Time over which the connections begin evenly, in ns, so that a periodic scan for idle connections meets them at
    /// different moments.
    pub(super) over_ns: u64,
    /// It is for brackets below this length, in ns.
    pub(super) serves_ns: u64,
}

/// The lengths that begin together, from the shortest.
pub(super) fn ladder(settings: &Settings) -> Vec<u64> {
    let mut lengths: Vec<u64> = std::iter::successors(Some(SHORTEST_NS), |&length| {
        Some(length.saturating_add(SHORTEST_NS.max((length as f64 * STEP) as u64)))
    })
    .take_while(|&length| length < settings.up_to_ns)
    .collect();
    // The last step is no smaller than half of the others.
    if lengths.last().is_some_and(|last| settings.up_to_ns - last < SHORTEST_NS / 2) {
        lengths.pop();
    }
    lengths.push(settings.up_to_ns);
    lengths
}

/// Lengths that a reserve is asked at: those between the two ends, and both ends once more.
pub(super) fn reserve_lengths(settings: &Settings) -> u32 {
    parts(settings) + 1
}

/// Into how many parts the ladder's bracket is divided.
pub(super) fn parts(settings: &Settings) -> u32 {
    ((STEP / settings.resolution.max(1e-3)).ceil() as u32).clamp(2, MOST_PARTS)
}

/// The reserves behind a ladder of so many lengths.
pub(super) fn reserves(settings: &Settings, lengths: usize) -> Vec<Reserve> {
    let opening_ns = lengths as u64 * u64::from(settings.per_length) * S / u64::from(OPENINGS_A_SECOND);
    let serves = std::iter::successors(Some(BEGUN_ANEW_NS as f64 * RESERVE_GROWS), |serves| {
        (*serves < settings.up_to_ns as f64).then_some(serves * RESERVE_GROWS)
    });
    serves
        .take_while(|_| settings.up_to_ns > BEGUN_ANEW_NS)
        .map(|serves| Reserve {
            after_ns: opening_ns + (serves * STEP) as u64 + JUDGED_AFTER_NS,
            over_ns: RESERVE_OVER_NS + (serves * RESERVE_OVER) as u64,
            serves_ns: serves as u64,
        })
        .collect()
}

/// Segments that the reflector is asked for on a connection that is to be idle for so long.
pub(super) fn segments(length_ns: u64, every_ns: u64) -> u32 {
    ((length_ns / every_ns.max(1)).min(u64::from(SEGMENTS_MOST))) as u32
}

/// A reserve may be of a length that is so much longer than those that it is for.
pub(super) fn longest_of(reserve: &Reserve) -> u64 {
    reserve.serves_ns + reserve.serves_ns / 8
}

impl Settings {
    /// The shortest time between two segments that the reflector can be asked for, in ns: a connection gets no more than
    /// [`SEGMENTS_MOST`], and has to have them to its end.
    pub fn least_every_ns(&self) -> u64 {
        // In whole tenths of a second, so that people can write it.
        let least_ns = (self.up_to_ns + self.up_to_ns / 8) / u64::from(SEGMENTS_MOST) + 1;
        least_ns.next_multiple_of(S / 10).max(S)
    }

    /// Whether it can be done with so many connections.
    pub fn check(&self) -> Result<(), TooMany> {
        let needed = connections(self);
        if needed > self.connections.0 { Err(TooMany { needed }) } else { Ok(()) }
    }
}

/// Connections that are open at one time, at the most.
fn connections(settings: &Settings) -> usize {
    let lengths = ladder(settings).len();
    let groups = lengths + reserves(settings, lengths).len() * reserve_lengths(settings) as usize;
    groups * settings.per_length as usize + OTHERS
}

#[cfg(test)]
mod tests {
    use super::super::settings::AtMost;
    use super::*;

    fn settings(up_to_ns: u64, resolution: f64) -> Settings {
        Settings {
            target: String::new(),
            up_to_ns,
            per_length: 3,
            keepalive_ns: None,
            one_way: None,
            resolution,
            connections: AtMost(0),
            session: 1,
            secret: None,
        }
    }

    #[test]
    fn ladder_reaches_its_end_in_bounded_steps() {
        for up_to_s in [1, 2, 10, 61, 600, 3_600, 86_400] {
            for resolution in [0.005, 0.02, 0.05, 0.5] {
                let settings = settings(up_to_s * S, resolution);
                let lengths = ladder(&settings);
                assert_eq!(lengths.last(), Some(&(up_to_s * S)));
                assert_eq!(lengths[0], SHORTEST_NS);
                for two in lengths.windows(2) {
                    let most = SHORTEST_NS.max((two[0] as f64 * STEP) as u64) * 3 / 2;
                    assert!(two[1] > two[0] && two[1] - two[0] <= most, "{two:?}");
                }
            }
        }
    }

    /// `limit * 1.1 + 1 min`: for each bracket of the ladder there is a reserve that has not been idle for longer than its
    /// shorter end when it is known, and that is early enough.
    #[test]
    fn a_reserve_waits_for_every_bracket() {
        for (up_to_s, resolution) in [(600, 0.02), (3_600, 0.02), (3_600, 0.01), (28_800, 0.05)] {
            let settings = settings(up_to_s * S, resolution);
            let lengths = ladder(&settings);
            let reserves = reserves(&settings, lengths.len());
            let opening = |i: usize| i as u64 * 3 * S / u64::from(OPENINGS_A_SECOND);
            for i in 1..lengths.len() {
                let (survived, died) = (lengths[i - 1], lengths[i]);
                if died <= BEGUN_ANEW_NS {
                    continue;
                }
                let known = opening(i + 1) + died + 4 * S;
                let usable = reserves.iter().find(|r| known.saturating_sub(r.after_ns) < survived);
                let after_ns = usable.map(|r| r.after_ns + r.over_ns).expect("a reserve");
                assert!(after_ns < known, "{survived}: its last connection begins after {after_ns}");
                let over = after_ns + died + 10 * S;
                assert!(over <= survived + survived / 10 + 60 * S, "{survived}: over after {over}");
            }
        }
    }
}
