//! Logins: what is asked, what is granted, and who is refused.

use super::{Pair, login, outcome, reply, tls};
use crate::client::{Client, Encrypted, Event, Trouble, Wanted, request};
use crate::codec::login::Login as Read;
use crate::codec::token::{Done, Tokens};
use rustls::ServerConnection;
use std::io::{Read as _, Write as _};
use tds_protocol::login7::Login7;
use tds_protocol::prelogin::{EncryptionLevel, PreLogin};
use tds_protocol::sql_batch::SqlBatch;

#[test]
fn requests_match_another_implementation() {
    let theirs = Login7::new()
        .with_sql_auth("reader", "hush€")
        .with_app_name("a program")
        .with_server_name("there")
        .with_hostname("here")
        .with_database("sales")
        .with_packet_size(8_000)
        .encode();
    let ours = login(8_000).encode();
    // But for the program's version, its flags, and what its library is called.
    assert_eq!(ours[4..12], theirs[4..12], "version and size");
    let text = |of: &[u8], nth: usize| {
        let at = 36 + 4 * nth;
        let word = |at: usize| usize::from(u16::from_le_bytes([of[at], of[at + 1]]));
        of[word(at)..word(at) + 2 * word(at + 2)].to_vec()
    };
    for nth in [0, 1, 2, 3, 4, 8] {
        assert_eq!(text(&ours, nth), text(&theirs, nth), "text {nth}");
    }
    let read = Read::read(&ours).unwrap();
    assert_eq!((read.packet, read.program.as_str(), read.database.as_str()), (8_000, "a program", "sales"));
    for transaction in [0, 0x0102_0304_0506_0708] {
        let batch = request::batch("SELECT 'ä€😀'", transaction);
        let mut theirs = SqlBatch::new("SELECT 'ä€😀'").encode().to_vec();
        theirs[10..18].copy_from_slice(&transaction.to_le_bytes());
        assert_eq!(batch, theirs);
    }
    let levels = [
        (Wanted::Nothing, EncryptionLevel::NotSupported),
        (Wanted::Login, EncryptionLevel::Off),
        (Wanted::IfOffered, EncryptionLevel::On),
        (Wanted::Everything, EncryptionLevel::On),
    ];
    for (wanted, level) in levels {
        let hello = crate::codec::prelogin::hello(request::says(wanted));
        assert_eq!(PreLogin::decode(hello.as_slice()).unwrap().encryption, level);
    }
}

/// MS-TDS 2.2.3.1.4 and, of encryption, SQL Server's option "network packet size".
#[test]
fn the_size_that_was_asked_for_is_granted() {
    for (asked, plain, encrypted) in
        [(512, 512, 512), (4_096, 4_096, 4_096), (16_384, 16_384, 16_383), (32_767, 32_767, 16_383)]
    {
        for (encrypts, granted) in [(false, plain), (true, encrypted)] {
            let pair = Pair::logged_in(asked, encrypts, 100);
            let facts = pair.client.facts();
            assert_eq!((facts.asked, facts.granted), (asked, granted));
            let how = if encrypts { Encrypted::Everything } else { Encrypted::Nothing };
            assert_eq!((facts.encrypted, facts.program.as_str()), (how, "Fathometer"));
            assert_eq!(pair.sent.windows(8).any(|w| w == b"r\0e\0a\0d\0"), !encrypts);
        }
    }
}

#[test]
fn required_encryption_is_kept_or_refused() {
    for (wanted, encrypts, expected) in [
        (Wanted::Nothing, false, Ok(Encrypted::Nothing)),
        (Wanted::Nothing, true, Ok(Encrypted::Nothing)),
        (Wanted::IfOffered, false, Ok(Encrypted::Nothing)),
        (Wanted::IfOffered, true, Ok(Encrypted::Everything)),
        (Wanted::Everything, true, Ok(Encrypted::Everything)),
        (Wanted::Everything, false, Err(Trouble::NotEncrypted)),
        (Wanted::Login, false, Err(Trouble::NotEncrypted)),
    ] {
        let mut pair = Pair::new(4_096, wanted, encrypts, 50);
        let ended = pair.events().map(|_| pair.client.facts().encrypted);
        assert_eq!(ended, expected, "{wanted:?}, the server encrypts: {encrypts}");
        assert!(ended.is_ok() || !pair.sent.windows(8).any(|w| w == b"r\0e\0a\0d\0"), "nobody is named");
    }
    // One of theirs insists.
    let mut client = Client::new(login(4_096), Wanted::Nothing, None);
    let insists = PreLogin::new().with_encryption(EncryptionLevel::Required).encode();
    assert_eq!(outcome(&mut client, &reply(&insists, 4_096), &[3]).1, Some(Trouble::InsistsOnEncryption));
}

