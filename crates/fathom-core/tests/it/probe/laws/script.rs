//! What happens in a run, drawn by chance: what is spoken and how fast, in what world, with what faults.

use crate::world::{Fault, MS, Random, S, START, World, toy};
use fathom_core::loss::Reflector;
use fathom_core::probe::{Request, Settings, Transport};
use fathom_core::schedule::Pace;

pub(crate) const EVERY_NS: [u64; 6] = [S, 100 * MS, 50 * MS, 10 * MS, 5 * MS, 2 * MS];

/// What connections speak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speech {
    Echo,
    /// The toy protocol; whether its canaries may ask.
    Toy(bool),
    Datagrams,
    Stamp,
    /// Connections are the samples; with TLS or without.
    Connect(bool),
}

/// A run as the seed has it.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) speech: Speech,
    pub(crate) settings: Settings,
    pub(crate) faults: Vec<(u64, Fault)>,
    pub(crate) stops: Vec<u64>,
    pub(crate) short_writes: u64,
    pub(crate) late_sends: bool,
    pub(crate) user_timeout_ns: u64,
}

impl Script {
    /// From when on nothing is wrong any more and what was lost has had the time to come back: the longest waits between
    /// attempts, the longest attempt, and a kernel's time-out where only that tells.
    pub(crate) fn is_quiet_from_ns(&self) -> u64 {
        let over = |(at, fault): &(u64, Fault)| {
            at + match *fault {
                Fault::Silence(d)
                | Fault::PeerDown(d)
                | Fault::NameGone(d)
                | Fault::TlsBad(d)
                | Fault::NoPorts(d)
                | Fault::LocalPause(d)
                | Fault::Slew(_, d) => d,
                Fault::ForgetFlows => self.user_timeout_ns,
                Fault::LargeLost(d) => d + self.user_timeout_ns,
                _ => 0,
            }
        };
        let last = self.faults.iter().map(over).max().unwrap_or(0);
        START.mono_ns + last + 20 * S
    }
}

fn settings(speech: Speech, random: &mut Random) -> Settings {
    let paths = random.between(1, 4) as usize;
    let every = random.one_of(&EVERY_NS);
    let slow = every >= 100 * MS;
    let connects = matches!(speech, Speech::Connect(_));
    let ping_pong = !connects && random.below(8) == 0;
    let (transport, request, sizes): (_, _, &[u32]) = match speech {
        Speech::Echo | Speech::Toy(_) => {
            (Transport::Tcp, Request::Echo, &[1, 16, 64, 64, 64, 1_000, 6_000][..])
        }
        Speech::Datagrams => (Transport::Udp, Request::Echo, &[16, 64, 200][..]),
        Speech::Stamp => (Transport::Udp, Request::Stamp(Reflector::default()), &[44, 48, 64, 200][..]),
        Speech::Connect(tls) => (Transport::Tcp, Request::Connect { tls }, &[0][..]),
    };
    Settings {
        session: random.next() as u32,
        connections: if slow && !connects { random.between(1, 5) as u32 } else { 1 },
        pace: if ping_pong { Pace::PingPong } else { Pace::Every(every) },
        transport,
        request,
        size: random.one_of(sizes),
        duration_ns: Some(if slow { random.between(20, 150) * S } else { random.between(5, 16) * S }),
        warm_up: random.below(3),
        stall_after_ns: (random.below(2) == 0).then(|| random.between(200, 2_000) * MS),
        give_up_ns: (random.below(4) == 0).then(|| random.between(3, 20) * S),
        reconnect: random.below(8) != 0,
        keep_trying: random.below(3) == 0,
        timeout_ns: random.between(1, 6) * S,
        count: (random.below(6) == 0).then(|| random.between(1, 400)),
        idle_gaps_ns: if ping_pong && random.below(2) == 0 { vec![50 * MS, 700 * MS, 3 * S] } else { vec![] },
        ..Settings::new((0..paths).map(|p| format!("host-{p}:7007")).collect())
    }
}

