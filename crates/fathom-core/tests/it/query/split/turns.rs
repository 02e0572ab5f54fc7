//! Queries of many turns over a path whose round trips are not alike: each turn waits for one of its own, and what is known of it are
//! the latest sixteen that were measured beside.

use super::*;
use crate::chance::Random;

/// What a round trip takes beyond the least.
#[derive(Debug, Clone, Copy)]
enum Jitter {
    None,
    /// Of twelve parts that are alike: by the central limit a normal distribution, of this deviation.
    Normal(u64),
    /// Of this mean.
    Exponential(u64),
}

/// A query of many turns.
#[derive(Debug, Clone, Copy)]
struct Turns {
    seed: u64,
    count: u64,
    rtt_ns: u64,
    jitter: Jitter,
    /// In each turn.
    server_ns: u64,
    /// From one round trip beside to the next, and how many there were before the query.
    every_ns: u64,
    before: u64,
}

/// What became of it, and what is true.
struct Told {
    split: Split,
    server_ns: u64,
}

impl Turns {
    fn round_trip(&self, random: &mut Random) -> u64 {
        let part = |random: &mut Random| random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        match self.jitter {
            Jitter::None => self.rtt_ns,
            Jitter::Normal(deviation_ns) => {
                let sum: f64 = (0..12).map(|_| part(random)).sum();
                (self.rtt_ns as f64 + (sum - 6.0) * deviation_ns as f64).max(self.rtt_ns as f64 / 10.0) as u64
            }
            Jitter::Exponential(mean_ns) => {
                self.rtt_ns + (-(1.0 - part(random)).ln() * mean_ns as f64) as u64
            }
        }
    }

    fn run(&self) -> Told {
        let mut random = Random(self.seed);
        let mut beside: Vec<u64> = (0..self.before).map(|_| self.round_trip(&mut random)).collect();
        let (mut line, mut now, mut asked_ns, mut spans) = (Timeline::new(0), 0, 0, vec![]);
        for _ in 0..self.count {
            while asked_ns <= now {
                let took_ns = self.round_trip(&mut random);
                beside.push(took_ns);
                spans.push(Span { from_ns: asked_ns, to_ns: asked_ns + took_ns });
                asked_ns += self.every_ns;
            }
            line.request(now, Rtt::of(&beside[beside.len().saturating_sub(16)..]));
            let waited_ns = self.round_trip(&mut random) + self.server_ns;
            line.received(Some((now, now + waited_ns)), 1_000);
            now += waited_ns;
        }
        let split = line.end(now, Some(0), &spans);
        lawful(&split, now, 0);
        Told { split, server_ns: self.count * self.server_ns }
    }
}

/// By how much the server's estimate is more than its share, of the wall time, where it is given.
fn too_much(told: &Told) -> Option<f64> {
    let [server_ns, ..] = told.split.estimates()?;
    Some((server_ns as f64 - told.server_ns as f64) / told.split.wall_ns as f64)
}

fn jitters(rtt_ns: u64) -> impl Iterator<Item = Jitter> {
    [4, 10].into_iter().flat_map(move |part| {
        [
            Jitter::Normal(rtt_ns / part),
            Jitter::Exponential(2 * rtt_ns / part),
            Jitter::Exponential(2 * rtt_ns),
        ]
    })
}

/// Fifty fetches over 20 ms that vary by 5, of a server that takes 0.1 ms for each: that it was given 60 to 100 ms of 1,000 adds up
/// over the turns, and so does whatever else is wrong in one direction. Of many queries the mean is as good as none.
#[test]
fn path_jitter_does_not_become_server_time() {
    for rtt_ns in [MS, 20 * MS, 80 * MS] {
        for jitter in jitters(rtt_ns) {
            for server_ns in [100 * US, rtt_ns / 2] {
                let of = |seed| {
                    let (turns, every_ns, before) = (50, 100 * MS, 5 + seed % 12);
                    Turns { seed, count: turns, rtt_ns, jitter, server_ns, every_ns, before }.run()
                };
                let off: Vec<f64> = (1..=60).filter_map(|seed| too_much(&of(seed))).collect();
                let mean = off.iter().sum::<f64>() / off.len().max(1) as f64;
                // Of those that vary by more than they take at the least, what would be held up by a cut is cut off (it was 0.24 to 0.35).
                let is_wild = matches!(jitter, Jitter::Exponential(ns) if ns > rtt_ns);
                let most = if is_wild { 0.15 } else { 0.06 };
                assert!(mean.abs() < most, "{rtt_ns} {jitter:?} {server_ns}: {mean:.3} of {}", off.len());
                let is_steady =
                    matches!(jitter, Jitter::Normal(ns) | Jitter::Exponential(ns) if ns * 3 < rtt_ns);
                assert!(
                    !is_steady || off.len() >= 50,
                    "{rtt_ns} {jitter:?} {server_ns}: {} are given",
                    off.len()
                );
            }
        }
    }
}

