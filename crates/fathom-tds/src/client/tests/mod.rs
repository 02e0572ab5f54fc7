//! Both ends in virtual time, without a socket; and replies that are made up.

mod hostile;
mod layouts;
mod logins;
mod sessions;

use super::{Client, Counts, Event, Login, Trouble, Wanted};
use crate::machine::waits::Waits;
use crate::machine::{Doing, Seen, Session, Step, identity};
use fathom_tls::Anybody;
use rustls::crypto::ring;
use rustls::version::TLS12;
use rustls::{ClientConfig, ClientConnection};
use std::sync::Arc;

fn login(packet: u16) -> Login {
    Login {
        host: "here".into(),
        user: "reader".into(),
        password: "hush€".into(),
        program: "a program".into(),
        server: "there".into(),
        database: "sales".into(),
        packet,
    }
}

/// A client's TLS, which takes any certificate.
fn tls() -> ClientConnection {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), "fathom-echo".try_into().unwrap()).unwrap()
}

/// What another session does, after it was held up for 4.5 s.
fn blocked() -> Seen {
    let mut waits = Waits::default();
    waits.add(4_500_000_000);
    Seen { doing: Doing::Blocked, idle_ns: 0, waits }
}

/// Our client and our server; what either sends comes in pieces of this size.
struct Pair {
    client: Client,
    server: Session,
    piece: usize,
    now_ns: u64,
    /// Everything that the client sent.
    sent: Vec<u8>,
}

impl Pair {
    fn new(packet: u16, wanted: Wanted, encrypts: bool, piece: usize) -> Self {
        let identity = encrypts.then(|| identity().unwrap());
        let client = Client::new(login(packet), wanted, Some(tls()));
        Self { client, server: Session::new(51, identity), piece, now_ns: 1_000, sent: Vec::new() }
    }

    fn logged_in(packet: u16, encrypts: bool, piece: usize) -> Self {
        let wanted = if encrypts { Wanted::Everything } else { Wanted::Nothing };
        let mut pair = Self::new(packet, wanted, encrypts, piece);
        assert_eq!(pair.events(), Ok(vec![Event::Ready]));
        pair
    }

    /// Lets them talk until both wait; what came.
    fn events(&mut self) -> Result<Vec<Event>, Trouble> {
        let mut events = Vec::new();
        loop {
            while let Some(event) = self.client.event()? {
                events.push(event);
            }
            let out = self.client.take_out();
            self.sent.extend_from_slice(&out);
            for piece in out.chunks(self.piece) {
                self.server.received(self.now_ns, piece).expect("what a server takes");
            }
            match self.server.step(self.now_ns).expect("a session that goes on") {
                Step::Send(bytes) => {
                    let bytes = bytes.to_vec();
                    self.server.sent(bytes.len());
                    for piece in bytes.chunks(self.piece) {
                        self.client.received(piece)?;
                        while let Some(event) = self.client.event()? {
                            events.push(event);
                        }
                    }
                }
                Step::See(number) => self.server.saw(self.now_ns, (number == 51).then(blocked)),
                Step::Rest { until_ns } => self.now_ns = until_ns,
                Step::Look => self.server.looked(self.now_ns, None),
                Step::Listen if out.is_empty() => return Ok(events),
                Step::Listen => {}
            }
        }
    }

    fn ask(&mut self, text: &str) -> Vec<Event> {
        self.client.ask(text).unwrap();
        self.events().unwrap()
    }
}

/// A client that is ready, whose server is to be made up from here on.
fn ready() -> Client {
    Pair::logged_in(4_096, false, usize::MAX).client
}

/// A reply in packets of this size.
fn reply(tokens: &[u8], size: u16) -> Vec<u8> {
    let packets = super::request::packets(0x04, tokens, size);
    packets.concat()
}

/// What comes of these bytes in pieces, of which the last is repeated; and what comes without end is none.
fn outcome(client: &mut Client, bytes: &[u8], pieces: &[usize]) -> (Vec<Event>, Option<Trouble>) {
    outcome_of(client, bytes, pieces, false)
}

/// The same, where rows that follow a row may be taken together.
fn outcome_of(
    client: &mut Client,
    bytes: &[u8],
    pieces: &[usize],
    together: bool,
) -> (Vec<Event>, Option<Trouble>) {
    let (mut events, mut rest) = (Vec::new(), bytes);
    let mut sizes = pieces.iter().cycle();
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        rest = later;
        if let Err(trouble) = client.received(now) {
            return (events, Some(trouble));
        }
        loop {
            match client.event() {
                Ok(Some(Event::Row)) => {
                    let more = if together { client.rows() } else { 0 };
                    events.extend(std::iter::repeat_n(Event::Row, 1 + more as usize));
                }
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(trouble) => return (events, Some(trouble)),
            }
            assert!(events.len() <= bytes.len() + 1, "more events than bytes");
        }
    }
    (events, None)
}

fn rows(events: &[Event]) -> usize {
    events.iter().filter(|event| **event == Event::Row).count()
}

/// The law of packets: none is longer than what was granted, and all but the last of a reply are as long.
fn keeps_the_law(counts: Counts, granted: u16) -> bool {
    counts.too_long == 0 && counts.not_full == 0 && counts.longest <= granted
}
