use super::*;
use proptest::prelude::*;

/// What the network does to one datagram and to its echo.
#[derive(Debug, Clone, Copy)]
struct Hop {
    lost_there: bool,
    lost_back: bool,
    /// Later than the others, in intervals of the schedule.
    late_there: u64,
    late_back: u64,
}

/// One interval of the schedule in virtual time.
const STEP: u64 = 1_000;

/// Sends a datagram an interval through such a network to a counting reflector. The fates in the order of the samples,
/// the samples in the order of their echoes, and what was truly lost there and back.
fn run(hops: &[Hop]) -> (Vec<Fate>, Vec<u64>, Losses) {
    let mut truth = Losses::default();
    let mut arrivals: Vec<(u64, usize)> = Vec::new();
    for (seq, hop) in hops.iter().enumerate() {
        if hop.lost_there {
            truth.forward += 1;
        } else {
            arrivals.push((STEP * (seq as u64 + hop.late_there) + 10, seq));
        }
    }
    arrivals.sort_unstable();
    let mut fates = vec![Lost; hops.len()];
    let mut echoes = Vec::new();
    for (count, (at, seq)) in arrivals.into_iter().enumerate() {
        if hops[seq].lost_back {
            truth.backward += 1;
        } else {
            fates[seq] = Counted(count as u32);
            echoes.push((at + STEP * hops[seq].late_back + 10, seq as u64));
        }
    }
    echoes.sort_unstable();
    (fates, echoes.into_iter().map(|(_, seq)| seq).collect(), truth)
}

fn attribute(reflector: Reflector, fates: &[Fate], echoes: &[u64]) -> Losses {
    let mut attribution = Attribution::new(reflector);
    for &seq in echoes {
        attribution.came(seq);
    }
    let mut sum = Losses::default();
    for &fate in fates {
        attribution.settled(fate);
        // Whenever it is asked, it only ever adds.
        sum.add(attribution.take());
    }
    attribution.finish();
    sum.add(attribution.take());
    sum
}

fn hops(late: u64) -> impl Strategy<Value = Vec<Hop>> {
    let hop = (0.0..1.0, 0.0..1.0, 0..=late, 0..4u64);
    (prop::collection::vec(hop, 1..300), 0.0..0.6, 0.0..0.6).prop_map(|(hops, there, back)| {
        let hop = |(a, b, late_there, late_back)| Hop {
            lost_there: a < there,
            lost_back: b < back,
            late_there,
            late_back,
        };
        hops.into_iter().map(hop).collect()
    })
}

/// The last echo that comes: what is sent after it is not known.
fn after_the_last(fates: &[Fate]) -> usize {
    fates.iter().rev().take_while(|fate| **fate == Lost).count()
}

/// A last datagram that overtakes nothing and whose echo comes.
fn with_an_end(mut hops: Vec<Hop>) -> Vec<Hop> {
    let good = Hop { lost_there: false, lost_back: false, late_there: 0, late_back: 0 };
    let late = hops.iter().map(|hop| hop.late_there).max().unwrap_or(0);
    // Nothing is sent meanwhile but these, whose fate is none of the test.
    hops.extend(std::iter::repeat_n(good, late as usize + 1));
    hops
}