/// A server that encrypts the login alone, as SQL Server does for who says no more: after the login's packet both ends speak plainly.
#[test]
fn a_login_alone_can_be_encrypted() {
    let mut client = Client::new(login(4_096), Wanted::Login, Some(tls()));
    client.take_out();
    let answer = PreLogin::new().with_encryption(EncryptionLevel::Off).encode();
    client.received(&reply(&answer, 4_096)).unwrap();
    let mut server = ServerConnection::new(crate::machine::identity().unwrap()).unwrap();
    while server.is_handshaking() {
        assert_eq!(client.event(), Ok(None));
        let out = client.take_out();
        assert_eq!(out[0], 0x12, "records within packets");
        let mut records = &out[8..];
        server.read_tls(&mut records).unwrap();
        server.process_new_packets().unwrap();
        let mut records = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut records).unwrap();
        }
        for packet in request::packets(0x12, &records, 512) {
            client.received(&packet).unwrap();
        }
    }
    assert_eq!(client.event(), Ok(None));
    let records = client.take_out();
    server.read_tls(&mut records.as_slice()).unwrap();
    let state = server.process_new_packets().unwrap();
    let mut packet = vec![0; state.plaintext_bytes_to_read()];
    server.reader().read_exact(&mut packet).unwrap();
    assert_eq!((packet[0], packet[1]), (0x10, 1), "the login, in one packet");
    assert_eq!(Read::read(&packet[8..]).unwrap().database, "sales");
    let mut tokens = Tokens::default();
    tokens.login(0x7400_0004, "sales", 4_096);
    tokens.done(Done::Nothing, false);
    assert_eq!(outcome(&mut client, &reply(&tokens.into_bytes(), 4_096), &[1]), (vec![Event::Ready], None));
    assert_eq!(client.facts().encrypted, Encrypted::Login);
    client.ask("SELECT 1").unwrap();
    assert_eq!(client.take_out()[..2], [0x01, 0x01], "a packet as it is");
    // And it is not that anything would do.
    assert!(server.writer().write(b"x").is_ok());
}

fn to_the_login() -> Client {
    let mut client = Client::new(login(4_096), Wanted::Nothing, None);
    let answer = PreLogin::new().with_encryption(EncryptionLevel::NotSupported).encode();
    client.received(&reply(&answer, 4_096)).unwrap();
    assert_eq!(client.event(), Ok(None));
    client
}

#[test]
fn first_error_explains_refused_login() {
    let mut tokens = Tokens::default();
    tokens.error(4_060, "Cannot open database \"sales\" requested by the login. The login failed.");
    tokens.error(18_456, "Login failed for user 'reader'.");
    tokens.done(Done::Error, false);
    let ended = outcome(&mut to_the_login(), &reply(&tokens.into_bytes(), 4_096), &[1]).1;
    let Some(Trouble::Refused(told)) = ended else { panic!("{ended:?}") };
    assert_eq!((told.number, told.class), (4_060, 16));
    assert!(told.to_string().ends_with("The login failed. (4060)"), "{told}");
}

#[test]
fn redirecting_server_names_its_target() {
    // MS-TDS 2.2.7.9, type 20: a length, protocol 0, a port, a name; the old value is empty.
    let name: Vec<u8> = "db7.example".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let value = [&[0_u8][..], &11_000_u16.to_le_bytes(), &11_u16.to_le_bytes(), &name].concat();
    let body = [&[20_u8][..], &(value.len() as u16).to_le_bytes(), &value, &[0, 0]].concat();
    let token = [&[0xE3][..], &(body.len() as u16).to_le_bytes(), &body].concat();
    let ended = outcome(&mut to_the_login(), &reply(&token, 4_096), &[7]).1;
    assert_eq!(ended, Some(Trouble::Elsewhere { host: "db7.example".into(), port: 11_000 }));
}

#[test]
fn invalid_packet_size_is_refused() {
    for size in ["511", "32768", "", "x"] {
        let text: Vec<u8> = size.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let body = [&[4, size.len() as u8][..], &text, &[0]].concat();
        let token = [&[0xE3][..], &(body.len() as u16).to_le_bytes(), &body].concat();
        let ended = outcome(&mut to_the_login(), &reply(&token, 4_096), &[2]).1;
        assert_eq!(ended, Some(Trouble::Granted(size.into())));
    }
}

#[test]
fn nothing_shows_the_password() {
    assert!(!format!("{:?} {:?}", login(4_096), to_the_login()).contains("hush"));
}
