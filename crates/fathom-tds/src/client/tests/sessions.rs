//! Questions and their answers, of our server.

use super::{Pair, keeps_the_law, ready, reply, rows};
use crate::client::{Event, Trouble};
use crate::codec::token::{Done, Tokens};
use proptest::prelude::*;

#[test]
fn answers_can_be_read() {
    let mut pair = Pair::logged_in(4_096, false, 11);
    assert_eq!(pair.client.facts().database, "sales");
    pair.client.keep_rows(true);
    let events = pair.ask("SELECT * FROM sys.dm_exec_connections");
    let over = [Event::Row, Event::Done { rows: Some(1), failed: false }, Event::Over { stopped: false }];
    assert_eq!(events, over);
    let row: Vec<_> = pair.client.row().into_iter().flatten().collect();
    assert_eq!(row, ["51", "4096", "FALSE"]);
    let state = |number: u32| {
        format!(
            "SELECT s.session_id, r.status, r.wait_type, CASE WHEN s.last_request_end_time > DATEADD(minute, -30, SYSDATETIME()) \
             AND s.last_request_end_time < DATEADD(minute, 30, SYSDATETIME()) \
             THEN DATEDIFF(microsecond, s.last_request_end_time, SYSDATETIME()) END AS idle_us \
             FROM sys.dm_exec_sessions AS s LEFT JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id WHERE s.session_id = {number}"
        )
    };
    pair.ask(&state(51));
    let row: Vec<_> = pair.client.row().into_iter().flatten().collect();
    assert_eq!(row, ["51", "suspended", "ASYNC_NETWORK_IO"]);
    assert_eq!(rows(&pair.ask(&state(52))), 0);
    // As SQL Server counts it: a wait of 4.5 s is three.
    let waited = |number: u32| {
        format!(
            "SELECT s.session_id, w.waiting_tasks_count, w.wait_time_ms FROM sys.dm_exec_sessions AS s \
             LEFT JOIN sys.dm_exec_session_wait_stats AS w ON w.session_id = s.session_id \
             AND w.wait_type = 'ASYNC_NETWORK_IO' WHERE s.session_id = {number}"
        )
    };
    pair.ask(&waited(51));
    let row: Vec<_> = pair.client.row().into_iter().flatten().collect();
    assert_eq!(row, ["51", "3", "4500"]);
    assert_eq!(rows(&pair.ask(&waited(52))), 0);
    pair.ask("SELECT * FROM fathom_rows(2, 3)");
    assert_eq!(pair.client.row(), [Some("1".to_owned()), Some("bcd".to_owned())]);
}

#[test]
fn query_error_keeps_session_usable() {
    let mut pair = Pair::logged_in(512, false, 100);
    let events = pair.ask("SELECT name FROM customers");
    let Event::Told { told, is_error: true } = &events[0] else { panic!("{events:?}") };
    assert!((told.number, told.class) == (50_000, 16) && told.message.contains("no database"), "{told}");
    assert_eq!(events[1..], [Event::Done { rows: None, failed: true }, Event::Over { stopped: false }]);
    assert_eq!(rows(&pair.ask("SELECT 1")), 1);
}

#[test]
fn a_query_longer_than_packets_comes_whole() {
    // Longer than what TLS keeps of what was not sent.
    let text = format!("SELECT 1{}", " ".repeat(100_000));
    for encrypts in [false, true] {
        let mut pair = Pair::logged_in(512, encrypts, 4_000);
        assert_eq!(rows(&pair.ask(&text)), 1);
    }
}

#[test]
fn stopped_query_ends_and_session_continues() {
    for encrypts in [false, true] {
        let mut pair = Pair::logged_in(512, encrypts, 300);
        pair.client.ask("SELECT * FROM fathom_rows(100000, 100)").unwrap();
        let out = pair.client.take_out();
        pair.server.received(0, &out).unwrap();
        let crate::machine::Step::Send(bytes) = pair.server.step(0).unwrap() else { panic!("rows") };
        let bytes = bytes.to_vec();
        pair.server.sent(bytes.len());
        pair.client.received(&bytes).unwrap();
        pair.client.stop().unwrap();
        pair.client.stop().unwrap();
        let events = pair.events().unwrap();
        assert!(rows(&events) < 100, "{}", rows(&events));
        assert_eq!(events.last(), Some(&Event::Over { stopped: true }));
        assert_eq!(pair.server.served().stopped, 1, "it is said once");
        assert_eq!(rows(&pair.ask("SELECT 1")), 1);
    }
}

