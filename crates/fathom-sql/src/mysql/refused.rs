//! What a server of `MySQL`'s kind refuses: who, where, and what to do about it.

use crate::error::Refusal;
use crate::login::{Login, no_longer_encrypted};
use crate::violation::{hex, to_do};
use crate::{Error, ending};
use fathom_mysql::{Told, Trouble};

pub(super) fn refusal_of(told: Told) -> Refusal {
    let message = format!("error {}: {}", told.number, told.message);
    let (number, is_fatal, was_idle) = (told.number, told.is_fatal, told.number == 4_031);
    Refusal { code: told.state, message, number, is_fatal, was_idle, ..Refusal::default() }
}

/// The server does not let the user in: who, where, and what to do.
pub(super) fn not_let_in(login: &Login, told: &Told) -> Error {
    let server = &login.server;
    let to_do = match told.number {
        1045 | 1698 if login.password.is_none() => "give the password by MYSQL_PWD",
        1045 | 1698 => {
            "give the right password by MYSQL_PWD, and see that the user may come from here (and without TLS, where sslmode has none)"
        }
        1044 => "grant the user the database, or name another",
        1049 => "name a database that is there, as in mysql://user@host/database",
        1040 => "wait until other sessions have ended, or raise max_connections",
        1203 => {
            "that is the server's limit of each user: end other sessions of it, or raise max_user_connections (fathom needs three: to ask, to look, to ping)"
        }
        1226 => {
            "that is the user's own limit: end other sessions of it or wait, or raise it by ALTER USER … WITH MAX_USER_CONNECTIONS (or what it names; \
             fathom needs three sessions: to ask, to look, to ping)"
        }
        1129 => "the server has had enough of this host: FLUSH HOSTS on it",
        1130 => "the server lets nobody in from this host: create the user for it",
        3159 | 4222 => "the server insists on encryption: use sslmode=require, or a stricter one",
        1820 | 1862 => "the password has to be changed",
        3118 | 4151 => "unlock the account by ALTER USER … ACCOUNT UNLOCK, or log in as another user",
        3955 => "wait until it may log in again, or unlock the account by ALTER USER … ACCOUNT UNLOCK",
        number => ending::of_a_proxy(number, &told.message).unwrap_or("see the server's log"),
    };
    let (address, words) = (server.address(), refusal_of(told.clone()).words());
    let line = format!("cannot log in to {address} as {}: {words}; {to_do}", server.user);
    match told.number {
        // Who it is, or the password, whose time may be over; or the user is shut out (of MySQL, and 4151 of MariaDB).
        1045 | 1698 | 1820 | 1862 | 3118 | 3955 | 4151 => Error::Barred(line),
        // ER_CON_COUNT_ERROR, and the limits of a user.
        1040 | 1203 | 1226 => Error::Full(line),
        // ER_SERVER_SHUTDOWN.
        number => Error::of(number == 1053, line),
    }
}

/// A login that came to nothing. `began`: how the packet began that came last, and `heard` how all that was heard did.
pub(super) fn refused(login: &Login, trouble: &Trouble, began: &[u8], heard: &[u8]) -> Error {
    let server = &login.server;
    let address = server.address();
    Error::run(match trouble {
        Trouble::NotEncrypted if login.is_to_stay_encrypted() => return no_longer_encrypted(login),
        Trouble::OtherProtocol | Trouble::TooOld => {
            format!(
                "{address} does not speak MySQL's protocol: {trouble} (it begins with {}, hexadecimal); name the database's own port",
                hex(heard)
            )
        }
        Trouble::NotEncrypted => {
            format!(
                "{address} does not speak TLS; give it ssl_cert and ssl_key, or go without by sslmode=disable"
            )
        }
        Trouble::Plugin(name) => format!(
            "{address} asks for the login of {} by {name}, which fathom does not know (mysql_native_password, \
             caching_sha2_password, mysql_clear_password); give it a user that has one of them",
            server.user
        ),
        Trouble::InTheClear => format!(
            "{address} asks for the password of {} itself, and nothing is encrypted; use sslmode=require, or a stricter one",
            server.user
        ),
        Trouble::Unchecked => format!(
            "{address} asks for the password of {} in the clear, by a plugin that serves any password (PAM, LDAP): fathom sends it to nobody whose certificate it does not check; use \
             sslmode=verify-full",
            server.user
        ),
        _ => format!(
            "{address} sent in the login what fathom does not understand: {trouble}, in what begins with {} (hexadecimal); {}",
            hex(began),
            to_do(server.port)
        ),
    })
}
