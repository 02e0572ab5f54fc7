//! The flow table against a slow one that looks at every flow each nanosecond that matters.

use std::collections::BTreeMap;

use fathom_fabric::packet::{Flags, Flow, Protocol, Segment};
use fathom_fabric::stage::flows::FlowTable;
use fathom_fabric::stage::limits::{Counts, IdleLimits};
use fathom_fabric::stage::tcp::{Side, State, Track};
use proptest::prelude::*;

use super::bench::flow;

fn numbered(number: u16) -> Flow {
    flow(&format!("10.0.0.1:{}", 1_000 + number), "10.0.0.2:80")
}

fn segment(flags: Flags, seq: u32, ack: u32, payload_len: u32) -> Segment {
    Segment { seq, ack, flags, window: 1, payload_len }
}

#[derive(Debug, Clone)]
enum Step {
    /// A packet of this flow, from its originator or not.
    Packet(u16, bool),
    /// So many ns pass.
    Wait(u64),
    /// Another limit.
    Limit(u64),
    /// Those with an even number are forgotten.
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u16..12, any::<bool>()).prop_map(|(number, originator)| Step::Packet(number, originator)),
        4 => (0_u64..40).prop_map(Step::Wait),
        1 => (1_u64..60).prop_map(Step::Limit),
        1 => Just(Step::Forget),
    ]
}

fn counts() -> impl Strategy<Value = Counts> {
    prop_oneof![Just(Counts::Either), Just(Counts::Originator), Just(Counts::Responder), Just(Counts::Each)]
}

/// A flow as the slow table has it: when each end was heard.
type Slow = BTreeMap<u16, [u64; 2]>;

fn slow_deadline(counts: Counts, limit: u64, [originator, responder]: [u64; 2]) -> u64 {
    limit
        + match counts {
            Counts::Either => originator.max(responder),
            Counts::Originator => originator,
            Counts::Responder => responder,
            Counts::Each => originator.min(responder),
        }
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Flows are forgotten at their deadlines, not before and not after, whatever comes between; and the table never holds
            /// more than it may.
            #[test]
            fn flows_are_forgotten_at_their_deadlines(steps in proptest::collection::vec(step(), 1..200), counts in counts(),
                                                      capacity in 1_usize..14) {
                let limits = IdleLimits { counts, ..IdleLimits::established(30) };
                let mut table = FlowTable::new(limits, capacity);
                let (mut slow, mut limit, mut now) = (Slow::new(), 30, 1_000);
                let ack = segment(Flags::ACK, 1, 1, 0);
                for step in steps {
                    match step {
                        Step::Packet(number, originator) => {
                            let forward = numbered(number);
                            if let Some((slot, side)) = table.find(&if originator { forward } else { forward.reversed() }) {
                                prop_assert_eq!(side == Side::Originator, originator);
                                table.pass(now, slot, side, Some(&ack));
                                slow.get_mut(&number).expect("known here too")[usize::from(!originator)] = now;
                            } else if originator {
                                let first = (Side::Originator, Some(&ack));
                                let opened = table.open(now, (forward, forward.reversed()), first, None, number);
                                prop_assert_eq!(opened.is_some(), slow.len() < capacity);
                                if opened.is_some() {
                                    slow.insert(number, [now; 2]);
                                }
                            }
                        }
                        Step::Wait(ns) => {
                            for now in now + 1..=now + ns {
                                let mut expired = Vec::new();
                                // As the world does: only when the table says so.
                                if table.next_due_ns().is_some_and(|due_ns| due_ns <= now) {
                                    expired.extend(std::iter::from_fn(|| table.expire(now)).map(|entry| entry.data));
                                }
                                expired.sort_unstable();
                                let due = |heard: &[u64; 2]| slow_deadline(counts, limit, *heard) <= now;
                                let gone: Vec<_> = slow.iter().filter(|(_, heard)| due(heard)).map(|(n, _)| *n).collect();
                                prop_assert_eq!(&expired, &gone);
                                slow.retain(|_, heard| !due(heard));
                            }
                            now += ns;
                        }
                        Step::Limit(ns) => {
                            limit = ns;
                            table.set_established_ns(ns);
                            // What a shorter limit has overtaken goes at once.
                            let gone = std::iter::from_fn(|| table.expire(now)).count();
                            let before = slow.len();
                            slow.retain(|_, heard| slow_deadline(counts, limit, *heard) > now);
                            prop_assert_eq!(gone, before - slow.len());
                        }
                        Step::Forget => {
                            let gone = table.remove_where(|entry| entry.data % 2 == 0);
                            prop_assert!(gone.iter().all(|entry| slow.remove(&entry.data).is_some()));
                            prop_assert!(slow.keys().all(|number| number % 2 == 1));
                        }
                    }
                    prop_assert_eq!(table.len(), slow.len());
                    prop_assert!(table.len() <= capacity);
                }
            }

            /// The sequence number of a RST is the end of the furthest data, in whatever order it came and wherever it wraps.
            #[test]
            fn a_reset_bears_the_next_number(start in any::<u32>(), lengths in proptest::collection::vec(1_u32..2_000, 1..20),
                                             swaps in proptest::collection::vec(any::<prop::sample::Index>(), 0..10)) {
                let mut segments = Vec::new();
                let mut next = start;
                for length in lengths {
                    segments.push(segment(Flags::ACK, next, 42, length));
                    next = next.wrapping_add(length);
                }
                for swap in swaps {
                    let at = swap.index(segments.len());
                    segments.swap(0, at);
                }
                let mut track = Track::new(Protocol::Tcp, Side::Originator, Some(&segments[0]));
                for segment in &segments[1..] {
                    track.observe(Side::Originator, Some(segment));
                }
                prop_assert_eq!(track.reset_to(Side::Responder), Some((next, Some(42))));
                prop_assert_eq!(track.reset_to(Side::Originator), Some((42, Some(next))));
            }
        }
    };
}