/// Wherever in an answer the word to stop comes, after each of its packets and where its end alone does not fit into one: it is heeded
/// once, and the session goes on. Behind the last word of an answer the server's word that it stopped stood in the same message.
#[test]
fn stop_works_after_any_packet() {
    for encrypts in [false, true] {
        for letters in (430..=500).step_by(if encrypts { 25 } else { 1 }) {
            for packets in 0_usize.. {
                let mut pair = Pair::logged_in(512, encrypts, usize::MAX);
                pair.client.ask(&format!("SELECT * FROM fathom_rows(1, {letters})")).unwrap();
                let out = pair.client.take_out();
                pair.server.received(0, &out).unwrap();
                let (mut sent, mut events) = (0, vec![]);
                while sent < packets {
                    let crate::machine::Step::Send(bytes) = pair.server.step(0).unwrap() else { break };
                    let bytes = bytes.to_vec();
                    pair.server.sent(bytes.len());
                    pair.client.received(&bytes).unwrap();
                    sent += 1;
                }
                pair.client.stop().unwrap();
                let told = pair.events().unwrap_or_else(|e| panic!("{letters} {packets}: {e:?}"));
                events.extend(told);
                let end = events.iter().filter(|event| matches!(event, Event::Over { .. }));
                assert_eq!(end.count(), 1, "{letters} {packets}: {events:?}");
                assert_eq!(events.last(), Some(&Event::Over { stopped: true }), "{letters} {packets}");
                assert!(pair.client.is_ready());
                assert_eq!(rows(&pair.ask("SELECT 1")), 1);
                if sent < packets {
                    break;
                }
            }
        }
    }
}

/// A server may say that it stopped in the message of an answer that was whole: whoever asked it to takes that, in whatever pieces it
/// comes, and nobody else does.
#[test]
fn stop_confirmation_in_same_message_is_accepted() {
    let mut tokens = Tokens::default();
    tokens.done(Done::Nothing, false);
    tokens.done(Done::Stopped, false);
    let bytes = reply(&tokens.into_bytes(), 4_096);
    for at in 0..=bytes.len() {
        let mut client = ready();
        client.ask("SELECT 1").unwrap();
        client.stop().unwrap();
        let mut events = vec![];
        for piece in [&bytes[..at], &bytes[at..]] {
            client.received(piece).unwrap();
            while let Some(event) = client.event().unwrap_or_else(|e| panic!("{at}: {e:?}")) {
                events.push(event);
            }
        }
        assert_eq!(events.last(), Some(&Event::Over { stopped: true }), "{at}: {events:?}");
        assert!(client.is_ready());
    }
    let mut client = ready();
    client.ask("SELECT 1").unwrap();
    client.received(&bytes).unwrap();
    let told: Result<Vec<_>, _> = std::iter::from_fn(|| client.event().transpose()).collect();
    assert_eq!(told, Err(Trouble::Unasked));
}

/// The answer was on its way when the word to stop was sent: the server's word that it stopped is a message of its own.
#[test]
fn late_stop_confirmation_is_awaited() {
    let mut client = ready();
    client.ask("SELECT 1").unwrap();
    client.stop().unwrap();
    let (mut whole, mut late) = (Tokens::default(), Tokens::default());
    whole.done(Done::Nothing, false);
    late.done(Done::Stopped, false);
    client.received(&reply(&whole.into_bytes(), 4_096)).unwrap();
    assert_eq!(client.event(), Ok(Some(Event::Done { rows: None, failed: false })));
    assert_eq!(client.event(), Ok(None), "it is not over");
    client.received(&reply(&late.into_bytes(), 4_096)).unwrap();
    assert_eq!(client.event(), Ok(Some(Event::Done { rows: None, failed: false })));
    assert_eq!(client.event(), Ok(Some(Event::Over { stopped: true })));
}

