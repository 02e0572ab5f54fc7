//! `fathom sql` against a relay that offers weaker encryption or authentication to later sessions than the server did.
use crate::support::reflector::Echo;
use crate::support::{FATHOM, PATIENCE, database};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};

fn pass(mut from: TcpStream, mut to: TcpStream) {
    _ = std::io::copy(&mut from, &mut to);
    for end in [from, to] {
        _ = end.shutdown(Shutdown::Both);
    }
}

/// A protocol's packets: the length of the header, and that of the packet by its header.
struct Framing {
    header: usize,
    length: fn(&[u8]) -> usize,
}

impl Framing {
    fn read(&self, from: &mut TcpStream) -> Option<Vec<u8>> {
        let mut packet = vec![0; self.header];
        from.read_exact(&mut packet).ok()?;
        let length = (self.length)(&packet);
        packet.resize(length, 0);
        from.read_exact(&mut packet[self.header..]).ok()?;
        Some(packet)
    }
}

const TDS: Framing =
    Framing { header: 8, length: |header| usize::from(u16::from_be_bytes([header[2], header[3]])) };

/// `ENCRYPT_NOT_SUP` in the answer to PRELOGIN (MS-TDS 2.2.6.5): token, offset, length.
fn without_encryption(answer: &mut [u8]) {
    let option = answer[8..].chunks(5).position(|option| option[0] == 1).unwrap();
    let at = 8 + 5 * option;
    let offset = usize::from(u16::from_be_bytes([answer[at + 1], answer[at + 2]]));
    answer[8 + offset] = 2;
}

/// A relay that removes the offer of TLS from all sessions but the first. Returns what clients say afterwards.
fn takes_tls_away(
    server: String,
    framing: Framing,
    client_begins: bool,
    change: fn(&mut [u8]),
) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, said) = channel();
    std::thread::spawn(move || {
        let mut is_first = true;
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let begun = if client_begins { framing.read(&mut client) } else { Some(vec![]) };
            // Otherwise the connection was only set up.
            let Some(begun) = begun else { continue };
            let mut there = TcpStream::connect(&server).unwrap();
            there.write_all(&begun).unwrap();
            let mut answer = framing.read(&mut there).unwrap();
            if !std::mem::take(&mut is_first) {
                change(&mut answer);
                client.write_all(&answer).unwrap();
                let mut bytes = vec![0; 1_024];
                let n = client.read(&mut bytes).unwrap_or(0);
                bytes.truncate(n);
                _ = tell.send(bytes);
                continue;
            }
            client.write_all(&answer).unwrap();
            let (to_client, to_server) = (client.try_clone().unwrap(), there.try_clone().unwrap());
            std::thread::spawn(move || pass(client, to_server));
            std::thread::spawn(move || pass(there, to_client));
        }
    });
    (address, said)
}

fn is_left(out: &Output, said: &Receiver<Vec<u8>>) {
    let outcome = database::result(out);
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("does not speak TLS any more"), "{notes}");
    assert_eq!((&outcome["queries"], &outcome["encrypted"]), (&3.into(), &true.into()), "{outcome:#}");
    // The observer's session: fathom says nothing on it.
    assert_eq!(said.recv_timeout(PATIENCE).unwrap(), b"", "{notes}");
    assert!(said.try_iter().all(|bytes| bytes.is_empty()), "{notes}");
}

/// The later session is left before the user's login is sent over it.
#[test]
fn downgraded_mssql_session_is_abandoned() {
    let (_echo, server) = Echo::start_tds(&["--tds-encrypt"]);
    let (address, said) = takes_tls_away(server.to_string(), TDS, true, without_encryption);
    let url = format!("mssql://reader@{address}/sales?sslmode=prefer");
    let ask = ["--count", "3", "--json"];
    let out = database::sql(Command::new(FATHOM), "SQLCMDPASSWORD", &url, &ask).output().unwrap();
    is_left(&out, &said);
}

mod acceptance {
    use super::*;
    use crate::support::database::refused;
    use crate::support::mariadb::{self, Mariadb};
    use crate::support::postgres::{self, Postgres};
    use std::sync::mpsc::Sender;

