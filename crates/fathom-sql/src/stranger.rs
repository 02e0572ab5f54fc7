//! What answers at an address, where it is no server of the kind that was named: told by the first bytes that came, or by their absence.

use crate::Error;
use crate::channel::Channel;
use crate::limit::is_ended;
use crate::login::{Login, broke, passes};
use std::io::ErrorKind;

/// A kind of server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    name: &'static str,
    scheme: &'static str,
    /// What is to be known of one that says nothing.
    silence: &'static str,
}

const WAITS: &str = "the server is stopped or overloaded, or another program listens there";

pub(crate) const POSTGRES: Kind = Kind { name: "PostgreSQL", scheme: "postgres://", silence: WAITS };
pub(crate) const MSSQL: Kind = Kind { name: "SQL Server", scheme: "mssql://", silence: WAITS };
pub(crate) const MYSQL: Kind = Kind {
    name: "MySQL",
    scheme: "mysql://",
    silence: "a server of MySQL's kind speaks first: it is stopped or overloaded, or another program listens there (PostgreSQL: postgres://, SQL Server: mssql://)",
};

/// Who speaks so.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Database(&'static Kind),
    /// At once: an alert, or a handshake.
    Tls,
    Other(&'static str),
}

/// By how each begins what it says.
fn known(heard: &[u8]) -> Option<Known> {
    Some(match heard {
        // An error of this length, whose first field is its severity; or what is asked of a login.
        [b'E', 0, 0, _, _, b'S', ..] | [b'R', 0, 0, 0, _, 0, 0, 0, ..] => Known::Database(&POSTGRES),
        // A packet of this length, the first, with a greeting of version 10 or an error.
        [_, _, 0, 0, 10 | 0xff, ..] => Known::Database(&MYSQL),
        // A reply of one packet, of so many bytes, the first of its session.
        [4, 0 | 1, high, low, ..] if u16::from_be_bytes([*high, *low]) >= 8 => Known::Database(&MSSQL),
        [0x15 | 0x16, 3, 0..=4, ..] => Known::Tls,
        _ if heard.starts_with(b"SSH-") => Known::Other("SSH"),
        _ if heard.starts_with(b"HTTP/") => Known::Other("HTTP"),
        _ if heard.starts_with(b"-ERR ") => Known::Other("Redis' protocol"),
        _ if heard.starts_with(b"220") => Known::Other("SMTP or FTP"),
        _ => return None,
    })
}

/// Somebody who speaks another protocol; `None`: it is not known that he does.
pub(crate) fn other(login: &Login, channel: &Channel, wanted: &Kind) -> Option<Error> {
    let (address, Kind { name, .. }) = (login.server.address(), wanted);
    let found = known(channel.heard())?;
    Some(Error::run(match found {
        Known::Database(found) if found == wanted => return None,
        Known::Database(Kind { name: own, scheme, .. }) => format!(
            "{address} does not speak {name}'s protocol, but {own}'s: use {scheme}, or name the port of {name}"
        ),
        Known::Tls if *wanted == MSSQL => format!(
            "{address} speaks TLS at once: a SQL Server that takes nothing but TDS 8.0 (strict encryption), which fathom does not speak, or \
             another service of TLS; let the server take Encrypt=Mandatory too, or name the port of {name}"
        ),
        Known::Tls => format!(
            "{address} does not speak {name}'s protocol, but TLS at once, as a service of TLS does (HTTPS, a proxy that ends TLS), or a SQL Server of \
             TDS 8.0 (strict encryption): name the port of {name}"
        ),
        Known::Other(own) => {
            format!("{address} does not speak {name}'s protocol, but {own}: name the port of {name}")
        }
    }))
}

/// A login that broke off: with who it is that answers, or that nobody does, where that is known.
pub(crate) fn broke_off(login: &Login, channel: &Channel, error: &std::io::Error, wanted: &Kind) -> Error {
    if let Some(other) = other(login, channel, wanted).filter(|_| !is_ended(error)) {
        return other;
    }
    let (address, Kind { name, silence, .. }) = (login.server.address(), wanted);
    match error.kind() {
        _ if is_ended(error) || !channel.heard().is_empty() => broke(login, error),
        // Who it is that answers there is known by then.
        _ if login.reached.has_let_in() && (error.kind() == ErrorKind::TimedOut || passes(error)) => {
            let what = if error.kind() == ErrorKind::TimedOut {
                "takes a further connection and says nothing"
            } else {
                "closed a further connection without a word"
            };
            Error::of(
                passes(error),
                format!(
                    "{address} {what} ({error}), though it has let {} in before: see whether {name}, or a pooler, balancer or firewall between, takes \
                     no more of them",
                    login.server.user
                ),
            )
        }
        ErrorKind::TimedOut => Error::run(format!(
            "{address} takes the connection and says nothing ({error}): {silence}; see that {name} is what listens there, and that it is well"
        )),
        _ if passes(error) => Error::of(
            true,
            format!(
                "{address} closed the connection without a word ({error}), as a server of another protocol does, or a balancer or tunnel without a \
                 server behind it; see that {name} is what listens there"
            ),
        ),
        _ => broke(login, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_identify_the_protocol() {
        for (heard, who) in [
            (&b"\x5f\0\0\0\x0a5.5.5-10.11"[..], Some(Known::Database(&MYSQL))),
            // Too many connections, or a host that is shut out.
            (b"\x45\0\0\0\xff\x10\x04Too many", Some(Known::Database(&MYSQL))),
            (b"\x04\x01\0\x2b\0\0\x01\0", Some(Known::Database(&MSSQL))),
            (b"E\0\0\0\x8cSFATAL\0VFATAL", Some(Known::Database(&POSTGRES))),
            // As long as the byte that begins MySQL's errors.
            (b"E\0\0\0\xffSFATAL\0VFATAL", Some(Known::Database(&POSTGRES))),
            (b"R\0\0\0\x17\0\0\0\x0aSCRAM", Some(Known::Database(&POSTGRES))),
            (b"\x15\x03\x01\0\x02\x02\x28", Some(Known::Tls)),
            (b"SSH-2.0-OpenSSH_9", Some(Known::Other("SSH"))),
            (b"HTTP/1.1 400 Bad", Some(Known::Other("HTTP"))),
            (b"-ERR unknown com", Some(Known::Other("Redis' protocol"))),
            (b"", None),
            (b"S", None),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", None),
        ] {
            assert_eq!(known(heard), who, "{heard:?}");
        }
    }
}
