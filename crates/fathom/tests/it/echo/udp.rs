//! The reflector's datagrams.

use super::reflector::{Random, Reflector, frame, has_ipv6, is_root, skip, stamps_of, udp, utc_ns};
use fathom_wire::Key;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};

const KEY: Key = Key { session: 78, connection: 0 };

fn round_trip(socket: &UdpSocket, bytes: &[u8]) -> Vec<u8> {
    socket.send(bytes).expect("sent");
    let mut echo = vec![0; 65_536];
    let len = socket.recv(&mut echo).expect("echoed");
    echo.truncate(len);
    echo
}

/// Whether this socket got no answer. `other` asks the same reflector socket later and is answered: datagrams of
/// loopback keep their order, so by then ours has been judged.
fn is_unanswered(socket: &UdpSocket, bytes: &[u8], other: &UdpSocket) -> bool {
    socket.send(bytes).expect("sent");
    assert_eq!(round_trip(other, b"and me?"), b"and me?");
    socket.set_nonblocking(true).expect("set");
    matches!(socket.recv(&mut [0; 64]), Err(e) if e.kind() == ErrorKind::WouldBlock)
}

#[test]
fn datagrams_come_back_exactly_and_alone() {
    for (listen, local) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
        if local.starts_with('[') && !has_ipv6() {
            skip("needs IPv6 on loopback");
            continue;
        }
        let reflector = Reflector::start(listen, &[]);
        let socket = udp(local, reflector.udp.expect("it serves UDP"));
        let mut random = Random(9);
        let sizes = [0, 1, 63, 64, 1_472, 65_507];
        for len in sizes {
            let bytes = random.bytes(len);
            assert!(round_trip(&socket, &bytes) == bytes, "{len} bytes on {listen}");
        }
        socket.set_nonblocking(true).expect("set");
        assert_eq!(socket.recv(&mut [0; 64]).expect_err("one answer each").kind(), ErrorKind::WouldBlock);
        let (counts, _) = reflector.stop();
        assert_eq!(counts["datagrams"], sizes.len());
        assert_eq!(counts["bytes"], sizes.iter().sum::<usize>());
    }
}

#[test]
fn frames_are_stamped_and_counted_by_connection() {
    let reflector = Reflector::start("127.0.0.1:0", &["--udp-only"]);
    let address = reflector.udp.expect("it serves UDP");
    // A translator on the way may give a connection another port: it stays the same.
    let sockets = [udp("127.0.0.1:0", address), udp("127.0.0.1:0", address)];
    let keys = [KEY, Key { connection: KEY.connection + 1, ..KEY }];
    for sequence in 0..4 {
        for (at, key) in keys.into_iter().enumerate() {
            let socket = &sockets[(at + sequence as usize / 2) % 2];
            let before = utc_ns();
            let echo = round_trip(socket, &frame(key, sequence, 100));
            let stamps = stamps_of(key, sequence, &echo);
            assert!(stamps.sent_ns >= stamps.received_ns);
            assert!(stamps.received_ns >= before - 10_000_000 && stamps.sent_ns <= utc_ns() + 10_000_000);
            assert_eq!(u64::from(stamps.frames), sequence, "of this connection");
        }
    }
    assert_eq!(reflector.stop().0["messages_stamped"], 8);
}

#[test]
fn another_echo_server_gets_no_answer() {
    let reflector = Reflector::start("127.0.0.1:0", &["--udp-only"]);
    let address = reflector.udp.expect("it serves UDP");
    let probe = udp("127.0.0.1:0", address);
    // Another host's reflector on the same port, by another loopback address.
    let twin = udp(&format!("127.0.0.2:{}", address.port()), address);
    assert!(is_unanswered(&twin, b"loop?", &probe));
    // A reflector on any port at all shows by the stamps in what it sends.
    let stamped = round_trip(&probe, &frame(KEY, 0, 64));
    assert!(is_unanswered(&udp("127.0.0.1:0", address), &stamped, &probe));
    let (counts, _) = reflector.stop();
    assert_eq!(counts["datagrams_refused"]["port"], 1);
    assert_eq!(counts["datagrams_refused"]["echo"], 1);
}

#[test]
fn well_known_port_requires_udp_any_port() {
    if !is_root() {
        return skip("needs root");
    }
    for any_port in [false, true] {
        let arguments: &[&str] = if any_port { &["--udp-only", "--udp-any-port"] } else { &["--udp-only"] };
        let reflector = Reflector::start("127.0.0.1:0", arguments);
        let address = reflector.udp.expect("it serves UDP");
        let known =
            (600..1_024).find_map(|port| UdpSocket::bind(("127.0.0.3", port)).ok()).expect("a free port");
        known.connect(address).expect("loopback");
        let silent = is_unanswered(&known, b"well known", &udp("127.0.0.1:0", address));
        assert_eq!(silent, !any_port);
        assert_eq!(reflector.stop().0["datagrams_refused"]["port"], u64::from(!any_port));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn broadcast_gets_no_answer() {
    for listen in ["0.0.0.0:0", "[::]:0"] {
        if listen.starts_with('[') && !has_ipv6() {
            skip("needs IPv6");
            continue;
        }
        let reflector = Reflector::start(listen, &["--udp-only"]);
        let port = reflector.udp.expect("it serves UDP").port();
        let one = udp("127.0.0.1:0", (Ipv4Addr::LOCALHOST, port).into());
        let many = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        many.set_broadcast(true).expect("set");
        many.connect(("127.255.255.255", port)).expect("loopback has a broadcast address");
        assert!(is_unanswered(&many, b"anybody?", &one), "{listen}");
        // Its answer would come from another address than the one that was asked, so the count tells.
        let (counts, _) = reflector.stop();
        assert_eq!((&counts["datagrams_refused"]["address"], &counts["datagrams"]), (&1.into(), &1.into()));
    }
}

#[test]
fn disallowed_peer_gets_no_answer() {
    let reflector = Reflector::start("127.0.0.1:0", &["--udp-only", "--allow", "127.0.0.1"]);
    let address = reflector.udp.expect("it serves UDP");
    assert!(is_unanswered(&udp("127.0.0.2:0", address), b"in?", &udp("127.0.0.1:0", address)));
    assert_eq!(reflector.stop().0["datagrams_refused"]["not_allowed"], 1);
}

#[test]
fn answers_beyond_the_rate_are_left_out() {
    let reflector = Reflector::start("127.0.0.1:0", &["--udp-only", "--udp-max-rate", "1"]);
    let socket = udp("127.0.0.1:0", reflector.udp.expect("it serves UDP"));
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        socket.send(b"x").expect("sent");
    }
    socket.recv(&mut [0; 1]).expect("the first is answered");
    let (counts, _) = reflector.stop();
    let (answered, over) = (&counts["datagrams"], &counts["datagrams_refused"]["rate"]);
    let (answered, over) = (answered.as_u64().expect("a count"), over.as_u64().expect("a count"));
    assert!(answered <= 2 + begun.elapsed().as_secs(), "{answered} answered");
    assert!(over > 0, "{counts}");
}