proptest! {
    /// Where the way there keeps order, all is known but what was sent after the last echo, whatever is lost and in
    /// whatever order the echoes come.
    #[test]
    fn losses_before_last_echo_are_exact(hops in hops(0)) {
        let (fates, echoes, _) = run(&hops);
        let tail = after_the_last(&fates);
        let known = fates.len() - tail;
        let (_, _, truth) = run(&hops[..known]);
        let found = attribute(Reflector::Stateful, &fates, &echoes);
        prop_assert_eq!((found.forward, found.backward), (truth.forward, truth.backward));
        prop_assert_eq!(found.unknown, tail as u64);
        let overtaken = echoes.iter().enumerate().filter(|(at, seq)| echoes[..*at].iter().any(|s| s > seq)).count();
        prop_assert_eq!(found.reordered, overtaken as u64);
    }

    /// Where it does not, nothing is claimed that is not so, and every loss is counted once.
    #[test]
    fn forward_reordering_makes_no_false_claim(hops in hops(6)) {
        let (fates, echoes, truth) = run(&with_an_end(hops));
        let found = attribute(Reflector::Stateful, &fates, &echoes);
        let lost = fates.iter().filter(|fate| **fate == Lost).count() as u64;
        prop_assert_eq!(found.forward + found.backward + found.unknown, lost);
        prop_assert!(found.forward <= truth.forward, "{:?} of {:?}", found, truth);
        prop_assert!(found.backward <= truth.backward, "{:?} of {:?}", found, truth);
    }

    /// A reflector that repeats our numbers says nothing; one that may do so speaks once it has shown that it counts.
    #[test]
    fn a_repeated_number_is_no_count(hops in hops(0)) {
        let (fates, echoes, _) = run(&hops);
        let lost = fates.iter().filter(|fate| **fate == Lost).count() as u64;
        let repeat = |(seq, fate): (usize, &Fate)| match fate {
            Counted(_) => Counted(seq as u32),
            other => *other,
        };
        let repeated: Vec<Fate> = fates.iter().enumerate().map(repeat).collect();
        for reflector in [Reflector::Unsure, Reflector::Stateless] {
            let found = attribute(reflector, &repeated, &echoes);
            prop_assert_eq!((found.forward, found.backward, found.unknown), (0, 0, lost));
        }
        let counted = attribute(Reflector::Stateful, &fates, &echoes);
        let unsure = attribute(Reflector::Unsure, &fates, &echoes);
        prop_assert_eq!(unsure, if counted.forward > 0 { counted } else { Losses { unknown: lost, forward: 0, backward: 0, ..counted } });
    }

    #[test]
    fn arbitrary_counts_keep_every_loss(fates in prop::collection::vec((0..8u8, any::<u32>(), 0..40u32), 0..400)) {
        let fates: Vec<Fate> = fates.into_iter().enumerate().map(|(seq, (kind, wild, near))| match kind {
            0 => Counted(wild),
            1..=3 => Counted((seq as u32).saturating_sub(near)),
            4 => NotCounted,
            5 => Damaged,
            _ => Lost,
        }).collect();
        let lost = fates.iter().filter(|fate| **fate == Lost).count() as u64;
        let found = attribute(Reflector::Stateful, &fates, &[]);
        prop_assert_eq!(found.forward + found.backward + found.unknown, lost);
    }
}

use Fate::{Counted, Damaged, Lost, NotCounted};

fn of(fates: &[Fate]) -> (u64, u64, u64) {
    let found = attribute(Reflector::Stateful, fates, &[]);
    (found.forward, found.backward, found.unknown)
}

#[test]
fn by_hand() {
    for (fates, expected) in [
        (&[Counted(0), Lost, Counted(1)][..], (1, 0, 0)),
        (&[Counted(0), Lost, Counted(2)], (0, 1, 0)),
        (&[Lost, Lost, Counted(1), Lost], (1, 1, 1)),
        // The count of a corrupted echo is not missing.
        (&[Counted(0), Damaged, Lost, Counted(2)], (1, 0, 0)),
        (&[Counted(0), Lost, NotCounted, Lost, Counted(0)], (0, 0, 2)),
        // Its counter is gone: it was started anew.
        (&[Counted(0), Counted(1), Counted(2), Lost, Counted(0), Lost, Counted(1)], (1, 0, 1)),
        // It counts others too.
        (&[Lost, Counted(700), Lost, Counted(701)], (1, 0, 1)),
        (&[Fate::TooShort { lost: true }, Fate::TooShort { lost: false }], (0, 0, 1)),
    ] {
        assert_eq!(of(fates), expected, "{fates:?}");
    }
}

#[test]
fn a_count_wraps() {
    let mut attribution = Attribution::new(Reflector::Stateful);
    attribution.begin_anew(Some(i64::from(u32::MAX) - 1));
    for fate in [Counted(u32::MAX), Lost, Counted(1), Lost, Counted(2)] {
        attribution.settled(fate);
    }
    attribution.finish();
    let found = attribution.take();
    assert_eq!((found.forward, found.backward, found.unknown), (1, 1, 0));
}

#[test]
fn duplicates_do_not_change_attribution() {
    for (again, expected) in [(0, (1, 0)), (1, (1, 0))] {
        let mut attribution = Attribution::new(Reflector::Stateful);
        // Sample 0 comes twice: with the same count, or with the next, because it arrived there twice.
        attribution.came(0);
        attribution.came_again(0, Some(again), Some(0));
        let (lost_there, next) = (Lost, Counted(1 + again));
        for fate in [Counted(0), lost_there, next] {
            attribution.settled(fate);
        }
        attribution.finish();
        let found = attribution.take();
        assert_eq!((found.forward, found.backward), expected, "{again}");
        assert_eq!(found.duplicates, 1);
    }
}

#[test]
fn weeks_take_bounded_memory() {
    let mut attribution = Attribution::new(Reflector::Stateful);
    for seq in 0..200_000_u32 {
        attribution.settled(if seq % 7 == 6 { Lost } else { Counted(seq - seq / 7) });
        if seq % 5 == 0 {
            attribution.came_again(u64::from(seq), Some(seq + 50), None);
        }
        assert!(attribution.spans.len() <= SPANS && attribution.extra.len() <= REMEMBERED);
        assert!(attribution.remembered.len() <= REMEMBERED);
    }
}