    /// Relays the first login to the server, and asks all others for the password. Sends what they answer.
    fn asks_for_the_password(
        mut client: TcpStream,
        server: &str,
        is_first: bool,
        said: &Sender<Vec<u8>>,
        startup: &[u8],
    ) {
        if is_first {
            let mut there = TcpStream::connect(server).unwrap();
            there.write_all(startup).unwrap();
            let (to_client, to_server) = (client.try_clone().unwrap(), there.try_clone().unwrap());
            std::thread::spawn(move || pass(client, to_server));
            pass(there, to_client);
            return;
        }
        // AuthenticationCleartextPassword.
        client.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
        let mut bytes = vec![0; 1_024];
        let n = client.read(&mut bytes).unwrap_or(0);
        bytes.truncate(n);
        _ = said.send(bytes);
    }

    /// The startup message; `None` where the client only sets the connection up.
    fn startup(client: &mut TcpStream) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        client.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut body).ok()?;
        Some([&length[..], &body].concat())
    }

    /// The relay's address, and what clients answered.
    fn between(server: String) -> (String, Receiver<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, said) = channel();
        std::thread::spawn(move || {
            let mut is_first = true;
            for client in listener.incoming() {
                let mut client = client.unwrap();
                // One after the other, so that there is a first one.
                let Some(startup) = startup(&mut client) else { continue };
                let (is_this, server, tell) = (std::mem::take(&mut is_first), server.clone(), tell.clone());
                std::thread::spawn(move || asks_for_the_password(client, &server, is_this, &tell, &startup));
            }
        });
        (address, said)
    }

    /// The password is not sent in the clear after a login by SCRAM.
    #[test]
    fn weaker_authentication_request_gets_no_password() {
        let Some(server) = Postgres::start() else { return };
        let (address, said) = between(server.address.clone());
        let url = format!("postgres://owner@{address}/postgres?sslmode=disable");
        let ask = ["--query", "SELECT 1", "--count", "3", "--json"];
        let out = postgres::sql(Command::new(FATHOM), &url, &ask).output().unwrap();
        let outcome = database::result(&out);
        let notes = outcome["notes"].to_string();
        assert!(
            notes.contains("asks for the password of owner in the clear, though in this run it has proved"),
            "{notes}"
        );
        assert_eq!(outcome["queries"], 3, "{outcome:#}");
        // The observer's session, and no session after it.
        assert_eq!(said.recv_timeout(PATIENCE).unwrap(), b"", "{notes}");
        assert_eq!(said.try_iter().count(), 0, "{notes}");

        // Neither do further connections send it.
        let (address, said) = between(server.address.clone());
        let url = format!("postgres://owner@{address}/postgres?sslmode=disable");
        let out = postgres::sql(Command::new(FATHOM), &url, &[&ask[..], &["--connections", "4"]].concat())
            .output()
            .unwrap();
        let told = refused(&out, 1);
        assert!(told.contains("in the clear, though in this run it has proved"), "{told}");
        assert_eq!(said.recv_timeout(PATIENCE).unwrap(), b"", "{told}");
        assert!(said.try_iter().all(|bytes| bytes.is_empty()), "{told}");
    }

    const MYSQL: Framing =
        Framing { header: 4, length: |header| 4 + usize::from(u16::from_le_bytes([header[0], header[1]])) };
    /// `CLIENT_SSL` of the greeting: version of the protocol, of the server, thread, challenge and a zero come before.
    fn without_ssl(greeting: &mut [u8]) {
        let version = greeting[5..].iter().position(|&byte| byte == 0).unwrap();
        greeting[5 + version + 1 + 4 + 8 + 1 + 1] &= !0x08;
    }

    /// As the session of SQL Server's protocol.
    #[test]
    fn downgraded_mysql_session_is_abandoned() {
        let Some(server) = Mariadb::start_with_tls() else { return };
        let (address, said) = takes_tls_away(server.address.clone(), MYSQL, false, without_ssl);
        let url = server.url().replace(&server.address, &address.to_string());
        let ask = ["--count", "3", "--json"];
        is_left(&mariadb::sql(Command::new(FATHOM), &url, &ask).output().unwrap(), &said);
    }
}
