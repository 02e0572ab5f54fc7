//! Logins by SCRAM against servers that do not prove that they know the password, or say within it why they let nobody in.

use super::{body, in_time, message, serve};
use crate::session::Session;
use std::io::{Read, Write};
use std::net::TcpStream;

/// `Authentication` of this kind.
fn authentication(kind: u32, data: &[u8]) -> Vec<u8> {
    let length = (8 + data.len()) as u32;
    [b"R", &length.to_be_bytes()[..], &kind.to_be_bytes(), data].concat()
}

const SASL: &[u8] = b"SCRAM-SHA-256\0\0";
/// `AuthenticationOk`, `BackendKeyData`, `ReadyForQuery`.
const LET_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";

/// The server's first message, after the client's.
fn begun(stream: &mut TcpStream) {
    body(stream);
    stream.write_all(&authentication(10, SASL)).unwrap();
    let (_, first) = message(stream);
    let first = String::from_utf8_lossy(&first).into_owned();
    let nonce = first.split_once(",r=").unwrap().1;
    stream.write_all(&authentication(11, format!("r={nonce}x,s=AAAA,i=1").as_bytes())).unwrap();
}

/// What becomes of a login whose server does this, and whether anybody may try again.
fn login(server: impl FnOnce(&mut TcpStream) + Send + 'static) -> (String, bool) {
    let (mut login, server) = serve("?sslmode=disable", move |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        server(&mut stream);
        // Until the client has left.
        _ = stream.read_to_end(&mut Vec::new());
    });
    login.password = Some(crate::target::Secret("s3cret".to_owned()));
    let barred = login.barred.clone();
    let error = in_time(move || Session::begin(&login).map(drop))
        .map_or_else(|e| e.to_string(), |()| "let in".to_owned());
    server.join().unwrap();
    assert!(!error.contains("s3cret"), "{error}");
    (error, barred.get().is_some())
}

/// Whoever stands in the path can say that the login is over: who knows no password is not to be taken for the server (RFC 5802, section 3).
#[test]
fn scram_server_without_proof_is_refused() {
    let wrong = [&authentication(12, b"v=AAAA")[..], LET_IN].concat();
    // Without a signature, with a wrong one, and without a word of the login.
    for answer in [LET_IN.to_vec(), wrong, LET_IN[9..].to_vec()] {
        let (told, is_barred) = login(move |stream| {
            begun(stream);
            message(stream);
            stream.write_all(&answer).unwrap();
        });
        assert!(told.contains("did not prove that it knows the password of me"), "{told}");
        assert!(told.contains("sslmode=verify-full") && is_barred, "{told}");
    }
    // Before its turn.
    let (told, _) = login(|stream| {
        begun(stream);
        stream.write_all(LET_IN).unwrap();
    });
    assert!(told.contains("did not prove that it knows the password of me"), "{told}");
    // Once the proof is under way the password itself is not sent to who asks for it.
    let (told, _) = login(|stream| {
        begun(stream);
        message(stream);
        stream.write_all(&authentication(3, b"")).unwrap();
    });
    assert!(told.contains("a message that is none of a login") && told.contains("tcpdump"), "{told}");
}

/// The first login of a run was by SCRAM, and a later one asked for the password: it was sent in the clear, a dozen times (a stranger).
#[test]
fn scram_downgrade_gets_no_password() {
    let asks = [
        (authentication(3, b""), "asks for the password of me in the clear"),
        (authentication(5, b"salt"), "asks for the password of me by md5"),
        (LET_IN.to_vec(), "lets me in without asking for the password"),
    ];
    for (asks, says) in asks {
        let (mut login, server) = serve("?sslmode=disable", move |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            body(&mut stream);
            stream.write_all(&asks).unwrap();
            let mut said = Vec::new();
            _ = stream.read_to_end(&mut said);
            said
        });
        login.password = Some(crate::target::Secret("s3cret".to_owned()));
        login.reached.reach(true, false);
        let (first, second) = in_time(move || {
            let told =
                || Session::begin(&login).map(drop).map_or_else(|e| e.to_string(), |()| "in".to_owned());
            (told(), told())
        });
        assert!(first.contains(says) && first.contains("so no password was sent"), "{first}");
        // Of a server that nobody asks again.
        assert_eq!(first, second);
        assert_eq!(server.join().unwrap(), b"", "{says}");
    }
}

#[test]
fn what_scram_says_has_advice() {
    for (says, advice, bars) in [
        ("e=invalid-proof", "the right password by PGPASSWORD", true),
        ("e=unknown-user", "name a user that is there", true),
        ("e=channel-bindings-dont-match", "binds no login to its TLS connection", false),
        ("e=no-resources", "wait until other sessions have ended", false),
        ("e=other-error,x=y", "SCRAM: other-error; its log has the reason", false),
    ] {
        // As the last message, and as the first.
        for is_last in [true, false] {
            let (told, is_barred) = login(move |stream| {
                if is_last {
                    begun(stream);
                    message(stream);
                    stream.write_all(&authentication(12, says.as_bytes())).unwrap();
                } else {
                    body(stream);
                    stream.write_all(&authentication(10, SASL)).unwrap();
                    message(stream);
                    stream.write_all(&authentication(11, says.as_bytes())).unwrap();
                }
            });
            assert!(told.contains("as me: SCRAM: ") && told.contains(advice), "{says}: {told}");
            assert_eq!(is_barred, bars, "{told}");
        }
    }
    // What is not known here is named.
    for (kind, data, named) in [
        (10, &b"SCRAM-SHA-256-PLUS\0OAUTHBEARER\0\0"[..], "by SCRAM-SHA-256-PLUS or OAUTHBEARER, which"),
        (10, b"\0", "by SASL without a mechanism, which"),
        (7, b"", "by GSSAPI, which"),
    ] {
        let (told, _) = login(move |stream| {
            body(stream);
            stream.write_all(&authentication(kind, data)).unwrap();
        });
        assert!(told.contains(named) && told.contains("pg_hba.conf"), "{told}");
    }
    let (told, _) = login(|stream| {
        body(stream);
        stream.write_all(&authentication(10, SASL)).unwrap();
        message(stream);
        stream.write_all(&authentication(11, b"r=mine,s=AAAA,i=1")).unwrap();
    });
    assert!(told.contains("invalid nonce") && told.contains("tcpdump"), "{told}");
}
