//! Logins, by each proof that is known, and what becomes of the others.

use super::{CHALLENGE, OK, SSL, USUAL, error, greeting, login, message, outcome};
use crate::{Client, Event, Login, Trouble, Wanted};

/// Of Python's hashlib, for the password and [`CHALLENGE`] of these tests.
const NATIVE: [u8; 20] = *b"\x75\xc1\xf5\x68\x9e\x4a\x9f\xc2\x84\xe8\x04\xc4\x11\x9c\x45\xe7\xf8\x55\x82\xf1";
const SHA2: [u8; 32] = *b"\x82\x0b\xcc\x0c\xab\x1b\x2d\x0e\xb0\xe6\x81\x79\x0b\xfa\x7a\x26\x3e\xd2\xd8\x5e\x21\x81\xd2\x7c\x11\xfd\x71\x64\x6b\xb8\xbe\xec";

fn switch(plugin: &str) -> Vec<u8> {
    [b"\xfe", plugin.as_bytes(), b"\0", CHALLENGE, b"\0"].concat()
}

/// One that was greeted so, and TLS where it was wanted; what it sent for its login.
fn greeted(login: Login, capabilities: u32, plugin: &str) -> (Client, Vec<u8>) {
    let secures = login.encryption != Wanted::Nothing;
    let mut client = Client::new(login);
    let events = if secures { vec![Event::Secure] } else { vec![] };
    assert_eq!(outcome(&mut client, &greeting(capabilities, plugin), &[11]), (events, None));
    if secures {
        let asks = client.take_out();
        // 32 bytes, the second packet of the session, which wants TLS.
        assert_eq!((asks.len(), &asks[..4], asks[5] & 8), (36, &[32, 0, 0, 1][..], 8));
        client.secured().unwrap();
    }
    let out = client.take_out();
    (client, out)
}

fn secure() -> Login {
    Login { encryption: Wanted::Everything, ..login() }
}

#[test]
fn a_login_is_as_the_protocol_has_it() {
    let (mut client, out) = greeted(login(), USUAL | 8, "mysql_native_password");
    let expected = [
        &[0, 0, 0, 0x40, 45][..],
        &[0; 23],
        b"me\0\x14",
        &NATIVE,
        b"shop\0mysql_native_password\0\x14\x0cprogram_name\x06fathom",
    ]
    .concat();
    assert_eq!((out[3], &out[8..]), (1, &expected[..]));
    assert_eq!(client.facts().version, "10.11.6-MariaDB");
    assert_eq!(client.facts().connection, 7);
    assert_eq!(outcome(&mut client, &message(&OK, 2), &[1]), (vec![Event::Ready], None));
}

#[test]
fn password_proofs_are_sent_when_requested() {
    for (plugin, proof) in [("mysql_native_password", &NATIVE[..]), ("caching_sha2_password", &SHA2)] {
        let (_, out) = greeted(login(), USUAL, plugin);
        assert!(out.windows(proof.len()).any(|part| part == proof), "{plugin} at once");
        // And where the server named one that is not known.
        let (mut client, _) = greeted(login(), USUAL, "client_ed25519");
        assert_eq!(outcome(&mut client, &message(&switch(plugin), 2), &[6]), (vec![], None));
        assert_eq!(client.take_out(), message(proof, 3));
        assert_eq!(outcome(&mut client, &message(&OK, 4), &[6]), (vec![Event::Ready], None));
    }
    let none = Login { password: None, ..login() };
    for (plugin, proof) in [("mysql_native_password", &b""[..]), ("caching_sha2_password", b"\0")] {
        let (mut client, _) = greeted(none.clone(), USUAL, "mysql_native_password");
        outcome(&mut client, &message(&switch(plugin), 2), &[6]);
        assert_eq!(client.take_out(), message(proof, 3));
    }
}

/// The password itself goes to nobody on a path that everybody may read.
#[test]
fn a_full_login_needs_encryption() {
    let (mut client, _) = greeted(login(), USUAL, "caching_sha2_password");
    assert_eq!(outcome(&mut client, &message(&[1, 4], 2), &[1]), (vec![], Some(Trouble::InTheClear)));
    assert_eq!(client.take_out(), b"");
    // After TLS the numbers go on.
    let (mut client, _) = greeted(secure(), USUAL | SSL, "caching_sha2_password");
    assert_eq!(outcome(&mut client, &message(&[1, 4], 3), &[1]), (vec![], None));
    assert_eq!(client.take_out(), message(b"s3cret-w0rd\0", 4));
    assert_eq!(outcome(&mut client, &message(&OK, 5), &[1]), (vec![Event::Ready], None));
    // The server knows the hash still.
    let (mut client, _) = greeted(login(), USUAL, "caching_sha2_password");
    let bytes = [message(&[1, 3], 2), message(&OK, 3)].concat();
    assert_eq!(outcome(&mut client, &bytes, &[1]), (vec![Event::Ready], None));
}

