//! A middlebox on a bench: packets in, what becomes of them out, and a clock that the test turns.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use fathom_fabric::event::StageEvent;
use fathom_fabric::packet::{Flags, Flow, Packet, Protocol};
use fathom_fabric::stage::{Context, Fate, Stage};
use fathom_fabric::truth::{DropReason, Truth, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// A second, ns.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// A minute, ns.
pub(crate) const MINUTE: u64 = 60 * SECOND;

/// What became of a packet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Forwarded(Packet, u64),
    Dropped(DropReason),
    Taken,
}

impl Outcome {
    /// The packet as it left; panics where it did not.
    pub(crate) fn packet(self) -> Packet {
        match self {
            Self::Forwarded(packet, _) => packet,
            other => panic!("not forwarded: {other:?}"),
        }
    }
}

/// A middlebox, its surroundings, and all that it has said and sent.
#[derive(Debug)]
pub(crate) struct Bench<S> {
    pub(crate) now_ns: u64,
    pub(crate) stage: S,
    pub(crate) claims: BTreeSet<Flow>,
    /// With the time of each.
    pub(crate) sent: Vec<(u64, Packet)>,
    pub(crate) truth: Vec<Truth>,
    random: Pcg64,
}

impl<S: Stage> Bench<S> {
    /// The clock does not begin at 0, as no monotonic clock does.
    pub(crate) fn new(mut stage: S) -> Self {
        let now_ns = 3_600 * SECOND;
        stage.start(now_ns);
        Self {
            now_ns,
            stage,
            claims: BTreeSet::new(),
            sent: Vec::new(),
            truth: Vec::new(),
            random: Pcg64::seed_from_u64(7),
        }
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut S, u64, &mut Context<'_>) -> T) -> T {
        let (mut send, mut claim, mut release) = (Vec::new(), Vec::new(), Vec::new());
        let mut context = Context {
            random: &mut self.random,
            send: &mut send,
            claim: &mut claim,
            release: &mut release,
            truth: &mut self.truth,
        };
        let result = call(&mut self.stage, self.now_ns, &mut context);
        // The world releases before it claims: a flow may be given up and taken again in one call.
        for flow in release {
            self.claims.remove(&flow);
        }
        self.claims.extend(claim);
        for (_, packet) in &send {
            super::packets::assert_checksums(packet);
        }
        self.sent.extend(send.into_iter().map(|(after_ns, packet)| (self.now_ns + after_ns, packet)));
        result
    }

    /// Lets time pass; timers run at their due times.
    pub(crate) fn pass(&mut self, ns: u64) {
        let until_ns = self.now_ns + ns;
        let mut steps = 0;
        while let Some(due_ns) = self.stage.next_due_ns().filter(|due_ns| *due_ns <= until_ns) {
            self.now_ns = due_ns.max(self.now_ns);
            self.with(S::advance);
            steps += 1;
            assert!(steps < 1_000_000, "the stage is due again and again at {due_ns}");
        }
        self.now_ns = until_ns;
    }

    /// A packet arrives.
    pub(crate) fn packet(&mut self, packet: Packet) -> Outcome {
        let came = packet.clone();
        match self.with(|stage, now_ns, context| stage.packet(now_ns, packet, context)) {
            Fate::Forward { packet, transit_ns } => {
                super::packets::assert_checksums(&packet);
                Outcome::Forwarded(packet, transit_ns)
            }
            Fate::Drop { packet, reason } => {
                assert_eq!(packet, came, "a dropped packet is handed back as it came");
                Outcome::Dropped(reason)
            }
            Fate::Taken => Outcome::Taken,
        }
    }

    /// Something is made to happen.
    pub(crate) fn event(&mut self, event: &StageEvent) -> Result<(), String> {
        self.with(|stage, now_ns, context| stage.event(now_ns, event, context))
    }

    /// Why flows were forgotten, and after how long idle.
    pub(crate) fn forgotten(&self) -> Vec<(&'static str, u64)> {
        let forgotten = |truth: &Truth| match truth.what {
            What::FlowForgotten { why, idle_ns, .. } => Some((why, idle_ns)),
            _ => None,
        };
        self.truth.iter().filter_map(forgotten).collect()
    }

