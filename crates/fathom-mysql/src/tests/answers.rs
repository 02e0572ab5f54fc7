//! Answers, of whatever size and in whatever pieces.

use super::{
    DEPRECATE_EOF, OK, asked, bytes_of, error, login, message, messages, outcome, outcome_of, ready,
    ready_of, result,
};
use crate::packet::LONGEST;
use crate::{Event, Told, Trouble};
use proptest::prelude::*;

fn rows(n: usize) -> Vec<Event> {
    [vec![Event::Row; n], vec![Event::Over]].concat()
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Rows are counted whatever is in them, however they are cut, and with either end of a result.
            #[test]
            fn rows_are_counted_in_any_pieces(
                values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..400)), 0..60), columns in 1_usize..4,
                more in prop::collection::vec(0_usize..3, 0..3), ends_by_ok in any::<bool>(), pieces in prop::collection::vec(1_usize..300, 1..6),
            ) {
                let table: Vec<Vec<Option<&[u8]>>> =
                    values.chunks_exact(columns).map(|row| row.iter().map(Option::as_deref).collect()).collect();
                let mut bodies = Vec::new();
                for n in &more {
                    bodies.extend(result(columns, &table[..(*n).min(table.len())], true, ends_by_ok));
                }
                bodies.extend(result(columns, &table, false, ends_by_ok));
                let wanted = rows(table.len() + more.iter().map(|n| (*n).min(table.len())).sum::<usize>());
                let bytes = bytes_of(&bodies);
                let capabilities = if ends_by_ok { DEPRECATE_EOF } else { 0 };
                for (pieces, together) in [(&[bytes.len()][..], false), (&[bytes.len()], true), (&[1], true), (&pieces, false), (&pieces, true)] {
                    let came = outcome_of(&mut asked(capabilities), &bytes, pieces, together);
                    prop_assert_eq!(came, (wanted.clone(), None));
                }
            }

            /// What is kept is what was sent.
            #[test]
            fn a_row_that_is_kept_is_read(values in prop::collection::vec(prop::option::of("[ -~äß€]{0,300}"), 1..8), piece in 1_usize..200) {
                let row: Vec<Option<&[u8]>> = values.iter().map(|value| value.as_deref().map(str::as_bytes)).collect();
                let mut client = asked(DEPRECATE_EOF);
                client.keep_rows(true);
                let bodies = result(values.len(), std::slice::from_ref(&row), false, true);
                // Without the end, which takes its place.
                let bytes = bytes_of(&bodies[..bodies.len() - 1]);
                prop_assert_eq!(outcome(&mut client, &bytes, &[piece]), (vec![Event::Row], None));
                prop_assert_eq!(client.row(), Ok(values));
            }
        }
    };
}

laws!(60);

mod acceptance {
    use super::*;

    laws!(500);

    #[test]
    fn rows_of_many_megabytes_are_rows() {
        let lengths = [LONGEST - 4, LONGEST - 9, LONGEST + 1, 2 * LONGEST - 9, 40 << 20];
        check_long_values(&lengths, &[false, true]);
    }
}

/// A first value of 16 MiB begins as the end of a result does; a message of exactly one full packet, or two, is followed by an empty one.
fn check_long_values(lengths: &[usize], taken_together: &[bool]) {
    for ends_by_ok in [false, true] {
        for &length in lengths {
            let value = vec![b'x'; length];
            let table: Vec<Vec<Option<&[u8]>>> =
                vec![vec![Some(&value)], vec![Some(b"small")], vec![Some(&value)]];
            let bytes = bytes_of(&result(1, &table, false, ends_by_ok));
            for &together in taken_together {
                let mut client = asked(if ends_by_ok { DEPRECATE_EOF } else { 0 });
                let came = outcome_of(&mut client, &bytes, &[70_001], together);
                assert_eq!(came, (rows(3), None), "{length}");
            }
        }
    }
}

#[test]
fn rows_of_sixteen_megabytes_are_rows() {
    check_long_values(&[LONGEST - 4, LONGEST - 9], &[false]);
}

#[test]
fn a_statement_without_rows_is_over() {
    assert_eq!(outcome(&mut asked(0), &message(&OK, 1), &[2]), (vec![Event::Over], None));
    let more = [0, 1, 0, 0x0A, 0, 0, 0];
    let bytes = messages([&more[..], &OK], 1);
    assert_eq!(outcome(&mut asked(0), &bytes, &[1]), (vec![Event::Over], None));
}

