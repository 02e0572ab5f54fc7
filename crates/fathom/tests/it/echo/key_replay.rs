//! `--key` does not protect from replays: an observer of a message can send it again (SECURITY.md). A replay is answered
//! as the sender was, and does not speak for it. And a canary connection under a key asks as it does without one.

use crate::support::keyed::{Keyed, count, frame, home, is_answered, is_stamped, question, secret};
use crate::support::probe::{Probe, assert_sound};
use crate::support::reflector::Echo;
use crate::support::rows::{events, of_kind};
use fathom_wire::frame::IDENTITY_LEN;
use fathom_wire::{About, Answer, HEADER_LEN, Standing};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

/// What the reflector says of the connection of `keyed::KEY`, asked on a connection of its own.
fn asked(reflector: &Keyed) -> Answer {
    let mut stream = reflector.tcp();
    stream.write_all(&question(Some(&secret()), About::Connection)).expect("it is open");
    let mut echo = [0; HEADER_LEN];
    stream.read_exact(&mut echo).expect("an answer");
    let part = echo[IDENTITY_LEN..].try_into().expect("the second half");
    let answer = Answer::decode(part).expect("a whole answer").expect("an answer");
    // When a kernel acknowledges is its own affair.
    Answer { unacked: None, ..answer }
}

/// What comes back for a datagram; `None`: nothing did before the echo of the next.
fn echoed(socket: &UdpSocket, datagram: &[u8]) -> Option<Vec<u8>> {
    let fence = frame(Some(&secret()), 1_000, 80);
    let mut back = [0; 500];
    for bytes in [datagram, &fence] {
        socket.send(bytes).expect("sent");
    }
    let length = socket.recv(&mut back).expect("an answer");
    if is_stamped(1_000, 80, &back[..length]) {
        return None;
    }
    let first = back[..length].to_vec();
    let length = socket.recv(&mut back).expect("an answer");
    assert!(is_stamped(1_000, 80, &back[..length]), "one datagram draws one");
    Some(first)
}

#[test]
fn replay_is_answered_altered_header_is_refused() {
    let (_home, key) = home();
    let reflector = Keyed::start(&key, &[]);
    let (honest, stranger) = (reflector.udp(), reflector.udp());
    let seen = frame(Some(&secret()), 3, 200);
    let asks = question(Some(&secret()), About::Reflector);
    for socket in [&honest, &stranger, &stranger] {
        let echo = echoed(socket, &seen).expect("an echo");
        assert!(is_stamped(3, 200, &echo));
        let answer = echoed(socket, &asks).expect("an answer");
        assert!(is_answered(&answer));
    }
    // Another number, connection or question has another code.
    for at in 0..HEADER_LEN {
        for bytes in [&seen, &asks] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(echoed(&stranger, &changed), None, "byte {at}");
        }
    }
    // Of a frame alone the rest is not covered.
    let mut changed = seen.clone();
    changed[HEADER_LEN] ^= 1;
    assert_eq!(echoed(&stranger, &changed).expect("an echo")[HEADER_LEN..], changed[HEADER_LEN..]);
    let served = reflector.stop();
    assert_eq!(count(&served["datagrams_refused"], "key"), 2 * HEADER_LEN as u64, "{served}");
}

/// The reflector once reported the replaying connection, and its end, in place of the probe's own.
#[test]
fn replayed_frames_leave_original_connection_unchanged() {
    let (_home, key) = home();
    let reflector = Keyed::start(&key, &[]);
    let mut honest = reflector.tcp();
    let mut echo = [0; HEADER_LEN];
    for sequence in 0..3 {
        honest.write_all(&frame(Some(&secret()), sequence, HEADER_LEN as u32)).expect("it is open");
        honest.read_exact(&mut echo).expect("an echo");
    }
    let whole = asked(&reflector);
    assert_eq!((whole.standing, whole.last_seq, whole.frames), (Standing::Open, 2, 3));
    let mut stranger = reflector.tcp();
    stranger.write_all(&frame(Some(&secret()), 0, HEADER_LEN as u32)).expect("it is open");
    stranger.read_exact(&mut echo).expect("an echo");
    assert!(is_stamped(0, HEADER_LEN as u32, &echo));
    assert_eq!(asked(&reflector), whole);
    stranger.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(stranger.read(&mut echo).expect("its end"), 0);
    assert_eq!(asked(&reflector), whole);
    // And not after it either.
    honest.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(honest.read(&mut echo).expect("its end"), 0);
    let closed = asked(&reflector);
    assert_eq!((closed.standing, closed.last_seq, closed.frames), (Standing::ClosedByProbe, 2, 3));
    let mut stranger = reflector.tcp();
    stranger.write_all(&frame(Some(&secret()), 0, HEADER_LEN as u32)).expect("it is open");
    stranger.read_exact(&mut echo).expect("an echo");
    assert_eq!(asked(&reflector), closed);
}