#[test]
fn requests_carry_the_current_transaction() {
    let mut client = ready();
    let descriptor = |client: &mut crate::client::Client| {
        client.ask("x").unwrap();
        client.take_out()[8 + 10..8 + 18].to_vec()
    };
    for (change, expected) in
        [(8, [1, 0, 0, 0, 0, 0, 0, 0]), (9, [0; 8]), (8, [1, 0, 0, 0, 0, 0, 0, 0]), (10, [0; 8])]
    {
        descriptor(&mut client);
        let mut tokens = Tokens::default();
        if change == 8 {
            tokens.begun();
        } else {
            tokens.ended(change);
        }
        tokens.done(Done::Nothing, false);
        client.received(&reply(&tokens.into_bytes(), 4_096)).unwrap();
        while client.event().unwrap().is_some() {}
        assert_eq!(descriptor(&mut client), expected, "{change}");
        let mut tokens = Tokens::default();
        tokens.done(Done::Nothing, false);
        client.received(&reply(&tokens.into_bytes(), 4_096)).unwrap();
        while client.event().unwrap().is_some() {}
    }
}

#[test]
fn packets_that_break_the_law_are_counted() {
    let mut client = ready();
    client.ask("x").unwrap();
    let mut tokens = Tokens::default();
    for _ in 0..5 {
        tokens.error(1, &"a long message".repeat(100));
    }
    tokens.done(Done::Error, false);
    // Granted were 4,096: of 14 kB there are one packet of 9,000 and a last one.
    client.received(&reply(&tokens.into_bytes(), 9_000)).unwrap();
    while client.event().unwrap().is_some() {}
    let counts = client.counts();
    assert_eq!((counts.packets, counts.longest, counts.too_long, counts.not_full), (2, 9_000, 2, 0));
    client.ask("x").unwrap();
    let mut tokens = Tokens::default();
    tokens.error(1, &"a long message".repeat(100));
    tokens.done(Done::Error, false);
    client.received(&reply(&tokens.into_bytes(), 600)).unwrap();
    while client.event().unwrap().is_some() {}
    // 2,854 bytes in packets of 592 and a header each.
    assert_eq!((client.counts().packets, client.counts().not_full), (7, 4));
}

#[test]
fn one_question_at_a_time() {
    let mut client = ready();
    client.ask("x").unwrap();
    assert_eq!(client.ask("y"), Err(Trouble::NotReady));
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Of any result, in packets of any size, encrypted or not, in whatever pieces it comes: every row is read once, the end counts
            /// them, and what came on the wire is cut as it was granted.
            #[test]
            fn every_row_is_read_once(
                count in 0_u32..300, letters in 0_u16..700, packet in 512_u16..9_000, piece in 1_usize..6_000, encrypts in any::<bool>(),
            ) {
                let mut pair = Pair::logged_in(packet, encrypts, piece);
                for asked in 1..=2 {
                    let events = pair.ask(&format!("SELECT * FROM fathom_rows({count}, {letters})"));
                    prop_assert_eq!(rows(&events), count as usize);
                    let end = [Event::Done { rows: Some(count.into()), failed: false }, Event::Over { stopped: false }];
                    prop_assert_eq!(&events[count as usize..], &end[..]);
                    // Two columns' descriptions: 3, then 6 + 1 + 3 and 6 + 8 + 9 bytes; 7 a row; 13 the end.
                    let tokens = 36 + u64::from(count) * (7 + u64::from(letters)) + 13;
                    let packets = tokens.div_ceil(u64::from(packet) - 8);
                    let counts = pair.client.counts();
                    prop_assert!(keeps_the_law(counts, packet), "{:?}", counts);
                    prop_assert_eq!((counts.packets, counts.bytes), (asked * packets, asked * (tokens + 8 * packets)));
                }
            }
        }
    };
}

laws!(40);

mod acceptance {
    use super::*;

    laws!(256);
}
