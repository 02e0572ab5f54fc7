//! Forged senders and floods of datagrams at the reflector.

use super::reflector::{FATHOM, Reflector, is_root, skip, udp};
use fathom_wire::rfc8762::{ErrorEstimate, Sent};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Sends a datagram that names another one of this host's sockets as its sender.
fn forge(from: SocketAddr, to: SocketAddr, payload: &[u8]) {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).expect("a raw socket");
    let length = u16::try_from(8 + payload.len()).expect("a datagram");
    // RFC 768; a checksum of 0 is none.
    let header = [from.port(), to.port(), length, 0].map(u16::to_be_bytes).concat();
    socket.send_to(&[&header, payload].concat(), &to.into()).expect("sent");
}

/// A reflector on free ports of 127.0.0.1, and its socket for STAMP.
fn with_stamp() -> (Reflector, SocketAddr) {
    let mut command = Command::new(FATHOM);
    command.args(["echo", "--json", "--listen", "udp://127.0.0.1:0", "--stamp", "127.0.0.1:0"]);
    let reflector = Reflector::spawn(command);
    // The last of the two that it tells of.
    let stamp = reflector.udp.expect("it listens");
    (reflector, stamp)
}

fn count(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().expect("a count")
}

/// One forged datagram kept two reflectors on free ports answering each other for as long as they ran.
#[test]
fn a_loop_between_two_reflectors_ends() {
    if !is_root() {
        return skip("needs root (a raw socket)");
    }
    let start = || Reflector::start("127.0.0.1:0", &["--udp-only"]);
    let (a, b) = (start(), start());
    let (at_a, at_b) = (a.udp.expect("it serves UDP"), b.udp.expect("it serves UDP"));
    for n in 0..10_u8 {
        forge(at_a, at_b, &[n; 32]);
        forge(at_a, at_b, &[n]);
    }
    // By then anything that goes round has done so hundreds of times.
    let fences = 300_u64;
    for at in [at_a, at_b] {
        let socket = udp("127.0.0.1:0", at);
        for n in 0..fences {
            socket.send(&n.to_be_bytes()).expect("sent");
            socket.recv(&mut [0; 8]).expect("answered");
        }
    }
    let counts = [a, b].map(|reflector| reflector.stop().0);
    for counts in &counts {
        let answers = count(counts, "datagrams") - fences;
        // Ten that tell, once each; a byte goes round until ten a second are exceeded.
        assert!(answers <= 10 + 20, "{answers} answers: {counts}");
    }
    let refused: u64 = counts.iter().map(|counts| count(&counts["datagrams_refused"], "echo")).sum();
    assert!(refused >= 10, "{counts:?}");
}

/// The same by STAMP, whose answers differ from what they answer.
#[test]
fn a_loop_between_two_stamp_reflectors_ends() {
    if !is_root() {
        return skip("needs root (a raw socket)");
    }
    let ((a, at_a), (b, at_b)) = (with_stamp(), with_stamp());
    let packet = |sequence| {
        let mut packet = [0; 44];
        let error = ErrorEstimate::of(None);
        Sent { sequence, timestamp: 0xEEAB_EA20_8000_0000, error, session: 7 }.encode(&mut packet);
        packet
    };
    forge(at_a, at_b, &packet(0));
    let fences = 300;
    for at in [at_a, at_b] {
        let socket = udp("127.0.0.1:0", at);
        for n in 0..fences {
            socket.send(&packet(n)).expect("sent");
            socket.recv(&mut [0; 44]).expect("answered");
        }
    }
    let answers = [a, b].map(|r| count(&r.stop().0, "stamp_packets") - u64::from(fences));
    assert_eq!(answers, [0, 1], "the forged one is answered, and its answer is not");
}

/// One bucket for all: a stranger's flood once took a quarter of a probe's answers.
///
/// Each round waits for the probe's echo, so that the reflector's socket never holds more than one burst. A second long: only
/// then does a reflector know a source.
#[test]
fn flood_takes_no_answer_from_a_probe() {
    let reflector = Reflector::start("127.0.0.1:0", &["--udp-only", "--udp-max-rate", "1000"]);
    let at = reflector.udp.expect("it serves UDP");
    let (probe, stranger) = (udp("127.0.0.1:0", at), UdpSocket::bind("127.0.0.2:0").expect("loopback"));
    probe.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
    let mut unanswered = 0;
    let mut echo = [0; 8];
    for n in 0..110_u64 {
        // No more at once than a socket holds.
        for m in 0..250_u64 {
            stranger.send_to(&(n << 32 | m).to_be_bytes(), at).expect("sent");
        }
        probe.send(&n.to_be_bytes()).expect("sent");
        unanswered += u32::from(probe.recv(&mut echo).is_err());
        // A hundred of the probe's a second at the most.
        thread::sleep(Duration::from_millis(10));
    }
    let counts = reflector.stop().0;
    assert!(count(&counts["datagrams_refused"], "rate") > 1_000, "the flood was none: {counts}");
    assert_eq!(unanswered, 0, "{counts}");
}