#[test]
fn an_error_ends_an_answer_wherever_it_stands() {
    let bodies = result(1, &[vec![Some(b"x")], vec![None]], false, true);
    for at in 0..bodies.len() {
        let mut bodies = bodies[..at].to_vec();
        bodies.push(error(1317, "70100", "Query execution was\ninterrupted"));
        let (events, trouble) = outcome(&mut asked(DEPRECATE_EOF), &bytes_of(&bodies), &[5]);
        let told = Told {
            number: 1317,
            state: "70100".into(),
            message: "Query execution was interrupted".into(),
            is_fatal: false,
        };
        assert_eq!((events.last(), trouble), (Some(&Event::Refused(told)), None), "{at}");
        // And the next question may be asked.
        let mut client = asked(DEPRECATE_EOF);
        outcome(&mut client, &bytes_of(&bodies), &[7]);
        client.ask("SELECT 1").unwrap();
        assert_eq!(outcome(&mut client, &message(&OK, 1), &[70]), (vec![Event::Over], None));
    }
}

#[test]
fn killed_session_reports_fatal_error() {
    for (number, state) in [(1927, "70100"), (1053, "08S01"), (4031, "HY000")] {
        let mut client = asked(0);
        let (events, trouble) = outcome(&mut client, &message(&error(number, state, "gone"), 1), &[4]);
        assert!(matches!(&events[..], [Event::Refused(told)] if told.is_fatal), "{events:?}");
        assert_eq!((trouble, client.ask("SELECT 1")), (None, Err(Trouble::NotReady)));
    }
    // Said before it was asked anything, and read after: its number is that of no answer.
    let (events, trouble) = outcome(&mut asked(0), &message(&error(1, "HY000", "idle"), 0), &[50]);
    assert!(matches!(&events[..], [Event::Refused(told)] if told.is_fatal), "{events:?} {trouble:?}");
}

#[test]
fn a_long_question_is_sent_in_several_packets() {
    for (length, sizes) in [
        (LONGEST - 2, vec![LONGEST - 1]),
        (LONGEST - 1, vec![LONGEST, 0]),
        (2 * LONGEST, vec![LONGEST, LONGEST, 1]),
    ] {
        let mut client = ready(0);
        client.ask(&"x".repeat(length)).unwrap();
        let out = client.take_out();
        let mut rest = &out[..];
        for (number, size) in sizes.iter().enumerate() {
            let header = [&(*size as u32).to_le_bytes()[..3], &[number as u8]].concat();
            assert_eq!(rest[..4], header);
            rest = &rest[4 + size..];
        }
        assert!(rest.is_empty());
        assert_eq!(outcome(&mut client, &message(&OK, sizes.len() as u8), &[9]), (vec![Event::Over], None));
    }
}

#[test]
fn quit_is_sent_only_when_idle() {
    let mut client = ready(0);
    client.quit();
    assert_eq!(client.take_out(), b"\x01\0\0\0\x01");
    let mut client = asked(0);
    client.quit();
    assert_eq!(client.take_out(), b"");
    let mut client = ready(0);
    client.ping().unwrap();
    assert_eq!(client.take_out(), b"\x01\0\0\0\x0e");
    assert_eq!(outcome(&mut client, &message(&OK, 1), &[1]), (vec![Event::Over], None));
}

/// Only whoever wants several statements may send them.
#[test]
fn several_statements_are_asked_for() {
    let several = 0x1_0000;
    for wanted in [false, true] {
        let mut client = crate::Client::new(crate::Login { several: wanted, ..login() });
        outcome(&mut client, &super::greeting(super::USUAL | several, "mysql_native_password"), &[100]);
        let out = client.take_out();
        let flags = u32::from_le_bytes([out[4], out[5], out[6], out[7]]);
        assert_eq!(flags & several != 0, wanted);
        // A file of this host, and compression: neither is ever offered.
        assert_eq!(flags & (0x80 | 0x20), 0);
    }
    let mut client = ready_of(crate::Login { several: true, ..login() }, super::USUAL | several);
    assert_eq!(client.ask("SELECT 1; SELECT 2"), Ok(()));
}
