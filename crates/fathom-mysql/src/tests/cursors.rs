//! Rows in pieces: a statement that is prepared, executed with a cursor, and fetched.

use super::{DEPRECATE_EOF, OK, bytes_of, error, message, outcome, ready, result};
use crate::{Client, Event, Trouble};
use proptest::prelude::*;

const CURSOR: u16 = 0x40;
const LAST: u16 = 0x80;
const NUMBER: [u8; 4] = [1, 2, 3, 4];

/// The end of columns, of rows, or of parameters, with this state of the session.
fn end(state: u16, ends_by_ok: bool) -> Vec<u8> {
    let [low, high] = state.to_le_bytes();
    if ends_by_ok { vec![0xFE, 0, 0, low, high, 0, 0] } else { vec![0xFE, 0, 0, low, high] }
}

/// What describes a statement: its number, columns and parameters.
fn description(columns: u16, parameters: u16, ends_by_ok: bool) -> Vec<Vec<u8>> {
    let ok = [&[0], &NUMBER[..], &columns.to_le_bytes(), &parameters.to_le_bytes(), &[0, 0, 0]].concat();
    let mut bodies = vec![ok];
    for n in [parameters, columns] {
        bodies.extend(vec![result(1, &[], false, true)[1].clone(); n.into()]);
        if n > 0 && !ends_by_ok {
            bodies.push(end(2, false));
        }
    }
    bodies
}

/// Columns without rows, which are to be fetched.
fn opened(columns: usize, ends_by_ok: bool) -> Vec<Vec<u8>> {
    let mut bodies = result(columns, &[], false, true)[..=columns].to_vec();
    bodies.push(end(2 | CURSOR, ends_by_ok));
    bodies
}

/// So many rows in the binary protocol, and their end.
fn piece(rows: &[Vec<u8>], state: u16, ends_by_ok: bool) -> Vec<Vec<u8>> {
    let row = |values: &Vec<u8>| [&[0, 0], &values[..]].concat();
    rows.iter().map(row).chain([end(2 | state, ends_by_ok)]).collect()
}

fn capabilities(ends_by_ok: bool) -> u32 {
    if ends_by_ok { DEPRECATE_EOF } else { 0 }
}

/// One that has prepared a statement with a column.
pub(super) fn prepared(ends_by_ok: bool) -> Client {
    let mut client = ready(capabilities(ends_by_ok));
    client.prepare("SELECT 1").unwrap();
    assert_eq!(client.take_out(), b"\x09\0\0\0\x16SELECT 1");
    let described = outcome(&mut client, &bytes_of(&description(1, 0, ends_by_ok)), &[7]);
    assert_eq!(described, (vec![Event::Prepared { parameters: 0 }], None));
    client
}

pub(super) fn executed(ends_by_ok: bool) -> Client {
    let mut client = prepared(ends_by_ok);
    client.execute().unwrap();
    // Its number, a cursor that reads, once (page_protocol_com_stmt_execute).
    assert_eq!(client.take_out(), b"\x0a\0\0\0\x17\x01\x02\x03\x04\x01\x01\0\0\0");
    client
}

