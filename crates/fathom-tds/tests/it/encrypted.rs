//! Sessions within TLS, whose other end is a client of `rustls`.

use crate::client::{BATCH, Client, LOGIN, PRELOGIN, message, rows, tokens};
use fathom_tds::codec::Refusal;
use fathom_tds::machine::{Session, identity};
use fathom_tls::Anybody;
use std::io::{Read, Write};
use std::sync::Arc;
use tds_protocol::login7::Login7;
use tds_protocol::prelogin::{EncryptionLevel, PreLogin};
use tds_protocol::sql_batch::SqlBatch;

/// The client's end of an encrypted session: records within packets until the handshake is over, and packets within records from then on.
struct Encrypted {
    client: Client,
    tls: rustls::ClientConnection,
}

impl Encrypted {
    fn logged_in(packet: u32) -> Self {
        let mut client =
            Client { session: Session::new(51, Some(identity().expect("a certificate"))), ..Client::new() };
        let answer = client.ask(PRELOGIN, &PreLogin::new().with_encryption(EncryptionLevel::On).encode());
        assert_eq!(PreLogin::decode(answer.as_slice()).expect("an answer").encryption, EncryptionLevel::On);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth();
        let name = "fathom-echo".try_into().expect("a name");
        let tls = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut this = Self { client, tls };
        while this.tls.is_handshaking() {
            let mut records = Vec::new();
            while this.tls.wants_write() {
                this.tls.write_tls(&mut records).expect("a vector takes everything");
            }
            if !records.is_empty() {
                this.client.send(PRELOGIN, &records);
            }
            let mut body = Vec::new();
            while let Some(packet) = this.client.packet(usize::MAX) {
                for packet in split(&packet) {
                    assert_eq!(packet[0], PRELOGIN);
                    assert!(packet.len() <= 512);
                    body.extend_from_slice(&packet[8..]);
                }
            }
            let mut records = body.as_slice();
            while !records.is_empty() {
                this.tls.read_tls(&mut records).expect("records");
                this.tls.process_new_packets().expect("a handshake");
            }
        }
        this.exchange(&message(
            LOGIN,
            &Login7::new().with_sql_auth("sa", "hush").with_packet_size(packet).encode(),
        ));
        this
    }

    /// Sends a message, at odd lengths, and gives the packets of the reply.
    fn exchange(&mut self, message: &[u8]) -> Vec<u8> {
        self.tls.writer().write_all(message).expect("room");
        let mut records = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut records).expect("a vector takes everything");
        }
        for part in records.chunks(37) {
            self.client.session.received(self.client.now_ns, part).expect("records of the protocol");
        }
        let mut plain = Vec::new();
        while let Some(came) = self.client.packet(1_000) {
            let mut came = came.as_slice();
            while !came.is_empty() {
                self.tls.read_tls(&mut came).expect("records");
                self.tls.process_new_packets().expect("records that decipher");
            }
            let read = self.tls.reader().read_to_end(&mut plain);
            assert!(read.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
        }
        plain
    }
}

/// The packets that came at once.
fn split(mut wire: &[u8]) -> Vec<&[u8]> {
    let mut packets = Vec::new();
    while wire.len() >= 8 {
        let (packet, rest) = wire.split_at(usize::from(u16::from_be_bytes([wire[2], wire[3]])));
        packets.push(packet);
        wire = rest;
    }
    packets
}

#[test]
fn encrypted_session_returns_all_rows() {
    let mut client = Encrypted::logged_in(32_767);
    assert_eq!(client.client.session.client().1, 16_383, "no packet is larger than a record");
    let reply =
        client.exchange(&message(BATCH, &SqlBatch::new("SELECT * FROM fathom_rows(900, 100)").encode()));
    let packets = split(&reply);
    assert!(packets.len() > 1);
    assert!(packets[..packets.len() - 1].iter().all(|p| p.len() == 16_383));
    let body: Vec<u8> = packets.iter().flat_map(|p| p[8..].to_vec()).collect();
    assert_eq!(rows(&tokens(body)).len(), 900);
}

#[test]
fn records_that_do_not_decipher_end_the_session() {
    let mut client = Encrypted::logged_in(4_096);
    let forged = [&[0x17, 3, 3, 0, 40][..], &[0x5A; 40]].concat();
    assert!(matches!(client.client.session.received(0, &forged), Err(Refusal::Tls(_))));
}

/// `rustls` takes nothing more after the client's end: a loop that waits until it has taken everything never ends.
#[test]
fn data_after_tls_close_is_ignored() {
    for follows in [&b""[..], b"x", &[0x17; 300]] {
        for at_once in [true, false] {
            let mut client = Encrypted::logged_in(4_096);
            client.tls.send_close_notify();
            let mut end = Vec::new();
            client.tls.write_tls(&mut end).expect("a vector takes everything");
            let session = &mut client.client.session;
            assert!(!session.has_ended());
            if at_once {
                session.received(0, &[&end, follows].concat()).expect("an end");
            } else {
                session.received(0, &end).expect("an end");
                session.received(0, follows).expect("nothing that is looked at");
            }
            assert!(session.has_ended(), "{} bytes, at once: {at_once}", follows.len());
        }
    }
}