    /// How many lines of truth are of this kind.
    pub(crate) fn count(&self, is_it: impl Fn(&What) -> bool) -> usize {
        self.truth.iter().filter(|truth| is_it(&truth.what)).count()
    }
}

/// `10.0.0.1:80` as an address.
pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A TCP packet.
pub(crate) fn tcp(flow: Flow, seq: u32, ack: u32, flags: Flags, payload: &[u8]) -> Packet {
    Packet::tcp(flow.source, flow.destination, seq, ack, flags, payload).expect("of one family")
}

/// The TCP flow from one address to another.
pub(crate) fn flow(from: &str, to: &str) -> Flow {
    Flow { protocol: Protocol::Tcp, source: address(from), destination: address(to) }
}

/// Two ends of a connection that obey what passes the middlebox, and only that.
#[derive(Debug, Clone)]
pub(crate) struct Talk {
    /// As the client sends.
    pub(crate) client: Flow,
    /// As the server sends: known from the SYN that reached it.
    pub(crate) server: Flow,
    client_seq: u32,
    server_seq: u32,
}

impl Talk {
    /// A handshake that succeeds.
    pub(crate) fn open<S: Stage>(bench: &mut Bench<S>, client: Flow) -> Self {
        let syn = bench.packet(tcp(client, 1_000, 0, Flags::SYN, &[])).packet();
        let mut talk = Self { client, server: syn.flow().reversed(), client_seq: 1_001, server_seq: 5_001 };
        let answer = syn.syn_ack_for(5_000).expect("a SYN");
        let answer = bench.packet(answer).packet();
        assert_eq!(answer.flow(), talk.client.reversed(), "the answer comes from whom the client called");
        talk.client_sends(bench, b"").packet();
        talk
    }

    /// The client sends data, or with none a bare acknowledgement.
    pub(crate) fn client_sends<S: Stage>(&mut self, bench: &mut Bench<S>, data: &[u8]) -> Outcome {
        let packet = tcp(self.client, self.client_seq, self.server_seq, Flags::ACK, data);
        self.client_seq += data.len() as u32;
        bench.packet(packet)
    }

    /// The server does.
    pub(crate) fn server_sends<S: Stage>(&mut self, bench: &mut Bench<S>, data: &[u8]) -> Outcome {
        let packet = tcp(self.server, self.server_seq, self.client_seq, Flags::ACK, data);
        self.server_seq += data.len() as u32;
        bench.packet(packet)
    }

    /// An echo: both must pass.
    pub(crate) fn echo<S: Stage>(&mut self, bench: &mut Bench<S>) {
        let there = self.client_sends(bench, b"ping").packet();
        assert_eq!(there.flow(), self.server.reversed());
        let back = self.server_sends(bench, b"ping").packet();
        assert_eq!(back.flow(), self.client.reversed());
    }

    /// Both ends send their FIN.
    pub(crate) fn close<S: Stage>(&mut self, bench: &mut Bench<S>) {
        let fin = Flags::FIN | Flags::ACK;
        bench.packet(tcp(self.client, self.client_seq, self.server_seq, fin, &[])).packet();
        self.client_seq += 1;
        bench.packet(tcp(self.server, self.server_seq, self.client_seq, fin, &[])).packet();
        self.server_seq += 1;
        self.client_sends(bench, b"").packet();
    }

    /// What has been sent to an end must be one RST that it obeys (RFC 5961: exactly the next sequence number).
    pub(crate) fn assert_reset_to_client(&self, packet: &Packet) {
        assert_eq!(packet.flow(), self.client.reversed());
        let segment = packet.segment().expect("TCP");
        assert!(segment.flags.has(Flags::RST));
        assert_eq!(segment.seq, self.server_seq);
    }

    /// The same for the server.
    pub(crate) fn assert_reset_to_server(&self, packet: &Packet) {
        assert_eq!(packet.flow(), self.server.reversed());
        let segment = packet.segment().expect("TCP");
        assert!(segment.flags.has(Flags::RST));
        assert_eq!(segment.seq, self.client_seq);
    }
}
