//! A login that came to nothing: who does not let whom in, why, and what to do about it.

use crate::error::Refusal;
use crate::login::Login;
use crate::violation::{REPORT_IT, to_do};
use crate::{Error, ending};

/// A login that was refused: who, where, and what to do. `is_asked`: after the server had asked for something, and so had taken what it was
/// asked to begin with.
pub(super) fn refused(login: &Login, refusal: &Refusal, is_asked: bool) -> Error {
    let server = &login.server;
    let of_the_login = format!(
        "that is about the messages of the login: a proxy, pooler or balancer between has changed them, or the ways to log in that the server \
         offered; see what is on the path. If nothing is, {REPORT_IT}"
    );
    let to_do = match refusal.code.as_str() {
        "28P01" => "give the right password by PGPASSWORD, ~/.pgpass or PGPASSFILE",
        "28000" => "see pg_hba.conf of the server, and the user's name",
        "3D000" => "name a database that is there, as in postgres://user@host/database",
        "53300" => match refusal.routine.as_str() {
            "InitializeSessionUserId" => {
                "that is the user's own limit: end other sessions of it, or raise it by ALTER ROLE … CONNECTION LIMIT (fathom needs one session to ask, and one to look at what the server does)"
            }
            "CheckMyDatabase" => {
                "that is the database's own limit: end other sessions of it, or raise it by ALTER DATABASE … CONNECTION LIMIT"
            }
            // A pooler names no place in PostgreSQL's source.
            "" => {
                "wait until other sessions have ended, or raise max_connections, or what a pooler between allows"
            }
            _ => "wait until other sessions have ended, or raise max_connections",
        },
        "42501" => "grant the user CONNECT on the database, or name another",
        "57P03" => "wait until the server has begun",
        // Of PgBouncer: "unsupported startup parameter".
        "08P01" if is_asked && !refusal.message.contains("startup") => of_the_login.as_str(),
        "08P01" if login.read_only && refusal.routine.is_empty() => {
            "a pooler may not take startup options: see ignore_startup_parameters, or use --query"
        }
        "57P01" => "the server shuts down, or its administrator ended the session",
        _ => ending::of_a_pooler(refusal).unwrap_or("see the server's log"),
    };
    let line =
        format!("cannot log in to {} as {}: {}; {to_do}", server.address(), server.user, refusal.words());
    // `ERRCODE_INVALID_PASSWORD`, `ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION`.
    match refusal.code.as_str() {
        "28P01" | "28000" => Error::Barred(line),
        _ => Error::of(refusal.passes(), line),
    }
}

/// A login by what is not known here.
pub(super) fn unknown_login(login: &Login, by: &str) -> Error {
    let server = &login.server;
    Error::run(format!(
        "{} asks for the login of {} by {by}, which fathom does not know (scram-sha-256, md5, password): let the user in by one of them in \
         pg_hba.conf, or give another user",
        server.address(),
        server.user
    ))
}

/// Within SCRAM the server says why it lets nobody in: `server-error-value` of RFC 5802, section 7.
pub(super) fn refused_by_scram(login: &Login, why: &str) -> Error {
    let server = &login.server;
    let to_do = match why {
        "invalid-proof" => "give the right password by PGPASSWORD, ~/.pgpass or PGPASSFILE",
        "unknown-user" | "invalid-username-encoding" => {
            "name a user that is there, as in postgres://user@host/database"
        }
        "channel-bindings-dont-match"
        | "server-does-support-channel-binding"
        | "channel-binding-not-supported"
        | "unsupported-channel-binding-type" => {
            "fathom binds no login to its TLS connection: let the server, or a pooler between, not insist on it; and see whether something \
             between ends TLS and changes the login"
        }
        "no-resources" => "wait until other sessions have ended",
        _ => "its log has the reason, or that of a pooler between",
    };
    let line = format!("cannot log in to {} as {}: SCRAM: {why}; {to_do}", server.address(), server.user);
    match why {
        "invalid-proof" | "unknown-user" | "invalid-username-encoding" => Error::Barred(line),
        _ => Error::of(why == "no-resources", line),
    }
}

/// The server shows within SCRAM that it knows the password as well (RFC 5802, section 3); this one did not, by doing this instead.
/// Nobody tries again: whoever stands in the path would learn more by each login.
pub(super) fn unproven(login: &Login, instead: &str) -> Error {
    let server = &login.server;
    Error::Barred(format!(
        "{} did not prove that it knows the password of {}: {instead}. Whoever answers there may only pretend to be the server, so nothing was \
         asked of it; see what proxy or balancer is on the path, and check who answers by sslmode=verify-full",
        server.address(),
        server.user
    ))
}

/// A server that proved in a login before that it knows the password, and does this now instead. Nobody tries again, as above.
pub(super) fn no_longer_proven(login: &Login, instead: &str) -> Error {
    Error::Barred(format!(
        "{} {instead}, though in this run it has proved by SCRAM-SHA-256 that it knows the password. Whoever answers there now may only pretend \
         to be the server, so no password was sent, and nobody in this run logs in again; see what proxy or balancer is on the path, and check \
         who answers by sslmode=verify-full",
        login.server.address()
    ))
}

/// Where `PostgreSQL` reads what a client answers within a login ("expected SASL response, got message type …"), up to version 13 and since.
const OF_A_LOGIN: [&str; 3] = ["CheckSCRAMAuth", "CheckSASLAuth", "recv_password_packet"];

/// Who ended a session that was asked something of ours, and what to do.
pub(super) fn ended(login: &Login, refusal: &Refusal) -> Error {
    let to_do = if OF_A_LOGIN.contains(&refusal.routine.as_str()) {
        "the server still waits for the login, and somebody else has said that it had let the user in: see what proxy, pooler or balancer is on \
         the path"
    } else {
        ending::by_postgres(refusal)
    };
    let line = format!("{} ended the session: {}; {to_do}", login.server.address(), refusal.words());
    Error::of(refusal.passes() || refusal.was_idle, line)
}

/// A message within a login that makes no sense.
pub(super) fn senseless(login: &Login, what: &str) -> Error {
    let server = &login.server;
    Error::run(format!(
        "cannot log in to {} as {}: {what}; {}",
        server.address(),
        server.user,
        to_do(server.port)
    ))
}
