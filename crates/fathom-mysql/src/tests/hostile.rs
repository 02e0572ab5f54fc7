//! Servers that mean no good, or are none.

use super::cursors::{executed, fetched};
use super::{
    DEPRECATE_EOF, OK, SSL, USUAL, asked, bytes_of, error, greeting, login, message, outcome, ready, result,
};
use crate::packet::LONGEST;
use crate::{Client, Event, Login, Trouble, Wanted};
use proptest::prelude::*;

#[test]
fn what_is_wrong_is_named() {
    let one = |body: &[u8]| message(body, 1);
    for (bytes, trouble) in [
        (one(&[0xFB, b'/', b'e', b't', b'c']), Trouble::File),
        (one(&[]), Trouble::Malformed("number of columns")),
        (one(&[0xFC, 1]), Trouble::Malformed("number of columns")),
        (one(&[1, 1]), Trouble::Malformed("number of columns")),
        (one(&[0xFE; 9]), Trouble::Malformed("number of columns")),
        (one(&[0xFC, 0, 0]), Trouble::Malformed("number of columns")),
        (one(&[0, 0]), Trouble::Malformed("end of a result")),
        (one(&[0xFF, 1]), Trouble::Malformed("message of an error")),
        (message(&[1], 2), Trouble::Order(2, 1)),
        ([message(&OK, 1), message(&OK, 2)].concat(), Trouble::Unasked),
        (bytes_of(&[vec![1], vec![3], vec![1, b'x']]), Trouble::Malformed("end of columns")),
        (bytes_of(&[vec![1], vec![3], vec![0xFE, 0, 0, 2, 0], vec![]]), Trouble::Malformed("row")),
        (bytes_of(&[vec![1], vec![3], vec![0xFE, 0, 0, 2, 0], vec![0xFE; 9]]), Trouble::Malformed("row")),
    ] {
        for piece in [1, 1_000] {
            assert_eq!(outcome(&mut asked(0), &bytes, &[piece]).1, Some(trouble.clone()), "{bytes:02x?}");
        }
    }
    for other in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"HTTP/1.1 400 Bad Request\r\n",
        b"220 mail\r\n",
        &message(b"\x0bx", 0),
    ] {
        let (events, trouble) = outcome(&mut Client::new(login()), other, &[3]);
        assert_eq!((events, trouble), (vec![], Some(Trouble::OtherProtocol)));
    }
    // An error that is none of a server that greets, at once and in pieces (found by the fuzz target).
    for other in
        [message(&error(1064, "42000", "no"), 1), message(&error(1, "HY000", &"x".repeat(70_000)), 0)]
    {
        for piece in [1, 5, 100_000] {
            let (events, trouble) = outcome(&mut Client::new(login()), &other, &[piece]);
            assert_eq!((events, trouble), (vec![], Some(Trouble::OtherProtocol)), "{piece}");
        }
    }
    assert_eq!(outcome(&mut Client::new(login()), &message(b"\x093.23\0", 0), &[3]).1, Some(Trouble::TooOld));
    assert_eq!(outcome(&mut Client::new(login()), &greeting(SSL, ""), &[3]).1, Some(Trouble::TooOld));
}

/// A server that greets and says in one breath why it lets nobody in: the second was left unread, and the end of the connection told
/// instead (found by the fuzz target: it depended on the pieces).
#[test]
fn what_follows_a_greeting_at_once_is_read() {
    let plain = || Login { encryption: Wanted::Nothing, ..login() };
    let both =
        [greeting(USUAL, "mysql_native_password"), message(&error(1053, "08S01", "shutdown"), 1)].concat();
    for piece in [1, 7, 1_000] {
        let (events, trouble) = outcome(&mut Client::new(plain()), &both, &[piece]);
        assert!(
            matches!(&events[..], [Event::Refused(told)] if told.number == 1053),
            "{piece}: {events:?} {trouble:?}"
        );
    }
}

