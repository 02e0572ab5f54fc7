//! Whole sessions of the pure machine.

use crate::client::{ATTENTION, BATCH, CALL, Client, LOGIN, PRELOGIN, message, rows, tokens};
use fathom_tds::codec::Refusal;
use fathom_tds::machine::{Session, Step};
use proptest::prelude::*;
use tds_protocol::login7::Login7;
use tds_protocol::prelogin::PreLogin;
use tds_protocol::rpc::RpcRequest;
use tds_protocol::sql_batch::SqlBatch;
use tds_protocol::token::{EnvChangeValue, Token};

#[test]
fn login_grants_requested_packet_size() {
    let mut client = Client::new();
    client.ask(PRELOGIN, &PreLogin::new().encode());
    let login =
        Login7::new().with_sql_auth("sa", "hush").with_packet_size(16_000).with_database("sales").encode();
    let read = tokens(client.ask(LOGIN, &login));
    let granted = read.iter().find_map(|t| match t {
        Token::EnvChange(c) if format!("{:?}", c.env_type) == "PacketSize" => Some(&c.new_value),
        _ => None,
    });
    assert!(matches!(granted, Some(EnvChangeValue::String(size)) if size == "16000"), "{granted:?}");
    let acknowledged = read.iter().any(|t| matches!(t, Token::LoginAck(a) if a.prog_name == "Fathometer"));
    assert!(acknowledged, "{read:?}");
    assert!(matches!(read.last(), Some(Token::Done(d)) if !d.status.error && !d.status.more), "{read:?}");
    assert_eq!(client.session.client().1, 16_000);
}

#[test]
fn session_answers_statistics_queries() {
    let mut client = Client::logged_in(8_000);
    client.session.was_blocked(4_500_000_000);
    let waits = client.query("SELECT * FROM sys.dm_exec_session_wait_stats WHERE session_id = @@SPID");
    let row = rows(&waits).remove(0);
    // int, then the text with its length, then four bigints.
    let name = "ASYNC_NETWORK_IO".len() * 2;
    let number = |n: usize| {
        let at = 4 + 2 + name + 8 * n;
        i64::from_le_bytes(row[at..at + 8].try_into().expect("eight bytes"))
    };
    assert_eq!([number(0), number(1), number(2)], [3, 4_500, 2_000], "cut as SQL Server cuts");
    let transfer = rows(&client.query("SELECT * FROM fathom_transfer")).remove(0);
    let ns: Vec<i64> =
        transfer.chunks(8).map(|c| i64::from_le_bytes(c.try_into().expect("eight bytes"))).collect();
    assert_eq!(ns, [9, 4, 2, 4_500_000_000]);
}

#[test]
fn a_think_time_passes_before_the_first_row() {
    let mut client = Client::logged_in(4_096);
    let before = client.now_ns;
    let read = client.query("SELECT * FROM fathom_rows(3, 10, '25ms')");
    assert_eq!(client.now_ns - before, 25_000_000);
    assert_eq!(rows(&read).len(), 3);
}

#[test]
fn stop_ends_answer_after_current_row() {
    let mut client = Client::logged_in(512);
    client.send(BATCH, &SqlBatch::new("SELECT * FROM fathom_rows(100000, 100)").encode());
    let mut body = Vec::new();
    for _ in 0..5 {
        body.extend_from_slice(&client.packet(usize::MAX).expect("rows")[8..]);
    }
    client.send(ATTENTION, &[]);
    while let Some(packet) = client.packet(usize::MAX) {
        body.extend_from_slice(&packet[8..]);
    }
    let read = tokens(body);
    let came = rows(&read).len();
    // 107 bytes a row; of 512 bytes a packet holds 504. At most a packet and a row were made when the word came.
    assert!((5 * 504 / 107 - 1..=7 * 504 / 107 + 1).contains(&came), "{came}");
    assert!(
        matches!(read.last(), Some(Token::Done(d)) if d.status.attn && !d.status.error),
        "{:?}",
        read.last()
    );
    assert_eq!(client.session.served().stopped, 1);
    assert_eq!(rows(&client.query("SELECT 1")).len(), 1, "it goes on");
}

#[test]
fn late_stop_gets_its_own_answer() {
    let mut client = Client::logged_in(4_096);
    client.query("SELECT 1");
    let read = tokens(client.ask(ATTENTION, &[]));
    assert!(matches!(read.as_slice(), [Token::Done(d)] if d.status.attn), "{read:?}");
}

#[test]
fn a_word_to_stop_ends_a_think_time() {
    let mut client = Client::logged_in(4_096);
    client.send(BATCH, &SqlBatch::new("SELECT * FROM fathom_rows(1, 1, '60s')").encode());
    assert!(matches!(client.session.step(client.now_ns), Ok(Step::Rest { .. })));
    let before = client.now_ns;
    client.send(ATTENTION, &[]);
    let read = tokens(client.reply());
    assert!(matches!(read.last(), Some(Token::Done(d)) if d.status.attn), "{read:?}");
    assert_eq!(client.now_ns, before);
}