pub(super) fn fetched(ends_by_ok: bool) -> Client {
    let mut client = executed(ends_by_ok);
    let opened = outcome(&mut client, &bytes_of(&opened(1, ends_by_ok)), &[9]);
    assert_eq!(opened, (vec![Event::Suspended], None));
    client.fetch(100).unwrap();
    assert_eq!(client.take_out(), b"\x09\0\0\0\x1c\x01\x02\x03\x04\x64\0\0\0");
    client
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Whatever is in the rows, however they are cut, and with either end.
            #[test]
            fn cursor_rows_are_counted_until_last_piece(
                fetches in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..9), 1..5),
                last in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..9),
                ends_by_ok in any::<bool>(), pieces in prop::collection::vec(1_usize..300, 1..6),
            ) {
                let mut client = fetched(ends_by_ok);
                for rows in &fetches {
                    let bytes = bytes_of(&piece(rows, CURSOR, ends_by_ok));
                    let wanted = [vec![Event::Row; rows.len()], vec![Event::Suspended]].concat();
                    prop_assert_eq!(outcome(&mut client, &bytes, &pieces), (wanted, None));
                    client.fetch(100).unwrap();
                    client.take_out();
                }
                // MariaDB says that both are so.
                for state in [LAST, LAST | CURSOR] {
                    let bytes = bytes_of(&piece(&last, state, ends_by_ok));
                    let wanted = [vec![Event::Row; last.len()], vec![Event::Over]].concat();
                    prop_assert_eq!(outcome(&mut client, &bytes, &pieces), (wanted, None));
                    // And it is a session as any other: what was prepared is given up with the next question, which alone is answered.
                    client.ask("SELECT 1").unwrap();
                    prop_assert_eq!(client.take_out(), b"\x05\0\0\0\x19\x01\x02\x03\x04\x09\0\0\0\x03SELECT 1");
                    prop_assert_eq!(outcome(&mut client, &message(&OK, 1), &[9]), (vec![Event::Over], None));
                    client = fetched(ends_by_ok);
                }
            }

            #[test]
            fn prepare_answer_ends_with_its_last_packet(columns in 0_u16..5, parameters in 0_u16..5, ends_by_ok in any::<bool>(), at in 1_usize..40) {
                let mut client = ready(capabilities(ends_by_ok));
                client.prepare("SELECT ?").unwrap();
                let bodies = description(columns, parameters, ends_by_ok);
                prop_assert_eq!(outcome(&mut client, &bytes_of(&bodies), &[at]), (vec![Event::Prepared { parameters }], None));
                // It is over with its last packet, and not before.
                let mut client = ready(capabilities(ends_by_ok));
                client.prepare("SELECT ?").unwrap();
                prop_assert_eq!(outcome(&mut client, &bytes_of(&bodies[..bodies.len() - 1]), &[at]), (vec![], None));
            }
        }
    };
}

laws!(50);

mod acceptance {
    use super::*;

    laws!(200);
}

/// A statement without rows has no cursor, nor has one that the server answers at once.
#[test]
fn what_has_no_cursor_is_answered_at_once() {
    for ends_by_ok in [false, true] {
        assert_eq!(outcome(&mut executed(ends_by_ok), &message(&OK, 1), &[3]), (vec![Event::Over], None));
        let mut bodies = result(1, &[], false, ends_by_ok);
        let last = bodies.pop().unwrap();
        bodies.extend([vec![0, 0, 1, b'x'], vec![0, 0, 0], last]);
        let rows = vec![Event::Row, Event::Row, Event::Over];
        assert_eq!(outcome(&mut executed(ends_by_ok), &bytes_of(&bodies), &[4]), (rows, None));
    }
    // What a text is the answer to has no cursor, whatever the state of the session says.
    let mut client = ready(0);
    client.ask("CALL something()").unwrap();
    let mut bodies = opened(1, false);
    bodies.extend(piece(&[vec![7]], CURSOR, false));
    assert_eq!(outcome(&mut client, &bytes_of(&bodies), &[5]), (vec![Event::Row, Event::Over], None));
}

#[test]
fn what_is_wrong_with_a_piece_is_named() {
    let description = Trouble::Malformed("description of a statement");
    for body in [&[0, 1, 2][..], &[1; 12], &[]] {
        let mut client = ready(0);
        client.prepare("SELECT 1").unwrap();
        assert_eq!(outcome(&mut client, &message(body, 1), &[2]).1, Some(description.clone()), "{body:?}");
    }
    // More is announced, and nothing comes: it would be asked for ever.
    for ends_by_ok in [false, true] {
        let bytes = bytes_of(&piece(&[], CURSOR, ends_by_ok));
        let trouble = Some(Trouble::Malformed("piece of a result"));
        assert_eq!(outcome(&mut fetched(ends_by_ok), &bytes, &[5]), (vec![], trouble));
    }
    assert_eq!(ready(0).execute(), Err(Trouble::NotReady));
    assert_eq!(ready(0).fetch(1), Err(Trouble::NotReady));
    assert_eq!(executed(true).fetch(1), Err(Trouble::NotReady));
    // What cannot be prepared is refused, and the session goes on; nothing of it is given up.
    let mut client = ready(0);
    client.prepare("SELECT 1; SELECT 2").unwrap();
    client.take_out();
    let (events, trouble) = outcome(&mut client, &message(&error(1295, "HY000", "not yet"), 1), &[4]);
    assert!(
        matches!(&events[..], [Event::Refused(told)] if !told.is_fatal) && trouble.is_none(),
        "{events:?}"
    );
    client.ask("SELECT 1").unwrap();
    assert_eq!(client.take_out(), b"\x09\0\0\0\x03SELECT 1");
}
