//! Servers that mean no good, or are none.

use super::{login, outcome, outcome_of, ready, reply, tls};
use crate::client::{Client, Event, Trouble, Wanted};
use crate::codec::token::{Done, Tokens, Type, Value};
use proptest::prelude::*;

fn asked() -> Client {
    let mut client = ready();
    client.ask("x").unwrap();
    client
}

/// A reply of ours.
fn whole() -> Vec<u8> {
    let mut tokens = Tokens::default();
    tokens.columns(&[("n", Type::Int), ("name", Type::NVarChar(40))]);
    for n in 0..30 {
        tokens.row(&[Value::Int(n), Value::Text("ä name".into())]);
    }
    tokens.error(208, "Invalid object name 'x'.");
    tokens.done(Done::Rows(30), false);
    tokens.into_bytes()
}

#[test]
fn what_is_wrong_is_named() {
    let packet = |status: u8, body: &[u8]| {
        let length = ((body.len() + 8) as u16).to_be_bytes();
        [&[4, status, length[0], length[1], 0, 0, 1, 0][..], body].concat()
    };
    for (bytes, trouble) in [
        (b"HTTP/1.1 400 Bad Request".to_vec(), Trouble::Kind(b'H')),
        (b"H".to_vec(), Trouble::Kind(b'H')),
        // Of the handshake, which there is none of.
        (vec![0x12], Trouble::Kind(0x12)),
        (vec![4, 1, 0, 7, 0, 0, 1, 0], Trouble::PacketLength(7)),
        (vec![4, 1, 0x80, 0, 0, 0, 1, 0], Trouble::PacketLength(32_768)),
        (packet(0, b""), Trouble::EmptyPacket),
        (packet(1, b""), Trouble::Torn("reply")),
        (packet(1, &[0xFD, 0]), Trouble::Torn("reply")),
        (packet(1, &[0xD1]), Trouble::NoColumns),
        (packet(1, &[0x88]), Trouble::Token(0x88)),
        // An error's text that is longer than its token.
        (packet(1, &[0xAA, 8, 0, 1, 0, 0, 0, 1, 16, 9, 0]), Trouble::Torn("message")),
        (packet(1, &[0xAD, 2, 0, 1, 1]), Trouble::Torn("login's answer")),
        (packet(1, &[0xE3, 2, 0, 4, 9]), Trouble::Torn("change of the session")),
        // The end, and then more: of the same message, and of another.
        (packet(1, &[[0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]; 2].concat()), Trouble::Unasked),
        (packet(1, &[0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).repeat(2), Trouble::Unasked),
        // Another is to follow, and none does.
        (packet(1, &[0xFD, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Trouble::Torn("reply")),
    ] {
        for piece in [1, 1_000] {
            assert_eq!(outcome(&mut asked(), &bytes, &[piece]).1, Some(trouble.clone()), "{bytes:02x?}");
        }
    }
}

#[test]
fn a_column_without_an_end_fills_no_memory() {
    let mut client = asked();
    // A type of somebody's own, whose assembly has a name of 65,535 characters.
    let head = [0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0xF0, 0, 0, 0, 0, 0, 0xFF, 0xFF];
    let bytes = reply(&[&head[..], &vec![0x41; 60_000]].concat(), 32_767);
    let (_, trouble) = outcome(&mut client, &bytes, &[1_000]);
    assert_eq!(trouble, Some(Trouble::TooLong("column's name")));
}

#[test]
fn a_prelogin_without_an_end_fills_no_memory() {
    let mut client = Client::new(login(4_096), Wanted::IfOffered, Some(tls()));
    let (_, trouble) = outcome(&mut client, &reply(&vec![0; 100_000], 4_096), &[500]);
    assert_eq!(trouble, Some(Trouble::TooLong("prelogin")));
}

#[test]
fn kept_row_has_size_limit() {
    let mut client = asked();
    client.keep_rows(true);
    let columns = [0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0xA5, 0xFF, 0xFF, 0];
    let value = [&[0xD1][..], &[0; 8], &200_000_u32.to_le_bytes(), &vec![1; 200_000]].concat();
    let (_, trouble) = outcome(&mut client, &reply(&[&columns[..], &value].concat(), 4_096), &[4_096]);
    let too_long = Some(Trouble::RowNotKept);
    assert_eq!(trouble, too_long);
    // Ten values of 60,000 bytes each, none of which is too long by itself.
    let column = [0, 0, 0, 0, 0, 0, 0xA5, 0x60, 0xEA, 0];
    let columns = |n: u16| [&[0x81][..], &n.to_le_bytes(), &column.repeat(n.into())].concat();
    let value = [&60_000_u16.to_le_bytes()[..], &vec![1; 60_000]].concat();
    for (n, rows, expected) in [(10, value.repeat(10), too_long.clone()), (1, value.clone(), None)] {
        let mut client = asked();
        client.keep_rows(true);
        let bytes = reply(&[&columns(n)[..], &[0xD1], &rows, &[0xFD], &[0; 12]].concat(), 4_096);
        assert_eq!(outcome(&mut client, &bytes, &[4_096]).1, expected, "{n}");
    }
    let mut client = asked();
    client.keep_rows(true);
    let bytes = reply(&[&columns(1_000)[..], &[0xD1]].concat(), 4_096);
    assert_eq!(outcome(&mut client, &bytes, &[4_096]).1, too_long);
}

#[test]
fn many_empty_column_lists_need_little_stack() {
    let bytes =
        reply(&[[0x81, 0xFF, 0xFF].repeat(10_000), [&[0xFD][..], &[0; 12]].concat()].concat(), 32_767);
    // As much as a loop needs, and ten thousand calls within each other do not have.
    let small = std::thread::Builder::new().stack_size(512 << 10);
    let ended = small.spawn(move || outcome(&mut asked(), &bytes, &[bytes.len()]).1).unwrap().join();
    assert_eq!(ended.unwrap(), None);
}

#[test]
fn invalid_handshake_is_an_error() {
    let mut client = Client::new(login(4_096), Wanted::Everything, Some(tls()));
    client.received(&reply(&crate::codec::prelogin::answer(true), 4_096)).unwrap();
    assert_eq!(client.event(), Ok(None));
    let (_, trouble) = outcome(&mut client, &reply(&[0x16, 3, 3, 0, 4, 9, 9, 9, 9], 4_096), &[3]);
    assert!(matches!(trouble, Some(Trouble::Handshake(_))), "{trouble:?}");
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Whatever comes, in whatever state and pieces, is read, waited for or refused; and in the same way however it is cut.
            #[test]
            fn no_bytes_break_a_client(
                bytes in prop::collection::vec(any::<u8>(), 0..400), state in 0_u8..3, packed in any::<bool>(), pieces in prop::collection::vec(1_usize..90, 1..5),
            ) {
                let client = || match state {
                    0 => Client::new(login(4_096), Wanted::IfOffered, Some(tls())),
                    1 => asked(),
                    _ => {
                        let mut client = asked();
                        client.keep_rows(true);
                        client.stop().unwrap();
                        client
                    }
                };
                let bytes = if packed { reply(&bytes, 512) } else { bytes };
                let whole = outcome(&mut client(), &bytes, &[bytes.len().max(1)]);
                let cut = outcome(&mut client(), &bytes, &pieces);
                prop_assert_eq!(whole, cut);
            }

            /// A reply of which some bytes are others.
            #[test]
            fn no_change_of_a_reply_breaks_a_client(
                changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), pieces in prop::collection::vec(1_usize..200, 1..5),
            ) {
                let mut bytes = reply(&whole(), 512);
                for (at, byte) in changes {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                let at_once = outcome(&mut asked(), &bytes, &[bytes.len()]);
                for together in [false, true] {
                    prop_assert_eq!(&at_once, &outcome_of(&mut asked(), &bytes, &pieces, together));
                }
            }
        }
    };
}

laws!(300);

mod acceptance {
    use super::*;

    laws!(2_000);
}

#[test]
fn the_reply_that_is_changed_is_one() {
    let (events, trouble) = outcome(&mut asked(), &reply(&whole(), 512), &[40]);
    assert_eq!((super::rows(&events), trouble), (30, None));
    assert_eq!(events.last(), Some(&Event::Over { stopped: false }));
}