laws!(80);

mod acceptance {
    use super::*;

    laws!(256);
}

fn states(steps: &[(Side, Flags)]) -> Vec<State> {
    let first = segment(steps[0].1, 1, 1, 0);
    let mut track = Track::new(Protocol::Tcp, steps[0].0, Some(&first));
    let mut states = vec![track.state()];
    for (from, flags) in &steps[1..] {
        track.observe(*from, Some(&segment(*flags, 1, 1, 0)));
        states.push(track.state());
    }
    states
}

#[test]
fn a_connection_passes_through_its_states() {
    use Side::{Originator, Responder};
    let (syn, ack, fin) = (Flags::SYN, Flags::ACK, Flags::FIN | Flags::ACK);
    let opening = [(Originator, syn), (Responder, syn | ack), (Originator, ack)];
    assert_eq!(states(&opening), [State::Opening, State::Opening, State::Established]);
    let closing =
        [(Originator, ack), (Responder, fin), (Originator, ack), (Originator, fin), (Responder, ack)];
    let expected = [State::Established, State::HalfClosed, State::HalfClosed, State::Closed, State::Closed];
    assert_eq!(states(&closing), expected);
    // A FIN after a RST, or data after it, changes nothing.
    let reset = [(Originator, syn), (Responder, Flags::RST | ack), (Originator, fin), (Originator, ack)];
    assert_eq!(states(&reset), [State::Opening, State::Reset, State::Reset, State::Reset]);
    // An answer that the originator has not acknowledged is no connection yet.
    let half = [(Originator, syn), (Responder, syn | ack), (Responder, syn | ack)];
    assert_eq!(states(&half), [State::Opening; 3]);
}

/// Millions of short connections behind a limit of days must not leave their deadlines in memory.
#[test]
fn flows_long_gone_are_not_queued_for_ever() {
    let mut table = FlowTable::new(IdleLimits::established(u64::MAX / 2), 10);
    let forward = numbered(0);
    let ack = segment(Flags::ACK, 1, 1, 0);
    for now in 0..100_000 {
        let slot = table.open(now, (forward, forward.reversed()), (Side::Originator, Some(&ack)), None, ());
        table.remove(slot.expect("the table is empty")).expect("it was opened");
    }
    // What is queued still would be looked at, and skipped, at its deadline.
    assert!(table.is_empty());
    let debug = format!("{table:?}");
    assert!(debug.len() < 20_000, "{} bytes for an empty table", debug.len());
}
