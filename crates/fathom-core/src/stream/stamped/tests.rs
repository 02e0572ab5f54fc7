use super::*;
use crate::clock::{Anchor, ClockMap};
use crate::loss::Losses;
use crate::sample::Flags;
use fathom_wire::Key;
use fathom_wire::rfc8762::Reflection;

const S: i64 = 1_000_000_000;
/// The wall clock of this end when its monotonic one is 0; the reflector's is 5 ms ahead.
const UTC_NS: i64 = 1_795_255_200 * S;
const AHEAD_NS: i64 = 5_000_000;

struct Path {
    stream: Stream,
    clock: ClockMap,
    local_error_ns: Option<u64>,
    remote: ErrorEstimate,
}

impl Path {
    fn new(reflector: Reflector) -> Self {
        let key = Key { session: 9, connection: 0 };
        Self {
            stream: Stream::new(key, 44, 5 * S as u64).of_stamp(7, reflector),
            clock: ClockMap::new(Anchor { mono_ns: 0, utc_ns: UTC_NS }),
            local_error_ns: Some(1_000),
            remote: ErrorEstimate::of(Some(2_000)),
        }
    }

    /// Sends the next packet; what goes over the wire.
    fn send(&mut self, at_ns: u64) -> [u8; 44] {
        let mut packet = [0; 44];
        self.stream.fill(self.stream.next_seq(), 0, &mut packet);
        self.stream.stamp_at(self.clock.utc_of(at_ns), self.local_error_ns, &mut packet);
        self.stream.sent(at_ns, at_ns, Flags::default());
        packet
    }

    /// What a reflector makes of it, 100 ns after it was sent, in 10 ns.
    fn reflect(&self, mut packet: [u8; 44], count: u32, at_ns: u64) -> [u8; 44] {
        let received_ns = UTC_NS + AHEAD_NS + at_ns as i64 + 100;
        let (error, sent_ns) = (self.remote, received_ns + 10);
        assert!(
            Reflection { sequence: Some(count), received_ns, sent_ns, error, ttl: 64 }.write(&mut packet)
        );
        packet
    }

    fn receive<'a>(&mut self, at_ns: u64, bytes: &'a [u8]) -> Arrival<'a> {
        let clock = self.clock.clone();
        let receipt =
            Receipt { mono_ns: at_ns, clock: &clock, kernel: None, local_pause: None, stamps: None };
        let mut arrivals = Vec::new();
        self.stream.receive_datagram(&receipt, bytes, |arrival| arrivals.push(arrival));
        assert_eq!(arrivals.len(), 1);
        arrivals.remove(0)
    }

    fn losses(mut self) -> Losses {
        self.stream.close(&self.clock, |_| ());
        self.stream.take_losses()
    }
}

#[test]
fn answer_gives_one_way_times_and_bound() {
    let mut path = Path::new(Reflector::Stateful);
    let packet = path.send(1_000);
    let answer = path.reflect(packet, 0, 1_000);
    let Arrival::Resolved(sample) = path.receive(1_500, &answer) else { panic!("an answer") };
    assert_eq!((sample.rtt_ns, sample.reflector_ns, sample.size), (Some(500), Some(10), 44));
    assert_eq!((sample.forward_ns, sample.backward_ns), (Some(AHEAD_NS + 100), Some(390 - AHEAD_NS)));
    let bound = path.stream.clock_bound().expect("both are synchronised");
    assert!(bound.local_ns >= 1_000 && bound.remote_ns >= 2_000 && bound.error_ns() < 3_100, "{bound:?}");
    assert_eq!(path.receive(1_600, &answer), Arrival::Duplicate(0));
}

#[test]
fn one_way_times_need_synchronised_clocks() {
    let ptp = ErrorEstimate { format: TimeFormat::Ptp, ..ErrorEstimate::of(Some(2_000)) };
    let none = ErrorEstimate { multiplier: 0, ..ErrorEstimate::of(Some(2_000)) };
    for (local_error_ns, remote) in [
        (None, ErrorEstimate::of(Some(2_000))),
        (Some(1_000), ErrorEstimate::of(None)),
        (Some(1_000), ptp),
        (Some(1_000), none),
    ] {
        let mut path = Path { local_error_ns, remote, ..Path::new(Reflector::Stateful) };
        let packet = path.send(1_000);
        let answer = path.reflect(packet, 0, 1_000);
        let Arrival::Resolved(sample) = path.receive(1_500, &answer) else { panic!("an answer") };
        assert_eq!((sample.forward_ns, sample.backward_ns), (None, None), "{remote:?}");
        assert_eq!((sample.rtt_ns, sample.reflector_ns), (Some(500), Some(10)), "{remote:?}");
        assert_eq!(path.stream.clock_bound(), None);
    }
}

#[test]
fn mismatched_answer_is_foreign() {
    let mut path = Path::new(Reflector::Stateful);
    let packet = path.send(1_000);
    let answer = path.reflect(packet, 0, 1_000);
    for (byte, what) in [(35, "timestamp"), (27, "number"), (24, "number")] {
        let mut other = answer;
        other[byte] ^= 1;
        assert_eq!(path.receive(1_500, &other), Arrival::Foreign(&other), "{what}");
    }
    assert_eq!(path.receive(1_500, &answer[..37]), Arrival::Foreign(&answer[..37]));
    assert!(matches!(path.receive(1_500, &answer), Arrival::Resolved(_)));
}

#[test]
fn loss_direction_needs_a_real_counter() {
    for (reflector, counted, expected) in [
        // The second is lost on the way back, and only a third that counts less than its number shows the counter.
        (Reflector::Unsure, [Some(0), None, Some(2), None, Some(3)], (1, 1, 0)),
        (Reflector::Unsure, [Some(0), None, Some(2), None, Some(4)], (0, 0, 2)),
        (Reflector::Stateful, [Some(0), None, Some(2), None, Some(4)], (0, 2, 0)),
        (Reflector::Stateless, [Some(0), None, Some(2), None, Some(4)], (0, 0, 2)),
    ] {
        let mut path = Path::new(reflector);
        for (at, count) in counted.into_iter().enumerate() {
            let packet = path.send(1_000 * at as u64);
            if let Some(count) = count {
                let answer = path.reflect(packet, count, 1_000 * at as u64);
                assert!(matches!(path.receive(1_000 * at as u64 + 500, &answer), Arrival::Resolved(_)));
            }
        }
        let Losses { forward, backward, unknown, .. } = path.losses();
        assert_eq!((forward, backward, unknown), expected, "{reflector:?} {counted:?}");
    }
}
