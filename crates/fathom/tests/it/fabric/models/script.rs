//! A little script of what two ends say, and what each middlebox makes of it.

use std::net::SocketAddr;
use std::time::Duration;

use fathom_fabric::packet::{Flags, Flow, Packet, Protocol};

use super::boxes::{Middlebox, Side};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Do {
    /// The client opens a connection from this port; all that follows is about it.
    Open(u16),
    /// The client sends its SYN, and no more.
    Syn(u16),
    /// The server answers the last SYN.
    SynAck,
    /// Data from the client, from the server.
    Client,
    Server,
    /// The end of what one sends.
    ClientFin,
    ServerFin,
    /// The client gives up.
    ClientReset,
    /// The server's host, which knows nothing of what came last, answers with a RST.
    ServerRefuses,
    /// This many ms pass.
    Wait(u64),
    /// Every flow is forgotten.
    Flush,
    /// The other backend is in charge.
    ChangeBackend,
}

/// What was seen of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// It came out on the other side, and this is whom it reached: the server's address, or the client's.
    Passed(SocketAddr),
    /// Nothing came out.
    Silent,
    /// Its sender got a RST, which it obeys, or not (RFC 5961: only one that bears exactly the next number).
    Reset { obeyed: bool },
    /// Nothing was sent.
    Done,
}

/// The client calls this; where there is a NAT or a balancer, others hear it.
pub(crate) struct Talk {
    pub(crate) client: &'static str,
    pub(crate) called: SocketAddr,
}

/// The two ends' state.
struct Ends {
    client: Flow,
    server: Flow,
    client_seq: u32,
    server_seq: u32,
    last_at_server: Option<Packet>,
}

fn tcp(flow: Flow, seq: u32, ack: u32, flags: Flags, data: &[u8]) -> Packet {
    Packet::tcp(flow.source, flow.destination, seq, ack, flags, data).expect("one family")
}

impl Talk {
    /// Plays the script; what was seen at each step.
    pub(crate) fn play(&self, steps: &[Do], middlebox: &mut dyn Middlebox) -> Vec<(Do, Seen)> {
        let mut ends = self.ends(0);
        steps.iter().map(|&step| (step, self.step(step, &mut ends, middlebox))).collect()
    }

    fn ends(&self, port: u16) -> Ends {
        let source = SocketAddr::new(self.client.parse().expect("an address"), port);
        let client = Flow { protocol: Protocol::Tcp, source, destination: self.called };
        // Another start for each connection, as real hosts have it: else the old one's segments fit the new one.
        let start = u32::from(port).wrapping_mul(1_000_000);
        Ends {
            client,
            server: client.reversed(),
            client_seq: start,
            server_seq: start.wrapping_add(500_000),
            last_at_server: None,
        }
    }

