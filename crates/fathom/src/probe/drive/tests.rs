use super::*;
use crate::probe::{config, outbox};
use fathom_core::event::EventKind;
use std::io::{Read, Write};
use std::net::TcpListener;

/// A server of one connection that echoes until the peer is done.
fn echo_once() -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut buffer = [0; 4_096];
        while let Ok(n @ 1..) = peer.read(&mut buffer) {
            peer.write_all(&buffer[..n]).unwrap();
        }
    });
    (port, server)
}

/// Runs a driver against a server of our own and gives what it told.
fn run(
    options: &str,
    prepare: impl FnOnce(&mut Driver<'_>),
) -> (Vec<fathom_core::sample::Sample>, Vec<EventKind>) {
    let (port, server) = echo_once();
    let config = config::from_line(&format!("127.0.0.1:{port} --no-record {options}")).unwrap();
    let reactor = Reactor::new().unwrap();
    let stop = Stop::new(vec![reactor.waker()]);
    let (outbox, mut ring) = outbox::channel(Some(50_000.0), 1, None);
    let clocks = Box::new(fathom_os::clock::anchor);
    let alone = Worker::alone(1);
    let mut driver = Driver::new(&config, alone, reactor, outbox, stop, 7, clocks);
    prepare(&mut driver);
    // Taken as it comes: a run ends only when everything has been, and a fast one tells more than a ring holds.
    let taken = std::thread::spawn(move || {
        let (mut samples, mut events) = (Vec::new(), Vec::new());
        loop {
            match ring.pop() {
                Ok(Message::Sample(_, sample)) => samples.push(sample),
                Ok(Message::Event(_, event)) => events.push(event.kind),
                Ok(Message::Ended) => return (samples, events),
                Ok(_) => {}
                Err(_) if ring.is_abandoned() => return (samples, events),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
    });
    let end = driver.run().unwrap();
    assert!(end.fatal.is_none() && !end.lost, "{end:?}");
    server.join().unwrap();
    taken.join().unwrap()
}

#[test]
fn missing_kernel_timestamps_are_noted_once() {
    let none = |_: &Socket| Err(io::Error::from(io::ErrorKind::Unsupported));
    let (samples, events) = run("--every 2ms --count 20", |driver| driver.stamp_with = none);
    assert_eq!(samples.len(), 20);
    assert!(
        samples.iter().all(|s| s.rtt_ns.is_some() && s.send_stack_ns.is_none() && s.recv_stack_ns.is_none())
    );
    let notes = events.iter().filter(|e| matches!(e, EventKind::Note { text } if text.contains("not split")));
    assert_eq!(notes.count(), 1);
}

#[test]
#[cfg(target_os = "linux")]
fn the_split_of_real_samples_adds_up() {
    // The kernel stamps nothing until its switch has turned, which a busy machine puts off.
    let split = (0..50).map(|_| split_samples("--every 2ms --count 50").1).find(|split| !split.is_empty());
    for (rtt, send, recv) in split.expect("the kernel stamps packets") {
        assert!(send >= 0 && recv >= 0 && send + recv <= rtt, "{send} + {recv} of {rtt}");
    }
}

/// The samples of a run, and of those that are split the round trip and the times in the two stacks.
#[cfg(target_os = "linux")]
fn split_samples(options: &str) -> (Vec<fathom_core::sample::Sample>, Vec<(i64, i64, i64)>) {
    let (samples, _) = run(options, |_| {});
    let split =
        samples.iter().filter_map(|s| Some((s.rtt_ns?, s.send_stack_ns?, s.recv_stack_ns?))).collect();
    (samples, split)
}

/// A timer ends the wait for the next sample, which is due then: what is mapped again would delay it.
#[test]
fn pages_are_released_at_most_once_per_echo() {
    thread_local!(static TIMES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
    let count = || {
        TIMES.set(TIMES.get() + 1);
        0
    };
    let (samples, _) =
        run("--every 50ms --count 12 --timestamps off", |driver| driver.settled = Settled::always(count));
    assert_eq!(samples.len(), 12);
    assert!((1..=12).contains(&TIMES.get()), "{} times after {} echoes", TIMES.get(), samples.len());
}

#[test]
fn timer_ends_gapless_ping_pong_run() {
    // The clocks are read after a second; the run's end is a timer too.
    let (samples, events) = run("--ping-pong --for 1100ms", |_| {});
    assert!(samples.iter().all(|s| s.rtt_ns.is_some()));
    let whole = samples.iter().enumerate().all(|(i, s)| s.seq == i as u64);
    assert!(whole && samples.len() > 1, "{} samples", samples.len());
    let closed = events.iter().filter(|e| matches!(e, EventKind::ConnectionClosed { .. })).count();
    assert_eq!(closed, 1);
}

#[test]
fn messages_larger_than_socket_buffers_ping_pong() {
    for options in ["--ping-pong", "--ping-pong --spin"] {
        let (samples, _) = run(&format!("{options} --size 8MiB --count 3"), |_| {});
        assert_eq!(samples.len(), 3, "{options}");
        assert!(samples.iter().all(|s| s.rtt_ns.is_some() && s.size == 8 << 20), "{options}");
    }
}

#[test]
fn wall_clock_step_is_recorded_and_keeps_rtt() {
    const HOUR_NS: i64 = 3_600_000_000_000;
    // The first reading starts the run; from the next on, a second later, somebody has set the clock by an hour.
    let (samples, events) = run("--every 20ms --count 80", |driver| {
        driver.read_clocks = Box::new(|| {
            let mut reading = fathom_os::clock::anchor();
            reading.utc_ns += HOUR_NS;
            reading
        });
    });
    assert_eq!(samples.len(), 80);
    assert!(samples.iter().all(|s| s.rtt_ns.is_some_and(|rtt| (1..HOUR_NS / 10).contains(&rtt))));
    let steps: Vec<i64> = events
        .iter()
        .filter_map(|e| if let EventKind::ClockStepped { step_ns } = e { Some(*step_ns) } else { None })
        .collect();
    assert_eq!(steps.len(), 1);
    assert!((steps[0] - HOUR_NS).abs() < 1_000_000_000, "{steps:?}");
    // The stamps follow the clock that was set; the samples stay in order.
    assert!(samples[79].sent_ns - samples[0].sent_ns > HOUR_NS);
    assert!(samples.windows(2).all(|pair| pair[0].sent_ns < pair[1].sent_ns));
}

mod acceptance {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn most_samples_are_split() {
        let (samples, split) = split_samples("--every 2ms --count 200");
        // The kernel stamps nothing until its switch has turned, and later leaves some packets out.
        let off = samples.iter().take_while(|s| s.send_stack_ns.is_none()).count();
        let stamped = samples.len() - off;
        assert!(off < samples.len() && split.len() * 2 > stamped, "{off} without, then {}", split.len());
    }
}
