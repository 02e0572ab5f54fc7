//! The beginning of a connection to `PostgreSQL`: whether it is encrypted.

use crate::channel::Channel;
use crate::error::Refusal;
use crate::limit::Limit;
use crate::login::{Login, more, no_longer_encrypted, not_secured, unreachable};
use crate::reader::whole;
use crate::stranger::{POSTGRES, broke_off, other};
use crate::violation::{hex, to_do};
use crate::{Error, SslMode, tls};
use bytes::BytesMut;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use std::path::PathBuf;

/// An error that is longer is none: `MAX_ERRLEN` of libpq.
const ERROR_BYTES: usize = 30_000;

/// A connection on which nothing was said but what TLS needs.
pub(crate) fn open(login: &Login, limit: &Limit) -> Result<Channel, Error> {
    let address = login.server.address();
    let mut channel = Channel::connect(login.remote, limit)
        .map_err(|e| unreachable(login, &e, "listen_addresses, pg_hba.conf, a firewall"))?;
    if login.server.ssl == SslMode::Disable {
        return Ok(channel);
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    channel.send(&request, limit).map_err(|e| broke_off(login, &channel, &e, &POSTGRES))?;
    while channel.inbox.is_empty() {
        more(&mut channel, limit).map_err(|e| broke_off(login, &channel, &e, &POSTGRES))?;
    }
    // One byte, and nothing behind it that is not encrypted (CVE-2021-23222).
    let answer = channel.inbox.rest().to_vec();
    channel.inbox.clear();
    match answer.as_slice() {
        b"S" => {
            let home = std::env::var_os("HOME").map(PathBuf::from);
            let begun = channel.secure(tls::begin(&login.server, home)?, limit);
            begun.map_err(|e| not_secured(login, &e, &tls::POSTGRES))?;
        }
        b"N" if login.is_to_stay_encrypted() => {
            return Err(no_longer_encrypted(login));
        }
        b"N" if login.server.ssl == SslMode::Prefer => {}
        b"N" => {
            return Err(Error::run(format!(
                "{address} does not speak TLS; switch ssl on in its postgresql.conf, or go without by sslmode=disable"
            )));
        }
        _ => {
            if answer.first() == Some(&b'E')
                && let Some(error) = answered_by_error(login, &mut channel, &answer, limit)
            {
                return Err(error);
            }
            let unknown = |channel: &Channel| {
                Error::run(format!(
                    "{address} does not speak PostgreSQL's protocol: asked whether it speaks TLS it answers {} (hexadecimal); name the \
                     database's own port, or {}",
                    hex(channel.heard()),
                    to_do(login.server.port)
                ))
            };
            return Err(other(login, &channel, &POSTGRES).unwrap_or_else(|| unknown(&channel)));
        }
    }
    Ok(channel)
}

/// Asked whether it speaks TLS it answers by an error: one that cannot begin a session (no process, no memory), a pooler, or one that is
/// older than the question. `None`: it is no such error.
fn answered_by_error(login: &Login, channel: &mut Channel, answer: &[u8], limit: &Limit) -> Option<Error> {
    channel.inbox.end().extend_from_slice(answer);
    // As libpq tells them apart: of version 3 a length follows, of version 2 the text (`CONNECTION_AWAITING_RESPONSE` of fe-connect.c).
    let (words, passes) = loop {
        let bytes = channel.inbox.rest();
        // By six bytes it is known who speaks: the last is the type of the first field, or is in a greeting of MySQL as long as `E` says.
        let begins: Option<&[u8; 5]> = bytes[1..].first_chunk();
        if let Some(error) = begins.and_then(|_| other(login, channel, &POSTGRES)) {
            return Some(error);
        }
        let length = begins.map(|[length @ .., _]| u32::from_be_bytes(*length) as usize);
        match (length, begins) {
            (Some(8..ERROR_BYTES), Some([.., field])) => {
                if !field.is_ascii_alphabetic() {
                    return None;
                }
                if let Some(Message::ErrorResponse(body)) = whole(&mut channel.inbox).ok()? {
                    let refusal = Refusal::of(&body);
                    break (refusal.words(), refusal.passes());
                }
            }
            (Some(0..8), _) => return None,
            (Some(_), _) => {
                if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
                    break (String::from_utf8_lossy(&bytes[1..end]).trim_end().to_owned(), false);
                }
                if bytes.len() > ERROR_BYTES || bytes.contains(&b'\r') {
                    return None;
                }
            }
            (None, _) => {}
        }
        more(channel, limit).ok()?;
    };
    let line = format!(
        "{} answers by an error when it is asked whether it speaks TLS: {words}; a server that cannot begin a session says so (see its log), and \
         so does a pooler or a server that does not know the question: sslmode=disable does not ask it (what is said before TLS anybody on the \
         path may say)",
        login.server.address()
    );
    Some(Error::of(passes, line))
}