    fn step(&self, step: Do, ends: &mut Ends, middlebox: &mut dyn Middlebox) -> Seen {
        let acked = |flags: Flags| flags | Flags::ACK;
        match step {
            Do::Open(port) => {
                self.step(Do::Syn(port), ends, middlebox);
                let answered = self.step(Do::SynAck, ends, middlebox);
                if matches!(answered, Seen::Passed(_)) {
                    return client(ends, Flags::ACK, b"", middlebox);
                }
                answered
            }
            Do::Syn(port) => {
                let reused = ends.client.source.port() == port;
                let seq = ends.client_seq;
                *ends = self.ends(port);
                if reused {
                    // RFC 6191: a new incarnation begins beyond the old one.
                    ends.client_seq = seq.wrapping_add(100_000);
                    ends.server_seq = ends.server_seq.wrapping_add(300_000);
                }
                let syn = tcp(ends.client, ends.client_seq, 0, Flags::SYN, b"");
                ends.client_seq = ends.client_seq.wrapping_add(1);
                seen_from_client(ends, &syn, middlebox)
            }
            Do::SynAck => {
                let flags = Flags::SYN | Flags::ACK;
                let answer = tcp(ends.server, ends.server_seq, ends.client_seq, flags, b"");
                ends.server_seq = ends.server_seq.wrapping_add(1);
                seen_from_server(ends, &answer, middlebox)
            }
            Do::Client => client(ends, acked(Flags::PSH), b"ping", middlebox),
            Do::Server => server(ends, acked(Flags::PSH), b"pong", middlebox),
            Do::ClientFin => client(ends, acked(Flags::FIN), b"", middlebox),
            Do::ServerFin => server(ends, acked(Flags::FIN), b"", middlebox),
            Do::ClientReset => client(ends, acked(Flags::RST), b"", middlebox),
            Do::ServerRefuses => {
                let last = ends.last_at_server.as_ref().expect("something came");
                let reset = last.reset_for().expect("it was no RST");
                seen_from_server(ends, &reset, middlebox)
            }
            Do::Wait(ms) => {
                middlebox.wait(Duration::from_millis(ms));
                Seen::Done
            }
            Do::Flush => {
                middlebox.flush();
                Seen::Done
            }
            Do::ChangeBackend => {
                middlebox.change_backend();
                Seen::Done
            }
        }
    }
}

fn client(ends: &mut Ends, flags: Flags, data: &[u8], middlebox: &mut dyn Middlebox) -> Seen {
    let packet = tcp(ends.client, ends.client_seq, ends.server_seq, flags, data);
    let after = packet.segment().expect("TCP").next_seq();
    let seen = seen_from_client(ends, &packet, middlebox);
    // What is not delivered is sent again: its numbers are not used up.
    if matches!(seen, Seen::Passed(_)) {
        ends.client_seq = after;
    }
    seen
}

fn server(ends: &mut Ends, flags: Flags, data: &[u8], middlebox: &mut dyn Middlebox) -> Seen {
    let packet = tcp(ends.server, ends.server_seq, ends.client_seq, flags, data);
    let after = packet.segment().expect("TCP").next_seq();
    let seen = seen_from_server(ends, &packet, middlebox);
    if matches!(seen, Seen::Passed(_)) {
        ends.server_seq = after;
    }
    seen
}

fn seen_from_client(ends: &mut Ends, packet: &Packet, middlebox: &mut dyn Middlebox) -> Seen {
    let mut out = middlebox.packet(Side::Left, packet.clone());
    match out.pop() {
        None => Seen::Silent,
        Some((Side::Right, passed)) => {
            assert!(out.is_empty(), "more came out: {out:?}");
            assert_eq!(passed.segment(), packet.segment(), "only addresses may change");
            ends.server = passed.flow().reversed();
            let reached = passed.flow().destination;
            ends.last_at_server = Some(passed);
            Seen::Passed(reached)
        }
        Some((Side::Left, back)) => {
            assert_eq!(back.flow(), ends.client.reversed(), "it comes from whom the client called");
            reset(&back, ends.server_seq)
        }
    }
}

fn seen_from_server(ends: &Ends, packet: &Packet, middlebox: &mut dyn Middlebox) -> Seen {
    let mut out = middlebox.packet(Side::Right, packet.clone());
    match out.pop() {
        None => Seen::Silent,
        Some((Side::Left, passed)) => {
            assert!(out.is_empty(), "more came out: {out:?}");
            assert_eq!(passed.segment(), packet.segment(), "only addresses may change");
            assert_eq!(passed.flow(), ends.client.reversed(), "it comes from whom the client called");
            Seen::Passed(passed.flow().destination)
        }
        Some((Side::Right, back)) => reset(&back, ends.client_seq),
    }
}

fn reset(packet: &Packet, expected: u32) -> Seen {
    let segment = packet.segment().expect("a RST");
    assert!(segment.flags.has(Flags::RST), "{segment:?}");
    Seen::Reset { obeyed: segment.seq == expected }
}