fn faults(speech: Speech, random: &mut Random, span_ns: u64) -> Vec<(u64, Fault)> {
    let mut at = 0;
    let count = random.below(8);
    let mut faults = Vec::new();
    for _ in 0..count {
        at += random.between(MS, 2 * span_ns / (count + 1));
        let duration = random.between(50, 12_000) * MS;
        let fault = match random.below(18) {
            0..5 => Fault::Silence(duration),
            5 => Fault::ForgetFlows,
            6 => Fault::Reset,
            7 if matches!(speech, Speech::Datagrams | Speech::Stamp) => Fault::WritesFail,
            7 => Fault::Fin,
            8 => Fault::PeerDown(duration),
            9 => Fault::Step(random.between(0, 10 * S) as i64 - (5 * S) as i64),
            10 => Fault::Slew(random.between(0, 160_000) as i64 - 80_000, duration),
            11 => Fault::WritesFail,
            12 => Fault::NameGone(duration),
            13 => Fault::NameMoves,
            14 => Fault::TlsBad(duration),
            15 => Fault::LargeLost(duration),
            16 => Fault::NoPorts(duration),
            _ => Fault::LocalPause(random.between(1, 3_000) * MS),
        };
        faults.push((at, fault));
        // The clock is set while nothing gets through.
        if matches!(fault, Fault::Silence(_)) && random.below(3) == 0 {
            at += random.below(duration);
            faults.push((at, Fault::Step(random.between(0, 4 * S) as i64 - (2 * S) as i64)));
        }
        // Who has lost its connection needs the name.
        if matches!(fault, Fault::NameGone(_)) && random.below(2) == 0 {
            faults.push((at, Fault::Reset));
        }
    }
    faults
}

/// The world of a seed, and what is done in it.
pub(crate) fn world_of(seed: u64) -> (Script, World) {
    let mut random = Random(seed);
    let speech = match random.below(12) {
        0..5 => Speech::Echo,
        5 => Speech::Toy(false),
        6 => Speech::Toy(true),
        7 | 8 => Speech::Datagrams,
        9 => Speech::Stamp,
        _ => Speech::Connect(random.below(2) == 0),
    };
    let settings = settings(speech, &mut random);
    let span_ns = settings.duration_ns.unwrap_or(S);
    // In some runs all is well again long before the end.
    let part = random.one_of(&[1, 1, 4]);
    let mut faults = faults(speech, &mut random, span_ns / part);
    if random.below(10) == 0 {
        // From the start on.
        faults.insert(0, (0, Fault::NameGone(random.between(1, 20_000) * MS)));
    }
    let mut world = match speech {
        Speech::Toy(true) => World::speaking(settings.clone(), seed, Some(toy::toy)),
        Speech::Toy(false) => World::speaking(settings.clone(), seed, Some(toy::shy_toy)),
        _ => World::new(settings.clone(), seed),
    };
    world = world.with(faults.clone());
    if settings.pace == Pace::PingPong {
        world.rtt_ns = 20 * MS;
    }
    world.user_timeout_ns = random.between(4, 40) * S;
    world.must_end_ns = 3 * span_ns + 300 * S;
    world.kernel_tells = random.below(2) == 0;
    world.short_writes = random.one_of(&[0, 0, 0, 2, 30]);
    world.late_sends = random.below(6) == 0;
    world.split_reads = random.one_of(&[0, 0, 5, 40]);
    world.resolving_ns = random.one_of(&[0, 0, MS, 500 * MS]);
    world.lost_percent = random.one_of(&[0, 2, 20]);
    world.doubled_percent = random.one_of(&[0, 0, 5]);
    let mut stops: Vec<u64> =
        (0..random.one_of(&[0, 0, 0, 1, 2, 3])).map(|_| random.below(span_ns)).collect();
    // The second soon after the first, where people are in a hurry.
    if stops.len() > 1 && random.below(2) == 0 {
        stops[1] = stops[0] + random.below(S);
    }
    stops.sort_unstable();
    world.stops = stops.iter().copied().collect();
    let (short_writes, late_sends, user_timeout_ns) =
        (world.short_writes, world.late_sends, world.user_timeout_ns);
    (Script { speech, settings, faults, stops, short_writes, late_sends, user_timeout_ns }, world)
}
