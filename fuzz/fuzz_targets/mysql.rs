//! Arbitrary bytes in arbitrary pieces as what a MySQL server says, in each state of a session: held against the law that pieces do not show.
#![no_main]

use fathom_mysql::{Client, Event, Login, Trouble, Wanted};
use libfuzzer_sys::fuzz_target;

/// A greeting (PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, DEPRECATE_EOF where its flag is 1), and OK of the login.
fn logged_in(client: &mut Client, deprecate_eof: u8) {
    let mut greeting = b"\x4a\0\0\0\x0a8.0.36\0\x07\0\0\0abcdefgh\0\0\xa2\x2d\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0".to_vec();
    greeting[0] = (greeting.len() - 4) as u8;
    greeting[31] = 0x08 | deprecate_eof;
    for mut bytes in [&greeting[..], b"\x07\0\0\x02\0\0\0\x02\0\0\0"] {
        while !matches!(client.event(&mut bytes), Ok(None)) {}
        client.take_out();
    }
}

fn client(state: u8) -> Client {
    let login = Login {
        user: "me".to_owned(),
        password: Some("word".to_owned()),
        database: String::new(),
        program: String::new(),
        encryption: Wanted::IfOffered,
        is_checked: false,
        several: true,
    };
    let mut client = Client::new(login);
    if state > 0 {
        logged_in(&mut client, state & 1);
        client.keep_rows(state & 2 > 0);
        if state & 4 > 0 { client.prepare("SELECT 1") } else { client.ask("SELECT 1") }.expect("it is ready");
    }
    client
}

fn read(state: u8, bytes: &[u8], chunk: usize) -> (Vec<Event>, Option<Trouble>, Vec<u8>) {
    let (mut client, mut events) = (client(state), Vec::new());
    for piece in bytes.chunks(chunk) {
        let mut piece = piece;
        loop {
            match client.event(&mut piece) {
                Ok(Some(event)) => {
                    match event {
                        Event::Prepared { .. } => client.execute().expect("it is ready"),
                        Event::Suspended => client.fetch(10).expect("it is ready"),
                        _ => {}
                    }
                    events.push(event);
                }
                Ok(None) => break,
                Err(trouble) => return (events, Some(trouble), client.take_out()),
            }
            assert!(events.len() <= bytes.len(), "more events than bytes");
        }
    }
    (events, None, client.take_out())
}

fuzz_target!(|data: &[u8]| {
    let [state, chunk, rest @ ..] = data else { return };
    let whole = read(state % 8, rest, rest.len().max(1));
    assert_eq!(whole, read(state % 8, rest, usize::from(*chunk) + 1));
});