#[test]
fn clear_password_needs_verified_certificate() {
    let asks = switch("mysql_clear_password");
    for (login, capabilities, number, trouble) in [
        (login(), USUAL, 2, Some(Trouble::InTheClear)),
        (secure(), USUAL | SSL, 3, Some(Trouble::Unchecked)),
        (Login { is_checked: true, ..secure() }, USUAL | SSL, 3, None),
    ] {
        // Named at once it is not given unasked either.
        let (mut client, out) = greeted(login, capabilities, "mysql_clear_password");
        assert!(!out.windows(6).any(|part| part == b"s3cret"));
        assert_eq!(outcome(&mut client, &message(&asks, number), &[5]), (vec![], trouble.clone()));
        let sent = if trouble.is_none() { message(b"s3cret-w0rd\0", number + 1) } else { vec![] };
        assert_eq!(client.take_out(), sent);
    }
}

#[test]
fn what_is_not_known_is_named() {
    let named = |bytes: &[u8]| {
        let (mut client, _) = greeted(login(), USUAL, "mysql_native_password");
        outcome(&mut client, &message(bytes, 2), &[8]).1
    };
    assert_eq!(named(&switch("client_ed25519")), Some(Trouble::Plugin("client_ed25519".into())));
    assert_eq!(named(&[0xFE]), Some(Trouble::Plugin("mysql_old_password".into())));
    assert_eq!(named(&[1, 4]), Some(Trouble::Malformed("answer to a login")));
    let (mut client, _) = greeted(login(), USUAL, "mysql_native_password");
    let mut trouble = None;
    for turn in 0..100 {
        trouble = outcome(&mut client, &message(&switch("mysql_native_password"), 2 + 2 * turn), &[90]).1;
        if trouble.is_some() {
            break;
        }
    }
    assert!(matches!(trouble, Some(Trouble::Plugin(_))), "it asks for ever");
}

#[test]
fn encryption_is_as_it_was_wanted() {
    let mut client = Client::new(secure());
    let refused = outcome(&mut client, &greeting(USUAL, "mysql_native_password"), &[3]);
    assert_eq!(refused, (vec![], Some(Trouble::NotEncrypted)));
    let offered = Login { encryption: Wanted::IfOffered, ..login() };
    let mut client = Client::new(offered.clone());
    assert_eq!(outcome(&mut client, &greeting(USUAL, "mysql_native_password"), &[3]), (vec![], None));
    assert!(!client.take_out().is_empty());
    let (mut client, _) = greeted(offered, USUAL | SSL, "mysql_native_password");
    assert_eq!(outcome(&mut client, &message(&OK, 3), &[3]), (vec![Event::Ready], None));
    // Somebody on the path adds what the server would say within.
    let mut client = Client::new(secure());
    let bytes = [greeting(USUAL | SSL, "mysql_native_password"), message(&OK, 2)].concat();
    for piece in [1, 1_000] {
        assert_eq!(outcome(&mut client, &bytes, &[piece]), (vec![Event::Secure], Some(Trouble::Unasked)));
        client = Client::new(secure());
    }
}

#[test]
fn server_refusing_all_logins_says_why() {
    // Before it greets it has no capabilities, and so no SQLSTATE.
    let full = [&[0xFF, 0x10, 4][..], b"Too many connections"].concat();
    let (events, _) = outcome(&mut Client::new(login()), &message(&full, 0), &[2]);
    assert!(
        matches!(&events[..], [Event::Refused(told)] if told.number == 1040 && told.message == "Too many connections" && told.state == "HY000"),
        "{events:?}"
    );
    let (mut client, _) = greeted(login(), USUAL, "mysql_native_password");
    let (events, _) = outcome(&mut client, &message(&error(1045, "28000", "Access denied"), 2), &[2]);
    assert!(
        matches!(&events[..], [Event::Refused(told)] if told.number == 1045 && told.state == "28000" && told.is_fatal),
        "{events:?}"
    );
}
