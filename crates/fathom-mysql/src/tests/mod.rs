//! Servers that are made up, byte by byte.

mod answers;
mod cursors;
mod hostile;
mod logins;

use crate::packet::{LONGEST, packets};
use crate::reading::{put_length, put_text};
use crate::{Client, Event, Login, Trouble, Wanted};

/// The challenge of our servers.
const CHALLENGE: &[u8; 20] = b"abcdefghijklmnopqrst";
// PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, MULTI_RESULTS, PLUGIN_AUTH, CONNECT_ATTRS, their lengths.
const USUAL: u32 = 0x200 | 0x2000 | 0x8000 | 0x2_0000 | 0x8_0000 | 0x10_0000 | 0x20_0000;
const SSL: u32 = 0x800;
const DEPRECATE_EOF: u32 = 0x100_0000;
/// OK of a login, and of a statement.
const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

fn login() -> Login {
    Login {
        user: "me".into(),
        password: Some("s3cret-w0rd".into()),
        database: "shop".into(),
        program: "fathom".into(),
        encryption: Wanted::Nothing,
        is_checked: false,
        several: false,
    }
}

/// A message in packets from this number on.
fn message(body: &[u8], number: u8) -> Vec<u8> {
    let mut out = Vec::new();
    packets(body, number, &mut out);
    out
}

/// Messages one after the other, the first of them with this number.
fn messages<'a>(bodies: impl IntoIterator<Item = &'a [u8]>, mut number: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for body in bodies {
        packets(body, number, &mut out);
        number = number.wrapping_add((body.len() / LONGEST) as u8 + 1);
    }
    out
}

fn greeting(capabilities: u32, plugin: &str) -> Vec<u8> {
    let [low, high] = [capabilities as u16, (capabilities >> 16) as u16].map(u16::to_le_bytes);
    let body = [
        b"\x0a5.5.5-10.11.6-MariaDB\0\x07\0\0\0",
        &CHALLENGE[..8],
        b"\0",
        &low,
        b"\x2d\x02\0",
        &high,
        b"\x15\0\0\0\0\0\0\0\0\0\0",
        &CHALLENGE[8..],
        b"\0",
        plugin.as_bytes(),
        b"\0",
    ];
    message(&body.concat(), 0)
}

/// ERR of this number and text.
fn error(number: u16, state: &str, text: &str) -> Vec<u8> {
    [&[0xFF], &number.to_le_bytes()[..], b"#", state.as_bytes(), text.as_bytes()].concat()
}

/// What comes of these bytes in pieces, of which the sizes are repeated; more events than bytes are none.
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
        let mut piece = now;
        loop {
            match client.event(&mut piece) {
                Ok(Some(Event::Row)) => {
                    let more = if together { client.rows(&mut piece) } else { 0 };
                    events.extend(std::iter::repeat_n(Event::Row, 1 + more as usize));
                }
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(trouble) => return (events, Some(trouble)),
            }
            client.keeps();
            assert!(events.len() <= bytes.len(), "more events than bytes");
        }
        assert!(piece.is_empty() || events.last() == Some(&Event::Secure), "what came is taken");
    }
    (events, None)
}

/// A client that is logged in.
fn ready_of(login: Login, capabilities: u32) -> Client {
    let mut client = Client::new(login);
    let began = outcome(&mut client, &greeting(capabilities, "mysql_native_password"), &[9]);
    assert_eq!(began, (vec![], None));
    client.take_out();
    assert_eq!(outcome(&mut client, &message(&OK, 2), &[3]), (vec![Event::Ready], None));
    client
}

fn ready(capabilities: u32) -> Client {
    ready_of(login(), USUAL | capabilities)
}

/// One that has asked.
fn asked(capabilities: u32) -> Client {
    let mut client = ready(capabilities);
    client.ask("SELECT 1").unwrap();
    assert_eq!(client.take_out(), b"\x09\0\0\0\x03SELECT 1");
    client
}

/// The messages of a result with these rows.
fn result(columns: usize, rows: &[Vec<Option<&[u8]>>], more: bool, ends_by_ok: bool) -> Vec<Vec<u8>> {
    let mut count = Vec::new();
    put_length(&mut count, columns);
    let mut bodies = vec![count];
    for _ in 0..columns {
        let mut column = Vec::new();
        for text in [&b"def"[..], b"", b"", b"", b"body", b""] {
            put_text(&mut column, text);
        }
        column.extend_from_slice(b"\x0c\x2d\0\0\x01\0\0\xfd\0\0\x27\0\0");
        bodies.push(column);
    }
    let state = if more { 0x0A } else { 0x02 };
    if !ends_by_ok {
        bodies.push(vec![0xFE, 0, 0, state, 0]);
    }
    for row in rows {
        let mut body = Vec::new();
        for value in row {
            match value {
                Some(value) => put_text(&mut body, value),
                None => body.push(0xFB),
            }
        }
        bodies.push(body);
    }
    bodies.push(if ends_by_ok { vec![0xFE, 0, 0, state, 0, 0, 0] } else { vec![0xFE, 0, 0, state, 0] });
    bodies
}

fn bytes_of(bodies: &[Vec<u8>]) -> Vec<u8> {
    messages(bodies.iter().map(Vec::as_slice), 1)
}