/// A packet that is announced with 16 MiB, and the next, and so on; nothing of it is kept.
#[test]
fn endless_messages_use_bounded_memory() {
    let full = [&[0xFF, 0xFF, 0xFF, 0][..], &vec![b'x'; LONGEST]].concat();
    let rows = bytes_of(&result(1, &[], false, true)[..2]);
    for (mut client, mut number, begins) in [(asked(DEPRECATE_EOF), 3_u8, rows), (asked(0), 1, vec![])] {
        assert_eq!(outcome(&mut client, &begins, &[100]), (vec![], None));
        for _ in 0..20 {
            let mut packet = full.clone();
            packet[3] = number;
            number += 1;
            // `outcome` looks at what is kept.
            assert_eq!(outcome(&mut client, &packet, &[1 << 20]), (vec![], None));
        }
    }
    // An error of as much is cut.
    let text = "x".repeat(40 << 20);
    let (events, _) = outcome(&mut asked(0), &message(&error(1, "HY000", &text), 1), &[1 << 20]);
    assert!(matches!(&events[..], [Event::Refused(told)] if told.message.len() < 70_000));
    // And a word of a login is none.
    let mut client = Client::new(login());
    outcome(&mut client, &greeting(USUAL, "mysql_native_password"), &[100]);
    let trouble = outcome(&mut client, &message(&vec![0xFE; 1 << 20], 2), &[1 << 20]).1;
    assert_eq!(trouble, Some(Trouble::TooLong("message of a login")));
}

/// Four bytes that nobody had sent were told.
#[test]
fn nothing_has_begun_before_something_came() {
    let mut client = Client::new(login());
    assert_eq!(client.packet_began(), []);
    outcome(&mut client, &[7, 0], &[1]);
    assert_eq!(client.packet_began(), [7, 0]);
    outcome(&mut client, &[0, 0, 9], &[1]);
    assert_eq!(client.packet_began(), [7, 0, 0, 0, 9]);
}

#[test]
fn kept_row_has_size_limit() {
    for (length, trouble) in [(60_000, None), (70_000, Some(Trouble::RowNotKept))] {
        let mut client = asked(DEPRECATE_EOF);
        client.keep_rows(true);
        let value = vec![b'x'; length];
        let bytes = bytes_of(&result(1, &[vec![Some(&value)]], false, true));
        assert_eq!(outcome(&mut client, &bytes, &[4_096]).1, trouble);
    }
    let mut client = asked(DEPRECATE_EOF);
    client.keep_rows(true);
    let mut bodies = result(1, &[], false, true);
    // A text of 16 MiB, of which nothing is there.
    bodies[2] = vec![0xFD, 0xFF, 0xFF, 0xFF];
    assert_eq!(outcome(&mut client, &bytes_of(&bodies), &[4_096]).0, [Event::Row]);
    assert_eq!(client.row(), Err(Trouble::Malformed("row")));
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Whatever comes, in whatever state and pieces, is read, waited for or refused; and in the same way however it is cut.
            #[test]
            fn no_bytes_break_a_client(
                bytes in prop::collection::vec(any::<u8>(), 0..400), state in 0_u8..8, packed in any::<bool>(), pieces in prop::collection::vec(1_usize..90, 1..5),
            ) {
                let client = || match state {
                    0 => Client::new(Login { encryption: Wanted::IfOffered, ..login() }),
                    1 => {
                        let mut client = Client::new(login());
                        outcome(&mut client, &greeting(USUAL, "caching_sha2_password"), &[9]);
                        client
                    }
                    2 => asked(0),
                    3 => {
                        let mut client = asked(DEPRECATE_EOF);
                        client.keep_rows(true);
                        outcome(&mut client, &bytes_of(&result(1, &[], false, true)[..2]), &[100]);
                        client
                    }
                    4 => ready(0),
                    5 => {
                        let mut client = ready(0);
                        client.prepare("SELECT ?").unwrap();
                        client
                    }
                    6 => executed(packed),
                    _ => fetched(packed),
                };
                let number = [0, 2, 1, 3, 0, 1, 1, 1][usize::from(state)];
                let bytes = if packed { message(&bytes, number) } else { bytes };
                let whole = outcome(&mut client(), &bytes, &[bytes.len().max(1)]);
                prop_assert_eq!(&whole, &outcome(&mut client(), &bytes, &[1]));
                prop_assert_eq!(whole, outcome(&mut client(), &bytes, &pieces));
            }

            /// An answer of which some bytes are others.
            #[test]
            fn no_change_of_an_answer_breaks_a_client(
                changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), ends_by_ok in any::<bool>(),
                pieces in prop::collection::vec(1_usize..200, 1..5),
            ) {
                let row: Vec<Option<&[u8]>> = vec![Some(b"a value"), None];
                let mut bytes = bytes_of(&[result(2, &vec![row; 9], true, ends_by_ok), result(2, &[], false, ends_by_ok)].concat());
                for (at, byte) in changes {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                let client = || asked(if ends_by_ok { DEPRECATE_EOF } else { 0 });
                let at_once = outcome(&mut client(), &bytes, &[bytes.len()]);
                prop_assert_eq!(at_once, outcome(&mut client(), &bytes, &pieces));
            }
        }
    };
}

laws!(300);

mod acceptance {
    use super::*;

    laws!(2_000);
}
