//! What a server of SQL Server's kind refuses: who, where, and what to do about it.

use crate::error::Refusal;
use crate::login::{Login, no_longer_encrypted};
use crate::violation::{Violation, of_this_side, to_do};
use crate::{Error, tls};
use fathom_tds::client::{Told, Trouble};
use std::io;

pub(super) fn refusal_of(told: Told) -> Refusal {
    let (is_fatal, severity) = (told.is_fatal(), told.class);
    let code = format!("error {}", told.number);
    Refusal { code, message: told.message, is_fatal, severity, ..Refusal::default() }
}

/// The answer of a statement that failed by what no error says.
pub(super) fn unexplained() -> Refusal {
    Refusal {
        code: "no error number".to_owned(),
        message: "the server says that the statement failed".to_owned(),
        ..Refusal::default()
    }
}

/// What broke the session: bytes that are none of its protocol, its encryption, or what this side cannot do.
pub(super) fn lost(trouble: &Trouble) -> io::Error {
    match trouble {
        Trouble::Handshake(_) | Trouble::Tls(_) => {
            io::Error::new(io::ErrorKind::InvalidData, trouble.to_string())
        }
        _ if trouble.is_of_this_side() => of_this_side(trouble),
        _ => Violation::error(trouble, &[]),
    }
}

/// A login that came to nothing: who, where, and what to do.
pub(super) fn refused(login: &Login, trouble: &Trouble) -> Error {
    let server = &login.server;
    let address = server.address();
    let line = match trouble {
        Trouble::Refused(told) => {
            let to_do = match told.number {
                18_456 if login.password.is_none() => "give the password by SQLCMDPASSWORD",
                18_456 => {
                    "give the right password by SQLCMDPASSWORD, and see the server's log for its reason"
                }
                18_452 => "only SQL logins are spoken: give a user that has a password",
                18_486..=18_488 => "the login is locked, or its password has to be changed",
                4_060 => {
                    "name a database that is there and that the user may use, as in mssql://user@host/database"
                }
                _ => "see the server's log",
            };
            format!(
                "cannot log in to {address} as {}: {}; {to_do}",
                server.user,
                refusal_of(told.clone()).words()
            )
        }
        Trouble::NotEncrypted if login.is_to_stay_encrypted() => return no_longer_encrypted(login),
        Trouble::NotEncrypted if server.login_only => {
            format!(
                "{address} does not encrypt a login alone, as `fathom echo` never does; ask for all of it (?sslmode=require), which needs \
                 a certificate there (fathom echo: --tds-encrypt)"
            )
        }
        Trouble::NotEncrypted => {
            format!(
                "{address} does not encrypt; give it a certificate (fathom echo: --tds-encrypt), or add ?sslmode=disable to the \
                 URL, by which everybody on the path can read the password"
            )
        }
        Trouble::InsistsOnEncryption => {
            format!("{address} insists on encryption; use sslmode=require, or a stricter one")
        }
        Trouble::Handshake(error) => return tls::failed(server, Some(error), error, &tls::MSSQL),
        Trouble::Elsewhere { host, port } => {
            format!("{address} sends its clients to {host}:{port}; name that, because it is another path")
        }
        Trouble::Kind(_) | Trouble::PacketLength(_) => {
            format!("{address} does not speak SQL Server's protocol: {trouble}; name the database's own port")
        }
        Trouble::Tls(_) => format!("cannot log in to {address}: {trouble}; see its settings of TLS"),
        _ => format!(
            "{address} sent in the login what fathom does not understand: {trouble}; {}",
            to_do(server.port)
        ),
    };
    match trouble {
        // The user or the password; it is locked, or the password's time is over (`sys.messages`).
        Trouble::Refused(told) if matches!(told.number, 18_456 | 18_486..=18_488) => Error::Barred(line),
        _ => Error::run(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::is_violation;

    #[test]
    fn what_was_read_alone_is_a_violation() {
        assert!(is_violation(&lost(&Trouble::Unasked)));
        for ours in [Trouble::NotReady, Trouble::RowNotKept] {
            assert!(!is_violation(&lost(&ours)), "{ours}");
        }
    }
}