/// Each query by itself: what is estimated is within a tenth, 5 ms or what its own round trips leave open, or it is not estimated; the
/// truth lies within the bounds; and nobody is surely most of it who is not.
#[test]
fn many_turn_estimates_stay_within_error() {
    let (mut random, mut given, mut off) = (Random(1), 0, 0);
    for seed in 0..1_500 {
        let rtt_ns = random.one_of(&[200 * US, 2 * MS, 20 * MS, 100 * MS]);
        let jitter = random.one_of(&jitters(rtt_ns).collect::<Vec<_>>());
        let server_ns = random.one_of(&[0, rtt_ns / 100, rtt_ns / 4, rtt_ns, 4 * rtt_ns]);
        let (turns, before) = (random.between(1, 200), random.between(4, 30));
        let every_ns = random.one_of(&[100 * MS, 500 * MS]);
        let world = Turns { seed, count: turns, rtt_ns, jitter, server_ns, every_ns, before };
        let Told { split, server_ns } = world.run();
        let (wall, path_ns) = (split.wall_ns as f64, split.wall_ns - server_ns);
        // What the greatest of sixteen does not tell adds up, too.
        for (party, truth) in [(Party::Server, server_ns), (Party::Path, path_ns), (Party::Client, 0)] {
            let part = split.part(party);
            let grain = wall / 30.0;
            assert!(
                part.low_ns as f64 <= truth as f64 + grain && part.high_ns as f64 + grain >= truth as f64,
                "{party} {truth}: {world:?} {split:?}"
            );
        }
        if let (Some(party), Confidence::High) = verdict(&split) {
            let most = if server_ns > path_ns { Party::Server } else { Party::Path };
            assert!(
                party == most || server_ns.abs_diff(path_ns) as f64 <= wall / 15.0,
                "{world:?} {split:?}"
            );
        }
        if let Some([estimate_ns, ..]) = split.estimates() {
            given += 1;
            let error = estimate_ns.abs_diff(server_ns) as f64;
            let within = (wall / 10.0).max(5.0 * MS as f64).max(2.0 * split.open_ns as f64);
            off += u32::from(error > within);
            assert!(error <= 4.0 * within, "{error}: {world:?} {split:?}");
        }
    }
    assert!(given > 700, "{given} are estimated");
    assert!(off * 20 <= given, "{off} of {given} are farther off than they may be");
}

/// Where round trips are alike it is as it was: one a turn, and nothing is open.
#[test]
fn equal_round_trips_are_split_exactly() {
    for (turns, server_ns) in [(1, 0), (1, 300 * MS), (50, 100 * US), (50, 20 * MS)] {
        let (rtt_ns, every_ns) = (20 * MS, 100 * MS);
        let world =
            Turns { seed: 1, count: turns, rtt_ns, jitter: Jitter::None, server_ns, every_ns, before: 16 };
        let Told { split, server_ns } = world.run();
        assert_eq!(split.estimates(), Some([server_ns, turns * rtt_ns, 0]), "{split:?}");
        assert_eq!(split.open_ns, 0);
        // One of those that are remembered was held up by a cut: that is no round trip.
        let mut line = Timeline::new(0);
        let mut beside = [rtt_ns; 16];
        beside[3] = 3_000 * MS;
        for turn in 0..turns {
            line.request(turn * 25 * MS, Rtt::of(&beside));
            line.received(Some((turn * 25 * MS, (turn + 1) * 25 * MS)), 1_000);
        }
        let split = line.end(turns * 25 * MS, Some(0), &[]);
        lawful(&split, turns * 25 * MS, 0);
        let path_ns = split.part(Party::Path).ns;
        assert!((turns * rtt_ns..=turns * 22 * MS).contains(&path_ns), "{split:?}");
    }
}