/// In one segment with the request it was not seen before the whole answer was sent, 512 MB or 6 s later (a stranger).
#[test]
fn stop_may_arrive_with_request() {
    for source in ["fathom_rows(100000, 100)", "fathom_rows(1, 1, '60s')"] {
        let mut client = Client::logged_in(512);
        let before = client.now_ns;
        let batch = message(BATCH, &SqlBatch::new(format!("SELECT * FROM {source}")).encode());
        let both = [batch, message(ATTENTION, &[])].concat();
        client.session.received(client.now_ns, &both).unwrap();
        let read = tokens(client.reply());
        assert!(matches!(read.last(), Some(Token::Done(d)) if d.status.attn), "{:?}", read.last());
        assert!(rows(&read).len() <= 1, "{}", rows(&read).len());
        assert_eq!((client.now_ns, client.session.served().stopped), (before, 1));
        assert_eq!(rows(&client.query("SELECT 1")).len(), 1, "it goes on");
    }
}

#[test]
fn unknown_query_is_error_and_session_continues() {
    let mut client = Client::logged_in(4_096);
    for reply in [
        client.query("SELECT name FROM customers"),
        tokens(client.ask(CALL, &RpcRequest::named("sp_who").encode())),
    ] {
        assert!(
            reply.iter().any(|t| matches!(t, Token::Error(e) if e.message.contains("no database"))),
            "{reply:?}"
        );
    }
    assert_eq!(rows(&client.query("SELECT 1")).len(), 1);
}

#[test]
fn refused_login_is_answered_with_the_reason() {
    let integrated = Login7::new().with_integrated_auth(vec![1]);
    let with_password = Login7::new().with_sql_auth("sa", "hush");
    for (session, login, words, refusal) in [
        (Session::new(51, None), integrated, "user name and any password", Refusal::Integrated),
        (Session::beyond(None), with_password, "taken", Refusal::Full),
    ] {
        let mut client = Client { session, ..Client::new() };
        client.ask(PRELOGIN, &PreLogin::new().encode());
        client.send(LOGIN, &login.encode());
        let packet = client.packet(usize::MAX).expect("an error");
        let read = tokens(packet[8..].to_vec());
        let Token::Error(error) = &read[0] else { panic!("{read:?}") };
        assert!(error.message.contains(words), "{read:?}");
        assert!(refusal != Refusal::Full || error.number == 17_809, "{read:?}");
        assert!(matches!(read.last(), Some(Token::Done(d)) if d.status.error), "{read:?}");
        assert!(refusal != Refusal::Full || !client.session.is_open());
        assert_eq!(client.session.step(0), Err(refusal));
    }
}

#[test]
fn what_comes_before_the_login_is_refused() {
    for (kind, got) in [(BATCH, "query"), (LOGIN, "login"), (ATTENTION, "stop")] {
        let mut session = Session::new(51, None);
        let taken = session.received(0, &message(kind, b"")).and_then(|()| session.step(0).map(|_| ()));
        assert_eq!(taken, Err(Refusal::OutOfTurn { got, wanted: "prelogin" }));
    }
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases($cases))]

            /// Of any result, in packets of any size, whatever the kernel takes at once: every row comes once and in order, its letters
            /// follow from its number, every packet but the last is full, and the end counts the rows. Calls as well as batches.
            #[test]
            fn every_row_comes_once(
                count in 0_u32..400, letters in 0_u16..600, packet in 512_u32..9_000, call in any::<bool>(),
            ) {
                let mut client = Client::logged_in(packet);
                let text = format!("SELECT * FROM fathom_rows({count}, {letters})");
                let read = tokens(if call {
                    client.ask(CALL, &RpcRequest::execute_sql(&text, Vec::new()).encode())
                } else {
                    client.ask(BATCH, &SqlBatch::new(text).encode())
                });
                let came = rows(&read);
                prop_assert_eq!(came.len(), count as usize);
                for (number, row) in (0_u32..).zip(&came) {
                    prop_assert_eq!(&row[..4], &number.to_le_bytes()[..]);
                    prop_assert_eq!(row.len(), 6 + usize::from(letters));
                    prop_assert!(row[6..].iter().zip(number..).all(|(&byte, at)| byte == b'a' + (at % 26) as u8));
                }
                let (last, full) = client.packets.split_last().expect("a packet");
                prop_assert!(full.iter().all(|&size| size == packet as usize), "{:?}", client.packets);
                prop_assert!(*last <= packet as usize);
                let counted = read.iter().find_map(|t| match t {
                    Token::Done(d) if d.status.count => Some(d.row_count),
                    Token::DoneInProc(d) if d.status.count => Some(d.row_count),
                    _ => None,
                });
                prop_assert_eq!(counted, Some(count.into()));
            }

            /// Whatever bytes come, and in whatever pieces: the session goes on or refuses, and never keeps more than a message.
            #[test]
            fn no_bytes_break_a_session(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20), open in any::<bool>()) {
                let mut client = if open { Client::logged_in(4_096) } else { Client::new() };
                for piece in pieces {
                    if client.session.received(client.now_ns, &piece).is_err() {
                        break;
                    }
                    let mut steps = 0;
                    while let Ok(Step::Send(bytes)) = client.session.step(client.now_ns) {
                        let n = bytes.len();
                        client.session.sent(n);
                        steps += 1;
                        prop_assert!(steps < 100, "a few bytes do not draw so much");
                    }
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