/// A replay once made a silent path look whole.
#[test]
fn replayed_datagram_leaves_last_received_unchanged() {
    let (_home, key) = home();
    let reflector = Keyed::start(&key, &[]);
    let (honest, stranger) = (reflector.udp(), reflector.udp());
    let mut echo = [0; 500];
    for sequence in 0..3 {
        honest.send(&frame(Some(&secret()), sequence, 100)).expect("sent");
        honest.recv(&mut echo).expect("an echo");
    }
    let before = asked(&reflector);
    for sequence in [1, 2, 0] {
        stranger.send(&frame(Some(&secret()), sequence, 100)).expect("sent");
        stranger.recv(&mut echo).expect("an echo");
        let after = asked(&reflector);
        assert_eq!((after.last_seq, after.received_ns), (2, before.received_ns), "{sequence}");
    }
}

/// Messages that the first connection, or the first sender, gets through a relay before it goes silent.
const PASS: usize = 30;
const SIZE: usize = 100;

/// Passes on what comes to its address; nothing more of the first connection after so many messages. It ends with the test.
fn falls_silent(reflector: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for (number, probe) in listener.incoming().enumerate() {
            let probe = probe.expect("a connection");
            let there = TcpStream::connect(reflector).expect("it listens");
            let most = if number == 0 { PASS * SIZE } else { usize::MAX };
            let ways = [(&probe, &there, most), (&there, &probe, usize::MAX)];
            for (from, to, most) in ways {
                let [mut from, mut to] = [from, to].map(|stream| stream.try_clone().expect("a descriptor"));
                thread::spawn(move || {
                    std::io::copy(&mut (&mut from).take(most as u64), &mut to).expect("passed on");
                    // Silent, not closed.
                    thread::park();
                });
            }
        }
    });
    address
}

/// The same with datagrams, each sender with a socket of its own.
fn falls_silent_udp(reflector: SocketAddr) -> SocketAddr {
    let here = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = here.local_addr().expect("bound");
    thread::spawn(move || {
        let mut senders: HashMap<SocketAddr, (UdpSocket, usize)> = HashMap::new();
        let mut bytes = [0; 2_048];
        loop {
            let (length, from) = here.recv_from(&mut bytes).expect("a datagram");
            let most = if senders.is_empty() { PASS } else { usize::MAX };
            let (there, left) = senders.entry(from).or_insert_with(|| {
                let there = UdpSocket::bind("127.0.0.1:0").expect("loopback");
                there.connect(reflector).expect("loopback");
                let (back, here) = [&there, &here].map(|s| s.try_clone().expect("a descriptor")).into();
                thread::spawn(move || {
                    let mut bytes = [0; 2_048];
                    while let Ok(length) = back.recv(&mut bytes) {
                        let _ = here.send_to(&bytes[..length], from);
                    }
                });
                (there, most)
            });
            if *left > 0 {
                *left -= 1;
                there.send(&bytes[..length]).expect("sent");
            }
        }
    });
    address
}

/// The explanation of a silence through such a relay, without what differs from run to run.
fn explained(relay: SocketAddr, more: &str) -> Value {
    let home = tempfile::tempdir().expect("a directory");
    // The canary connection begins with the stall, and has the rest of the time.
    let pace = "--every 20ms --stall-after 400ms --timeout 500ms --for 2500ms";
    Probe::start(home.path(), &format!("{relay} {more} --size {SIZE} {pace} --record r --quiet")).finish();
    let dir = home.path().join("r");
    assert_sound(&dir);
    let events = events(&dir);
    let told = of_kind(&events, "connection.explained");
    assert_eq!(told.len(), 1, "{told:?}");
    let told = told[0];
    let of = |name: &str| told["reflector"][name].clone();
    serde_json::json!([told["verdict"], told["direction"], told["fresh"], of("standing"), of("last_seq")])
}

#[test]
fn key_leaves_silence_explanation_unchanged() {
    let (_home, key) = home();
    let (plain, keyed) = (Echo::start("127.0.0.1"), Keyed::start(&key, &[]));
    let with = format!("--key {}", key.display());
    let run = |relay: fn(SocketAddr) -> SocketAddr, udp: &'static str| {
        let (plain, keyed) = (relay(plain.address()), relay(keyed.address));
        let with = format!("{udp} {with}");
        [thread::spawn(move || explained(plain, udp)), thread::spawn(move || explained(keyed, &with))]
    };
    for runs in [run(falls_silent, ""), run(falls_silent_udp, "--udp")] {
        let [without, told] = runs.map(|run| run.join().expect("it was explained"));
        assert_eq!(told, without);
        assert_eq!(told[2], "echoed", "the canary connection was answered: {told}");
        assert_eq!(told[4], PASS as u64 - 1, "and told what came last: {told}");
    }
    assert!(count(&keyed.stop(), "questions") > 0);
}
